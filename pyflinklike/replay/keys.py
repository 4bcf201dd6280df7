# SPDX-License-Identifier: Apache-2.0
"""Stored keys as the key columns of the stream, and back.

Numbers, booleans and strings are stored as such, several of them as a struct.  Keys of other types
are stored encoded, and are decoded one by one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.key_types import arrow_of
from pyflinklike.replay.stored_values import stored
from pyflinklike.replay.values import shown, shown_type
from pyflinklike.shown import shown_error
from pyflinklike.types import ListTypeInfo, TupleTypeInfo, TypeInformation
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.key_codec import decode_key, encode_key
from pyflinklike.types.keys import ANY_KEY
from pyflinklike.types.signature import type_of
from pyflinklike.types.times import InstantTypeInfo
from pyflinklike.types.zones import to_instant

__all__ = ["OWN_NAMES", "KeyColumns"]

OWN_NAMES = frozenset(
    (
        *("alive", "batch_id", "change_type", "domain", "due", "expires_at", "key_group"),
        *("last_use", "namespace", "number", "position", "result", "session_end"),
        *("session_start", "stamp", "store_key", "time", "timestamp", "user_key", "valid_from"),
        *("valid_to", "value", "window_end", "window_start", "before", "after", "change"),
    )
)
"""Names of columns that readers add; a key column of such a name gets the prefix `key_`."""


@attrs.frozen
class KeyColumns:
    """The key columns of a stream.

    Args:
        names: Names as they are shown.
        types: Arrow's types.
        signature: Signature of the stored keys' type.
        is_encoded: Whether keys of any type are shown as they are stored, encoded.
    """

    names: tuple[str, ...]
    types: tuple[Any, ...]
    signature: str
    is_encoded: bool = False

    @classmethod
    def of(cls, record: OperatorRecord) -> KeyColumns:
        """Return the key columns that a record names, or one called `key` if it names none.

        Raises:
            IncompatibleStateError: A column has a type that cannot be read.
        """
        declared, signature = record.identity.key_columns, record.identity.key
        if not declared:
            is_encoded = signature == ANY_KEY
            kind = pa.binary() if is_encoded else shown_type(type_of(signature))
            return cls(("key",), (kind,), signature, is_encoded)
        # For two inputs the record notes both names where they differ, "a = b".
        names = [name.partition(" = ")[0] for name, _ in declared]
        return cls(_unlike(names), tuple(arrow_of(kind) for _, kind in declared), signature)

    @property
    def fields(self) -> list[Any]:
        """The columns as fields of a schema."""
        return [pa.field(name, kind) for name, kind in zip(self.names, self.types)]

    def shown(self, keys: Any) -> list[Any]:
        """Return stored keys as columns.

        Args:
            keys: An Arrow array.

        Raises:
            IncompatibleStateError: A key has no form in its columns, such as the nanoseconds of an
                instant: it would be another one.
        """
        if self.signature != ANY_KEY:
            declared = type_of(self.signature)
            if not self._is_struct:
                return [_exactly_shown(keys, declared)]
            return [part.cast(kind) for part, kind in zip(keys.flatten(), self.types)]
        if self.is_encoded:
            return [keys]
        decoded = [decode_key(each) for each in keys.to_pylist()]
        try:
            columns = (
                [decoded] if len(self.types) == 1 else list(zip(*decoded)) or [()] * len(self.types)
            )
            return [pa.array(each, kind) for each, kind in zip(columns, self.types)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = ", ".join(f"{each.name} {each.type}" for each in self.fields)
            msg = f"keys must be values of the key columns ({said}), got {shown_error(error)}"
            raise IncompatibleStateError(
                f"{msg}; give the harness keys of these types, or read the state as bytes"
            ) from error

    @property
    def _is_struct(self) -> bool:
        return len(self.types) > 1 and isinstance(type_of(self.signature), TupleTypeInfo)

    def stored(self, columns: Sequence[Any]) -> Any:
        """Return columns as stored keys.

        Args:
            columns: Arrow arrays of the `types`.

        Raises:
            IncompatibleStateError: A key is null.
            StateValueError: A key does not fit its type.
        """
        if any(column.null_count for column in columns) and len(columns) == 1:
            msg = f"a key must have a value in its column {self.names[0]!r}, got null"
            raise IncompatibleStateError(f"{msg}; leave such rows out")
        if self.signature != ANY_KEY:
            declared = type_of(self.signature)
            if not self._is_struct:
                return stored(columns[0], declared, "keys", as_key=True)
            kind = declared.arrow_type
            parts = [each.cast(kind.field(at).type) for at, each in enumerate(columns)]
            return pa.StructArray.from_arrays(parts, fields=list(kind))
        if self.is_encoded:
            return columns[0]
        values = [_with_zones(to_python(each, "UTC"), each.type) for each in columns]
        keys = values[0] if len(values) == 1 else zip(*values)
        return pa.array([encode_key(key) for key in keys], pa.binary())


def _exactly_shown(keys: Any, declared: TypeInformation) -> Any:
    found = shown(keys, declared)
    if not _has_instants(declared):
        return found
    with contextlib.suppress(StateValueError):  # null, where an instant is too far away
        if stored(found, declared, "keys", as_key=True).equals(keys):
            return found
    msg = (
        f"keys of {declared!r} are read and saved to the microsecond, got one that has no such form"
    )
    raise IncompatibleStateError(f"{msg}; key by seconds and nanos, in Types.TUPLE, say")


def _has_instants(declared: TypeInformation) -> bool:
    if isinstance(declared, TupleTypeInfo):
        return any(map(_has_instants, declared.field_types))
    if isinstance(declared, ListTypeInfo):
        return _has_instants(declared.elem_type)
    return isinstance(declared, InstantTypeInfo)


def _with_zones(values: list[Any], kind: Any) -> list[Any]:
    """Return values in which instants are in UTC, as they are stored."""
    if pa.types.is_timestamp(kind) and kind.tz:
        return [each and to_instant(each, "UTC") for each in values]
    if pa.types.is_struct(kind):
        parts = [
            _with_zones([each and each[at] for each in values], kind.field(at).type)
            for at in range(kind.num_fields)
        ]
        rows = list(zip(*parts))
        return [each and row for each, row in zip(values, rows)]
    return values


def _unlike(names: Sequence[str]) -> tuple[str, ...]:
    # By lower case, as Spark compares the names of columns.
    return tuple(f"key_{name}" if name.lower() in OWN_NAMES else name for name in names)
