# SPDX-License-Identifier: Apache-2.0
"""Harnesses: run one function without Spark, with time by assignment.

A harness is a host like Spark's: it drives the same operator over the same backends, and `snapshot`
returns the same durable format.  It has no thread and reads no clock, so only your calls make
something happen.

A *batch* stands for a micro-batch of a stream.  A call of `process_elements` or `end_batch` ends
it; the elements that were processed one by one before that belong to it, too.  At its end a backend
that keeps working state on the disk has to write and read it, as in a stream.  A call that moves a
clock does not end a batch.

Harnesses support all states, TTL in both time characteristics, timers of both domains, side
outputs, snapshot and restore, also into another backend, max parallelism or kind of harness.  They
do not support several parallel instances: every key is in one key group.  With two inputs each
input has its own watermark, as in Flink's `KeyedTwoInputStreamOperatorTestHarness` and
`BroadcastOperatorTestHarness`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._messages import short_repr
from pyflinklike._runtime.function_kinds import kind_of
from pyflinklike._type_vars import K, Unpack, V
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.functions.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.functions.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.state.broadcast_state import ReadOnlyBroadcastState
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.testing.operator_harness import (
    HarnessOptions,
    HarnessSettings,
    OperatorHarness,
    check_key_selector,
    check_time,
    key_of_failure,
    settings_of_failure,
    with_options,
)


class KeyedProcessHarness(OperatorHarness):
    """A harness that drives one function, synchronously.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, also if it is restored.

    Example:
        ```python
        class Double(KeyedProcessFunction):
            def process_element(self, value, ctx):
                yield ctx.get_current_key(), 2 * value["amount"]

        with KeyedProcessHarness(Double(), key_selector=lambda row: row["user"]) as harness:
            assert harness.process_element({"user": "ann", "amount": 2}) == [("ann", 4)]
            assert harness.process_watermark(60_000) == []  # no timer was due
        ```

    Args:
        function: The function under test; it is opened at once.
        key_selector: Returns the key of an element.
        state_backend: The backend that keeps state; `HashMapStateBackend()` by default.
        restore: The bytes that `snapshot` returned; or the result of `read_savepoint` or
            `open_savepoint` of `pyflinklike.state_processor`.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any str, number, date or tuple of these.  Without it,
            a restored harness takes the keys of any snapshot.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as in `process`.
        on_error: `DeadLetters` to keep elements and timers on which the function raises.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: Pickled state is declared, which `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    @with_options
    def __init__(
        self,
        function: KeyedProcessFunction | MapFunction | FlatMapFunction | FilterFunction,
        key_selector: Callable[[Any], Any],
        **options: Unpack[HarnessOptions],
    ) -> None:
        check_key_selector(key_selector, "key_selector")
        super().__init__(function, HarnessSettings.of(options))
        self._key_selector = key_selector

    @classmethod
    def of_failure(
        cls,
        failure_snapshot: bytes,
        function: KeyedProcessFunction | MapFunction | FlatMapFunction | FilterFunction,
        key_selector: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> KeyedProcessHarness:
        """Make a harness with the state before a call that became a dead letter.

        `replay()` repeats that call.  Key type, task, watermark and processing time are the same as
        in the call.  Only the key of the call has state.

        Args:
            failure_snapshot: The value of the letter's column `failure_snapshot`.
            function: The function that failed, or a mended one with the same states.
            key_selector: Returns the key of further elements; by default all have the call's key.
            state_backend: The backend that keeps state; `HashMapStateBackend()` by default.
            job_parameters: Values for `get_job_parameter`, by name; a failure snapshot lacks them.
            allow_pickle: Whether the element and state may be unpickled.  A pickle can run any
                code, so set it only if you trust the writer of the letter.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is of the wrong kind, or there
                is a pickle, which `allow_pickle` refuses.
            CorruptStateError: The failure snapshot is damaged.
            IncompatibleStateError: The function declares its states differently, or has other
                inputs.
        """
        options = settings_of_failure(failure_snapshot, state_backend, job_parameters, allow_pickle)
        # Not by `cls(...)`, whose options are the user's: a failed call is none of them.
        made = cls.__new__(cls)
        made._key_selector = key_selector or key_of_failure(options)
        check_key_selector(made._key_selector, "key_selector")
        OperatorHarness.__init__(made, function, options)
        return made

    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element.

        Args:
            value: An element as the function takes it.
            timestamp: Its event time in ms, if it has one.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function or the key selector raised.
            StateValueError: The key is None or of a type that cannot be a key.
        """
        # Written out, since tests call this for every element: no call if the harness is open.
        if self._closed:
            self._open_operator()
        if timestamp is not None:
            timestamp = check_time(timestamp, "the timestamp of an element")
        return self._process_and_collect(self._key_of(value, self._key_selector), value, timestamp)

    def process_elements(self, elements: Iterable[tuple[Any, int | None]]) -> list[Any]:
        """Process elements with their event times in ms, in this order; return the main outputs."""
        operator = self._open_operator()
        # All times and keys are checked first, so that a mistake leaves the state as it was.
        values, timestamps = [], []
        for value, timestamp in elements:
            values.append(value)
            timestamps.append(check_time(timestamp, "the timestamp of an element"))
        keys = [self._key_of(value, self._key_selector) for value in values]
        return self._collect(operator.process, keys, values, timestamps)

    def process_watermark(self, watermark: int) -> list[Any]:
        """Set the watermark in ms and fire its due event timers; return their main outputs."""
        operator = self._open_operator()
        watermark = check_time(watermark, "a watermark", required=True)
        return self._move(operator.advance_watermark, watermark)

    def end_of_input(self) -> list[Any]:
        """Move the watermark to `MAX_WATERMARK`: event timers fire, and no processing timer.

        This is the end of a stream.  At the end of a batch, processing timers also fire.
        """
        return self.process_watermark(MAX_WATERMARK)


_FIRST, _SECOND = 1, 2


class _TwoInputs(OperatorHarness):
    """A harness with a watermark for each of two inputs; the smaller one counts."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._watermarks = dict.fromkeys((_FIRST, _SECOND), self.watermark)

    def process_both_watermarks(self, watermark: int) -> list[Any]:
        """Set both watermarks in ms, the first input's first; return the main outputs."""
        return self._advance(_FIRST, watermark) + self._advance(_SECOND, watermark)

    def _advance(self, number: int, watermark: int) -> list[Any]:
        operator, watermarks = self._open_operator(), self._watermarks
        watermark = check_time(watermark, "a watermark", required=True)
        # A watermark below the input's last has no effect, as in Flink.
        watermarks[number] = max(watermark, watermarks[number])
        least = min(watermarks.values())
        if least <= operator.clock.watermark:
            return []
        return self._move(operator.advance_watermark, least)


class KeyedTwoInputHarness(_TwoInputs):
    """A harness that drives one function of two keyed inputs, synchronously.

    It starts at processing time 0 and both inputs at watermark `MIN_WATERMARK`, also if it is
    restored.  The operator's watermark is the smaller one of both, and never goes back.  As in
    Flink, timers fire when it moves: a timer that is registered for an earlier time waits until it
    moves again.  It takes the options of `KeyedProcessHarness`.

    Args:
        function: A `KeyedCoProcessFunction`, `CoMapFunction` or `CoFlatMapFunction`; it is opened
            at once.
        key_selector1: Returns the key of an element of the first input.
        key_selector2: Returns the key of an element of the second input; by default
            `key_selector1`.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: Pickled state is declared, which `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    @with_options
    def __init__(
        self,
        function: KeyedCoProcessFunction | CoMapFunction | CoFlatMapFunction,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any] | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        key_selector2 = key_selector1 if key_selector2 is None else key_selector2
        check_key_selector(key_selector1, "key_selector1")
        check_key_selector(key_selector2, "key_selector2")
        super().__init__(function, HarnessSettings.of(options))
        self._key_selectors = (key_selector1, key_selector2)

    @classmethod
    def of_failure(
        cls,
        failure_snapshot: bytes,
        function: KeyedCoProcessFunction | CoMapFunction | CoFlatMapFunction,
        key_selector1: Callable[[Any], Any] | None = None,
        key_selector2: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> KeyedTwoInputHarness:
        """Make a harness with the state before a call that became a dead letter.

        It is like `KeyedProcessHarness.of_failure`, with a key selector for each input.  Both
        inputs are at the watermark of the call.
        """
        options = settings_of_failure(failure_snapshot, state_backend, job_parameters, allow_pickle)
        made = cls.__new__(cls)
        first = key_selector1 or key_of_failure(options)
        made._key_selectors = (first, key_selector2 or first)
        for number, each in enumerate(made._key_selectors, 1):
            check_key_selector(each, f"key_selector{number}")
        _TwoInputs.__init__(made, function, options)
        return made

    def process_element1(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the first input.

        Args:
            value: An element as `process_element1` takes it.
            timestamp: Its event time in ms, if it has one.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function or the key selector raised.
            StateValueError: The key is None or of a type that cannot be a key.
        """
        return self._process(1, value, timestamp)

    def process_element2(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the second input, as `process_element1` does of the first."""
        return self._process(2, value, timestamp)

    def process_watermark1(self, watermark: int) -> list[Any]:
        """Set the first input's watermark in ms; return the main outputs of due timers."""
        return self._advance(_FIRST, watermark)

    def process_watermark2(self, watermark: int) -> list[Any]:
        """Set the second input's watermark in ms; return the main outputs of due timers."""
        return self._advance(_SECOND, watermark)

    def end_of_input1(self) -> list[Any]:
        """End the first input, so that the other's watermark counts; return the main outputs."""
        return self._advance(_FIRST, MAX_WATERMARK)

    def end_of_input2(self) -> list[Any]:
        """End the second input, so that the other's watermark counts; return the main outputs."""
        return self._advance(_SECOND, MAX_WATERMARK)

    def _process(self, number: int, value: Any, timestamp: int | None) -> list[Any]:
        # Before the key selector is called: a closed harness must not run code of the user.
        self._open_operator()
        if timestamp is not None:
            timestamp = check_time(timestamp, "the timestamp of an element")
        key = self._key_of(value, self._key_selectors[number - 1])
        return self._process_and_collect(key, (number, value), timestamp)


class BroadcastHarness(_TwoInputs):
    """A harness that drives one function with a broadcast input, synchronously.

    It starts at processing time 0 and both inputs at watermark `MIN_WATERMARK`, also if it is
    restored.  The operator's watermark is the smaller one of both, and never goes back.  It takes the
    options of `KeyedProcessHarness`.

    Args:
        function: A `KeyedBroadcastProcessFunction` or a `BroadcastProcessFunction`; it is opened at
            once.
        broadcast_states: The descriptors, as `broadcast` takes them on Spark.
        key_selector: Returns the key of an element; for a keyed function only.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: A broadcast state would expire, or pickled state is declared, which
            `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    @with_options
    def __init__(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]],
        key_selector: Callable[[Any], Any] | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        self._key_selector = _check_selector(key_selector, function)
        super().__init__(
            function,
            HarnessSettings.of(options),
            broadcast_states=broadcast_states,
        )

    @classmethod
    def of_failure(
        cls,
        failure_snapshot: bytes,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]],
        key_selector: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> BroadcastHarness:
        """Make a harness with the state before a call that became a dead letter.

        It is like `KeyedProcessHarness.of_failure`, with the broadcast states.  Both inputs are at
        the watermark of the call.  If an element of the broadcast input failed, the failure
        snapshot has the state of keys only if the call had read it.
        """
        options = settings_of_failure(failure_snapshot, state_backend, job_parameters, allow_pickle)
        made = cls.__new__(cls)
        if key_selector is None and kind_of(function).has_keys:
            key_selector = key_of_failure(options)
        made._key_selector = _check_selector(key_selector, function)
        _TwoInputs.__init__(made, function, options, broadcast_states=broadcast_states)
        return made

    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the input that is not broadcast.

        Args:
            value: An element as `process_element` takes it.
            timestamp: Its event time in ms, if it has one.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function or the key selector raised.
            StateValueError: The key is None or of a type that cannot be a key.
        """
        self._open_operator()
        timestamp = check_time(timestamp, "the timestamp of an element")
        selector = self._key_selector
        key = GROUP_KEY if selector is None else self._key_of(value, selector)
        return self._process_and_collect(key, value, timestamp)

    def process_broadcast_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the broadcast input; return the main outputs of this call.

        Args:
            value: An element as `process_broadcast_element` takes it.
            timestamp: Its event time in ms, if it has one.

        Raises:
            UserFunctionError: The function raised.
        """
        operator = self._open_operator()
        timestamp = check_time(timestamp, "the timestamp of an element")
        try:
            return self._collect(operator.process_broadcast, [(value, timestamp)])
        finally:
            # Each element is a task of its own, since no other key group has to repeat it.
            operator.end_task()

    def process_watermark(self, watermark: int) -> list[Any]:
        """Set the watermark in ms of the other input; return the main outputs of due timers."""
        return self._advance(_FIRST, watermark)

    def process_broadcast_watermark(self, watermark: int) -> list[Any]:
        """Set the broadcast input's watermark in ms; return the main outputs of due timers."""
        return self._advance(_SECOND, watermark)

    def end_of_input(self) -> list[Any]:
        """End the input that is not broadcast; return the main outputs."""
        return self._advance(_FIRST, MAX_WATERMARK)

    def end_of_broadcast_input(self) -> list[Any]:
        """End the broadcast input, so that the other watermark counts; return the main outputs."""
        return self._advance(_SECOND, MAX_WATERMARK)

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """Return a broadcast state, for reading between calls.

        Raises:
            DeclarationError: The state is not among `broadcast_states`.
        """
        return self._open_operator().broadcast_states.to_read(state_descriptor)


def _check_selector(
    key_selector: Callable[[Any], Any] | None, function: Any
) -> Callable[[Any], Any] | None:
    """Return the key selector, if the function needs one.

    Raises:
        DeclarationTypeError: A keyed function lacks one, or a function without keys has one.
    """
    if not kind_of(function).has_keys:
        if key_selector is None:
            return None
        msg = (
            f"a BroadcastProcessFunction has no keys, got key_selector={short_repr(key_selector)}; "
            "leave it out, or subclass KeyedBroadcastProcessFunction"
        )
        raise DeclarationTypeError(msg)
    check_key_selector(key_selector, "key_selector")
    return key_selector
