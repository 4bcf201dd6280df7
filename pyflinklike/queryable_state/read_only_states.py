# SPDX-License-Identifier: Apache-2.0
"""Reads states, stores and timers of a replica by name, with the methods that functions have.

Each answer is of one micro-batch.  A replica fires no timer and deletes no entry by itself, and every
method that writes raises.  A store of scope "partition" is read in every key group, and
the answers are merged by the store's own order, so that the result does not depend on the number of
key groups.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import attrs

from pyflinklike._clock import DurationLike, TimeDomain
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    DeclarationTypeError,
    ScanDisabledError,
    StateAccessError,
    StateValueError,
    UnknownStateError,
    UnknownStoreError,
)
from pyflinklike.queryable_state.image import ALL, Position
from pyflinklike.queryable_state.version import RawTimer, Version
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state_processor._logs.state_infos import (
    StateInfo,
    StateInfos,
    key_columns_of,
    state_of,
)
from pyflinklike.stores.key_value_store import KeyValueStore
from pyflinklike.stores.session_store import SessionStore
from pyflinklike.stores.state_store import Cursor
from pyflinklike.stores.store_records import (
    KeyValue,
    TimeLike,
    VersionedRecord,
    to_instant,
)
from pyflinklike.stores.window_store import WindowStore
from pyflinklike.types import TypeInformation
from pyflinklike.types.catalog import type_of

Pick = Callable[..., Version]
"""Chooses the version to read, by `at_least_batch`, `max_age` and `timeout`."""


class _NoKeyGiven:
    def __repr__(self) -> str:
        return "NO_KEY_GIVEN"


NO_KEY_GIVEN: Any = _NoKeyGiven()
"""The key of a store that belongs to no key; None cannot say that, since it is a wrong key."""


class StateReader:
    """Gives the states, stores and timers of an operator by name.

    Args:
        pick: Chooses the version to read.
        seen: Returns the present version, of any age.
        names: The states and stores that may be asked for; None allows all, and the timers.
        allow_scan: Whether all key groups may be decoded for an answer.
    """

    def __init__(
        self,
        pick: Pick,
        seen: Callable[[], Version],
        names: frozenset[str] | None,
        *,
        allow_scan: bool,
    ) -> None:
        self._pick, self._seen = pick, seen
        self._names, self._allow_scan = names, allow_scan

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
            DeclarationValueError: Its values are pickles, and `allow_pickle` is False.
        """
        version = self._seen()
        info = state_of(self._infos(version), name, version.image.where)
        if info.is_store:
            msg = f"{version.image.where}: {name!r} must be a state, got a {info.kind} store"
            raise UnknownStateError(f"{msg}; use store({name!r})")
        if info.kind == "broadcast" and version.image.share != ALL:
            msg = f"{version.image.where}: broadcast state {name!r} belongs to no key, but this replica"
            raise StateAccessError(f"{msg} holds a part; open one without keys= and key_groups=")
        with version.states.lock:
            version.states.state(name)
        return ReadOnlyState(info, self._pick, allow_scan=self._allow_scan)

    def store(self, name: str, *, key: Any = NO_KEY_GIVEN) -> ReadOnlyStore:
        """Return a store by its name, with the reading methods of its kind.

        Args:
            name: The name with which the store was declared.
            key: The current key under which to read a store of scope "key".

        Raises:
            UnknownStoreError: There is no such store, or it is a state.
            StateAccessError: A key is missing, or given for a store of scope "partition"; or the
                store has that scope, but the replica was opened with `keys=`.
            StateValueError: The key is None.
            DeclarationValueError: Its values are pickles, and `allow_pickle` is False.
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
            got = "no key" if key is NO_KEY_GIVEN else f"key={short_repr(key)}"
            msg = f"store {name!r} of scope {info.options['scope']!r} {rule}, got {got}"
            raise StateAccessError(
                f"{msg}; {'give key=' if key is NO_KEY_GIVEN else 'leave key= out'}"
            )
        if key is NO_KEY_GIVEN and version.image.share.keys is not None:
            msg = f"store {name!r} of scope 'partition' belongs to no key, but this replica was"
            raise StateAccessError(
                f"{msg} opened with keys=; open one with key_groups=, or with all"
            )
        with version.states.lock:
            version.states.store(name)
        if key is None:
            msg = f"store {name!r}: a key must not be None, got None; give the current key"
            raise StateValueError(msg)
        return _KINDS[info.kind](info, self._pick, key, allow_scan=self._allow_scan)

    def timers(self) -> ReadOnlyTimers:
        """Return the timers of the operator.

        Raises:
            StateAccessError: The replica holds some states only (`states=`).
        """
        version = self._seen()
        if self._names is not None:
            msg = "this replica was opened with states= and holds no timers, got timers()"
            raise StateAccessError(f"{msg}; open one without states=")
        states = version.states
        return ReadOnlyTimers(
            key_columns_of(states.groups.record),
            type_of(states.groups.record.identity.key),
            states.namespace_type,
            self._pick,
            allow_scan=self._allow_scan,
        )

    def _infos(self, version: Version) -> StateInfos:
        infos = version.states.infos.values()
        return StateInfos(i for i in infos if self._names is None or i.name in self._names)


# States


_WRITING = frozenset(
    (
        *("put", "put_all", "put_if_absent", "multi_put", "delete", "remove", "clear", "pop"),
        *("popitem", "setdefault", "update", "add", "add_all", "flush"),
    )
)


@attrs.frozen(eq=False, repr=False)
class ReadOnly:
    """The base of states and stores that can only be read: every method that writes raises.

    Args:
        info: The description of the state or store.
        pick: Chooses the version to read.
        allow_scan: Whether all key groups may be decoded for an answer.
    """

    info: StateInfo
    """The description of the state or store, as it was when this object was made."""
    _pick: Pick
    _allow_scan: bool = attrs.field(kw_only=True)

    @property
    def name(self) -> str:
        """The name with which it was declared."""
        return self.info.name

    def __getattr__(self, name: str) -> Any:
        if name in _WRITING:
            return functools.partial(self._refuse, name)
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    def _refuse(self, verb: str, *_: Any, **__: Any) -> NoReturn:
        msg = f"{self.info.kind} {self.name!r}: a replica is only read, got {verb}()"
        raise StateAccessError(f"{msg}; write in the function, or edit a Savepoint")

    def _check_scan(self, verb: str) -> None:
        _check_scan(f"{self.info.kind} {self.name!r}", verb, is_allowed=self._allow_scan)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.info.kind!r})"


def _check_scan(what: str, verb: str, *, is_allowed: bool) -> None:
    if not is_allowed:
        msg = f"{what}: scans must be allowed, got {verb}(), which decodes every key group"
        raise ScanDisabledError(f"{msg}; QueryableState.open(..., allow_scan=True)")


class ReadOnlyState(ReadOnly):
    """A state of a running query, under any key.

    Reducing and aggregating state is shown as it is stored; for aggregating state that is the
    accumulator.  Values expire by the clock of the micro-batch, as they do for the function.
    """

    def get(
        self,
        key: Any = None,
        *,
        namespace: Any = None,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> Any:
        """Return the value, list or dict of a key, or None; it belongs to the caller.

        Args:
            key: The key, a tuple if there are several key columns; None for broadcast state.
            namespace: The window, for state of windows.
            at_least_batch: The number of the micro-batch to wait for; None waits for none.
            max_age: Look for newer batches first if the last look is longer ago than this.
            timeout: The longest wait; by default the `timeout` of `QueryableState.open`.

        Raises:
            StateValueError: The key is not a value of the key columns.
            StaleStateError: The replica has not read that batch within the timeout.
            CorruptStateError: The log of the key group is damaged.
            StoreClosedError: The replica is closed.
        """
        version = self._pick(at_least_batch, max_age, timeout)
        return version.of_state(self.name, key, namespace)

    def get_many(
        self,
        keys: Iterable[Any],
        *,
        namespace: Any = None,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> dict[Any, Any]:
        """Return the result of `get` for each key that has an entry, all of one micro-batch."""
        version = self._pick(at_least_batch, max_age, timeout)
        found = ((key, version.of_state(self.name, key, namespace)) for key in keys)
        return {key: value for key, value in found if value is not None}

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return all keys with their values, all of one micro-batch, in no fixed order.

        For state of windows a key is a pair of key and window; for broadcast state it is None.

        Raises:
            ScanDisabledError: The replica was not opened with `allow_scan=True`.
        """
        self._check_scan("items")
        return self._pick(None, None, None).all_of_state(self.name)


# Stores


@attrs.frozen(eq=False, repr=False)
class ReadOnlyStore(ReadOnly):
    """The base of the read-only stores.

    Args:
        info: The description of the store.
        pick: Chooses the version to read.
        key: The current key for a store of scope "key"; `NO_KEY_GIVEN` for scope "partition".
        allow_scan: Whether scans of scope "partition" are allowed.
    """

    _key: Any

    @property
    def scope(self) -> str:
        """The scope: "key" if each current key has its own store, "partition" if all share one."""
        return "partition" if self._key is NO_KEY_GIVEN else "key"

    def _ask_groups(self, ask: Callable[[Any], Any]) -> list[Any]:
        """Ask the store in each key group that it has to read, and return the answers."""
        version = self._pick(None, None, None)
        if self._key is not NO_KEY_GIVEN:
            key, index = version.locate(self._key)
            return [version.of_store(self.name, index, key, ask)]
        # If no key group has state yet, an empty one answers, so that arguments are still checked.
        groups = sorted(version.image.groups) or [0]
        return [version.of_store(self.name, index, GROUP_KEY, ask) for index in groups]

    def _first(self, ask: Callable[[Any], Any], default: Any = None) -> Any:
        """Return the first answer that is not None, as Kafka's store over several partitions does."""
        for found in self._ask_groups(ask):
            if found is not None:
                return found
        return default


P = ParamSpec("P")
T = TypeVar("T")
_Method = Callable[Concatenate[Any, P], Cursor[T]]


def _merge(method: _Method[P, T], *, scans: bool = False) -> _Method[P, T]:
    """Return a store's method that asks the store in each key group and merges the answers.

    Args:
        method: The method of the store class that functions use.
        scans: Whether the method reads all keys; in scope "partition" that must be allowed.
    """
    verb = method.__name__

    @functools.wraps(method)
    def read(self: ReadOnlyStore, /, *args: P.args, **kwargs: P.kwargs) -> Cursor[T]:
        if scans and self._key is NO_KEY_GIVEN:
            self._check_scan(verb)
        found = self._ask_groups(lambda store: getattr(store, verb)(*args, **kwargs))
        return Cursor.merged(found, reverse=bool(kwargs.get("reverse")))

    return read


def _scan(method: _Method[P, T]) -> _Method[P, T]:
    return _merge(method, scans=True)


class ReadOnlyKeyValueStore(ReadOnlyStore):
    """A key-value, timestamped or LRU store to be read: Kafka Streams' ReadOnlyKeyValueStore.

    It has the reading methods of `KeyValueStore`, and reads like a mapping.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or the default.

        Raises:
            StateValueError: The key is None or does not fit its type.
        """
        return self._first(lambda store: store.get(key), default)

    def multi_get(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of the keys that exist, all of one micro-batch.

        Raises:
            StateValueError: A key is None or does not fit its type.
        """
        wanted = list(keys)
        found: dict[Any, Any] = {}
        # Reversed, so that the first key group wins, as in `get`.
        for some in reversed(self._ask_groups(lambda store: store.multi_get(wanted))):
            found |= some
        return {key: found[key] for key in wanted if key in found}

    range = _scan(KeyValueStore[Any, Any].range)
    all = _scan(KeyValueStore[Any, Any].all)
    prefix_scan = _scan(KeyValueStore[Any, Any].prefix_scan)

    def approximate_num_entries(self) -> int:
        """Count the entries; in a replica the number is exact."""
        return sum(self._ask_groups(len))

    def __len__(self) -> int:
        return self.approximate_num_entries()

    def __bool__(self) -> bool:
        return not all(self._ask_groups(lambda store: store.is_empty))

    def __contains__(self, key: object) -> bool:
        return any(self._ask_groups(lambda store: key in store))

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return (each.key for each in self.all())

    def items(self) -> Iterator[KeyValue]:
        """Return all entries, as `all` does."""
        return self.all()


class ReadOnlySessionStore(ReadOnlyStore):
    """A session store to be read: Kafka Streams' ReadOnlySessionStore."""

    def fetch_session(self, key: Any, start: TimeLike, end: TimeLike) -> Any:
        """Return the aggregate of exactly this session, or None.

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
        """
        return self._first(lambda store: store.fetch_session(key, start, end))

    fetch = _merge(SessionStore[Any, Any].fetch)
    fetch_range = _scan(SessionStore[Any, Any].fetch_range)
    find_sessions = _merge(SessionStore[Any, Any].find_sessions)
    find_sessions_range = _scan(SessionStore[Any, Any].find_sessions_range)
    find_ended_sessions = _scan(SessionStore[Any, Any].find_ended_sessions)


class ReadOnlyVersionedStore(ReadOnlyStore):
    """A versioned store to be read: the reading methods of Kafka Streams' VersionedKeyValueStore."""

    def get(self, key: Any, as_of: TimeLike | None = None) -> VersionedRecord | None:
        """Return the version that is valid now or at a time, or None if the store has no such version.

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
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
        """Return the versions that were valid between two times, as `VersionedStore.history` does.

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
            StoreValueError: `order` is neither "asc" nor "desc".
        """
        found = self._ask_groups(lambda store: store.history(key, time_from, time_to, order))
        return Cursor.merged(found, reverse=order == "desc")


class ReadOnlyWindowStore(ReadOnlyStore):
    """A window store to be read: Kafka Streams' ReadOnlyWindowStore, with the bounds of `WindowStore`.

    A bound of time is compared with the start of a window, and is included.  None sets no bound.
    """

    def get(self, key: Any, window_start: TimeLike, default: Any = None) -> Any:
        """Return the value of the window that begins at a time, or the default.

        Raises:
            StateValueError: The key is None, an argument does not fit its type, or the store keeps
                duplicates.
        """
        return self._first(lambda store: store.get(key, window_start), default)

    fetch = _merge(WindowStore[Any, Any].fetch)
    fetch_range = _scan(WindowStore[Any, Any].fetch_range)
    all = _scan(WindowStore[Any, Any].all)
    fetch_all = _scan(WindowStore[Any, Any].fetch_all)


_KINDS: dict[str, type[ReadOnlyStore]] = {
    **dict.fromkeys(("key-value", "timestamped", "lru"), ReadOnlyKeyValueStore),
    "window": ReadOnlyWindowStore,
    "session": ReadOnlySessionStore,
    "versioned": ReadOnlyVersionedStore,
}


# Timers


@attrs.frozen
class Timer:
    """A registered timer.

    Args:
        key: The key, a tuple if there are several key columns.
        domain: The clock that the timer follows.
        timestamp: The time at which it is due, in ms.
        namespace: The window, if the timer belongs to a window; else None.
    """

    key: Any
    domain: TimeDomain
    timestamp: int
    namespace: Any = None


@attrs.frozen(eq=False)
class ReadOnlyTimers:
    """The timers of a running query, or of a savepoint, in the order of their times.

    Args:
        key_columns: Names and Spark types of the key columns.
        key_type: The type of the keys as they are stored.
        namespace_type: The type of the namespaces, or None if timers belong to keys alone.
        pick: Chooses the version to read.
        allow_scan: Whether all key groups may be decoded for an answer.
    """

    key_columns: tuple[tuple[str, str], ...]
    """The names and Spark types of the key columns."""
    key_type: TypeInformation
    """The type of the keys as they are stored."""
    namespace_type: TypeInformation | None
    """The type of the namespaces, such as windows; None if timers belong to keys alone."""
    _pick: Pick = attrs.field(repr=False)
    _allow_scan: bool = attrs.field(kw_only=True, repr=False)

    def get(
        self,
        key: Any,
        *,
        domain: TimeDomain | None = None,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> list[Timer]:
        """Return the timers of a key and of all its windows, in the order of time.

        Args:
            key: The key, a tuple if there are several key columns.
            domain: The domain of the timers; None returns both.
            at_least_batch: The number of the micro-batch to wait for; None waits for none.
            max_age: Look for newer batches first if the last look is longer ago than this.
            timeout: The longest wait; by default the `timeout` of `QueryableState.open`.

        Raises:
            StateValueError: The key is not a value of the key columns.
            DeclarationTypeError: The domain is not a `TimeDomain`.
            StaleStateError: The replica has not read that batch within the timeout.
            CorruptStateError: The log of the key group is damaged.
            StoreClosedError: The replica is closed.
        """
        domains = _domains(domain)
        version = self._pick(at_least_batch, max_age, timeout)
        found = sorted(version.timers_of_key(key, domains), key=_BY_TIME)
        return [_timer(version, each) for each in found]

    def all(
        self,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        domain: TimeDomain | None = None,
        reverse: bool = False,
    ) -> Iterator[Timer]:
        """Return the timers of all keys in the order of time, all of one micro-batch.

        Args:
            time_from: The first due time to return; None sets no bound.
            time_to: The last due time to return; None sets no bound.
            domain: The domain of the timers; None returns both.
            reverse: Whether the latest timers come first.

        Raises:
            ScanDisabledError: The replica was not opened with `allow_scan=True`.
            DeclarationTypeError: The domain is not a `TimeDomain`.
            StateValueError, StoreValueError: A bound is not a time.
        """
        _check_scan("timers", "all", is_allowed=self._allow_scan)
        domains = _domains(domain)
        begin = None if time_from is None else to_instant(time_from, "time_from")
        end = None if time_to is None else to_instant(time_to, "time_to")
        version = self._pick(None, None, None)
        groups = version.timers(domains, begin, end)
        ordered = [sorted(each, key=_BY_TIME, reverse=reverse) for each in groups]
        merged = heapq.merge(*ordered, key=_BY_TIME, reverse=reverse)
        return (_timer(version, each) for each in merged)


_BY_TIME = itemgetter(0, 1, 2)


def _domains(domain: TimeDomain | None) -> tuple[TimeDomain, ...]:
    if domain is None:
        return tuple(TimeDomain)
    if not isinstance(domain, TimeDomain):
        msg = (
            f"domain takes a TimeDomain, got {short_repr(domain)}; give TimeDomain.EVENT_TIME, say"
        )
        raise DeclarationTypeError(msg)
    return (domain,)


def _timer(version: Version, raw: RawTimer) -> Timer:
    timestamp, domain, _, stored = raw
    key, namespace = version.thaw(stored)
    return Timer(key, TimeDomain(domain), timestamp, namespace)
