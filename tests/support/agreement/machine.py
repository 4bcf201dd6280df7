# SPDX-License-Identifier: Apache-2.0
"""The rules of the machine: what a function does with states and timers, and what happens between."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from agreement.model import Comparison, whiles
from agreement.replica import FiveStates, Replica
from pyflinklike.state.current_key import NO_KEY

__all__ = ["BackendStateMachine"]

keys = st.sampled_from("ab")
user_keys = st.sampled_from("xy")
numbers = st.integers(0, 2)
texts = st.sampled_from(["p", "q"])
times = st.integers(0, 6)
workers = st.integers(0, 2)


class BackendStateMachine(Comparison):
    """Every verb of the five states, timers and time; commits, losses, moves, failures, snapshots."""

    # Value

    @rule(key=keys, numbers=st.lists(numbers, max_size=2))
    def update_value(self, key: str, numbers: list[int]) -> None:
        """Store a list, so that a shared object would show."""
        self.model.single["value", key] = (self.model.now, list(numbers))

        def update(states: FiveStates) -> None:
            mine = list(numbers)
            states.value.update(mine)
            mine.append(99)

        self.agree(None, key, update)

    @rule(key=keys)
    def update_value_with_none(self, key: str) -> None:
        """Clear by None."""
        self.model.single.pop(("value", key), None)
        self.agree(None, key, lambda states: states.value.update(None))

    @rule(key=keys)
    def read_value(self, key: str) -> None:
        """Compare the value."""
        expected = self.model.read(self.model.single, ("value", key))
        self.agree(expected[0] if expected else None, key, lambda states: states.value.value())

    # Reducing and aggregating

    @rule(key=keys, text=texts)
    def reduce(self, key: str, text: str) -> None:
        """Fold a text in, in the order of arrival."""
        old = self.model.read(self.model.single, ("reducing", key))
        new = old[0] + text if old else text
        self.model.single["reducing", key] = (self.model.now, new)
        self.agree(None, key, lambda states: states.reducing.add(text))

    @rule(key=keys)
    def read_reduced(self, key: str) -> None:
        """Compare the reduced value."""
        expected = self.model.read(self.model.single, ("reducing", key))
        self.agree(expected[0] if expected else None, key, lambda states: states.reducing.get())

    @rule(key=keys, number=numbers)
    def aggregate(self, key: str, number: int) -> None:
        """Add to the accumulator that is there, expired or not."""
        old = self.model.read(self.model.single, ("aggregating", key))
        new = sorted([*(old[0] if old else []), number])
        self.model.single["aggregating", key] = (self.model.now, new)
        self.agree(None, key, lambda states: states.aggregating.add(number))

    @rule(key=keys)
    def read_aggregated(self, key: str) -> None:
        """Compare the result."""
        expected = self.model.read(self.model.single, ("aggregating", key))
        result = expected[0] if expected else None
        self.agree(result, key, lambda states: states.aggregating.get())

    # Map

    @rule(key=keys, user_key=user_keys, text=st.none() | texts)
    def put(self, key: str, user_key: str, text: str | None) -> None:
        """Store a text or None, which is a value."""
        self.model.maps[key][user_key] = (self.model.now, text)
        self.agree(None, key, lambda states: states.map.put(user_key, text))

    @rule(key=keys, texts=st.dictionaries(user_keys, texts))
    def put_all(self, key: str, texts: dict[str, str]) -> None:
        """Store many entries at once."""
        self.model.maps[key].update({k: (self.model.now, text) for k, text in texts.items()})
        self.agree(None, key, lambda states: states.map.put_all(texts))

    @rule(key=keys, user_key=user_keys)
    def remove(self, key: str, user_key: str) -> None:
        """Remove a user key, missing or not."""
        self.model.maps[key].pop(user_key, None)
        self.agree(None, key, lambda states: states.map.remove(user_key))

    @rule(key=keys, user_key=user_keys)
    def read_map(self, key: str, user_key: str) -> None:
        """Compare the value under a user key."""
        expected = self.model.read(self.model.maps[key], user_key)
        result = expected[0] if expected else None
        self.agree(result, key, lambda states: states.map.get(user_key))

    @rule(key=keys, user_key=user_keys)
    def contains(self, key: str, user_key: str) -> None:
        """Compare `contains`, which is a read, too."""
        expected = bool(self.model.read(self.model.maps[key], user_key))
        self.agree(expected, key, lambda states: states.map.contains(user_key))

    @rule(key=keys)
    def iterate_map(self, key: str) -> None:
        """Compare all entries, in no order."""
        entries = self.model.maps[key]
        found = {k: self.model.read(entries, k) for k in list(entries)}
        expected = {k: value[0] for k, value in found.items() if value}
        self.agree(expected, key, lambda states: dict(states.map.items()))

    @rule(key=keys)
    def is_empty(self, key: str) -> None:
        """Compare emptiness: expired entries count until background cleanup removes them."""
        entries = self.model.maps[key]
        legal = {not entries}
        if self.background and not any(map(self.model.is_alive, entries.values())):
            legal.add(True)
        for actual in self.each(key, lambda states: states.map.is_empty()):
            assert actual in legal

    # List

    @rule(key=keys, number=numbers)
    def add(self, key: str, number: int) -> None:
        """Append one element."""
        self.model.lists[key].append((self.model.now, [number]))
        self.agree(None, key, lambda states: states.list.add([number]))

    @rule(key=keys, duration=whiles.filter(bool), read=st.booleans())
    def add_over_time(self, key: str, duration: int, read: bool) -> None:
        """Append elements of different ages, so that a list loses some of them and grows on."""
        for number in range(2):
            self.add(key, number)
            self.wait(duration)
            if read:
                self.read_list(key)

    @rule(key=keys, numbers=st.lists(numbers, max_size=2))
    def add_all(self, key: str, numbers: list[int]) -> None:
        """Append some elements."""
        self.model.lists[key] += [(self.model.now, [number]) for number in numbers]
        self.agree(None, key, lambda states: states.list.add_all([[n] for n in numbers]))

    @rule(key=keys, numbers=st.lists(numbers, max_size=2))
    def update_list(self, key: str, numbers: list[int]) -> None:
        """Replace all elements."""
        self.model.lists[key] = [(self.model.now, [number]) for number in numbers]
        self.agree(None, key, lambda states: states.list.update([[n] for n in numbers]))

    @rule(key=keys)
    def read_list(self, key: str) -> None:
        """Compare the elements, in order."""
        expected = self.model.read_list(key)
        self.agree(expected, key, lambda states: list(states.list.get()))

    # All

    @rule(key=keys, state=st.sampled_from(["value", "reducing", "aggregating", "map", "list"]))
    def clear(self, key: str, state: str) -> None:
        """Clear the state of one key only."""
        if state == "map":
            self.model.maps[key] = {}
        elif state == "list":
            self.model.lists[key] = []
        else:
            self.model.single.pop((state, key), None)
        self.agree(None, key, lambda states: getattr(states, state).clear())

    # Namespaces

    @rule(into=keys, state=st.sampled_from(["reducing", "aggregating", "list"]))
    @precondition(lambda self: self.namespaced)
    def merge_namespaces(self, into: str, state: str) -> None:
        """Merge the contents of one namespace into the other."""
        source = "b" if into == "a" else "a"
        self.model.merge(state, into, source)
        self.agree(None, into, lambda states: states.merge(state, into, source))

    # Timers and time

    @rule(key=keys, timestamp=times)
    def register_timer(self, key: str, timestamp: int) -> None:
        """Register a timer; registering it again changes nothing."""
        self.model.timers.add((key, timestamp))
        for replica in self.replicas:
            self.select(replica, key)
            service: Any = replica.operator.timers
            service.register_event_time_timer(timestamp)
            replica.operator.current.key = NO_KEY
            replica.step()

    @rule(key=keys, timestamp=times)
    def delete_timer(self, key: str, timestamp: int) -> None:
        """Delete a timer, registered or not."""
        self.model.timers.discard((key, timestamp))
        for replica in self.replicas:
            self.select(replica, key)
            service: Any = replica.operator.timers
            service.delete_event_time_timer(timestamp)
            replica.operator.current.key = NO_KEY
            replica.step()

    @rule(key=keys)
    def list_timers(self, key: str) -> None:
        """Compare the timers of one key, the earliest first."""
        expected = sorted(at for owner, at in self.model.timers if owner == key)
        for replica in self.replicas:
            self.select(replica, key)
            service: Any = replica.operator.timers
            assert expected == service.list_event_time_timers()
            replica.operator.current.key = NO_KEY
            replica.step()

    @rule(watermark=times)
    def fire_timers(self, watermark: int) -> None:
        """Fire the timers that are due, each once, the earliest first."""
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
        """Move the time, forwards or backwards."""
        self.model.now = time

    @rule(duration=whiles)
    def wait(self, duration: int) -> None:
        """Move the time forwards."""
        self.model.now += duration

    # The life of a worker

    @rule(expected=st.lists(keys, max_size=3))
    def expect_records(self, expected: list[str]) -> None:
        """Say which keys come next, whether or not they do."""
        for replica in self.replicas:
            replica.operator.backend.expect(expected)

    def _all(self, event: Callable[[Replica], None]) -> None:
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            event(replica)

    @rule()
    def end_batch(self) -> None:
        """Commit, and go on with what the worker kept."""
        self._all(Replica.end_batch)
        self.committed = copy.deepcopy(self.model)

    @rule()
    def lose_working_state(self) -> None:
        """Commit, and go on without working state."""
        self._all(Replica.end_batch)
        self._all(Replica.lose)
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()

    @rule(to=workers)
    def move(self, to: int) -> None:
        """Commit, and go on in a worker that has an old working state, or none."""
        self._all(Replica.end_batch)
        self._all(lambda replica: replica.move(to))
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()

    @rule(written=st.booleans(), back=st.booleans())
    def fail_batch(self, written: bool, back: bool) -> None:
        """Go back to before the batch, but not in time, also with what a worker kept of it."""
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            replica.fail(written=written)
            if back:
                replica.load()
        now = self.model.now
        self.model = copy.deepcopy(self.committed)
        self.model.now = now
        self.agree_on_counts()

    @rule()
    def compact(self) -> None:
        """Commit as a snapshot."""
        self._all(Replica.compact)
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()

    @rule()
    def exchange_snapshots(self) -> None:
        """Let each replica go on from what another one wrote."""
        snapshots = [replica.operator.snapshot() for replica in self.replicas]
        for replica, snapshot in zip(self.replicas, snapshots[1:] + snapshots[:1]):
            replica.restore(snapshot)
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()
