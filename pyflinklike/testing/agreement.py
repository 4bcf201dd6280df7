# SPDX-License-Identifier: Apache-2.0
"""Do backends agree?  A Hypothesis state machine that plays a worker's life.

    TestAgreement = agreement_machine(HashMapStateBackend(), MyStateBackend()).TestCase

The machine runs the same operations, one by one, on

* a *model*: plain dicts that follow Flink's rules for the five states, written
  here a second time and as simply as can be;
* for each backend a *lazy* replica, which commits when told to, and an *eager*
  one, which commits after every step and rebuilds its working state from the
  log.  What is not written back shows at the next step, not at the next
  coincidence of a commit, a loss and a read of the same entry.

Every read is compared at once.  Between the operations lives all that can
happen to a worker: commits, the loss of working state, an old working state
that comes back and is caught up, batches that fail, commits that never become
durable, compaction, and snapshots that move from one backend to another.

The domains are tiny (two keys, two user keys, three values, a TTL of two or
three ms), since what goes wrong goes wrong with the second write of an entry.

With `background=True` cleanup in the background runs.  Then expired entries are
never shown, and the clock never goes back, so that cleanup must be unobservable
but for the number of entries that are stored.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pyflinklike.backends.base import StateBackend
from pyflinklike.changelog import read_segment
from pyflinklike.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from pyflinklike.group_log import Head
from pyflinklike.key_group import KeyGroup
from pyflinklike.operator import KeyedProcessOperator
from pyflinklike.runtime_context import TaskInfo
from pyflinklike.table import NO_KEY
from pyflinklike.testing.group_store import InMemoryGroupStore
from pyflinklike.ttl_config import StateTtlConfig
from pyflinklike.types import Types

__all__ = ["agreement_machine"]

_GROUP = 3
_MAX_PARALLELISM = 8

keys = st.sampled_from("ab")
user_keys = st.sampled_from("xy")
numbers = st.integers(0, 2)
texts = st.sampled_from(["p", "q"])
times = st.integers(0, 6)
whiles = st.integers(0, 3)
lengths = st.integers(0, 2)


class _Sorted(AggregateFunction):
    """Keeps every element in a list that it changes in place, as users do."""

    def create_accumulator(self) -> list[int]:
        """Nothing yet."""
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        """The same list, longer."""
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        """The elements in order, in the user's own list."""
        return sorted(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        """Both."""
        return acc_a + acc_b


class _FiveStates(KeyedProcessFunction):
    """Declares one state of each kind and does nothing with them."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self._ttl = ttl
        self.fired: list[tuple[Any, int]] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the states."""

        def with_ttl(descriptor: StateDescriptor) -> Any:
            descriptor.enable_time_to_live(self._ttl)
            return descriptor

        def joined(one: str, other: str) -> str:
            return one + other

        get = runtime_context
        numbers = Types.LIST(Types.LONG())
        self.value = get.get_state(with_ttl(ValueStateDescriptor("value", numbers)))
        self.list = get.get_list_state(with_ttl(ListStateDescriptor("list", numbers)))
        self.map = get.get_map_state(
            with_ttl(MapStateDescriptor("map", Types.STRING(), Types.STRING()))
        )
        self.reducing = get.get_reducing_state(
            with_ttl(ReducingStateDescriptor("reducing", joined, Types.STRING()))
        )
        self.aggregating = get.get_aggregating_state(
            with_ttl(AggregatingStateDescriptor("aggregating", _Sorted(), numbers))
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Not called."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        """Remember the call."""
        self.fired.append((ctx.get_current_key(), timestamp))


@attrs.define
class _Model:
    """What five states and the timers of all keys must be, by the rules of Flink.

    An entry is `(stamp, value)`.  `single` holds the value, reducing and
    aggregating states under `(state, key)`.
    """

    ttl: int | None = None
    on_read: bool = False
    return_expired: bool = False
    now: int = 0
    single: dict[tuple[str, str], tuple[int, Any]] = attrs.field(factory=dict)
    maps: dict[str, dict[str, tuple[int, Any]]] = attrs.field(factory=lambda: {"a": {}, "b": {}})
    lists: dict[str, list[tuple[int, Any]]] = attrs.field(factory=lambda: {"a": [], "b": []})
    timers: set[tuple[str, int]] = attrs.field(factory=set)

    def is_alive(self, entry: tuple[int, Any]) -> bool:
        """Whether it is younger than the TTL."""
        return self.ttl is None or self.now < entry[0] + self.ttl

    def read(self, entries: dict[Any, tuple[int, Any]], at: Any) -> list[Any]:
        """The value under `at` in a list, or an empty list."""
        if at not in entries:
            return []
        entry = entries[at]
        if not self.is_alive(entry):
            del entries[at]
            return [entry[1]] if self.return_expired else []
        if self.on_read:
            entries[at] = (self.now, entry[1])
        return [entry[1]]

    def read_list(self, key: str) -> list[Any]:
        """The elements shown; the list is emptied when none of them is alive."""
        entries = self.lists[key]
        alive = [entry for entry in entries if self.is_alive(entry)]
        if not alive:
            self.lists[key] = []
        elif self.on_read:
            self.lists[key] = [(self.now, value) for _, value in alive]
        return [value for _, value in (entries if self.return_expired else alive)]

    def counts(self) -> dict[str, int]:
        """How many entries are stored."""
        found = {"value": 0, "reducing": 0, "aggregating": 0}
        for state, _ in self.single:
            found[state] += 1
        found["map"] = sum(map(len, self.maps.values()))
        found["list"] = sum(map(len, self.lists.values()))
        return found


class _Replica:
    """One operator over one backend, with its durable store and working state."""

    def __init__(self, backend: StateBackend, ttl: StateTtlConfig | None, *, eager: bool) -> None:
        self.states = _FiveStates(ttl)
        self.operator = KeyedProcessOperator(
            self.states,
            backend,
            Types.STRING(),
            TaskInfo("agreement", max_parallelism=_MAX_PARALLELISM),
            f"agreement-{uuid.uuid4()}",
        )
        self.operator.open()
        self.eager = eager
        self.store = InMemoryGroupStore()
        self.committed = InMemoryGroupStore()
        self.group = KeyGroup(_GROUP)
        self.parked: list[KeyGroup] = []
        self.load(self.group)

    def load(self, group: KeyGroup) -> None:
        """Go on with this working state, brought up to the head."""
        self.group = self.operator.load_group(self.store, self.store.head, group)

    def lose(self) -> None:
        """Go on without any working state."""
        self.load(KeyGroup(_GROUP))

    def commit(self) -> None:
        """Write what changed, in a transaction that succeeds."""
        self.store = self._written()

    def _written(self) -> InMemoryGroupStore:
        trial = self.store.copy()
        operator = self.operator
        wake_at = operator.earliest_timer(operator.event_timers)
        operator.commit(trial, trial.head, wake_at)
        return trial

    def step(self) -> None:
        """After each operation: an eager replica commits and loses its working state."""
        if self.eager:
            self.commit()
            self.lose()

    def end_batch(self) -> None:
        """Commit; this is what a failed batch goes back to."""
        self.commit()
        self.committed = self.store.copy()

    def fail(self, *, written: bool) -> None:
        """Lose a batch; if `written`, as late as after its commit was written."""
        if written:
            self._written()
            self.parked.append(self.group)
        self.store = self.committed.copy()
        self.lose()

    def park(self) -> None:
        """Put the working state aside, as when a group moves to another worker."""
        self.parked = [*self.parked[-2:], self.group]
        self.lose()

    def unpark(self) -> None:
        """The group moves back to the worker that served it longest ago."""
        if self.parked:
            self.load(self.parked.pop(0))

    def compact(self) -> None:
        """Commit as a snapshot."""
        self.group.rewrite = True
        self.end_batch()

    def restore(self, snapshot: bytes) -> None:
        """Begin anew from a snapshot, in a store of its own."""
        nonce = read_segment(snapshot, "snapshot").nonce
        head = Head(nonce, 1, 0, len(snapshot), 1, _MAX_PARALLELISM)
        self.store = InMemoryGroupStore(head, {0: snapshot})
        self.committed = self.store.copy()
        self.lose()

    def counts(self) -> dict[str, int]:
        """How many entries of each state the backend stores."""
        states = self.operator.runtime_context.assembled
        return {
            changes.spec.name: len(changes)
            for changes in self.operator.backend.contents()
            if changes.spec.name in states
        }


class _AgreementMachine(RuleBasedStateMachine):
    """The rules; see the module."""

    backends: tuple[StateBackend, ...] = ()
    background = False

    @initialize(ttl=st.none() | whiles.filter(bool), on_read=st.booleans(), show=st.booleans())
    def declare(self, ttl: int | None, on_read: bool, show: bool) -> None:
        """Without TTL, or in one of the four corners of update type and visibility."""
        show = show and not self.background
        config = None if ttl is None else self._config(ttl, on_read, show)
        self.model = _Model(ttl, on_read and ttl is not None, show)
        self.committed = copy.deepcopy(self.model)
        self.replicas = [
            _Replica(backend, config, eager=eager)
            for backend in self.backends
            for eager in (False, True)
        ]

    def _config(self, ttl: int, on_read: bool, show: bool) -> StateTtlConfig:
        builder = StateTtlConfig.new_builder(ttl)
        if on_read:
            builder.update_ttl_on_read_and_write()
        if show:
            builder.return_expired_if_not_cleaned_up()
        if self.background:
            builder.cleanup_incrementally(1, True)
        else:
            builder.disable_cleanup_in_background()
        return builder.build()

    def teardown(self) -> None:
        """Close what was opened."""
        for replica in getattr(self, "replicas", []):
            replica.operator.close()

    def _each(self, key: Any, operation: Callable[[_FiveStates], Any]) -> list[Any]:
        """The results of an operation on every replica, under a key."""
        results = []
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            replica.operator.scope.key = key
            results.append(operation(replica.states))
            replica.operator.scope.key = NO_KEY
            replica.step()
        return results

    def _agree(self, expected: Any, key: Any, operation: Callable[[_FiveStates], Any]) -> None:
        for replica, actual in zip(self.replicas, self._each(key, operation)):
            assert expected == actual, (replica.operator.backend, replica.eager)
            if isinstance(actual, list):
                _scribble(actual)  # what was read is the reader's own
        self._agree_on_counts()

    def _agree_on_counts(self) -> None:
        if not self.background:
            expected = self.model.counts()
            for replica in self.replicas:
                assert expected == replica.counts(), (replica.operator.backend, replica.eager)

    # Value

    @rule(key=keys, numbers=st.lists(numbers, max_size=2))
    def update_value(self, key: str, numbers: list[int]) -> None:
        """A list, so that a shared object would show."""
        self.model.single["value", key] = (self.model.now, list(numbers))

        def update(states: _FiveStates) -> None:
            mine = list(numbers)
            states.value.update(mine)
            mine.append(99)

        self._agree(None, key, update)

    @rule(key=keys)
    def update_value_with_none(self, key: str) -> None:
        """None clears."""
        self.model.single.pop(("value", key), None)
        self._agree(None, key, lambda states: states.value.update(None))

    @rule(key=keys)
    def read_value(self, key: str) -> None:
        """Compare."""
        expected = self.model.read(self.model.single, ("value", key))
        self._agree(expected[0] if expected else None, key, lambda states: states.value.value())

    # Reducing and aggregating

    @rule(key=keys, text=texts)
    def reduce(self, key: str, text: str) -> None:
        """In the order of arrival."""
        old = self.model.read(self.model.single, ("reducing", key))
        new = old[0] + text if old else text
        self.model.single["reducing", key] = (self.model.now, new)
        self._agree(None, key, lambda states: states.reducing.add(text))

    @rule(key=keys)
    def read_reduced(self, key: str) -> None:
        """Compare."""
        expected = self.model.read(self.model.single, ("reducing", key))
        self._agree(expected[0] if expected else None, key, lambda states: states.reducing.get())

    @rule(key=keys, number=numbers)
    def aggregate(self, key: str, number: int) -> None:
        """Into the accumulator that is there, expired or not."""
        old = self.model.read(self.model.single, ("aggregating", key))
        new = sorted([*(old[0] if old else []), number])
        self.model.single["aggregating", key] = (self.model.now, new)
        self._agree(None, key, lambda states: states.aggregating.add(number))

    @rule(key=keys)
    def read_aggregated(self, key: str) -> None:
        """Compare."""
        expected = self.model.read(self.model.single, ("aggregating", key))
        result = expected[0] if expected else None
        self._agree(result, key, lambda states: states.aggregating.get())

    # Map

    @rule(key=keys, user_key=user_keys, text=st.none() | texts)
    def put(self, key: str, user_key: str, text: str | None) -> None:
        """None is a value."""
        self.model.maps[key][user_key] = (self.model.now, text)
        self._agree(None, key, lambda states: states.map.put(user_key, text))

    @rule(key=keys, texts=st.dictionaries(user_keys, texts))
    def put_all(self, key: str, texts: dict[str, str]) -> None:
        """Many at once."""
        self.model.maps[key].update({k: (self.model.now, text) for k, text in texts.items()})
        self._agree(None, key, lambda states: states.map.put_all(texts))

    @rule(key=keys, user_key=user_keys)
    def remove(self, key: str, user_key: str) -> None:
        """Missing or not."""
        self.model.maps[key].pop(user_key, None)
        self._agree(None, key, lambda states: states.map.remove(user_key))

    @rule(key=keys, user_key=user_keys)
    def read_map(self, key: str, user_key: str) -> None:
        """Compare."""
        expected = self.model.read(self.model.maps[key], user_key)
        result = expected[0] if expected else None
        self._agree(result, key, lambda states: states.map.get(user_key))

    @rule(key=keys, user_key=user_keys)
    def contains(self, key: str, user_key: str) -> None:
        """Reading by another name."""
        expected = bool(self.model.read(self.model.maps[key], user_key))
        self._agree(expected, key, lambda states: states.map.contains(user_key))

    @rule(key=keys)
    def iterate_map(self, key: str) -> None:
        """In no order."""
        entries = self.model.maps[key]
        found = {k: self.model.read(entries, k) for k in list(entries)}
        expected = {k: value[0] for k, value in found.items() if value}
        self._agree(expected, key, lambda states: dict(states.map.items()))

    @rule(key=keys)
    def is_empty(self, key: str) -> None:
        """What is stored counts, expired or not; background cleanup may have removed that."""
        entries = self.model.maps[key]
        legal = {not entries}
        if self.background and not any(map(self.model.is_alive, entries.values())):
            legal.add(True)
        for actual in self._each(key, lambda states: states.map.is_empty()):
            assert actual in legal

    # List

    @rule(key=keys, number=numbers)
    def add(self, key: str, number: int) -> None:
        """One element."""
        self.model.lists[key].append((self.model.now, [number]))
        self._agree(None, key, lambda states: states.list.add([number]))

    @rule(key=keys, duration=whiles.filter(bool), read=st.booleans())
    def add_over_time(self, key: str, duration: int, read: bool) -> None:
        """Elements of different ages, so that a list loses some of them and grows on."""
        for number in range(2):
            self.add(key, number)
            self.wait(duration)
            if read:
                self.read_list(key)

    @rule(key=keys, numbers=st.lists(numbers, max_size=2))
    def add_all(self, key: str, numbers: list[int]) -> None:
        """Some elements."""
        self.model.lists[key] += [(self.model.now, [number]) for number in numbers]
        self._agree(None, key, lambda states: states.list.add_all([[n] for n in numbers]))

    @rule(key=keys, numbers=st.lists(numbers, max_size=2))
    def update_list(self, key: str, numbers: list[int]) -> None:
        """Other elements instead."""
        self.model.lists[key] = [(self.model.now, [number]) for number in numbers]
        self._agree(None, key, lambda states: states.list.update([[n] for n in numbers]))

    @rule(key=keys)
    def read_list(self, key: str) -> None:
        """In order."""
        expected = self.model.read_list(key)
        self._agree(expected, key, lambda states: list(states.list.get()))

    # All

    @rule(key=keys, state=st.sampled_from(["value", "reducing", "aggregating", "map", "list"]))
    def clear(self, key: str, state: str) -> None:
        """Only that key's."""
        if state == "map":
            self.model.maps[key] = {}
        elif state == "list":
            self.model.lists[key] = []
        else:
            self.model.single.pop((state, key), None)
        self._agree(None, key, lambda states: getattr(states, state).clear())

    # Timers and time

    @rule(key=keys, timestamp=times)
    def register_timer(self, key: str, timestamp: int) -> None:
        """Registering one again changes nothing."""
        self.model.timers.add((key, timestamp))
        for replica in self.replicas:
            replica.operator.scope.key = key
            replica.operator.timer_service.register_event_time_timer(timestamp)
            replica.operator.scope.key = NO_KEY
            replica.step()

    @rule(key=keys, timestamp=times)
    def delete_timer(self, key: str, timestamp: int) -> None:
        """Registered or not."""
        self.model.timers.discard((key, timestamp))
        for replica in self.replicas:
            replica.operator.scope.key = key
            replica.operator.timer_service.delete_event_time_timer(timestamp)
            replica.operator.scope.key = NO_KEY
            replica.step()

    @rule(watermark=times)
    def fire_timers(self, watermark: int) -> None:
        """Those that are due, each once, the earliest first."""
        due = {timer for timer in self.model.timers if timer[1] <= watermark}
        self.model.timers -= due
        for replica in self.replicas:
            fired = replica.states.fired
            fired.clear()
            replica.operator.advance_watermark(watermark)
            assert sorted(due) == sorted(fired)
            assert [at for _, at in fired] == sorted(at for _, at in fired)
            replica.step()

    @rule(time=times)
    @precondition(lambda self: not self.background)
    def set_time(self, time: int) -> None:
        """Forwards or backwards."""
        self.model.now = time

    @rule(duration=whiles)
    def wait(self, duration: int) -> None:
        """Forwards."""
        self.model.now += duration

    # A worker's life

    def _all(self, event: Callable[[_Replica], None]) -> None:
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            event(replica)

    @rule()
    def end_batch(self) -> None:
        """Commit, and go on with the working state."""
        self._all(_Replica.end_batch)
        self._all(lambda replica: replica.load(replica.group))
        self.committed = copy.deepcopy(self.model)

    @rule()
    def lose_working_state(self) -> None:
        """Commit, and go on without working state."""
        self._all(_Replica.end_batch)
        self._all(_Replica.lose)
        self.committed = copy.deepcopy(self.model)
        self._agree_on_counts()

    @rule()
    def move_away(self) -> None:
        """Commit, and go on in another worker."""
        self._all(_Replica.end_batch)
        self._all(_Replica.park)
        self.committed = copy.deepcopy(self.model)

    @rule()
    def move_back(self) -> None:
        """Commit, and go on in a worker that has an old working state."""
        self._all(_Replica.end_batch)
        self._all(_Replica.unpark)
        self.committed = copy.deepcopy(self.model)
        self._agree_on_counts()

    @rule(written=st.booleans(), back=st.booleans())
    def fail_batch(self, written: bool, back: bool) -> None:
        """All is as it was before the batch, but for the time."""
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            replica.fail(written=written)
            if back:
                replica.unpark()
        now = self.model.now
        self.model = copy.deepcopy(self.committed)
        self.model.now = now
        self._agree_on_counts()

    @rule()
    def compact(self) -> None:
        """Commit as a snapshot."""
        self._all(_Replica.compact)
        self.committed = copy.deepcopy(self.model)
        self._agree_on_counts()

    @rule()
    def exchange_snapshots(self) -> None:
        """Each replica goes on from what another one wrote."""
        snapshots = [replica.operator.snapshot() for replica in self.replicas]
        for replica, snapshot in zip(self.replicas, snapshots[1:] + snapshots[:1]):
            replica.restore(snapshot)
        self.committed = copy.deepcopy(self.model)
        self._agree_on_counts()


def _scribble(mine: list[Any]) -> None:
    for element in mine:
        if isinstance(element, list):
            element.append(99)
    mine.append(99)


def agreement_machine(
    *backends: StateBackend, background: bool = False
) -> type[RuleBasedStateMachine]:
    """A state machine that compares backends with the model and with one another.

    Args:
        backends: One is enough: it is compared with the model.
        background: Whether background cleanup runs; see the module.

    Returns:
        A class whose `TestCase` unittest and pytest collect.
    """
    name = "BackgroundAgreement" if background else "Agreement"
    return type(name, (_AgreementMachine,), {"backends": backends, "background": background})
