# SPDX-License-Identifier: Apache-2.0
"""Functions of batches of records, and the service for the timers of their keys.

A `KeyedBatchFunction` is a `KeyedProcessFunction` written over columns: it gets the same records in
the same order and has the same state on the same checkpoint, but runs no Python per record.  Each can
continue from the state of the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pyflinklike._clock import TimeDomain
from pyflinklike.columns.column_state import ColumnMapState, ColumnState
from pyflinklike.columns.keyed_batch import KeyedBatch
from pyflinklike.functions.contexts import RuntimeContext
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor
from pyflinklike.state.fold_functions import Function


class KeyedBatchFunction(Function, ABC):
    """A function of batches of records, with state and timers per key in columns.

    A batch has records of many keys, as many of each as the host has at hand.  Results must not
    depend on how the host cuts batches; `pyflinklike.columns.cuts` tests that.  There are no lists
    and no stores; use a `KeyedProcessFunction` for these.

        class RunningTotal(KeyedBatchFunction):
            def open(self, runtime_context):
                self.total = runtime_context.get_column_state(
                    ValueStateDescriptor("total", Types.LONG())
                )

            def process_batch(self, batch, ctx):
                groups = batch.groups
                totals = groups.running(np.add, batch["amount"], self.total.get(0))
                self.total.put(groups.last(totals))
                return {"user": batch["user"], "total": totals}
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
                DeclarationError: Another state is declared with the same name.
                DeclarationTypeError: It is a list or map state, or its type has no columns.
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
                DeclarationError: Another state is declared with the same name.
                DeclarationTypeError: It is not a map state, or its types have no columns.
                IncompatibleStateError: The state restored under the name does not fit.
            """

    class Context(ABC):
        """The context of `process_batch`; valid during that call only."""

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
        """The context of `on_timers`; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timers followed."""

    # This is not abstract, because a function without state needs no `open`.
    def open(self, runtime_context: KeyedBatchFunction.OpenContext) -> None:
        """Obtain the states; called once before the first batch."""

    @abstractmethod
    def process_batch(self, batch: KeyedBatch, ctx: KeyedBatchFunction.Context) -> Any:
        """Process the records of a batch.

        Args:
            batch: The records as columns, with their groups by key.
            ctx: The times, the timers, and the side outputs.

        Returns:
            The rows to emit: a mapping from names of columns to NumPy or Arrow arrays or lists of
            equal length, an Arrow record batch or table, a pandas or Polars DataFrame, or None
            for no rows.
        """

    # This is not abstract, because a function without timers needs no `on_timers`.
    def on_timers(self, batch: KeyedBatch, ctx: KeyedBatchFunction.OnTimersContext) -> Any:
        """Process timers that are due; a function that registers timers must have this method.

        For each key it is as in `on_timer`: its timers come one by one, in ascending time, each in
        a call of its own, and a timer registered or deleted in one call counts for the next.  A
        call has the earliest due timer of every key that has one, sorted by time.

        Args:
            batch: The timers.  No key comes twice, so records and groups are the same.  It has the
                key columns, and `batch.timestamps` has the registered times in ms.
            ctx: The times and their domain, the timers, and the side outputs.

        Returns:
            The rows to emit, in a form that `process_batch` may return.
        """
        raise NotImplementedError


class ColumnTimerService(ABC):
    """The clock, and the timers of the batch's keys.

    A method takes one timestamp for each group of the batch, or one for all: ints in ms, as a NumPy
    or Arrow array.  `where`, a NumPy array of bools, chooses among them.  If `codes` give the group
    of each timestamp, there may be any number of them: `codes=batch.groups.codes` takes one for each
    record.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time in ms; it stands still during a call."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the watermark in ms; `MIN_WATERMARK` before the first one."""

    @abstractmethod
    def register_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Register timers: `on_timers` is called when the watermark reaches their `timestamps`.

        Raises:
            DeclarationError: The function has no `on_timers`.
            SparkSetupError: The host cannot fire such timers; the message has the remedy.
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: The timestamps are not ints of 64 bits, or not as many as groups or
                codes.
        """

    @abstractmethod
    def register_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Register timers: `on_timers` is called when the processing time reaches `timestamps`."""

    @abstractmethod
    def delete_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete event-time timers of these keys, if they exist.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: The timestamps are not ints of 64 bits, or not as many as groups or
                codes.
        """

    @abstractmethod
    def delete_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete processing-time timers of these keys, as `delete_event_time_timer` does."""

    @abstractmethod
    def list_event_time_timers(self) -> tuple[Any, Any]:
        """Return the event-time timers of the batch's keys.

        Timers that are firing are not among them, because they are removed before the call.

        Returns:
            Two NumPy arrays of int64: the group of each timer, ascending, and its time in ms,
            ascending within a group.  They are `codes` and `timestamps` of the other methods.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """

    @abstractmethod
    def list_processing_time_timers(self) -> tuple[Any, Any]:
        """Return the processing-time timers of the batch's keys, as `list_event_time_timers`."""
