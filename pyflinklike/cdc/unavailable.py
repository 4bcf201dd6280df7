# SPDX-License-Identifier: Apache-2.0
"""Columns that a change did not touch and whose value the database did not log.

PostgreSQL keeps a large value out of line (TOAST), and does not log it when an update does not
touch it.  Debezium then writes a placeholder, in a form that fits the column's type (its
`UnchangedToastedPlaceholder`).
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from functools import lru_cache
from typing import Any

import attrs

__all__ = ["DEFAULT_PLACEHOLDER", "Placeholder", "placeholder_of"]

_NESTED = (list, dict)
DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"


def _texts(placeholder: str) -> frozenset[str]:
    """Return its forms in columns that are text in JSON: text, bytes in each coding, hstore."""
    raw = placeholder.encode()
    return frozenset(
        {
            placeholder,
            base64.b64encode(raw).decode(),
            base64.urlsafe_b64encode(raw).decode(),
            raw.hex(),
            f'{{"{placeholder}":"{placeholder}"}}',
        }
    )


def _lists(placeholder: str) -> tuple[list[Any], ...]:
    """Return its forms in arrays: of text, of bytes, of uuid, of numbers."""
    raw = placeholder.encode()
    # As Java's UUID.nameUUIDFromBytes: version 3, without a name space.
    named = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    return ([placeholder], [base64.b64encode(raw).decode()], [str(named)], list(raw))


@lru_cache(maxsize=16)
def placeholder_of(text: str) -> Placeholder:
    """Return the `Placeholder` of a text, made once: its hashes take time."""
    return Placeholder(text)


@attrs.frozen
class Placeholder:
    """Recognises the placeholder in all its forms.

    Args:
        text: The connector's `unavailable.value.placeholder`.
    """

    text: str = DEFAULT_PLACEHOLDER
    _texts: frozenset[str] = attrs.field(
        init=False, default=attrs.Factory(lambda self: _texts(self.text), takes_self=True)
    )
    _lists: tuple[list[Any], ...] = attrs.field(
        init=False, default=attrs.Factory(lambda self: _lists(self.text), takes_self=True)
    )

    def columns_of(self, row: dict[str, Any]) -> tuple[str, ...]:
        """Return the columns of a row that have the placeholder."""
        texts = self._texts
        found = []
        for name, value in row.items():
            kind = type(value)
            if value in texts if kind is str else kind in _NESTED and self._is_nested(value):
                found.append(name)
        return tuple(found)

    def _is_nested(self, value: Any) -> bool:
        if isinstance(value, list):
            return value in self._lists
        return isinstance(value, dict) and value == {self.text: self.text}
