# SPDX-License-Identifier: Apache-2.0
"""Run a `KeyedProcessFunction` (or a map or filter) record by record, with time by assignment.

The harness is a host like Spark's: it drives the same operator over the same backends, and
`snapshot` returns the same durable format.  There is no thread and no clock: nothing happens but
your calls.

A *batch* is what a stream does as one: a call of `process_elements` or one that moves a clock, the
elements processed one by one before it, or whatever `end_batch` ends.  At its end a backend that
keeps working state on the disk has to write and read it, as in a stream.

Supported are all states, TTL in both time characteristics, timers of both domains, side outputs,
snapshot and restore, also into another backend or max parallelism.  Several parallel instances are
not: every key is in one key group.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyflinklike.api.map_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.testing.arguments import check_key_selector, checked_time
from pyflinklike.testing.operator_harness import OperatorHarness
from pyflinklike.types import TypeInformation

__all__ = ["KeyedProcessHarness"]


class KeyedProcessHarness(OperatorHarness):
    """A harness that drives one function, synchronously.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, restored or not.

    Args:
        function: The function under test; it is opened at once.
        key_selector: Returns the key of an element.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot` or `pyflinklike.spark.read_savepoint` returned; or the directory of
            a savepoint, as `savepoint` and `pyflinklike.spark.take_savepoint` write it.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any str, number, date or tuple of these.  A restored
            harness without one takes the keys of any snapshot.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.

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
        restore: bytes | str | os.PathLike[str] | None = None,
        max_parallelism: int = 128,
        key_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = True,
    ) -> None:
        check_key_selector(key_selector, "key_selector")
        super().__init__(
            function,
            (KeyedProcessFunction, MapFunction, FlatMapFunction, FilterFunction),
            state_backend,
            restore,
            max_parallelism,
            key_type,
            job_parameters,
            allow_pickle=allow_pickle,
        )
        self._key_selector = key_selector

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
            self._running()
        if timestamp is not None:
            timestamp = checked_time(timestamp, "the timestamp of an element")
        return self._processed(self._key_of(value, self._key_selector), value, timestamp)

    def process_elements(self, elements: Iterable[tuple[Any, int | None]]) -> list[Any]:
        """Process elements with their event times in ms, in this order; return the main outputs."""
        operator = self._running()
        values, timestamps = [], []
        for value, timestamp in elements:
            values.append(value)
            timestamps.append(checked_time(timestamp, "the timestamp of an element"))
        keys = [self._key_of(value, self._key_selector) for value in values]
        return self._collected(operator.process, keys, values, timestamps)

    def process_watermark(self, watermark: int) -> list[Any]:
        """Set the watermark in ms and fire its due event timers; return their main outputs."""
        operator = self._running()
        watermark = checked_time(watermark, "a watermark", required=True)
        return self._moved(operator.advance_watermark, watermark)

    def end_of_input(self) -> list[Any]:
        """Move the watermark to `MAX_WATERMARK`: event timers fire, and no processing timer.

        That is the end of a stream.  At the end of a batch processing timers fire after them.
        """
        return self.process_watermark(MAX_WATERMARK)
