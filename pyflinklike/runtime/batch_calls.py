# SPDX-License-Identifier: Apache-2.0
"""Calls of a `KeyedBatchFunction`: each gets a batch of records, or of timers, with the rows of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from pyflinklike.api.keyed_batch import KeyedBatchFunction
from pyflinklike.columns.batch import KeyedBatch
from pyflinklike.columns.groups import Groups
from pyflinklike.columns.table import BatchRows
from pyflinklike.errors import (
    DeclarationError,
    IncompatibleStateError,
    PyflinklikeError,
    UserFunctionError,
)
from pyflinklike.runtime.batch_counters import ColumnMetrics
from pyflinklike.runtime.batch_keys import KeyColumns
from pyflinklike.runtime.batch_outputs import ColumnOutputs
from pyflinklike.runtime.batch_records import BatchKeys
from pyflinklike.runtime.calls import FunctionCalls
from pyflinklike.runtime.raised import where_raised
from pyflinklike.shown import shown_error

__all__ = ["BatchCalls", "has_on_timers"]


@attrs.frozen
class BatchCalls(FunctionCalls):
    """Calls a function of batches.

    Args:
        backend: Holds the columns of the current key group.
        batch: Shared with states and timers, which read from it the rows of the batch's keys.
        key_columns: Makes the key columns that a batch of timers shows.
    """

    _backend: Any
    _batch: BatchRows
    _key_columns: KeyColumns

    def open(self, runtime_context: Any) -> None:
        """Open the function, which declares its states.

        Raises:
            DeclarationError: The function has a method for single elements, never to be called.
            UserFunctionError: The function raised.
        """
        for method, instead in (("on_timer", "on_timers"), ("process_element", "process_batch")):
            if hasattr(self.function, method):
                msg = (
                    f"a KeyedBatchFunction has {instead}, got {self.name()} with a method "
                    f"{method}, which is never called; rename it, or use a KeyedProcessFunction"
                )
                raise DeclarationError(msg)
        super().open(runtime_context)

    def process(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Process the records of a batch of the current group.

        Args:
            keys: `BatchKeys`.
            values: A `KeyedBatch`.
            timestamps: The event times of the records in ms, or None.

        Raises:
            UserFunctionError: The function raised.
        """
        assert isinstance(keys, BatchKeys)
        rows = self._backend.columns.rows_of(keys.column)
        self._call(self.function.process_batch, rows, values, timestamps)

    def _call(self, method: Callable[..., Any], rows: Any, values: Any, timestamps: Any) -> None:
        """Call a method for a batch, and gather its outputs."""
        outputs, batch, metrics = self.outputs, self._batch, self._metrics
        assert isinstance(outputs, ColumnOutputs)
        assert isinstance(metrics, ColumnMetrics)
        metrics.touch_rows(self._backend.columns, rows)
        batch.rows, batch.records = rows, len(values)
        batch.codes, batch.timestamps = values.groups.codes, timestamps
        batch.latest = values.groups.latest(timestamps)
        try:
            for each in self._before:
                each()
            outputs.emit_columns(method(values, self._context), method.__name__)
        except PyflinklikeError as error:
            _note(error, f"{self._told(method, values)}{where_raised(error)}")
            raise
        except Exception as error:
            told = self._told(method, values)
            msg = f"{told}: {shown_error(error)}{where_raised(error)}"
            raise UserFunctionError(msg) from error
        finally:
            batch.end()

    def one_by_one(self) -> Callable[[Any, Any, int | None], None]:
        """Return a function that raises: no host hands over single records."""

        def refuse(*record: Any) -> None:
            raise NotImplementedError(record)

        return refuse

    def fire(self, queue: Any, now: int) -> int:
        """Fire the due timers of a queue, and return their number.

        Args:
            queue: A `ColumnTimerQueue` of the current group.
            now: The time of its domain in ms.

        Raises:
            IncompatibleStateError: There are timers, but the function has no `on_timers`.
            UserFunctionError: The function raised.
        """
        if queue.count() and not has_on_timers(self.function):
            msg = (
                f"{self.name()}: a KeyedBatchFunction without on_timers has no timers, got "
                f"{queue.count()} in the state that it continues from; give it on_timers, or go on "
                "with the function that registered them until they have fired"
            )
            raise IncompatibleStateError(msg)
        context: Any = self._context
        context.domain = queue.domain
        fired = 0
        due = queue.due(now)
        try:
            for rows, times in due:
                fired += len(rows)
                self._fire(rows, times)
        finally:
            due.close()  # if a call raised: timers not yet given stay due
            context.domain = None
        self._metrics.timers_fired += fired
        return fired

    def _fire(self, rows: Any, times: Any) -> None:
        """Call the function for timers, at most one for each key."""
        each = np.arange(len(rows))
        keys = self._key_columns.of(self._backend.columns.index.keys(rows))
        values = KeyedBatch(keys, Groups(each, each), times)
        # Timers give no time to TTL: a processing time must not stamp event-time TTL.
        self._call(self.function.on_timers, rows, values, None)

    def _told(self, method: Callable[..., Any], batch: Any) -> str:
        what = "timers" if self._context.domain is not None else "records"
        return (
            f"{self.name()}.{method.__name__} failed for a batch of {len(batch)} {what}, "
            f"{len(batch.groups)} keys, columns {batch.column_names}"
        )


def has_on_timers(function: Any) -> bool:
    """Return whether a function of batches has a method for timers."""
    return type(function).on_timers is not KeyedBatchFunction.on_timers


def _note(error: PyflinklikeError, text: str) -> None:
    if hasattr(error, "add_note"):  # Python 3.10 has no notes
        error.add_note(text)
