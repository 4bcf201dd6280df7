# SPDX-License-Identifier: Apache-2.0
"""The backend that holds states in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyflinklike.upsert.index.upsert_backend import (
    Write,
    check_open,
    distinct_keys,
    make_result,
    prepare_puts,
    total_of,
)
from pyflinklike.upsert.index.upsert_values import (
    MergeStats,
    MergeValue,
    PutStats,
    PutValue,
    UpsertValueAndSize,
)

__all__ = ["InMemoryUpsertBackend"]


class InMemoryUpsertBackend:
    """A dict of bytes, as Materialize's `InMemoryHashMap`.

    States are held encoded, so that they cannot be changed from outside, and take as much memory as
    is reported.
    """

    def __init__(self) -> None:
        self._states: dict[bytes, bytes] | None = {}
        self._bytes = 0

    @property
    def supports_merge(self) -> bool:
        """False: reading is cheap, so merging would save nothing."""
        return False

    @property
    def held_bytes(self) -> int:
        """Bytes of all keys and states, without those of the dict itself."""
        return self._bytes

    def multi_get(self, keys: Sequence[Any]) -> list[UpsertValueAndSize]:
        """Return the state of each key."""
        states = self._open()
        return [make_result(states.get(key)) for key in distinct_keys(keys)]

    def multi_put(self, puts: Iterable[tuple[Any, PutValue]]) -> PutStats:
        """Put or remove states, and return what that changed."""
        self._open()
        writes, stats = prepare_puts(puts)
        self.apply(writes)
        return stats

    def multi_merge(self, merges: Iterable[tuple[Any, MergeValue]]) -> MergeStats:
        """Refuse: every merge would read.

        Raises:
            NotImplementedError: Always.
        """
        msg = "InMemoryUpsertBackend does not support merging, got multi_merge; see supports_merge"
        raise NotImplementedError(msg)

    def totals(self) -> PutStats:
        """Return the totals of all states."""
        return total_of(self._open().values())

    def close(self) -> None:
        """Drop all states."""
        self._states = None
        self._bytes = 0

    # For the backend that moves out of memory

    def growth(self, writes: Sequence[Write]) -> int:
        """Return by how many bytes `held_bytes` would grow."""
        states = self._open()
        return sum(
            _size_of(key, data) - _size_of(key, states.get(key))
            for key, data in dict(writes).items()
        )

    def apply(self, writes: Iterable[Write]) -> None:
        """Write encoded states."""
        states = self._open()
        for key, data in writes:
            self._bytes += _size_of(key, data) - _size_of(key, states.get(key))
            if data is None:
                states.pop(key, None)
            else:
                states[key] = data

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and states, encoded."""
        return iter(self._open().items())

    def _open(self) -> dict[bytes, bytes]:
        return check_open(self._states, "InMemoryUpsertBackend")

    def __repr__(self) -> str:
        return "InMemoryUpsertBackend()"


def _size_of(key: bytes, data: bytes | None) -> int:
    return 0 if data is None else len(key) + len(data)
