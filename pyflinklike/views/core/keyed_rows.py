# SPDX-License-Identifier: Apache-2.0
"""Rows by key, where 1, 1.0 and True are three keys as in a view; a dict takes them for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyflinklike.errors import StateValueError
from pyflinklike.views.core.row_codec import to_key_bytes

__all__ = ["KeyedRows"]


class KeyedRows(Mapping[Any, Any]):
    """A read-only mapping from keys to rows that distinguishes keys as a view does.

    Args:
        pairs: Keys and rows; the last row of a key counts.
    """

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._pairs = {_form(key): (key, row) for key, row in pairs}

    def __getitem__(self, key: Any) -> Any:
        """Return the row of a key; raise a KeyError where there is none."""
        try:
            return self._pairs[_form(key)][1]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._pairs.values())

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a mapping with the same keys and rows."""
        if isinstance(other, KeyedRows):
            mine = {form: row for form, (_, row) in self._pairs.items()}
            return mine == {form: row for form, (_, row) in other._pairs.items()}
        return (
            len(self) == len(other) and super().__eq__(other)
            if isinstance(other, Mapping)
            else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {row!r}" for key, row in self._pairs.values()) + "}"


def _form(key: Any) -> Any:
    """Return a key encoded; the key itself if a view cannot have it."""
    try:
        return to_key_bytes(key)
    except StateValueError:
        return key
