# SPDX-License-Identifier: Apache-2.0
"""A function of many records at a time, with state as columns.

A `KeyedBatchFunction` is a `KeyedProcessFunction` written over columns: the same records in the
same order, the same state on the same checkpoint, and no Python per record.  Either can go on where
the other stopped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pyflinklike.api.column_timers import ColumnTimerService
from pyflinklike.api.context import RuntimeContext
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.clock import TimeDomain
from pyflinklike.functions import Function

if TYPE_CHECKING:
    from pyflinklike.columns.batch import KeyedBatch
    from pyflinklike.columns.map_state import ColumnMapState
    from pyflinklike.columns.state import ColumnState
    from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor

__all__ = ["KeyedBatchFunction"]


class KeyedBatchFunction(Function, ABC):
    """A function of batches of records, with state and timers per key in columns.

    A batch has records of many keys, and of each key as many as the host has at hand.  Results must
    not depend on where the host cuts batches; `pyflinklike.testing.cuts` tests that.  There are no
    lists and stores: use a `KeyedProcessFunction` for these.
    """

    class OpenContext(RuntimeContext):
        """The context of `open`: where the function runs, and its states."""

        @abstractmethod
        def get_column_state(self, state_descriptor: StateDescriptor[Any]) -> ColumnState:
            """Return the state of this declaration as columns; the same one each time.

            Args:
                state_descriptor: The descriptor of a value, reducing or aggregating state.  A
                    reduce or aggregate function is not called: the column holds its values or
                    accumulators.

            Raises:
                DeclarationError: The name is taken by a state that is declared otherwise.
                DeclarationTypeError: It is a list or map state, or of a type without columns.
                IncompatibleStateError: The state restored under the name does not fit.
            """

        @abstractmethod
        def get_column_map_state(
            self, state_descriptor: MapStateDescriptor[Any, Any]
        ) -> ColumnMapState:
            """Return the map state of this declaration as columns; the same one each time.

            Args:
                state_descriptor: The descriptor of a map whose user keys are ints, bools, strings,
                    bytes, dates or timestamps, and whose values have columns.

            Raises:
                DeclarationError: The name is taken by a state that is declared otherwise.
                DeclarationTypeError: It is no map state, or of types without columns.
                IncompatibleStateError: The state restored under the name does not fit.
            """

    class Context(ABC):
        """What `process_batch` may ask; valid during that call only."""

        @abstractmethod
        def timer_service(self) -> ColumnTimerService:
            """Return the clock and the timers of the batch's keys."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in ms, the same for the whole call."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in ms, the same for the whole call; at first `MIN_WATERMARK`."""

        @abstractmethod
        def output(self, tag: OutputTag, columns: Any) -> None:
            """Emit rows to a side output.

            Args:
                tag: The tag of the side output.
                columns: The rows, in a form that `process_batch` may return.
            """

    class OnTimersContext(Context):
        """What `on_timers` may ask; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timers followed."""

    # Not abstract: a function without state needs none.
    def open(self, runtime_context: KeyedBatchFunction.OpenContext) -> None:
        """Obtain the states; called once before the first batch."""

    @abstractmethod
    def process_batch(self, batch: KeyedBatch, ctx: KeyedBatchFunction.Context) -> Any:
        """Process the records of a batch.

        Args:
            batch: The records as columns, and by key.
            ctx: The times, the timers, and the side outputs.

        Returns:
            The rows to emit: a mapping from names of columns to NumPy or Arrow arrays or lists of
            equal length, an Arrow record batch or table, a pandas or Polars DataFrame, or None
            for no rows.
        """

    # Not abstract: a function without timers needs none.
    def on_timers(self, batch: KeyedBatch, ctx: KeyedBatchFunction.OnTimersContext) -> Any:
        """Process timers that are due; a function that registers any must have it.

        Each key sees what it sees in `on_timer`: its timers come one by one, in ascending time,
        each in a call of its own, and a timer registered or deleted in one call counts for the
        next.  A call has the earliest due timer of every key that has one, sorted by time.

        Args:
            batch: The timers, no key twice, so records and groups are the same.  Its columns are
                those of the key, and `batch.timestamps` the times in ms for which the timers were
                registered.
            ctx: The times and their domain, the timers, and the side outputs.

        Returns:
            The rows to emit, as of `process_batch`.
        """
        raise NotImplementedError
