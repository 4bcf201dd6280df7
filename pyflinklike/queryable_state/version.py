# SPDX-License-Identifier: Apache-2.0
"""A version of a replica: an image with the states and stores that read it.

The states are the ones that a function gets, over tables that drop writes.  So TTL, visibility and
the order of entries are the function's without a second implementation.  All of them read through
one `current` key, so a lock is held for each read of one key or one key group.

A read may have to wait: for the lock, until a key group is decoded, or for Spark.  An event loop must
not wait, so it tries `at_once`, and leaves the read to a thread if that fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs

from pyflinklike._changelog.key_group_state import timers_spec
from pyflinklike._clock import TimeDomain
from pyflinklike.queryable_state.decoded_groups import DecodedGroups
from pyflinklike.queryable_state.image import Image, Route
from pyflinklike.state.current_key import GROUP_KEY, NO_NAMESPACE
from pyflinklike.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.state.state_assembly import assemble
from pyflinklike.state.table import Table
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state_processor._logs.state_infos import (
    StateInfo,
    describe_states,
    descriptor_of,
    state_of,
    timers_of,
)
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.stores.state_store import StateStore
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.catalog import type_of

T = TypeVar("T")


RawTimer = tuple[int, int, str, Any]
"""The time in ms, the number of the domain, a text to sort equal times by, and the stored key."""


class NotAtOnceError(Exception):
    """A read has to wait, but must not."""


class _Thread(threading.local):
    is_at_once = False


_THREAD = _Thread()


@contextmanager
def at_once() -> Iterator[None]:
    """Let reads of this thread raise `NotAtOnceError` instead of waiting."""
    _THREAD.is_at_once = True
    try:
        yield
    finally:
        _THREAD.is_at_once = False


def begin_waiting() -> None:
    """Begin something that takes long.

    Raises:
        NotAtOnceError: This thread must not wait.
    """
    if _THREAD.is_at_once:
        raise NotAtOnceError


@attrs.frozen
class Version:
    """An image with the states over it.

    Args:
        image: The stored logs of one micro-batch.
        states: The states and stores over it, which several images may share.
        checked_at: The time in ms at which this was last known to be the newest image.
    """

    image: Image
    states: OpenStates
    checked_at: int

    def locate(self, key: Any) -> tuple[Any, int]:
        """Return a key as it is stored, and its key group.

        Raises:
            StateValueError: The key is no value of the key columns.
            StateAccessError: The replica does not hold the key.
        """
        frozen, index = self.states.route(key)
        self.image.share.check(key, frozen, index)
        return frozen, index

    def of_state(self, name: str, key: Any, namespace: Any) -> Any:
        """Return the value, list or dict of a key in a state, or None."""
        states = self.states
        with states.lock:
            opened = states.state(name)
        if opened.is_shared:
            frozen, index = GROUP_KEY, min(self.image.groups, default=0)
        else:
            # Without the lock, since `locate` may have to ask Spark.
            frozen, index = self.locate(key)
        if opened.namespace_type is None:
            namespace = NO_NAMESPACE
        else:
            namespace = opened.namespace_type.freeze_key(namespace)
        with states.lock:
            return self._read(index, frozen, namespace, opened.read)

    def _read(self, index: int, key: Any, namespace: Any, ask: Callable[[], T]) -> T:
        groups = self.states.groups
        if not groups.is_decoded(self.image, index):
            begin_waiting()
        return groups.read(self.image, index, key, namespace, ask)

    def all_of_state(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Yield each key with its value, list or dict; a key may be a pair of key and namespace.

        A state that belongs to no key is yielded once, under None.
        """
        with self.states.lock:
            is_shared = self.states.state(name).is_shared
        if is_shared:
            value = self.of_state(name, None, None)
            yield from () if value is None else [(None, value)]
            return
        for index in sorted(self.image.groups):
            with self.states.lock:
                found = self._of_group(name, index)
            yield from found

    def _of_group(self, name: str, index: int) -> list[tuple[Any, Any]]:
        groups, opened = self.states.groups, self.states.state(name)
        key_type, namespace_type = groups.key_type, opened.namespace_type

        def keys() -> list[Any]:
            return list(dict.fromkeys(key for key, _, _ in opened.table.scan()))

        found = []
        for each in self._read(index, GROUP_KEY, NO_NAMESPACE, keys):
            key, namespace = (each, NO_NAMESPACE) if namespace_type is None else each
            if not self.image.share.has_key(key):
                continue
            value = self._read(index, key, namespace, opened.read)
            if value is None:
                continue
            shown = key_type.thaw_key(key)
            if namespace_type is not None:
                shown = shown, namespace_type.thaw_key(namespace)
            found.append((shown, value))
        return found

    def timers_of_key(self, key: Any, domains: Iterable[TimeDomain]) -> list[RawTimer]:
        """Return the timers of a key, in no order."""
        frozen, index = self.locate(key)
        with self.states.lock:
            return self._timers(index, domains, frozen)

    def timers(
        self, domains: Iterable[TimeDomain], begin: int | None, end: int | None
    ) -> Iterator[list[RawTimer]]:
        """Yield the timers of each key group, in no order.

        Args:
            domains: Which of event time and processing time to read.
            begin: The first due time to yield, in ms; None sets no bound.
            end: The last due time to yield, in ms; None sets no bound.
        """
        for index in sorted(self.image.groups):
            with self.states.lock:
                found = self._timers(index, domains, None, begin, end)
            yield found

    def _timers(
        self,
        index: int,
        domains: Iterable[TimeDomain],
        wanted: Any,
        begin: int | None = None,
        end: int | None = None,
    ) -> list[RawTimer]:
        """Return the timers of a key group, or of one key in it if `wanted` is not None."""
        states, tables = self.states, self.states.timers()
        namespace_type = states.namespace_type

        def of_domain(domain: TimeDomain) -> Iterable[tuple[Any, int, Any]]:
            table = tables[domain]
            if wanted is None or namespace_type is not None:
                return table.scan()
            return ((wanted, timestamp, None) for timestamp, _ in table.items())

        share = self.image.share
        is_whole = wanted is None and share.keys is None

        def is_wanted(stored: Any) -> bool:
            key = stored if namespace_type is None else stored[0]
            return (wanted is None or key == wanted) and share.has_key(key)

        def asked() -> list[RawTimer]:
            # The text makes the order total, however the key group was decoded: a scan that goes
            # on in a later request relies on it.
            return [
                (timestamp, domain.value, repr(stored), stored)
                for domain in domains
                for stored, timestamp, _ in of_domain(domain)
                if (begin is None or begin <= timestamp)
                and (end is None or timestamp <= end)
                and (is_whole or is_wanted(stored))
            ]

        at = GROUP_KEY if wanted is None else wanted
        return self._read(index, at, NO_NAMESPACE, asked)

    def thaw(self, stored: Any) -> tuple[Any, Any]:
        """Return key and namespace of a timer, in the user's form."""
        key_type, namespace_type = self.states.groups.key_type, self.states.namespace_type
        if namespace_type is None:
            return key_type.thaw_key(stored), None
        key, namespace = stored
        return key_type.thaw_key(key), namespace_type.thaw_key(namespace)

    def of_store(self, name: str, index: int, key: Any, ask: Callable[[Any], T]) -> T:
        """Ask a store in one key group under a key, and return its answer."""
        states = self.states
        with states.lock:
            store = states.store(name)

            def asked() -> T:
                found = ask(store)
                store.flush()  # drops noted uses, since the tables take no writes
                return found

            return self._read(index, key, NO_NAMESPACE, asked)


class _Lock:
    """A lock that a thread may take again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            begin_waiting()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class OpenStates:
    """The states and stores of an operator over decoded key groups, opened at the first read.

    Args:
        groups: The key groups, whose tables the states read.
        route: Finds stored keys and their key groups.
    """

    def __init__(self, groups: DecodedGroups, route: Route) -> None:
        self.groups = groups
        self.route = route
        self.lock = _Lock()
        """A thread holds it while it reads the tables, since they point at one key at a time."""
        self.infos = {info.name: info for info in describe_states(groups.record, 0)}
        self._states: dict[str, OpenState] = {}
        self._stores: dict[str, StateStore] = {}
        self._timers: dict[TimeDomain, Table] = {}

    def state(self, name: str) -> OpenState:
        """Return the state that has a name.

        Raises:
            UnknownStateError: The operator no longer has such a state.
            DeclarationValueError: Its values are pickles, and the replica may not unpickle.
        """
        found = self._states.get(name)
        if found is None:
            found = self._states[name] = self._open(self._info(name))
        return found

    def _info(self, name: str) -> StateInfo:
        where = f"operator {self.groups.record.identity.name!r}"
        return state_of(self.infos.values(), name, where)

    def _open(self, info: StateInfo) -> OpenState:
        groups = self.groups
        rows = StateRows.of(groups.record, info)
        spec = attrs.evolve(rows.table.spec, paired=info.ttl is not None)
        assembled = assemble(_descriptor(info), groups.tables, groups.clock, spec)
        # Before `declare`, which asks the assembled state for missing stamps.
        groups.assembled[info.name] = assembled
        groups.declare(spec)
        return OpenState(assembled.state, assembled.table, spec.namespace_type, spec.per_group)

    def timers(self) -> Mapping[TimeDomain, Table]:
        """Return the tables of the timers."""
        for domain in TimeDomain:
            if domain not in self._timers:
                spec = timers_spec(domain, self.namespace_type)
                table = self.groups.tables.table(spec)
                self.groups.declare(spec)
                self._timers[domain] = table
        return self._timers

    @property
    def namespace_type(self) -> TypeInformation | None:
        """The type of the timers' namespaces, or None if timers belong to keys alone."""
        # Both domains have the same namespaces.
        signature = timers_of(self.groups.record, TimeDomain.EVENT_TIME).namespace
        return type_of(signature) if signature else None

    def store(self, name: str) -> StateStore:
        """Return the store that has a name.

        Raises:
            UnknownStateError: The operator no longer has such a store.
            DeclarationValueError: Its values are pickles, and the replica may not unpickle.
        """
        found = self._stores.get(name)
        if found is None:
            self._info(name)
            found = descriptor_of(name, self.groups.record.states[name]).new_store()
            found.init(self.groups.surroundings)
            self.groups.join(found)
            self._stores[name] = found
        return found


def _descriptor(info: StateInfo) -> StateDescriptor[Any]:
    value = type_of(info.value_type) if info.value_type else Types.LONG()
    descriptor: StateDescriptor[Any]
    if info.kind in ("map", "broadcast"):
        assert info.user_key_type is not None
        descriptor = MapStateDescriptor(info.name, type_of(info.user_key_type), value)
    elif info.kind == "list":
        descriptor = ListStateDescriptor(info.name, value)
    else:
        descriptor = ValueStateDescriptor(info.name, value)
    if info.ttl is not None:
        ttl = StateTtlConfig.new_builder(info.ttl["ms"])
        ttl.set_update_type(StateTtlConfig.UpdateType[info.ttl["update_type"]])
        ttl.set_state_visibility(StateTtlConfig.StateVisibility[info.ttl["visibility"]])
        ttl.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic[info.ttl["time"]])
        # A replica removes nothing, so a cleanup would only cost time.
        descriptor.enable_time_to_live(ttl.disable_cleanup_in_background().build())
    return descriptor


@attrs.frozen
class OpenState:
    """A state over the tables of a replica.

    Args:
        state: The state that a function gets; reducing and aggregating state is a value state here.
        table: The entries of the state, below its TTL.
        namespace_type: The type of the state's namespaces, or None.
        is_shared: Whether its entries belong to no key.
    """

    state: Any
    table: Table
    namespace_type: TypeInformation | None
    is_shared: bool

    def read(self) -> Any:
        """Return the value, list or dict under the current key, or None."""
        if hasattr(self.state, "value"):
            return self.state.value()
        if hasattr(self.state, "items"):
            return dict(self.state.items()) or None
        return list(self.state) or None
