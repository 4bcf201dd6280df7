# SPDX-License-Identifier: Apache-2.0
"""Stream operators that call a user's function, by an operator of the runtime.

`operator_station` chooses the class by the node and the mode of the job.  In batch mode keyed operators process
each key as a whole, once the input has ended.

An `AsyncFunction` is called for a bundle of elements at a time.  Flink keeps a queue of open calls while
further elements come in.  Here an operator holds back the elements since the last watermark, and waits for all
their outputs.  So results may overtake each other, but never a watermark, and no open call is ever part of
a checkpoint.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from pyflinklike import __version__
from pyflinklike._changelog.key_group_state import KeyGroupState, LocalStateBackend
from pyflinklike._changelog.operator_record import OperatorIdentity, OperatorRecord
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._messages import short_repr, shown_error
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import kind_of, make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import ElementBundles, end_bounded, enter_bounded
from pyflinklike._runtime.user_errors import hint, where_raised
from pyflinklike.aggregations.fold import Fold as FoldFunction
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import PyflinklikeError, UserFunctionError
from pyflinklike.functions.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.functions.metric_group import Increment
from pyflinklike.functions.process_functions import check_results
from pyflinklike.pyflink._graph.functions import AsyncFunction, AsyncRetryStrategy, own_copy
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.nodes import (
    AssignTimestamps,
    AsyncWait,
    Filter,
    FlatMap,
    KeyedFold,
    Map,
    Node,
    Stateless,
    TwoInputs,
    WithBroadcast,
)
from pyflinklike.pyflink._local.stream_operators import (
    Channel,
    Output,
    Send,
    StreamOperator,
    TimestampStation,
    guard_call,
)
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.types import PickledByteArrayTypeInfo
from pyflinklike.types.copies import as_given
from pyflinklike.windows.window_operator import WindowOperator


def operator_station(node: Node, out: Output, task: TaskInfo, job: Job) -> StreamOperator:
    """Make an instance of a node that calls a user's function.

    Args:
        node: A node with a function, or one that assigns timestamps.
        out: Takes the outputs of the instance.
        task: The task that the instance serves.
        job: The job, for its mode, its state backend and the inputs of the node.
    """
    if isinstance(node, AssignTimestamps):
        return TimestampStation(out, node.strategy)
    is_batch, keys = job.settings.is_batch, job.graph.keys_of(node)
    has_keys = keys is not None and not isinstance(node, Stateless)
    if isinstance(node, TwoInputs):
        has_keys = node.is_keyed
    declaration = OperatorDeclaration(
        function_of(node, is_batch=is_batch),
        job.settings.state_backend or HashMapStateBackend(),
        PickledByteArrayTypeInfo() if keys is None else keys.key_type,
        task,
        f"local-{uuid.uuid4()}",
        side_outputs_read=frozenset(out.side),
        broadcast_states=node.states if isinstance(node, WithBroadcast) else (),
        has_keys=has_keys,
        timed_outputs=True,
        on_error=None if isinstance(node, AsyncWait) else job.settings.letters_to(out.side),
    )
    if isinstance(node, AsyncWait):
        return WaitingStation(out, declaration, node)
    # `MapStation` calls the function without the operator, so it cannot undo a failed call.
    if isinstance(node, (Map, FlatMap, Filter)) and declaration.on_error is None:
        return MapStation(out, declaration)
    streaming, batch = _STATIONS[kind_of(declaration.function).inputs]
    station = batch if is_batch and (has_keys or isinstance(node, WithBroadcast)) else streaming
    return station(out, declaration)


def function_of(node: Any, *, is_batch: bool) -> Any:
    """Return the function that the runtime calls for a node: a copy of the user's, or one that calls it.

    Args:
        node: A node with a function.
        is_batch: Whether the job runs in batch mode.
    """
    function = own_copy(node.function)
    if isinstance(node, KeyedFold):
        return FoldFunction(function, node.type_info, running=not is_batch)
    return function.timed() if isinstance(function, WindowOperator) else function


# Operators


class OperatorStation(StreamOperator):
    """Calls a function of one input, with keys or without.

    Args:
        out: Takes the outputs of the function.
        declaration: The operator that calls the function; this instance owns the function.
    """

    def __init__(self, out: Output, declaration: OperatorDeclaration) -> None:
        super().__init__(out)
        self._operator: KeyedProcessOperator = make_keyed_operator(declaration)
        self._has_keys, self._index = declaration.has_keys, declaration.task.index
        self._extensions = self._operator.extensions
        self._outputs = self._operator.outputs
        self._operator.group.enter(KeyGroupState(self._index))

    def channel(self, position: int) -> Channel:
        """Add a channel to this instance, which also takes elements with keys."""
        return Channel(self._element(position), self._watermark_channel(), self._call_for(position))

    def _element(self, position: int) -> Send:
        keyed = self._call_for(position)
        return lambda value, timestamp: keyed(GROUP_KEY, value, timestamp)

    def _call_for(self, position: int) -> Callable[[Any, Any, int | None], None]:  # noqa: ARG002
        return self._process

    def _process(self, key: Any, value: Any, timestamp: int | None) -> None:
        self._process_one(key, value, timestamp)
        for each in self._extensions:
            each.flush()
        if self._outputs.main or self._outputs.side:
            self._send()

    def _send(self) -> None:
        """Pass on the outputs that the function has collected."""
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
            # This watermark is the last one, so stores write now what they hold back.
            if watermark == MAX_WATERMARK:
                operator.flush()
            if self._outputs.main or self._outputs.side:
                self._send()
        else:
            operator.clock.watermark = watermark
        self._out.watermark(watermark)

    def tick(self, now: int) -> None:
        """Set the processing time in ms, and fire the timers that are due."""
        operator = self._operator
        # Advancing costs more than setting the clock, and most operators have no such timers.
        if operator.processing_timers.count():
            operator.advance_processing_time(now)
            self._send()
        else:
            operator.clock.processing_time = now

    def open(self) -> None:
        """Open the function."""
        self._operator.open()
        self._process_one = ElementBundles(self._operator).process_one

    def begin_with(self, segments: Iterable[Segment], where: str) -> None:
        """Begin with the state of a savepoint, before the function is opened.

        Args:
            segments: The entries of this instance.
            where: The name of the savepoint, for messages.

        Raises:
            CorruptStateError: The savepoint is damaged.
        """
        state = KeyGroupState(self._index)
        for segment in segments:
            state.read(segment, where)
        self._operator.group.enter(state)

    def settle(self) -> None:
        """Pass on all outputs that are held back by stores or by calls that have not returned."""
        self._operator.flush()
        self._operator.check_letters()
        self._send()

    def snapshot(self) -> Segment:
        """Return all state and timers, without changing them."""
        return read_segment(self._operator.snapshot(), "snapshot")

    def describe(self, name: str) -> OperatorRecord:
        """Describe the operator for a savepoint, under the name of its state."""
        function = type(self._operator.function)
        # One key group holds the entries of all instances, as a harness writes them.
        identity = OperatorIdentity(name, 1, (), self._operator.key_type.signature)
        return OperatorRecord(
            identity,
            f"{function.__module__}.{function.__qualname__}",
            __version__,
            "UTC",
            "timestamp",
            "None",
            self._operator.describe_states(),
        )

    def close(self) -> None:
        """End the input, close the function, and delete its state."""
        try:
            self._operator.check_letters()
            if not self.is_stopped:
                self._operator.end_stream()
            self._operator.close()
        finally:
            if isinstance(self._operator.backend, LocalStateBackend):
                self._operator.backend.discard()

    def abandon(self) -> None:
        """Close after a failure, without another error."""
        self._operator.abandon()

    def take_metrics(self) -> list[Increment]:
        """Return the counts of the user's metrics since the last call.

        Raises:
            UserFunctionError: A gauge of the user raised.
        """
        return self._operator.take_metrics()[1]


class TwoInputStation(OperatorStation):
    """Calls a function of two inputs."""

    def _call_for(self, position: int) -> Callable[[Any, Any, int | None], None]:
        number, process = position + 1, self._process

        def element(key: Any, value: Any, timestamp: int | None) -> None:
            process(key, (number, value), timestamp)

        return element


class BroadcastStation(OperatorStation):
    """Calls a function whose second input is broadcast."""

    def _element(self, position: int) -> Send:
        return self._process_broadcast if position == 1 else super()._element(position)

    def _process_broadcast(self, value: Any, timestamp: int | None) -> None:
        self._operator.process_broadcast([(value, timestamp)])
        self._operator.end_task()
        self._send()


class MapStation(OperatorStation):
    """Calls a map, flat_map or filter function without keys directly, not through the operator.

    Without keys such a function has neither state nor timers, so the operator would only cost time.
    """

    def _element(self, position: int) -> Send:  # noqa: ARG002
        function, send = self._operator.function, self._out.main
        name = getattr(getattr(function, "func", None), "__qualname__", type(function).__qualname__)
        if isinstance(function, MapFunction):
            return _map_elements(guard_call(function.map, f"{name}.map"), send)
        if isinstance(function, FilterFunction):
            return _filter_elements(guard_call(function.filter, f"{name}.filter"), send)
        assert isinstance(function, FlatMapFunction)
        return _flat_mapping(guard_call(_all_of(function), f"{name}.flat_map"), send)


def _map_elements(call: Callable[[Any], Any], send: Send) -> Send:
    return lambda value, timestamp: send(call(value), timestamp)


def _filter_elements(call: Callable[[Any], Any], send: Send) -> Send:
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
        # A generator may change an output after it has yielded it, and yield it again.
        return [as_given(each) for each in results]

    return results_of


class BatchStation(OperatorStation):
    """Processes each key as a whole at the end of its input, as in Flink's batch mode.

    The function gets the elements of a key in the order of their times.  Then the timers of the key fire,
    and its state is dropped.
    """

    def __init__(self, out: Output, declaration: OperatorDeclaration) -> None:
        super().__init__(out, declaration)
        self._pending: dict[Any, list[tuple[Any, int | None]]] = {}
        """The elements of each key with their event times, until the input ends."""

    def _process(self, key: Any, value: Any, timestamp: int | None) -> None:
        self._pending.setdefault(key, []).append((as_given(value), timestamp))

    def _on_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self._at_the_end()
        self._out.watermark(watermark)

    def _at_the_end(self) -> None:
        operator = self._operator
        for key, elements in self._pending.items():
            enter_bounded(operator, self._index, operator.clock.processing_time)
            self._process_all(key, elements)
            end_bounded(operator)
            self._send()
        self._pending.clear()

    def _process_all(self, key: Any, elements: list[tuple[Any, int | None]]) -> None:
        # A stable sort: elements of one time keep the order in which they came.
        for value, timestamp in sorted(elements, key=_by_time):
            super()._process(key, value, timestamp)


class TwoInputBatchStation(BatchStation, TwoInputStation):
    """A `BatchStation` with a function of two inputs."""


class BroadcastBatchStation(BatchStation, BroadcastStation):
    """A `BatchStation` whose broadcast input comes before the other one, as in Flink's batch mode.

    All keys share the broadcast states, so the states are kept until the last key is processed.
    """

    def _at_the_end(self) -> None:
        operator = self._operator
        for key, elements in self._pending.items():
            self._process_all(key, elements)
        if self._has_keys:
            end_bounded(operator)
            self._send()
        self._pending.clear()


def _by_time(element: tuple[Any, int | None]) -> int:
    timestamp = element[1]
    return -(2**63) if timestamp is None else timestamp


_STATIONS: dict[str, tuple[type[OperatorStation], type[OperatorStation]]] = {
    "one input": (OperatorStation, BatchStation),
    "two inputs": (TwoInputStation, TwoInputBatchStation),
    "a broadcast input": (BroadcastStation, BroadcastBatchStation),
}
"""The classes for the kinds of inputs: for streaming mode, and for batch mode with keys."""


# Asynchronous functions


Timed = tuple[Any, "int | None"]


@attrs.define
class AsyncCalls:
    """Calls an `AsyncFunction` in an event loop of its own, until it is closed.

    Args:
        function: The user's function, which must be open.
        node: The node, for the timeout, the capacity, the order and the retries.
    """

    function: AsyncFunction
    node: AsyncWait
    _loop: asyncio.AbstractEventLoop | None = attrs.field(default=None, init=False)

    def results(self, elements: Sequence[Timed]) -> list[Timed]:
        """Wait for the outputs of elements; each output has the time of its element.

        Args:
            elements: The elements with their event times in ms.

        Raises:
            UserFunctionError: The function raised, or took too long for an element.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        results = self._loop.create_task(self._all(elements))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(results)
        # A thread runs one loop at most, and a notebook's kernel already runs one in this thread.
        return _run_beside(self._loop, results)

    def close(self) -> None:
        """Close the loop."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    async def _all(self, elements: Sequence[Timed]) -> list[Timed]:
        places, finished = asyncio.Semaphore(self.node.capacity), []

        async def one(value: Any, timestamp: int | None) -> list[Timed]:
            # With a place taken: the timeout of an element begins when its call does.
            async with places:
                outputs = await self._outputs(value)
            results = [(output, timestamp) for output in outputs]
            finished.append(results)
            return results

        tasks = [asyncio.ensure_future(one(*element)) for element in elements]
        try:
            in_order = await asyncio.gather(*tasks)
        except BaseException:
            # No call may go on beside the next bundle, nor be left open when the loop is closed.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return [each for some in (in_order if self.node.is_ordered else finished) for each in some]

    async def _outputs(self, value: Any) -> list[Any]:
        """Return the outputs of an element; after the timeout, what `function.timeout` returns."""
        attempts = asyncio.ensure_future(self._attempts(value))
        try:
            done, _ = await asyncio.wait({attempts}, timeout=self.node.timeout / 1000 or None)
            outputs = attempts.result() if done else self.function.timeout(value)
            check_results(outputs, "async functions")
        except PyflinklikeError:
            raise
        except Exception as error:
            name = type(self.function).__qualname__
            where = f"{where_raised(error)}{hint(error, has_timestamp=True)}"
            raised = f"{shown_error(error)}{where}"
            msg = f"{name}.async_invoke failed for element {short_repr(value)}: {raised}"
            raise UserFunctionError(msg) from error
        finally:
            attempts.cancel()
        return list(outputs)

    async def _attempts(self, value: Any) -> Any:
        """Call the function, again as often as the retry strategy wants, and return the last result."""
        retry = self.node.retry or AsyncRetryStrategy.no_restart()
        predicate, number = retry.get_retry_predicate(), 1
        of_result, of_error = predicate.result_predicate(), predicate.exception_predicate()
        while True:
            result: list[Any] = []
            raised: Exception | None = None
            try:
                result = await self.function.async_invoke(value)
            except Exception as error:
                raised = error
            if raised is None:
                again = of_result is not None and of_result(result)
            else:
                again = of_error is not None and of_error(raised)
            if not again or not retry.can_retry(number):
                break
            await asyncio.sleep(retry.get_backoff_time_millis(number) / 1000)
            number += 1
        if raised is not None:
            raise raised
        return result


def _run_beside(loop: asyncio.AbstractEventLoop, task: asyncio.Task[list[Timed]]) -> list[Timed]:
    """Run a loop in another thread until a task is done; an interrupt here cancels the task."""
    with ThreadPoolExecutor(1, "pyflinklike-async") as thread:
        running = thread.submit(loop.run_until_complete, task)
        try:
            return running.result()
        except BaseException:
            loop.call_soon_threadsafe(task.cancel)
            raise


_DELAY_MS = 20
"""The longest time to hold elements back.  If it were less, few calls would be open at a time."""


class WaitingStation(OperatorStation):
    """Calls an `AsyncFunction`: it holds elements back, and waits for many calls at a time.

    It waits for the calls when it holds as many elements as the capacity, before a watermark passes, and
    when the clock has moved on a little, so that a slow source does not keep an element waiting.  A host
    that gives many elements at a time calls `hold`, and `wait` at the end: then each call that is done
    makes room for the next element.

    Args:
        out: Takes the outputs of the function.
        declaration: The operator, which has neither keys nor state, and opens and closes the function.
        node: The node, for the timeout, the capacity, the order and the retries.
    """

    def __init__(self, out: Output, declaration: OperatorDeclaration, node: AsyncWait) -> None:
        super().__init__(out, declaration)
        self._calls = AsyncCalls(declaration.function, node)
        self._pending: list[tuple[Any, int | None]] = []
        self._most_pending: float = node.capacity
        self._now = self._since = 0

    def _element(self, position: int) -> Send:  # noqa: ARG002
        def element(value: Any, timestamp: int | None) -> None:
            if not self._pending:
                self._since = self._now
            self._pending.append((as_given(value), timestamp))
            if len(self._pending) >= self._most_pending:
                self.wait()

        return element

    def _on_watermark(self, watermark: int) -> None:
        self.wait()
        super()._on_watermark(watermark)

    def tick(self, now: int) -> None:
        """Set the processing time in ms, and wait for elements that were held back long enough."""
        super().tick(now)
        self._now = now
        if self._pending and now - self._since >= _DELAY_MS:
            self.wait()

    def close(self) -> None:
        """End the input, and close the function and the event loop."""
        try:
            super().close()
        finally:
            self._calls.close()

    def abandon(self) -> None:
        """Close after a failure, without another error."""
        super().abandon()
        self._calls.close()

    def settle(self) -> None:
        """Wait for all calls, and pass on their outputs."""
        self.wait()
        super().settle()

    def hold(self) -> None:
        """Hold back all elements until a watermark comes or `wait` is called."""
        self._most_pending = math.inf

    def wait(self) -> None:
        """Wait for the elements that are held back, and pass on their outputs."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        for value, timestamp in self._calls.results(pending):
            self._out.main(value, timestamp)
