# SPDX-License-Identifier: Apache-2.0
"""The reader of states, stores and timers by name, for a replica and its snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyflinklike.errors import StateAccessError, UnknownStateError, UnknownStoreError
from pyflinklike.replay.described import StateInfos, key_columns_of, state_of
from pyflinklike.replica.held import ALL
from pyflinklike.replica.position import Position
from pyflinklike.replica.settings import Settings
from pyflinklike.replica.states import Pick, ReadOnlyState
from pyflinklike.replica.stores import NO_KEY_GIVEN, ReadOnlyStore, read_only_store
from pyflinklike.replica.timers import ReadOnlyTimers
from pyflinklike.replica.version import Version
from pyflinklike.shown import shown
from pyflinklike.types.signature import type_of

__all__ = ["StateReader"]


class StateReader:
    """States and stores of an operator, to be read.

    Args:
        pick: Chooses the version to read.
        seen: Returns the present version, however old.
        settings: The settings of the replica.
    """

    def __init__(self, pick: Pick, seen: Callable[[], Version], settings: Settings) -> None:
        self._pick, self._seen, self._settings = pick, seen, settings

    @property
    def position(self) -> Position:
        """The micro-batch after which answers hold now."""
        return self._seen().image.position

    def states(self) -> StateInfos:
        """Describe the states and stores that can be asked for, as `list_states` does."""
        return self._infos(self._seen())

    def __getitem__(self, name: str) -> ReadOnlyState:
        """Return a state by its name.

        Raises:
            UnknownStateError: There is no such state, or it is a store.
            StateAccessError: The state is broadcast state, and the replica holds a part only.
            DeclarationValueError: Its values are pickles, which `allow_pickle` does not allow.
        """
        version = self._seen()
        info = state_of(self._infos(version), name, version.image.where)
        if info.is_store:
            msg = f"{version.image.where}: {name!r} must be a state, got a {info.kind} store"
            raise UnknownStateError(f"{msg}; use store({name!r})")
        if info.kind == "broadcast" and version.image.held != ALL:
            msg = (
                f"{version.image.where}: broadcast state {name!r} belongs to no key, got a replica"
            )
            raise StateAccessError(f"{msg} of a part; open one without keys= and key_groups=")
        with version.states.lock:
            version.states.state(name)
        return ReadOnlyState(info, self._pick, allow_scan=self._settings.allow_scan)

    def store(self, name: str, *, key: Any = NO_KEY_GIVEN) -> ReadOnlyStore:
        """Return a store by its name, with the reading methods of its kind.

        Args:
            name: The name with which the store was declared.
            key: The current key under which to read a store of scope "key".

        Raises:
            UnknownStoreError: There is no such store, or it is a state.
            StateAccessError: A key is missing, or given for a store of scope "partition"; or such a
                store is asked for, but the replica holds some keys only.
            DeclarationValueError: Its values are pickles, which `allow_pickle` does not allow.
        """
        version = self._seen()
        try:
            info = state_of(self._infos(version), name, version.image.where)
        except UnknownStateError as error:
            raise UnknownStoreError(str(error)) from None
        if not info.is_store:
            msg = f"{version.image.where}: {name!r} must be a store, got {info.kind} state"
            raise UnknownStoreError(f"{msg}; use [{name!r}]")
        if (key is NO_KEY_GIVEN) is (info.options["scope"] == "key"):
            rule = "is one under each key" if key is NO_KEY_GIVEN else "belongs to no key"
            got = "no key" if key is NO_KEY_GIVEN else f"key={shown(key)}"
            msg = f"store {name!r} of scope {info.options['scope']!r} {rule}, got {got}"
            raise StateAccessError(
                f"{msg}; {'give key=' if key is NO_KEY_GIVEN else 'leave key= out'}"
            )
        if key is NO_KEY_GIVEN and version.image.held.keys is not None:
            msg = f"store {name!r} of scope 'partition' belongs to no key, got a replica of some"
            raise StateAccessError(f"{msg} keys; open one with key_groups=, or with all")
        with version.states.lock:
            version.states.store(name)
        return read_only_store(info, self._pick, key, allow_scan=self._settings.allow_scan)

    def timers(self) -> ReadOnlyTimers:
        """Return the timers of the operator.

        Raises:
            StateAccessError: The replica holds some states only (`states=`).
        """
        version = self._seen()
        if self._settings.states is not None:
            msg = "a replica that was opened with states= holds these, got timers()"
            raise StateAccessError(f"{msg}; open one without states=")
        states = version.states
        return ReadOnlyTimers(
            key_columns_of(states.groups.record),
            type_of(states.groups.record.identity.key),
            states.namespace_type,
            self._pick,
            allow_scan=self._settings.allow_scan,
        )

    def _infos(self, version: Version) -> StateInfos:
        names = self._settings.states
        infos = version.states.infos.values()
        return StateInfos(each for each in infos if names is None or each.name in names)
