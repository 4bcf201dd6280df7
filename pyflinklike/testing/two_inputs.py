# SPDX-License-Identifier: Apache-2.0
"""Run a function of two inputs element by element, with a watermark for each input.

As Flink's `KeyedTwoInputStreamOperatorTestHarness`.  Batches, backends and snapshots are as in
`KeyedProcessHarness`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyflinklike.api.co_process import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.testing.arguments import check_key_selector, checked_time
from pyflinklike.testing.operator_harness import OperatorHarness
from pyflinklike.testing.watermarks import InputWatermarks
from pyflinklike.types import TypeInformation

__all__ = ["KeyedTwoInputHarness"]


class KeyedTwoInputHarness(OperatorHarness):
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
        restore: What `snapshot` or `pyflinklike.spark.read_savepoint` returned.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any str, number, date or tuple of these.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.

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
    ) -> None:
        key_selector2 = key_selector1 if key_selector2 is None else key_selector2
        check_key_selector(key_selector1, "key_selector1")
        check_key_selector(key_selector2, "key_selector2")
        super().__init__(
            function,
            (KeyedCoProcessFunction, CoMapFunction, CoFlatMapFunction),
            state_backend,
            restore,
            max_parallelism,
            key_type,
            job_parameters,
            allow_pickle=allow_pickle,
        )
        self._key_selectors = (key_selector1, key_selector2)
        self._watermarks = InputWatermarks()

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
        return self._advance(1, watermark)

    def process_watermark2(self, watermark: int) -> list[Any]:
        """Set the second input's watermark in ms; return the main outputs of due timers."""
        return self._advance(2, watermark)

    def process_both_watermarks(self, watermark: int) -> list[Any]:
        """Set both watermarks in ms, the first input's first; return the main outputs."""
        return self._advance(1, watermark) + self._advance(2, watermark)

    def end_of_input1(self) -> list[Any]:
        """End the first input, so that the other's watermark counts; return the main outputs."""
        return self._advance(1, MAX_WATERMARK)

    def end_of_input2(self) -> list[Any]:
        """End the second input, so that the other's watermark counts; return the main outputs."""
        return self._advance(2, MAX_WATERMARK)

    def _process(self, number: int, value: Any, timestamp: int | None) -> list[Any]:
        self._running()
        if timestamp is not None:
            timestamp = checked_time(timestamp, "the timestamp of an element")
        key = self._key_of(value, self._key_selectors[number - 1])
        return self._processed(key, (number, value), timestamp)

    def _advance(self, number: int, watermark: int) -> list[Any]:
        operator = self._running()
        watermark = checked_time(watermark, "a watermark", required=True)
        least = self._watermarks.least(number, watermark)
        if least <= operator.clock.watermark:
            return []
        return self._moved(operator.advance_watermark, least)
