# SPDX-License-Identifier: Apache-2.0
"""The base of read-only stores: the key groups that they ask, and the merge of the answers."""

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
"""The key of a store that belongs to no key; None is a key, which is refused."""


class ReadOnlyStore(ReadOnly):
    """The base of the read-only stores.

    Args:
        info: The description of the store.
        pick: Chooses the version to read.
        key: The current key of a store of scope "key"; `NO_KEY_GIVEN` for scope "partition".
        allow_scan: Whether scans of scope "partition" are allowed.
    """

    def __init__(self, info: StateInfo, pick: Pick, key: Any, *, allow_scan: bool) -> None:
        super().__init__(info, pick, allow_scan=allow_scan)
        self._key = key

    @property
    def scope(self) -> str:
        """The scope: "key" if each current key has its own store, "partition" if all share one."""
        return "partition" if self._key is NO_KEY_GIVEN else "key"

    def _asked(self, ask: Callable[[Any], Any]) -> list[Any]:
        """Ask the store in each key group that it has to read, and return the answers."""
        version = self._pick(None, None, None)
        if self._key is not NO_KEY_GIVEN:
            key, index = version.place(self._key)
            return [version.of_store(self.name, index, key, ask)]
        # Without any key group an empty one has to answer.
        groups = sorted(version.image.groups) or [0]
        return [version.of_store(self.name, index, GROUP_KEY, ask) for index in groups]

    def _first(self, ask: Callable[[Any], Any], default: Any = None) -> Any:
        """Return the first answer that is not None, as Kafka's store over several partitions does."""
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
