# SPDX-License-Identifier: Apache-2.0
"""Harnesses: run one function without Spark, with time by assignment.

A harness is a host like Spark's: it drives the same operator over the same backends, and `snapshot`
returns the same durable format.  There is no thread and no clock: nothing happens but your calls.

A *batch* is what a stream does as one: the elements of a call of `process_elements` and those that
were processed one by one before it, or what came before a call of `end_batch`.  At its end a backend
that keeps working state on the disk has to write and read it, as in a stream.  A call that moves a
clock ends no batch.

Supported are all states, TTL in both time characteristics, timers of both domains, side outputs,
snapshot and restore, also into another backend, max parallelism or kind of harness.  Several
parallel instances are not: every key is in one key group.  With two inputs each has its own
watermark, as in Flink's `KeyedTwoInputStreamOperatorTestHarness` and
`BroadcastOperatorTestHarness`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyflinklike._changelog.entry_codec import encode_columns
from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._messages import shown, shown_message
from pyflinklike._runtime.capsule import FailedCall
from pyflinklike._type_vars import K, V
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.functions.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.functions.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.state.broadcast_state import ReadOnlyBroadcastState
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.testing.operator_harness import (
    HarnessOptions,
    OperatorHarness,
    SavedState,
    check_key_selector,
    check_time,
    key_of_failure,
    read_failure,
)
from pyflinklike.types import TypeInformation
from pyflinklike.types.key_codec import AnyKeyTypeInfo

__all__ = [
    "BroadcastHarness",
    "KeyedBatchHarness",
    "KeyedProcessHarness",
    "KeyedTwoInputHarness",
]


_ONE_INPUT = (KeyedProcessFunction, MapFunction, FlatMapFunction, FilterFunction)
_TWO_INPUTS = (KeyedCoProcessFunction, CoMapFunction, CoFlatMapFunction)
_WITH_BROADCAST = (KeyedBroadcastProcessFunction, BroadcastProcessFunction)


def _options_of(
    failed: FailedCall,
    state_backend: StateBackend | None,
    job_parameters: Mapping[str, str] | None,
    *,
    allow_pickle: bool,
) -> HarnessOptions:
    """Return the options of a harness in the state that a call began with."""
    return HarnessOptions(
        state_backend=state_backend,
        restore=None,
        max_parallelism=failed.facts.max_parallelism,
        key_type=failed.key_type,
        job_parameters=job_parameters,
        allow_pickle=allow_pickle,
        failed=failed,
    )


class KeyedProcessHarness(OperatorHarness):
    """A harness that drives one function, synchronously.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, restored or not.

    Args:
        function: The function under test; it is opened at once.
        key_selector: Returns the key of an element.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot` returned; or `read_savepoint` or `open_savepoint` of
            `pyflinklike.state_processor`.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any str, number, date or tuple of these.  A restored
            harness without one takes the keys of any snapshot.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.
        on_error: `DeadLetters` to keep elements and timers on which the function raises.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: Pickled state is declared, which `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: KeyedProcessFunction | MapFunction | FlatMapFunction | FilterFunction,
        key_selector: Callable[[Any], Any],
        state_backend: StateBackend | None = None,
        restore: bytes | SavedState | None = None,
        max_parallelism: int = 128,
        key_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = True,
        *,
        on_error: DeadLetters | None = None,
    ) -> None:
        check_key_selector(key_selector, "key_selector")
        super().__init__(
            function,
            _ONE_INPUT,
            HarnessOptions(
                state_backend=state_backend,
                restore=restore,
                max_parallelism=max_parallelism,
                key_type=key_type,
                job_parameters=job_parameters,
                allow_pickle=allow_pickle,
                on_error=on_error,
            ),
        )
        self._key_selector = key_selector

    @classmethod
    def of_failure(
        cls,
        capsule: bytes,
        function: KeyedProcessFunction | MapFunction | FlatMapFunction | FilterFunction,
        key_selector: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> KeyedProcessHarness:
        """Make a harness in the state that a call began with which became a dead letter.

        `replay()` makes that call again.  Key type, task, watermark and processing time are those of
        the call, and of all keys only its own has state.

        Args:
            capsule: The column of the letter.
            function: The function that failed, or a mended one with the same states.
            key_selector: Returns the key of further elements; by default all have the call's key.
            state_backend: Where state is kept; `HashMapStateBackend()` by default.
            job_parameters: Values for `get_job_parameter`, by name, which a capsule has not.
            allow_pickle: Whether the element and state may be unpickled: whoever wrote the letter
                may then run code here.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is of the wrong kind, or there is
                a pickle, which `allow_pickle` refuses.
            CorruptStateError: The capsule is damaged.
            IncompatibleStateError: The function declares its states in another way, or has other
                inputs.
        """
        failed = read_failure(capsule, allow_pickle=allow_pickle)
        options = _options_of(failed, state_backend, job_parameters, allow_pickle=allow_pickle)
        made = cls.__new__(cls)
        made._key_selector = key_selector or key_of_failure(failed)
        check_key_selector(made._key_selector, "key_selector")
        OperatorHarness.__init__(made, function, _ONE_INPUT, options)
        return made

    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element.

        Args:
            value: The element.
            timestamp: Its event time in ms, if it has one.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function or the key selector raised.
            StateValueError: The key is None or of a type that cannot be a key.
        """
        if self._closed:
            self._open_operator()
        if timestamp is not None:
            timestamp = check_time(timestamp, "the timestamp of an element")
        return self._process_and_collect(self._key_of(value, self._key_selector), value, timestamp)

    def process_elements(self, elements: Iterable[tuple[Any, int | None]]) -> list[Any]:
        """Process elements with their event times in ms, in this order; return the main outputs."""
        operator = self._open_operator()
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

        That is the end of a stream.  At the end of a batch processing timers fire after them.
        """
        return self.process_watermark(MAX_WATERMARK)


_FIRST, _SECOND = 1, 2


class _TwoInputs(OperatorHarness):
    """A harness with a watermark for each of two inputs, the smaller of which counts."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._watermarks = dict.fromkeys((_FIRST, _SECOND), self.watermark)

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

    It starts at processing time 0, and both inputs at watermark `MIN_WATERMARK`, restored or not.
    The operator's watermark is the smaller one of both, and never goes back.  As in Flink, timers
    fire when it moves: a timer registered for a time that it has passed waits until it moves again.

    Args:
        function: A `KeyedCoProcessFunction`, `CoMapFunction` or `CoFlatMapFunction`; it is opened
            at once.
        key_selector1: Returns the key of an element of the first input.
        key_selector2: Returns the key of an element of the second input; by default as the first.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot` or `pyflinklike.state_processor.read_savepoint` returned.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any str, number, date or tuple of these.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.
        on_error: `DeadLetters` to keep elements and timers on which the function raises.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: Pickled state is declared, which `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: KeyedCoProcessFunction | CoMapFunction | CoFlatMapFunction,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        restore: bytes | None = None,
        max_parallelism: int = 128,
        key_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = True,
        on_error: DeadLetters | None = None,
    ) -> None:
        key_selector2 = key_selector1 if key_selector2 is None else key_selector2
        check_key_selector(key_selector1, "key_selector1")
        check_key_selector(key_selector2, "key_selector2")
        super().__init__(
            function,
            _TWO_INPUTS,
            HarnessOptions(
                state_backend=state_backend,
                restore=restore,
                max_parallelism=max_parallelism,
                key_type=key_type,
                job_parameters=job_parameters,
                allow_pickle=allow_pickle,
                on_error=on_error,
            ),
        )
        self._key_selectors = (key_selector1, key_selector2)

    @classmethod
    def of_failure(
        cls,
        capsule: bytes,
        function: KeyedCoProcessFunction | CoMapFunction | CoFlatMapFunction,
        key_selector1: Callable[[Any], Any] | None = None,
        key_selector2: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> KeyedTwoInputHarness:
        """Make a harness in the state that a call began with which became a dead letter.

        As `KeyedProcessHarness.of_failure`, with a key selector for each input.  Both inputs are at
        the watermark of the call.
        """
        failed = read_failure(capsule, allow_pickle=allow_pickle)
        options = _options_of(failed, state_backend, job_parameters, allow_pickle=allow_pickle)
        made = cls.__new__(cls)
        first = key_selector1 or key_of_failure(failed)
        made._key_selectors = (first, key_selector2 or first)
        for number, each in enumerate(made._key_selectors, 1):
            check_key_selector(each, f"key_selector{number}")
        _TwoInputs.__init__(made, function, _TWO_INPUTS, options)
        return made

    def process_element1(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the first input.

        Args:
            value: The element.
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

    def process_both_watermarks(self, watermark: int) -> list[Any]:
        """Set both watermarks in ms, the first input's first; return the main outputs."""
        return self._advance(_FIRST, watermark) + self._advance(_SECOND, watermark)

    def end_of_input1(self) -> list[Any]:
        """End the first input, so that the other's watermark counts; return the main outputs."""
        return self._advance(_FIRST, MAX_WATERMARK)

    def end_of_input2(self) -> list[Any]:
        """End the second input, so that the other's watermark counts; return the main outputs."""
        return self._advance(_SECOND, MAX_WATERMARK)

    def _process(self, number: int, value: Any, timestamp: int | None) -> list[Any]:
        self._open_operator()
        if timestamp is not None:
            timestamp = check_time(timestamp, "the timestamp of an element")
        key = self._key_of(value, self._key_selectors[number - 1])
        return self._process_and_collect(key, (number, value), timestamp)


class BroadcastHarness(_TwoInputs):
    """A harness that drives one function with a broadcast input, synchronously.

    It starts at processing time 0, and both inputs at watermark `MIN_WATERMARK`, restored or not.
    The operator's watermark is the smaller one of both, and never goes back.

    Args:
        function: A `KeyedBroadcastProcessFunction` or a `BroadcastProcessFunction`; it is opened at
            once.
        broadcast_states: The descriptors that `broadcast` would be given.
        key_selector: Returns the key of an element; for a keyed function only.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot` or `pyflinklike.state_processor.read_savepoint` returned.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any str, number, date or tuple of these.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.
        on_error: `DeadLetters` to keep elements and timers on which the function raises.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: A broadcast state would expire, or pickled state is declared, which
            `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]],
        key_selector: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        restore: bytes | None = None,
        max_parallelism: int = 128,
        key_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = True,
        on_error: DeadLetters | None = None,
    ) -> None:
        self._key_selector = _check_selector(key_selector, function)
        super().__init__(
            function,
            _WITH_BROADCAST,
            HarnessOptions(
                state_backend=state_backend,
                restore=restore,
                max_parallelism=max_parallelism,
                key_type=key_type,
                job_parameters=job_parameters,
                allow_pickle=allow_pickle,
                on_error=on_error,
            ),
            broadcast_states=broadcast_states,
        )

    @classmethod
    def of_failure(
        cls,
        capsule: bytes,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]],
        key_selector: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> BroadcastHarness:
        """Make a harness in the state that a call began with which became a dead letter.

        As `KeyedProcessHarness.of_failure`, with the broadcast states.  Both inputs are at the
        watermark of the call.  For an element of the broadcast input the capsule has the state of
        keys only where the call had read it.
        """
        failed = read_failure(capsule, allow_pickle=allow_pickle)
        options = _options_of(failed, state_backend, job_parameters, allow_pickle=allow_pickle)
        made = cls.__new__(cls)
        if key_selector is None and isinstance(function, KeyedBroadcastProcessFunction):
            key_selector = key_of_failure(failed)
        made._key_selector = _check_selector(key_selector, function)
        _TwoInputs.__init__(
            made, function, _WITH_BROADCAST, options, broadcast_states=broadcast_states
        )
        return made

    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the input that is not broadcast.

        Args:
            value: The element.
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
            value: The element.
            timestamp: Its event time in ms, if it has one.

        Raises:
            UserFunctionError: The function raised.
        """
        operator = self._open_operator()
        timestamp = check_time(timestamp, "the timestamp of an element")
        try:
            return self._collect(operator.process_broadcast, [(value, timestamp)])
        finally:
            # Each element is a task of its own: there are no other key groups to repeat it in.
            operator.end_task()

    def process_watermark(self, watermark: int) -> list[Any]:
        """Set the watermark in ms of the other input; return the main outputs of due timers."""
        return self._advance(_FIRST, watermark)

    def process_broadcast_watermark(self, watermark: int) -> list[Any]:
        """Set the broadcast input's watermark in ms; return the main outputs of due timers."""
        return self._advance(_SECOND, watermark)

    def process_both_watermarks(self, watermark: int) -> list[Any]:
        """Set both watermarks in ms; return the main outputs."""
        return self._advance(_FIRST, watermark) + self._advance(_SECOND, watermark)

    def end_of_input(self) -> list[Any]:
        """End the input that is not broadcast; return the main outputs."""
        return self._advance(_FIRST, MAX_WATERMARK)

    def end_of_broadcast_input(self) -> list[Any]:
        """End the broadcast input, so that the other watermark counts; return the main outputs."""
        return self._advance(_SECOND, MAX_WATERMARK)

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """Return a broadcast state, to be looked into between calls.

        Raises:
            DeclarationError: The state is not among `broadcast_states`.
        """
        return self._open_operator().broadcast_states.to_read(state_descriptor)


def _check_selector(
    key_selector: Callable[[Any], Any] | None, function: Any
) -> Callable[[Any], Any] | None:
    """Return the key selector, if the function needs one.

    Raises:
        DeclarationTypeError: A keyed function has none, or one without keys has one.
    """
    if isinstance(function, BroadcastProcessFunction):
        if key_selector is None:
            return None
        msg = (
            f"a BroadcastProcessFunction has no keys, got key_selector={shown(key_selector)}; "
            "leave it out, or subclass KeyedBroadcastProcessFunction"
        )
        raise DeclarationTypeError(msg)
    check_key_selector(key_selector, "key_selector")
    return key_selector


class KeyedBatchHarness(OperatorHarness):
    """A harness that drives one function of batches, synchronously.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, restored or not.

    Args:
        function: The function under test; it is opened at once.
        key_columns: Name of the column that is the key, or names of several.
        event_time: Name of the column of event times: timestamps, or ints of ms.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot`, here or of a `KeyedProcessHarness`, or
            `pyflinklike.state_processor.read_savepoint` returned.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any.  Keys of ints and strings are faster if it says
            so: `Types.LONG()`, `Types.STRING()`.  Floats and decimals are left to the default.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.
        on_error: `DeadLetters` to keep records and timers on which the function raises.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: The backend has no columns, or keys of that type cannot be a column.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: KeyedBatchFunction,
        key_columns: str | Sequence[str],
        event_time: str | None = None,
        state_backend: StateBackend | None = None,
        restore: bytes | None = None,
        max_parallelism: int = 128,
        key_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = True,
        *,
        on_error: DeadLetters | None = None,
    ) -> None:
        names = (key_columns,) if isinstance(key_columns, str) else tuple(key_columns)
        super().__init__(
            function,
            (KeyedBatchFunction,),
            HarnessOptions(
                state_backend=state_backend,
                restore=restore,
                max_parallelism=max_parallelism,
                key_type=key_type,
                job_parameters=job_parameters,
                allow_pickle=allow_pickle,
                on_error=on_error,
            ),
            key_columns=names,
        )
        self._read_by(names, key_type or AnyKeyTypeInfo(), event_time)

    def _read_by(self, names: tuple[str, ...], key_type: TypeInformation, time: str | None) -> None:
        """Read records by these key columns and this event time from now on."""
        # Imported only here, because it needs NumPy.
        from pyflinklike.columns.columnar_records import ColumnReader
        from pyflinklike.columns.keyed_batch import KeyReader, frozen_keys

        reader = KeyReader(names, key_type, lambda columns: frozen_keys(key_type, columns))
        self._reader = ColumnReader(reader, time)

    @classmethod
    def of_failure(
        cls,
        capsule: bytes,
        function: KeyedBatchFunction,
        event_time: str | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> KeyedBatchHarness:
        """Make a harness in the state that a record or timer met which became a dead letter.

        As `KeyedProcessHarness.of_failure`.  The key columns are those of the letter; `event_time`
        is the column of event times of further records.
        """
        failed = read_failure(capsule, allow_pickle=allow_pickle)
        options = _options_of(failed, state_backend, job_parameters, allow_pickle=allow_pickle)
        names = tuple(name for name, _ in failed.facts.key_columns) or ("key",)
        made = cls.__new__(cls)
        OperatorHarness.__init__(made, function, (KeyedBatchFunction,), options, key_columns=names)
        made._read_by(names, failed.key_type, event_time)
        return made

    def replay(self) -> pa.Table:
        """Make the call again that failed, for its one record or timer: `OperatorHarness.replay`."""
        return _table(super().replay())

    def process_batch(self, columns: Any) -> pa.Table:
        """Process records; those with an event time in its order, as a stream does.

        Args:
            columns: A mapping from names to lists, NumPy or Arrow arrays, an Arrow record batch or
                table, or a pandas DataFrame.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function raised.
            StateValueError: A record has no key, or a key or event-time column is missing.
        """
        operator = self._open_operator()
        records = self._reader.read(self._check(columns))
        return _table(self._collect(operator.process, *records) if len(records.keys) else [])

    def process_watermark(self, watermark: int) -> pa.Table:
        """Set the watermark in ms and fire its due timers; return their main outputs."""
        operator = self._open_operator()
        watermark = check_time(watermark, "a watermark", required=True)
        return _table(self._move(operator.advance_watermark, watermark))

    def set_processing_time(self, processing_time: int) -> pa.Table:
        """Set the processing time in ms and fire its due timers; return their main outputs."""
        return _table(super().set_processing_time(processing_time))

    def end_of_input(self) -> pa.Table:
        """Set the watermark to `MAX_WATERMARK`, so that every event-time timer fires."""
        return self.process_watermark(MAX_WATERMARK)

    def num_keyed_state_bytes(self, name: str) -> int:
        """Count the bytes that the entries of a state take in a snapshot, before it is compressed.

        Raises:
            StateAccessError: The function has not declared such a state.
        """
        contents: list[Any] = self._contents(name)
        key_type = self._operator.key_type
        return sum(sum(map(len, encode_columns(each, key_type))) for each in contents)

    def _check(self, columns: Any) -> pa.RecordBatch:
        records = _batch_of(columns)
        names = records.schema.names
        wanted = (*self._reader.key_columns, self._reader.event_time)
        for name in wanted:
            if name is not None and name not in names:
                msg = f"records need the column {name!r}, got columns {names}; add it"
                raise StateValueError(msg)
        return records


def _table(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches) if batches else pa.table({})


def _batch_of(columns: Any) -> pa.RecordBatch:
    try:
        if isinstance(columns, Mapping):
            columns = pa.table(dict(columns))
        elif hasattr(columns, "iloc"):  # pandas
            columns = pa.Table.from_pandas(columns, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        msg = f"records must be columns of Arrow's types, got {shown_message(error)}"
        raise StateValueError(msg) from error
    if isinstance(columns, pa.RecordBatch):
        return columns
    if not isinstance(columns, pa.Table):
        msg = (
            f"process_batch takes a mapping, an Arrow batch or table, or a pandas DataFrame, got "
            f"{shown(columns)}; for example {{'user': ['ann'], 'amount': [3]}}"
        )
        raise DeclarationTypeError(msg)
    batches = columns.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=columns.schema)
