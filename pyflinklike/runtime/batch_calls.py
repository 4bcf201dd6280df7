# SPDX-License-Identifier: Apache-2.0
"""Every call of a `KeyedBatchFunction`: a batch at a time, with its keys' rows at hand."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.columns.table import BatchRows
from pyflinklike.errors import (
    DeclarationError,
    IncompatibleStateError,
    PyflinklikeError,
    UserFunctionError,
)
from pyflinklike.runtime.batch_context import BatchContext
from pyflinklike.runtime.batch_outputs import ColumnOutputs
from pyflinklike.runtime.batch_records import BatchKeys
from pyflinklike.runtime.calls import FunctionCalls
from pyflinklike.runtime.raised import where_raised
from pyflinklike.runtime.timer_queue import TimerQueue
from pyflinklike.shown import shown_error

__all__ = ["BatchCalls"]


@attrs.frozen
class BatchCalls(FunctionCalls):
    """Calls a function of batches.

    Args:
        backend: Has the key groups' columns.
        batch: Gets the rows of the batch's keys.
    """

    _backend: Any
    _batch: BatchRows

    def open(self, runtime_context: Any) -> None:
        """Have the function declare its states.

        Raises:
            DeclarationError: It has a method for timers, which would never be called.
            UserFunctionError: The function raised.
        """
        for method in ("on_timer", "on_timers", "process_element"):
            if hasattr(self.function, method):
                msg = (
                    f"a KeyedBatchFunction has process_batch and no timers, got {self.name()} "
                    f"with a method {method}; use a KeyedProcessFunction for timers"
                )
                raise DeclarationError(msg)
        super().open(runtime_context)

    def process(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Process the records of a batch of the current group.

        Args:
            keys: `BatchKeys`.
            values: A `KeyedBatch`.
            timestamps: Its event times in ms, or None.

        Raises:
            UserFunctionError: The function raised.
        """
        assert isinstance(keys, BatchKeys)
        outputs, batch = self.outputs, self._batch
        assert isinstance(outputs, ColumnOutputs)
        context = BatchContext(self._clock, outputs.emit_side_columns)
        batch.rows = self._backend.columns.rows_of(keys.column)
        batch.records = len(keys)
        batch.latest = _latest(values.groups, timestamps)
        try:
            for each in self._before:
                each()
            outputs.emit_columns(self.function.process_batch(values, context))
        except PyflinklikeError as error:
            _note(error, f"{self._told(values)}{where_raised(error)}")
            raise
        except Exception as error:
            msg = f"{self._told(values)}: {shown_error(error)}{where_raised(error)}"
            raise UserFunctionError(msg) from error
        finally:
            batch.rows = batch.latest = None

    def process_one(self, key: Any, value: Any, timestamp: int | None) -> None:
        """Nothing: no host hands over single records."""
        raise NotImplementedError

    def fire(self, queue: TimerQueue, now: int) -> int:  # noqa: ARG002
        """See that no timers were restored; a function of batches has none.

        Raises:
            IncompatibleStateError: There are some.
        """
        if queue.count():
            msg = (
                f"{self.name()}: a KeyedBatchFunction has no timers, got {queue.count()} in the "
                "state that it continues from; go on with the KeyedProcessFunction that "
                "registered them, at least until they have fired"
            )
            raise IncompatibleStateError(msg)
        return 0

    def _told(self, batch: Any) -> str:
        return (
            f"{self.name()}.process_batch failed for a batch of {len(batch)} records, "
            f"{len(batch.groups)} keys, columns {batch.column_names}"
        )


def _latest(groups: Any, timestamps: Any) -> Any:
    """The greatest timestamp of each key's records in ms."""
    if timestamps is None:
        return np.full(len(groups), MIN_WATERMARK, np.int64)
    latest = np.full(len(groups), MIN_WATERMARK, np.int64)
    np.maximum.at(latest, groups.codes, timestamps)
    return latest


def _note(error: PyflinklikeError, text: str) -> None:
    if hasattr(error, "add_note"):  # Python 3.10 has no notes
        error.add_note(text)
