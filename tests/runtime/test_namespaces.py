# SPDX-License-Identifier: Apache-2.0
"""State and timers of pairs: a pair of a key and a namespace is a key of its own."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe import Probe, Record
from stream_support import BACKENDS, READ, Harness, Stream, act, five_states

from pyflinklike import (
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    IncompatibleStateError,
    StateAccessError,
    UserFunctionError,
)
from pyflinklike.functions.process_functions import NamespacedFunction
from pyflinklike.testing import KeyedProcessHarness

NUMBERS = ListStateDescriptor("numbers", Types.LONG())
COUNT = ValueStateDescriptor("count", Types.LONG())
on_both_backends = pytest.mark.parametrize("backend", BACKENDS)


class NamespacedRecord(NamedTuple):
    """An element: its key, its namespace, and what the function shall do."""

    key: Any
    namespace: Any
    script: Any


class NamespacedProbe(Probe, NamespacedFunction):
    """Does what each record says, in the record's namespace."""

    namespace_type = Types.LONG()

    def open(self, runtime_context: Any) -> None:
        self.runtime_context = runtime_context
        self.current = runtime_context.current
        states = tuple(
            runtime_context.get_partitioned_state(f"of pairs:{each.name}", each)
            for each in self.descriptors
        )
        self.state = states[0] if len(states) == 1 else states

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.current.namespace = value.namespace
        yield self._told(value.script(self.state, ctx))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield self._told(self.script_on_timer(self.state, timestamp, ctx))

    def _told(self, result: Any) -> Any:
        """A script's result, whose first part is the key: made the pair."""
        if not isinstance(result, tuple):
            return result
        return f"{result[0]}/{self.current.namespace}", *result[1:]

    def merge(self, name: str, target: int, *sources: int) -> Any:
        """A script that merges namespaces of a state."""

        def script(*_: Any) -> None:
            self.runtime_context.merge_namespaces(f"of pairs:{name}", target, sources)

        return script


class Driver:
    """Calls a namespaced state, each call in a record of its own."""

    def __init__(self, *descriptors: Any, **options: Any) -> None:
        self.function = NamespacedProbe(*descriptors)
        self.harness = KeyedProcessHarness(self.function, lambda each: each.key, **options)

    def do(self, script: Any, namespace: Any = 1, key: Any = "k") -> Any:
        """What one record gives."""
        return self.harness.process_element(NamespacedRecord(key, namespace, script))[0]

    def merge(self, target: int, *sources: int) -> None:
        """Merge namespaces of the state."""
        name = self.function.descriptors[0].name
        self.do(lambda *_: self.function.merge(name, target, *sources)(), namespace=99)

    def restored(self, **options: Any) -> Driver:
        """Another one that goes on from a snapshot."""
        return Driver(*self.function.descriptors, restore=self.harness.snapshot(), **options)


def appended(*numbers: int) -> Any:
    """A script that adds elements to a list."""
    return lambda state, _: state.add_all(numbers)


def elements(state: Any, _: Any) -> list[int]:
    """A script that reads a list."""
    return list(state)


# A pair is a key

ACTIONS = ["write", "write", "clear", "remove", "event timer", "processing timer", "delete timers"]
RECORDS = st.builds(
    lambda key, namespace, what, n: (key, namespace, act(what, n)),
    st.sampled_from("ab"),
    st.integers(0, 1),
    st.sampled_from(ACTIONS),
    st.integers(0, 12),
)
TTLS = st.none() | st.builds(
    lambda ms: StateTtlConfig.new_builder(ms).disable_cleanup_in_background().build(),
    st.integers(1, 6),
)
MOVES = st.none() | st.tuples(
    st.sampled_from([Stream, Harness]),
    st.sampled_from([each.values[0] for each in BACKENDS if each.values[0]]),
    st.sampled_from([1, 5, 64]),
)


def on_timer(states: Any, timestamp: int, ctx: Any) -> Any:
    """Says which it is, and writes."""
    states[3].add(f"@{timestamp};")
    return ctx.get_current_key(), timestamp, ctx.time_domain().name


@settings(max_examples=settings().max_examples // 2)
@given(
    ttl=TTLS,
    batches=st.lists(
        st.tuples(MOVES, st.lists(RECORDS, max_size=6), st.integers(0, 3)), max_size=6
    ),
)
def test_a_pair_is_a_key(ttl, batches):
    """Whatever is done, and wherever state moves between batches, pairs behave as keys of their own."""
    plain = Harness(Probe(*five_states(ttl), on_timer=on_timer), HashMapStateBackend(), 1, None, 0)
    now, host = 0, None
    try:
        for move, records, later in [*batches, (None, EVERYTHING, 0)]:
            if host is None or move is not None:
                host = moved(host, move, ttl, now)
            now += later
            expected = plain.batch(
                [Record(f"{key}/{namespace}", do) for key, namespace, do in records], now, now
            )
            given = [NamespacedRecord(key, namespace, do) for key, namespace, do in records]
            assert by_pair(expected) == by_pair(host.batch(given, now, now))
    finally:
        plain.close()
        if host is not None:
            host.close()


EVERYTHING = [(key, namespace, READ) for key in "ab" for namespace in (0, 1)]


def moved(host: Any, move: Any, ttl: Any, now: int) -> Any:
    """A host that goes on where another one was."""
    savepoint = None
    if host is not None:
        savepoint = host.savepoint()
        host.close()
    kind, backend, max_parallelism = move or (Stream, HashMapStateBackend(), 2)
    probe = NamespacedProbe(*five_states(ttl), on_timer=on_timer)
    if kind is Stream:
        return Stream(probe, backend, max_parallelism, savepoint=savepoint, now=now)
    return Harness(probe, backend, max_parallelism, savepoint, now)


def by_pair(results: list[Any]) -> dict[str, list[Any]]:
    """Results by the pair that they begin with, of which each has an order."""
    ordered = sorted(results, key=lambda each: each[0])
    return {pair: list(mine) for pair, mine in groupby(ordered, key=lambda each: each[0])}


# Merging


@on_both_backends
def test_merged_lists_are_joined(backend):
    """The target's elements first, then the sources' in their order, which are empty afterwards."""
    driver = Driver(NUMBERS, state_backend=backend)
    for namespace, numbers in ((1, (10, 11)), (2, (20,)), (3, (30, 31))):
        driver.do(appended(*numbers), namespace)
    driver.merge(2, 3, 1)
    again = driver.restored()
    assert ([20, 30, 31, 10, 11], [], []) == tuple(again.do(elements, n) for n in (2, 3, 1))


def test_a_map_cannot_be_merged():
    """It is refused by name."""
    driver = Driver(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with pytest.raises(DeclarationTypeError, match="must be a list, reducing or aggregating"):
        driver.merge(1, 2)


# Edges


def test_a_namespace_has_to_be_current():
    """Where none is, an access is refused, however the key is."""
    driver = Driver(COUNT)
    with pytest.raises(StateAccessError, match="no current window"):
        driver.harness.process_element(
            NamespacedRecord("k", driver.function.current.namespace, lambda state, _: state.value())
        )


def test_a_table_is_declared_once():
    """Two states cannot share a name."""
    driver = Driver(COUNT)
    with pytest.raises(DeclarationError, match="already declared"):
        driver.do(
            lambda *_: driver.function.runtime_context.get_partitioned_state(
                "of pairs:count", NUMBERS
            )
        )


def test_state_of_a_key_is_not_state_of_pairs():
    """What was written with namespaces is not read without, and the error says so."""

    class Plain(Probe):
        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(
                ValueStateDescriptor("of pairs:count", Types.LONG())
            )

    driver = Driver(COUNT)
    driver.do(lambda state, _: state.update(1))
    snapshot = driver.harness.snapshot()
    with pytest.raises(IncompatibleStateError, match="namespace type"):
        KeyedProcessHarness(Plain(), lambda each: each.key, restore=snapshot)


def test_an_error_in_a_merge_names_the_state():
    """The user's function that folds is to blame."""

    def fails(*_: Any) -> Any:
        raise ValueError("no")

    driver = Driver(ReducingStateDescriptor("text", fails, Types.STRING()))
    for namespace in (1, 2):
        driver.do(lambda state, _: state.add("a"), namespace)
    with pytest.raises(UserFunctionError, match="in the function of state 'text'"):
        driver.merge(1, 2)


@on_both_backends
def test_state_that_is_not_declared_yet_is_kept(backend):
    """State of a pair is declared when it is used: until then it goes along, warm or not."""
    stream = Stream(NamespacedProbe(COUNT), backend, 1)
    stream.batch([NamespacedRecord("a", 1, lambda state, _: state.update(7))], 0, 0)
    savepoint = stream.savepoint()
    stream.close()
    again = Stream(_DeclaringLate(COUNT), backend, 1, savepoint=savepoint)
    for _ in range(2):
        again.batch([NamespacedRecord("b", 1, lambda *_: None)], 0, 0)
    (read,) = again.batch([NamespacedRecord("a", 1, lambda state, _: state().value())], 0, 0)
    again.close()
    assert 7 == read


class _DeclaringLate(NamespacedProbe):
    """Declares its state when a script asks for it."""

    def open(self, runtime_context: Any) -> None:
        self.runtime_context, self.current = runtime_context, runtime_context.current
        self.state = lambda: runtime_context.get_partitioned_state("of pairs:count", COUNT)
