# SPDX-License-Identifier: Apache-2.0
"""Stores as their replica shows them: Kafka Streams' read-only stores, with the same verbs.

A store of scope "key" is read under one current key.  One of scope "partition" is read in every key
group, and what these give is merged by the store's own order, so that the answer does not depend on
how many key groups there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyflinklike.errors import StateValueError
from pyflinklike.replay.described import StateInfo
from pyflinklike.replica.states import Pick, ReadOnly
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.stores.cursor import Cursor
from pyflinklike.stores.records import KeyValue, VersionedRecord, WindowedKeyValue
from pyflinklike.stores.times import TimeLike

__all__ = [
    "NO_KEY_GIVEN",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyStore",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
    "read_only_store",
]


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
            key, index = version.states.route(self._key)
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


class ReadOnlyKeyValueStore(ReadOnlyStore):
    """A key-value, timestamped or LRU store: Kafka Streams' ReadOnlyKeyValueStore.

    Besides Kafka's methods it has those of a mapping that read.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or the default.

        Raises:
            StateValueError: The key is None or does not fit its type.
        """
        return self._first(lambda store: store.get(key), default)

    def multi_get(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of the keys that are there, all of one micro-batch.

        Raises:
            StateValueError: A key is None or does not fit its type.
        """
        wanted = list(keys)
        found: dict[Any, Any] = {}
        for some in reversed(self._asked(lambda store: store.multi_get(wanted))):
            found |= some
        return {key: found[key] for key in wanted if key in found}

    def range(
        self, from_key: Any = None, to_key: Any = None, *, reverse: bool = False
    ) -> Cursor[KeyValue]:
        """The entries from one key to another, both included; None is an open end.

        Raises:
            ScanDisabledError: Of scope "partition", without `allow_scan=True`.
            StateValueError: A key does not fit its type.
        """
        return self._scan(
            "range", lambda store: store.range(from_key, to_key, reverse=reverse), reverse=reverse
        )

    def all(self, *, reverse: bool = False) -> Cursor[KeyValue]:
        """All entries, in the order of their keys.

        Raises:
            ScanDisabledError: Of scope "partition", without `allow_scan=True`.
        """
        return self._scan("all", lambda store: store.all(reverse=reverse), reverse=reverse)

    def prefix_scan(self, prefix: Any, *, reverse: bool = False) -> Cursor[KeyValue]:
        """The entries whose keys begin with a prefix, as `KeyValueStore.prefix_scan`.

        Raises:
            ScanDisabledError: Of scope "partition", without `allow_scan=True`.
            StateValueError: The prefix is None or does not fit the key's type.
        """
        return self._scan(
            "prefix_scan", lambda store: store.prefix_scan(prefix, reverse=reverse), reverse=reverse
        )

    def approximate_num_entries(self) -> int:
        """How many entries there are; exact here."""
        return sum(self._asked(len))

    def __len__(self) -> int:
        return self.approximate_num_entries()

    def __bool__(self) -> bool:
        return not all(self._asked(lambda store: store.is_empty))

    def __contains__(self, key: object) -> bool:
        return any(self._asked(lambda store: key in store))

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return (each.key for each in self.all())

    def items(self) -> Iterator[KeyValue]:
        """All entries, as `all`."""
        return self.all()


class ReadOnlyWindowStore(ReadOnlyStore):
    """A window store: Kafka Streams' ReadOnlyWindowStore, with the bounds of `WindowStore`.

    Bounds of time are those of a window's start, both included; None is an open one.
    """

    def get(self, key: Any, window_start: TimeLike, default: Any = None) -> Any:
        """The value of the window that begins then, or the default.

        Raises:
            StateValueError: The key is None, or something does not fit; or there are duplicates.
        """
        return self._first(lambda store: store.get(key, window_start), default)

    def fetch(
        self,
        key: Any,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[tuple[int, Any]]:
        """The windows of a key that begin in a stretch of time: (start in ms, value).

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        return self._cursor(
            lambda store: store.fetch(key, time_from, time_to, reverse=reverse), reverse=reverse
        )

    def fetch_range(
        self,
        key_from: Any = None,
        key_to: Any = None,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """The same for all keys from one to another, both included; None is an open end.

        Raises:
            ScanDisabledError: Of scope "partition", without `allow_scan=True`.
            StateValueError: Something does not fit its type.
        """
        bounds = key_from, key_to, time_from, time_to
        return self._scan(
            "fetch_range",
            lambda store: store.fetch_range(*bounds, reverse=reverse),
            reverse=reverse,
        )

    def all(self, *, reverse: bool = False) -> Cursor[WindowedKeyValue]:
        """All windows of all keys, as `fetch_range`."""
        return self.fetch_range(reverse=reverse)

    def fetch_all(
        self,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """The windows of all keys that begin in a stretch of time, as `fetch_range`."""
        return self.fetch_range(None, None, time_from, time_to, reverse=reverse)


class ReadOnlySessionStore(ReadOnlyStore):
    """A session store: Kafka Streams' ReadOnlySessionStore."""

    def fetch_session(self, key: Any, start: TimeLike, end: TimeLike) -> Any:
        """The aggregate of exactly this session, or None.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        return self._first(lambda store: store.fetch_session(key, start, end))

    def fetch(self, key: Any, *, reverse: bool = False) -> Cursor[WindowedKeyValue]:
        """All sessions of a key.

        Raises:
            StateValueError: The key is None or does not fit its type.
        """
        return self.find_sessions(key, reverse=reverse)

    def fetch_range(
        self, key_from: Any = None, key_to: Any = None, *, reverse: bool = False
    ) -> Cursor[WindowedKeyValue]:
        """All sessions of the keys from one to another, both included; None is an open end.

        Raises:
            ScanDisabledError: Of scope "partition", without `allow_scan=True`.
            StateValueError: A key does not fit its type.
        """
        return self.find_sessions_range(key_from, key_to, reverse=reverse)

    def find_sessions(
        self,
        key: Any,
        earliest_end: TimeLike | None = None,
        latest_start: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """The sessions of a key that end at `earliest_end` or later and start by `latest_start`.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        return self._cursor(
            lambda store: store.find_sessions(key, earliest_end, latest_start, reverse=reverse),
            reverse=reverse,
        )

    def find_sessions_range(
        self,
        key_from: Any = None,
        key_to: Any = None,
        earliest_end: TimeLike | None = None,
        latest_start: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """The same for all keys from one to another, both included; None is an open end.

        Raises:
            ScanDisabledError: Of scope "partition", without `allow_scan=True`.
            StateValueError: Something does not fit its type.
        """
        bounds = key_from, key_to, earliest_end, latest_start
        return self._scan(
            "find_sessions_range",
            lambda store: store.find_sessions_range(*bounds, reverse=reverse),
            reverse=reverse,
        )

    def find_ended_sessions(
        self,
        earliest_end: TimeLike | None = None,
        latest_end: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """The sessions of all keys that end from one time to another, both included.

        Raises:
            ScanDisabledError: Of scope "partition", without `allow_scan=True`.
        """
        return self._scan(
            "find_ended_sessions",
            lambda store: store.find_ended_sessions(earliest_end, latest_end, reverse=reverse),
            reverse=reverse,
        )


class ReadOnlyVersionedStore(ReadOnlyStore):
    """A versioned store: what of Kafka Streams' VersionedKeyValueStore reads."""

    def get(self, key: Any, as_of: TimeLike | None = None) -> VersionedRecord | None:
        """The version that is valid, now or at a time; None where none is or it is forgotten.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        found: VersionedRecord | None = self._first(lambda store: store.get(key, as_of))
        return found

    def history(
        self,
        key: Any,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        order: str = "desc",
    ) -> Cursor[VersionedRecord]:
        """The versions that were valid at some time from one to another, as `VersionedStore.history`.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
            StoreValueError: `order` is neither "asc" nor "desc".
        """
        return self._cursor(
            lambda store: store.history(key, time_from, time_to, order), reverse=order == "desc"
        )


_KINDS: dict[str, type[ReadOnlyStore]] = {
    "key-value": ReadOnlyKeyValueStore,
    "timestamped": ReadOnlyKeyValueStore,
    "lru": ReadOnlyKeyValueStore,
    "window": ReadOnlyWindowStore,
    "session": ReadOnlySessionStore,
    "versioned": ReadOnlyVersionedStore,
}


def read_only_store(info: StateInfo, pick: Pick, key: Any, *, allow_scan: bool) -> ReadOnlyStore:
    """The read-only store of a kind.

    Raises:
        StateValueError: The key is None.
    """
    if key is None:
        msg = f"store {info.name!r}: a key must not be None, got None; give the current key"
        raise StateValueError(msg)
    return _KINDS[info.kind](info, pick, key, allow_scan=allow_scan)
