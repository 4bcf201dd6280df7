# SPDX-License-Identifier: Apache-2.0
"""`KeyedBatchFunction`: a function of many records at a time, with state as columns.

It is a `KeyedProcessFunction` written over columns: the same records in the same order, the same
state on the same checkpoint, and no Python per record.  One of them can go on where the other
stopped.
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

    A batch has records of many keys, and of a key as many as the host has at hand.  What the
    function gives must not depend on where the host cuts batches; `pyflinklike.testing.cuts`
    tests that.  Lists and stores are not there: use a `KeyedProcessFunction` for these.
    """

    class OpenContext(RuntimeContext):
        """What `open` is handed: where the function runs, and its states."""

        @abstractmethod
        def get_column_state(self, state_descriptor: StateDescriptor[Any]) -> ColumnState:
            """The state declared so, as columns; the same one for the same declaration.

            Args:
                state_descriptor: Of a value, reducing or aggregating state.  A reduce or aggregate
                    function is not called: the column holds its values or accumulators.

            Raises:
                DeclarationError: The name is taken by a state that is declared otherwise.
                DeclarationTypeError: It is a list or map state, or of a type without columns.
                IncompatibleStateError: What was restored under the name does not fit.
            """

        @abstractmethod
        def get_column_map_state(
            self, state_descriptor: MapStateDescriptor[Any, Any]
        ) -> ColumnMapState:
            """The map state declared so, as columns; the same one for the same declaration.

            Args:
                state_descriptor: Of a map whose user keys are ints, bools, strings, bytes, dates or
                    timestamps, and whose values have columns.

            Raises:
                DeclarationError: The name is taken by a state that is declared otherwise.
                DeclarationTypeError: It is no map state, or of types without columns.
                IncompatibleStateError: What was restored under the name does not fit.
            """

    class Context(ABC):
        """What `process_batch` may ask; valid during that call only."""

        @abstractmethod
        def timer_service(self) -> ColumnTimerService:
            """The clock, and the timers of the batch's keys."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time in ms, the same for the whole call."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The watermark in ms, the same for the whole call; `MIN_WATERMARK` before the first."""

        @abstractmethod
        def output(self, tag: OutputTag, columns: Any) -> None:
            """Emit rows to a side output.

            Args:
                tag: Of the side output.
                columns: As `process_batch` returns them.
            """

    class OnTimersContext(Context):
        """What `on_timers` may ask; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timers followed."""

    # Not abstract: a function without state needs none.
    def open(self, runtime_context: KeyedBatchFunction.OpenContext) -> None:
        """Called once before the first batch; obtain the states here."""

    @abstractmethod
    def process_batch(self, batch: KeyedBatch, ctx: KeyedBatchFunction.Context) -> Any:
        """Process the records of a batch.

        Args:
            batch: The records as columns, and by key.
            ctx: The times, and the side outputs.

        Returns:
            The rows to emit: a mapping from names of columns to NumPy or Arrow arrays or lists of
            equal length, an Arrow record batch or table, a pandas or Polars DataFrame, or None
            for no rows.
        """

    # Not abstract: a function without timers needs none.
    def on_timers(self, batch: KeyedBatch, ctx: KeyedBatchFunction.OnTimersContext) -> Any:
        """Process timers that are due; a function that registers any must have it.

        To a key it is what `on_timer` is: its timers come one by one, in ascending time, each in a
        call of its own, and what is registered or deleted in one counts for the next.  A call has
        the earliest due timer of every key that has one, by time.

        Args:
            batch: The timers: no key twice, so records and groups are the same.  Its columns are
                those of the key, and `batch.timestamps` the times in ms for which the timers
                were registered.
            ctx: The times and their domain, timers, and the side outputs.

        Returns:
            The rows to emit, as of `process_batch`.
        """
        raise NotImplementedError
