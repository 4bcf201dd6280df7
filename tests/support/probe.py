# SPDX-License-Identifier: Apache-2.0
"""A function without logic of its own, and a driver that makes each call of a state a record.

A test says what is done with the state, one line per record::

    count = drive(ValueStateDescriptor("count", Types.LONG()))
    count.update(1)                         # a record of key "k" that updates the state
    assert 1 == count.at(99).value()        # another one, at processing time 99
    assert None is count.of("b").value()    # and one of key "b"

Where one call must do several things, `run` takes a callable of state and context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

__all__ = ["Driver", "Mean", "Probe", "Record", "Sum", "drive", "harness", "obtain"]


class Record(NamedTuple):
    """An element: its key, and what the function shall do."""

    key: Any
    script: Callable[[Any, Any], Any]


class Sum(AggregateFunction):
    """The sum of ints."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Mean(AggregateFunction):
    """The mean, from a list of sum and count that it changes in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


def obtain(runtime_context: Any, descriptor: Any) -> Any:
    """The state a descriptor declares, by the getter for its kind."""
    getter = {
        ValueStateDescriptor: runtime_context.get_state,
        ListStateDescriptor: runtime_context.get_list_state,
        MapStateDescriptor: runtime_context.get_map_state,
        ReducingStateDescriptor: runtime_context.get_reducing_state,
        AggregatingStateDescriptor: runtime_context.get_aggregating_state,
    }[type(descriptor)]
    return getter(descriptor)


class Probe(KeyedProcessFunction):
    """Does what each record says, and yields what that gives.

    Its scripts get the state (of several, a tuple) and the context.  A timer runs
    `on_timer(state, timestamp, ctx)` and yields what that gives; by default its key,
    time and domain.
    """

    def __init__(self, *descriptors: Any, on_timer: Callable[..., Any] | None = None) -> None:
        self.descriptors = descriptors
        self.script_on_timer = on_timer or _key_time_and_domain

    def open(self, runtime_context: Any) -> None:
        self.runtime_context = runtime_context
        states = tuple(obtain(runtime_context, each) for each in self.descriptors)
        self.state = states[0] if len(states) == 1 else states

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.script(self.state, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield self.script_on_timer(self.state, timestamp, ctx)


def _key_time_and_domain(_: Any, timestamp: int, ctx: Any) -> tuple[Any, int, str]:
    return ctx.get_current_key(), timestamp, ctx.time_domain().name


def harness(function: KeyedProcessFunction, **options: Any) -> KeyedProcessHarness:
    """A harness for elements that have their key in front."""
    return KeyedProcessHarness(function, key_selector=lambda record: record[0], **options)


class Driver:
    """Calls the methods of a state, each in a record of its own.

    Args:
        harness: Runs a `Probe`.
        key: Of the records.
        timestamp: Of the records, in ms.
    """

    def __init__(self, harness: KeyedProcessHarness, key: Any = "k", timestamp: Any = None) -> None:
        self.harness = harness
        self._key = key
        self._timestamp = timestamp

    def of(self, key: Any) -> Driver:
        """The same state of another key."""
        return Driver(self.harness, key, self._timestamp)

    def stamped(self, timestamp: int | None) -> Driver:
        """The same state, in records of that event time."""
        return Driver(self.harness, self._key, timestamp)

    def at(self, processing_time: int) -> Driver:
        """The same state, from that processing time on."""
        self.harness.set_processing_time(processing_time)
        return self

    def at_watermark(self, watermark: int) -> Driver:
        """The same state, from that watermark on."""
        self.harness.process_watermark(watermark)
        return self

    def run(self, script: Callable[[Any, Any], Any]) -> Any:
        """Run a script of state and context in one record; what it returns."""
        return self.harness.process_element(Record(self._key, script), self._timestamp)[-1]

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *arguments: self.run(
            lambda state, _: _listed(getattr(state, method)(*arguments))
        )

    def entries(self, name: str = "s") -> int:
        """How many entries a state holds over all keys."""
        return self.harness.num_keyed_state_entries(name)

    def restored(self, *descriptors: Any, **options: Any) -> Driver:
        """The same after a snapshot and a restore into a new harness."""
        return drive(*descriptors, restore=self.harness.snapshot(), **options)


def _listed(result: Any) -> Any:
    """What a state gives to iterate, as a list."""
    if isinstance(result, Iterable) and not isinstance(
        result, (str, bytes, tuple, list, dict, set)
    ):
        return list(result)
    return result


def drive(*descriptors: Any, on_timer: Any = None, **options: Any) -> Driver:
    """A driver of these states in a new harness."""
    return Driver(harness(Probe(*descriptors, on_timer=on_timer), **options))
