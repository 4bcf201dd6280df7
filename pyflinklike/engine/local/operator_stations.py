# SPDX-License-Identifier: Apache-2.0
"""Instances that have an operator of the runtime: all that call a user's function.

Which station runs a node that calls a user's function.

Instances of `AsyncWait`: they hold elements back, and wait for many of them at a time.

Elements are waited for when as many have come as may wait, before a watermark passes, and when the
clock has moved on a little, so that none stays behind where a source is slow.  A host that gives many elements at
a time says itself when they are waited for: then the next one takes the place of each that is done.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyflinklike.engine.api.async_function import AsyncRetryStrategy
from pyflinklike.engine.api.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.engine.api.metric_group import Increment
from pyflinklike.engine.api.process_functions import check_results
from pyflinklike.engine.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.engine.backends.state_backend import StateBackend
from pyflinklike.engine.clock import MAX_WATERMARK
from pyflinklike.engine.graph.function_copies import own_copy
from pyflinklike.engine.graph.job import Job
from pyflinklike.engine.graph.nodes import (
    AssignTimestamps,
    AsyncWait,
    Filter,
    FlatMap,
    Fold,
    KeyBy,
    Keyed,
    Map,
    Node,
    Process,
    TwoInputs,
    WithBroadcast,
)
from pyflinklike.engine.local.stations import (
    Channel,
    Exit,
    Send,
    Station,
    TimestampStation,
    guarded_call,
)
from pyflinklike.engine.log.working_state import LocalStateBackend, WorkingState
from pyflinklike.engine.runtime.assembly import keyed_process_operator
from pyflinklike.engine.runtime.async_calls import Waiting
from pyflinklike.engine.runtime.call_contexts import TaskInfo
from pyflinklike.engine.runtime.keyed_operator import KeyedProcessOperator
from pyflinklike.engine.runtime.micro_batch import ElementBundles, end_bounded, enter_bounded
from pyflinklike.engine.state.current_key import GROUP_KEY
from pyflinklike.engine.state.descriptors import MapStateDescriptor
from pyflinklike.engine.types import PickledByteArrayTypeInfo, TypeInformation
from pyflinklike.engine.types.copies import as_given
from pyflinklike.errors import HostError
from pyflinklike.folds.fold import Fold as FoldFunction
from pyflinklike.windows.window_operator import WindowOperator

__all__ = [
    "BatchStation",
    "BroadcastBatchStation",
    "BroadcastStation",
    "MapStation",
    "OperatorStation",
    "TwoInputBatchStation",
    "TwoInputStation",
    "WaitingStation",
    "function_of",
    "operator_station",
]


class OperatorStation(Station):
    """One with a function of one input, with keys or without.

    Args:
        out: Where what it gives goes.
        function: The user's, a copy of its own.
        task: Which instance it is.
        key_type: Of the keys; None where elements have none.
        state_backend: Where state is kept.
        states: The broadcast states.
    """

    def __init__(
        self,
        out: Exit,
        function: Any,
        task: TaskInfo,
        key_type: TypeInformation,
        state_backend: StateBackend,
        *,
        has_keys: bool,
        states: Sequence[MapStateDescriptor[Any, Any]] = (),
    ) -> None:
        super().__init__(out)
        self._operator: KeyedProcessOperator = keyed_process_operator(
            function,
            state_backend,
            key_type,
            task,
            f"local-{uuid.uuid4()}",
            side_outputs_read=frozenset(out.side),
            broadcast_states=states,
            has_keys=has_keys,
            timed_outputs=True,
        )
        self._has_keys = has_keys
        self._index = task.index
        self._outputs = self._operator.outputs
        self._operator.enter(WorkingState(task.index))

    def channel(self, position: int) -> Channel:
        """A channel for somebody who sends to this instance."""
        return Channel(self._element(position), self._gate.channel(), self._keyed(position))

    def _element(self, position: int) -> Send:
        keyed = self._keyed(position)
        return lambda value, timestamp: keyed(GROUP_KEY, value, timestamp)

    def _keyed(self, position: int) -> Callable[[Any, Any, int | None], None]:  # noqa: ARG002
        return self._process

    def _process(self, key: Any, value: Any, timestamp: int | None) -> None:
        self._process_one(key, value, timestamp)
        if self._operator.runtime_context.before_every_call:
            self._operator.stores.flush()
        if self._outputs.main or self._outputs.side:
            self._send()

    def _send(self) -> None:
        """Pass on what the function gave."""
        outputs, send = self._outputs, self._out.main
        main, side = outputs.main, outputs.side
        if main:
            outputs.main = []
            for value, timestamp in main:
                send(value, timestamp)
        if side:
            outputs.side = {}
            for tag_id, (_, values) in side.items():
                aside = self._out.side.get(tag_id)
                if aside is not None:
                    for value, timestamp in values:
                        aside(value, timestamp)

    def _on_watermark(self, watermark: int) -> None:
        operator = self._operator
        if self._has_keys:
            operator.advance_watermark(watermark)
            if watermark == MAX_WATERMARK:
                operator.stores.flush()
            if self._outputs.main or self._outputs.side:
                self._send()
        else:
            operator.clock.watermark = watermark
        self._out.watermark(watermark)

    def tick(self, now: int) -> None:
        """The processing time is another one: fire the timers that are due."""
        operator = self._operator
        if operator.processing_timers.count():
            operator.advance_processing_time(now)
            self._send()
        else:
            operator.clock.processing_time = now

    def open(self) -> None:
        """Open the function."""
        self._operator.open()
        self._process_one = ElementBundles(self._operator).process_one

    def close(self) -> None:
        """The input has ended: close the function, and let go of the state."""
        try:
            self._operator.end_stream()
            self._operator.close()
        finally:
            if isinstance(self._operator.backend, LocalStateBackend):
                self._operator.backend.discard()

    def abandon(self) -> None:
        """Close after a failure, without another error."""
        self._operator.abandon()

    def take_metrics(self) -> list[Increment]:
        """What the function's metrics have counted since this was called last.

        Raises:
            UserFunctionError: A gauge of the user's raised.
        """
        return self._operator.take_metrics()[1]


class TwoInputStation(OperatorStation):
    """One with a function of two inputs."""

    def _keyed(self, position: int) -> Callable[[Any, Any, int | None], None]:
        number, process = position + 1, self._process

        def element(key: Any, value: Any, timestamp: int | None) -> None:
            process(key, (number, value), timestamp)

        return element


class BroadcastStation(OperatorStation):
    """One with a function whose second input is broadcast."""

    def _element(self, position: int) -> Send:
        return self._process_broadcast if position == 1 else super()._element(position)

    def _process_broadcast(self, value: Any, timestamp: int | None) -> None:
        self._operator.process_broadcast([(value, timestamp)])
        self._operator.end_task()
        self._send()


class MapStation(OperatorStation):
    """One with a map, flat_map or filter function without keys, which is called directly."""

    def _element(self, position: int) -> Send:  # noqa: ARG002
        function, send = self._operator.function, self._out.main
        name = getattr(getattr(function, "func", None), "__qualname__", type(function).__qualname__)
        if isinstance(function, MapFunction):
            return _mapping(guarded_call(function.map, f"{name}.map"), send)
        if isinstance(function, FilterFunction):
            return _filtering(guarded_call(function.filter, f"{name}.filter"), send)
        assert isinstance(function, FlatMapFunction)
        return _flat_mapping(guarded_call(_all_of(function), f"{name}.flat_map"), send)


def _mapping(call: Callable[[Any], Any], send: Send) -> Send:
    return lambda value, timestamp: send(call(value), timestamp)


def _filtering(call: Callable[[Any], Any], send: Send) -> Send:
    def element(value: Any, timestamp: int | None) -> None:
        if call(value):
            send(value, timestamp)

    return element


def _flat_mapping(call: Callable[[Any], list[Any]], send: Send) -> Send:
    def element(value: Any, timestamp: int | None) -> None:
        for each in call(value):
            send(each, timestamp)

    return element


def _all_of(function: FlatMapFunction) -> Callable[[Any], list[Any]]:
    def results_of(value: Any) -> list[Any]:
        results = function.flat_map(value)
        if results is None:
            return []
        check_results(results, "flat_map functions")
        if results.__class__ in (list, tuple):
            return list(results)
        # It goes on between its outputs, and may change one and give it again.
        return [as_given(each) for each in results]

    return results_of


class BatchStation(OperatorStation):
    """One that processes each key as a whole, once its input has ended, as in Flink's batch mode.

    Elements of a key come in order of their times; state and timers live as long as the key's turn.
    """

    def _process(self, key: Any, value: Any, timestamp: int | None) -> None:
        self._of_keys().setdefault(key, []).append((as_given(value), timestamp))

    def _of_keys(self) -> dict[Any, list[tuple[Any, int | None]]]:
        held: dict[Any, list[tuple[Any, int | None]]] = self.__dict__.setdefault("_held", {})
        return held

    def _on_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self._at_the_end()
        self._out.watermark(watermark)

    def _at_the_end(self) -> None:
        operator = self._operator
        for key, elements in self._of_keys().items():
            enter_bounded(operator, self._index, operator.clock.processing_time)
            self._process_all(key, elements)
            end_bounded(operator)
            self._send()
        self._of_keys().clear()

    def _process_all(self, key: Any, elements: list[tuple[Any, int | None]]) -> None:
        for value, timestamp in sorted(elements, key=_by_time):
            super()._process(key, value, timestamp)


class TwoInputBatchStation(BatchStation, TwoInputStation):
    """A `BatchStation` of two inputs."""


class BroadcastBatchStation(BatchStation, BroadcastStation):
    """One whose broadcast input is processed wholly before the other one, as in Flink's batch mode.

    All keys share the broadcast states, so these live until the end of all of them.
    """

    def _at_the_end(self) -> None:
        operator = self._operator
        for key, elements in self._of_keys().items():
            self._process_all(key, elements)
        if self._has_keys:
            end_bounded(operator)
            self._send()
        self._of_keys().clear()


def _by_time(element: tuple[Any, int | None]) -> int:
    timestamp = element[1]
    return -(2**63) if timestamp is None else timestamp


def operator_station(node: Node, out: Exit, task: TaskInfo, job: Job) -> Station:
    """The instance of a node.

    Args:
        node: That calls a user's function.
        out: Where what it gives goes.
        task: Which instance it is.
        job: Has the settings.

    Raises:
        HostError: The local runner has nothing for a node of this kind.
    """
    if isinstance(node, AssignTimestamps):
        return TimestampStation(out, node.strategy)
    backend = job.settings.state_backend or HashMapStateBackend()
    if isinstance(node, AsyncWait):
        keys = PickledByteArrayTypeInfo()
        return WaitingStation(out, node, own_copy(node.function), task, keys, backend)
    kind, key_type, has_keys = _kind_of(node, job)
    states = node.states if isinstance(node, WithBroadcast) else ()
    function = function_of(node, is_batch=job.settings.is_batch)
    return kind(out, function, task, key_type, backend, has_keys=has_keys, states=states)


def _kind_of(node: Node, job: Job) -> tuple[type[OperatorStation], TypeInformation, bool]:
    """The class of its instances, the type of keys, and whether there are any."""
    is_batch, first = job.settings.is_batch, job.graph.nodes.get(node.inputs[0])
    keyed = isinstance(first, KeyBy)
    key_type = first.key_type if isinstance(first, KeyBy) else PickledByteArrayTypeInfo()
    if isinstance(node, (Map, FlatMap, Filter)):
        return MapStation, key_type, False
    if isinstance(node, Process):
        return OperatorStation, key_type, False
    if isinstance(node, (Keyed, Fold)):
        return (BatchStation if is_batch else OperatorStation), key_type, True
    if isinstance(node, TwoInputs):
        in_batches = is_batch and node.is_keyed
        return (TwoInputBatchStation if in_batches else TwoInputStation), key_type, node.is_keyed
    if isinstance(node, WithBroadcast):
        return (BroadcastBatchStation if is_batch else BroadcastStation), key_type, keyed
    msg = f"the local runner has nothing for {type(node).__name__}, got {node.name!r}"
    raise HostError(msg)


def function_of(node: Any, *, is_batch: bool) -> Any:
    """What the runtime is given for a node: the user's function, or a program that has it.

    Args:
        node: With a function.
        is_batch: Whether the job runs in batch mode.
    """
    function = own_copy(node.function)
    if isinstance(node, Fold):
        return FoldFunction(function, node.type_info, running=not is_batch)
    return function.timed() if isinstance(function, WindowOperator) else function


_HELD_MS = 20
"""How long elements are held back while others come: few of them would wait at a time with less."""


class WaitingStation(OperatorStation):
    """One with an `AsyncFunction`.

    Args:
        out: Where what it gives goes.
        node: Says how it waits.
        function: The user's, a copy of its own.
        task: Which instance it is.
        key_type: For the operator, which has no keys.
        state_backend: Likewise.
    """

    def __init__(
        self,
        out: Exit,
        node: AsyncWait,
        function: Any,
        task: TaskInfo,
        key_type: TypeInformation,
        state_backend: StateBackend,
    ) -> None:
        super().__init__(out, function, task, key_type, state_backend, has_keys=False)
        retry = node.retry or AsyncRetryStrategy.no_restart()
        options = (node.timeout, node.capacity, node.is_ordered, retry)
        self._waiting = Waiting(function, *options)
        self._held: list[tuple[Any, int | None]] = []
        self._most_held: float = node.capacity
        self._now = self._since = 0

    def _element(self, position: int) -> Send:  # noqa: ARG002
        def element(value: Any, timestamp: int | None) -> None:
            if not self._held:
                self._since = self._now
            self._held.append((as_given(value), timestamp))
            if len(self._held) >= self._most_held:
                self.wait()

        return element

    def _on_watermark(self, watermark: int) -> None:
        self.wait()
        super()._on_watermark(watermark)

    def tick(self, now: int) -> None:
        """The clock moves on: nothing is held back for long."""
        super().tick(now)
        self._now = now
        if self._held and now - self._since >= _HELD_MS:
            self.wait()

    def close(self) -> None:
        """Close the function, and the event loop."""
        try:
            super().close()
        finally:
            self._waiting.close()

    def abandon(self) -> None:
        """Close after a failure."""
        super().abandon()
        self._waiting.close()

    def hold(self) -> None:
        """Hold back all elements until a watermark, or a call of `wait`."""
        self._most_held = math.inf

    def wait(self) -> None:
        """Wait for the elements that are held back, and pass on what comes of them."""
        if not self._held:
            return
        held, self._held = self._held, []
        for value, timestamp in self._waiting.results(held):
            self._out.main(value, timestamp)
