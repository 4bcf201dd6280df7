# SPDX-License-Identifier: Apache-2.0
"""What the read-only stores have in common: the key groups they ask, and how answers are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyflinklike.replay.described import StateInfo
from pyflinklike.replica.states import Pick, ReadOnly
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.stores.cursor import Cursor

__all__ = ["NO_KEY_GIVEN", "ReadOnlyStore"]


class _NoKeyGiven:
    def __repr__(self) -> str:
        return "NO_KEY_GIVEN"


NO_KEY_GIVEN: Any = _NoKeyGiven()
"""In place of the key of a store that belongs to none; None is a key that is refused."""


class ReadOnlyStore(ReadOnly):
    """What the read-only stores have in common.

    Args:
        info: Of the store.
        pick: Chooses the version that is read.
        key: The current key; `NO_KEY_GIVEN` of scope "partition".
        allow_scan: Whether scans of scope "partition" are allowed.
    """

    def __init__(self, info: StateInfo, pick: Pick, key: Any, *, allow_scan: bool) -> None:
        super().__init__(info, pick, allow_scan=allow_scan)
        self._key = key

    @property
    def scope(self) -> str:
        """Whether each current key has a store of its own, "key", or all share one, "partition"."""
        return "partition" if self._key is NO_KEY_GIVEN else "key"

    def _asked(self, ask: Callable[[Any], Any]) -> list[Any]:
        """What the store says in each key group that is read."""
        version = self._pick(None, None, None)
        if self._key is not NO_KEY_GIVEN:
            key, index = version.place(self._key)
            return [version.of_store(self.name, index, key, ask)]
        # With no key group at all an empty one answers.
        groups = sorted(version.image.groups) or [0]
        return [version.of_store(self.name, index, GROUP_KEY, ask) for index in groups]

    def _first(self, ask: Callable[[Any], Any], default: Any = None) -> Any:
        """The first answer that is one; as Kafka's composite store over several partitions."""
        for found in self._asked(ask):
            if found is not None:
                return found
        return default

    def _cursor(self, ask: Callable[[Any], Cursor[Any]], *, reverse: bool = False) -> Cursor[Any]:
        return Cursor.merged(self._asked(ask), reverse=reverse)

    def _scan(
        self, verb: str, ask: Callable[[Any], Cursor[Any]], *, reverse: bool = False
    ) -> Cursor[Any]:
        if self._key is NO_KEY_GIVEN:
            self._check_scan(verb)
        return self._cursor(ask, reverse=reverse)
