# SPDX-License-Identifier: Apache-2.0
"""The type of keys whose type nobody declared.

A harness takes any key that a selector returns.  Two keys are the same if their encodings are: `1`,
`1.0` and `True` are three keys, as in PyFlink, which groups undeclared keys by their bytes.
Strings, ints and bytes, which cannot be equal to one another, stand for themselves; any other key
is kept encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.types.base import TypeInformation
from pyflinklike.types.key_codec import MAX_INT, decode_key, encode_key

__all__ = ["ANY_KEY", "AnyKeyTypeInfo", "EncodedKey"]

_PLAIN = frozenset((str, int, bytes))


@attrs.frozen
class EncodedKey:
    """A key as its bytes; never equal to a key that stands for itself."""

    data: bytes


@attrs.frozen(repr=False)
class AnyKeyTypeInfo(TypeInformation):
    """Keys of any type that `encode_key` takes."""

    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.binary())

    @property
    def is_identity(self) -> bool:
        """False: some keys are kept encoded."""
        return False

    def freeze(self, value: Any) -> Any:
        """Return the key itself, or its encoding."""
        kind = type(value)
        if kind is str and value.isascii():
            return value
        if kind is bytes or (kind is int and -MAX_INT <= value <= MAX_INT):
            return value
        # Encoding checks any other key and brings equal keys to one form: an enum of str
        # becomes the key that its value is, a lone surrogate is refused.
        if value is None:
            raise self._misfit(value, "a key is never None")
        encoded = encode_key(value)
        plain = decode_key(encoded)
        return plain if type(plain) in _PLAIN else EncodedKey(encoded)

    freeze_key = freeze

    def thaw(self, stored: Any) -> Any:
        """Return the key."""
        return decode_key(stored.data) if type(stored) is EncodedKey else stored

    def to_arrow(self, stored: Sequence[Any]) -> pa.Array:
        """Write a binary column of encoded keys."""
        encoded = [key.data if type(key) is EncodedKey else encode_key(key) for key in stored]
        return pa.array(encoded, pa.binary())

    def from_arrow(self, column: pa.Array) -> list[Any]:
        """Read the keys of a binary column."""
        return [self.freeze(decode_key(data)) for data in column.to_pylist()]

    def _takes(self) -> str:
        return "a str, int, float, bool, bytes, Decimal, date, time, datetime or a tuple of these"

    def __repr__(self) -> str:
        return "AnyKeyTypeInfo"


ANY_KEY = AnyKeyTypeInfo().signature
