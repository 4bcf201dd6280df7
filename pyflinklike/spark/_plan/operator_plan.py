# SPDX-License-Identifier: Apache-2.0
"""The plan of an operator: the decisions of the driver for a query, pickled for the hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

import attrs
from pyspark.sql import DataFrame

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Segment
from pyflinklike._clock import MIN_WATERMARK, Clock, TimeDomain
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import IncompatibleStateError, PyflinklikeError, SparkSetupError
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.record_readers import Reader
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import Function
from pyflinklike.types import TypeInformation


class TimeMode(Enum):
    """Spark's time mode of a query, by Spark's name for it."""

    NONE = "None"
    EVENT_TIME = "EventTime"
    PROCESSING_TIME = "ProcessingTime"

    def domain(self) -> TimeDomain | None:
        """Return the time domain by which Spark calls a key group without data, or None."""
        return {
            TimeMode.NONE: None,
            TimeMode.EVENT_TIME: TimeDomain.EVENT_TIME,
            TimeMode.PROCESSING_TIME: TimeDomain.PROCESSING_TIME,
        }[self]

    @property
    def passes_watermark(self) -> bool:
        """Whether Spark passes the watermark through an operator of this mode."""
        return self is not TimeMode.PROCESSING_TIME

    def restart_refusal(self, former: TimeMode, who: str) -> IncompatibleStateError:
        """Return the error for a program that continues a checkpoint of another mode.

        Args:
            former: The mode of the checkpoint.
            who: The operator, for the message.
        """
        words = {
            TimeMode.NONE: ("without event_time and processing-time timers", "leave both out"),
            TimeMode.EVENT_TIME: (
                "with event_time",
                'pass event_time="<column>" and no processing-time timers',
            ),
            TimeMode.PROCESSING_TIME: (
                "with processing-time timers",
                "pass processing_time_timers=True",
            ),
        }
        return IncompatibleStateError(
            f"{who}: its checkpoint was begun {words[former][0]}, got a program {words[self][0]}; "
            f"{words[former][1]} as before, or begin a new checkpoint with "
            "from_savepoint=read_savepoint(spark, <this checkpoint>)"
        )

    def timer_refusals(self) -> dict[TimeDomain, PyflinklikeError]:
        """Return an error with the remedy for each domain whose timers never fire in this mode."""
        event = SparkSetupError(
            "event-time timers on a stream need an event time, got process() without one; "
            'pass event_time="<timestamp column>"'
        )
        processing = SparkSetupError(
            "processing-time timers need Spark's processing-time mode, got a function whose code does "
            "not show that it uses them; pass processing_time_timers=True to process(), or in a job of "
            "the DataStream API call register_processing_time_timer by this name in the function itself"
        )
        refused: dict[TimeMode, dict[TimeDomain, PyflinklikeError]] = {
            TimeMode.NONE: {TimeDomain.EVENT_TIME: event, TimeDomain.PROCESSING_TIME: processing},
            TimeMode.EVENT_TIME: {TimeDomain.PROCESSING_TIME: processing},
            TimeMode.PROCESSING_TIME: {},
        }
        return refused[self]


class StatePart(Protocol):
    """The state of the key groups of one task, which it writes at the end of a batch."""

    def add(self, index: int, record: OperatorRecord, state: Segment, clock: Clock) -> None:
        """Write all state of one key group.

        Args:
            index: The number of the key group.
            record: The record of the operator, with the states that it has declared by now.
            state: A snapshot that can be read without another one.
            clock: The clock of the operator at the end of the batch.
        """

    def finish(self) -> None:
        """Make the written files part of the savepoint."""

    def abandon(self) -> None:
        """Delete the files of a task that failed."""


class BatchState(Protocol):
    """The savepoint that a batch writes."""

    @property
    def delay(self) -> int | None:
        """How late records may be, in ms; None if they are not in the order of event times."""

    def open_part(self, execution: str) -> StatePart:
        """Begin to write the state of one task.

        Args:
            execution: Spark's id of the action that runs the batch, because one may run it twice.
        """


@attrs.frozen
class Plan:
    """The settings of an operator that workers need, pickled once per query.

    Args:
        function: The user's function, not yet open.
        state_backend: Makes the working state of key groups.
        key_type: The type of the keys.
        task: The task; only a worker knows its index and attempt.
        time_mode: The time mode of the query.
        reader: Reads records from payloads.
        layout: The layout of the outputs.
        plan_id: Distinguishes the working states of two queries in the same worker.
        keeps_open: Whether the function may serve one task after another.
        allow_pickle: Whether state may be unpickled.
        broadcast_states: The states of the broadcast input, if there is one.
        timed_outputs: Whether outputs come to the layout with their times.
        first_output: The number of its main output; operators with a lower index in the same state
            operator have the numbers before.
        saved: The declarations of the states in the savepoint that the query begins with.
        calls_all_key_groups: Whether processing timers fire in event-time mode, because the host
            calls key groups for them.
        reassigner: The number of the node behind another operator that reassigns the timestamps of
            the elements, and so makes the watermark; None if Spark makes it.
        reassigners: The `reassigner` of all operators that share the state operator, in order.
        key_groups: Returns the number of key groups for a number of Spark's partitions; None if
            the program gives the number, or the session does not show its partitions.
        on_error: Makes dead letters of records and timers on which the function raises.
        drop_states: The names of states to remove from the log.
        history: Writes the state of the operator at the end of a batch; None to keep no state.
        least_watermark: The watermark in ms of the batch whose state a stream begins with.
    """

    function: Function
    state_backend: StateBackend
    key_type: TypeInformation
    task: TaskInfo
    time_mode: TimeMode
    reader: Reader
    layout: OutputLayout
    plan_id: str
    keeps_open: bool = True
    allow_pickle: bool = attrs.field(default=True, kw_only=True)
    broadcast_states: tuple[MapStateDescriptor, ...] = attrs.field(default=(), kw_only=True)
    timed_outputs: bool = attrs.field(default=False, kw_only=True)
    first_output: int = attrs.field(default=0, kw_only=True)
    saved: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict, kw_only=True)
    key_groups: Callable[[int], int] | None = attrs.field(default=None, kw_only=True)
    calls_all_key_groups: bool = attrs.field(default=False, kw_only=True)
    on_error: DeadLetters | None = attrs.field(default=None, kw_only=True)
    drop_states: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    reassigner: int | None = attrs.field(default=None, kw_only=True)
    reassigners: tuple[int, ...] = attrs.field(default=(), kw_only=True)
    history: BatchState | None = attrs.field(default=None, kw_only=True)
    least_watermark: int = attrs.field(default=MIN_WATERMARK, kw_only=True)

    def timer_refusals(self) -> dict[TimeDomain, PyflinklikeError]:
        """Return an error with the remedy for each domain whose timers never fire."""
        refused = self.time_mode.timer_refusals()
        if self.calls_all_key_groups:
            refused.pop(TimeDomain.PROCESSING_TIME, None)
        return refused

    def show_key(self, key: Any) -> Any:
        """Return the user's form of the key of an output; None if the output has no key."""
        return None if key is GROUP_KEY else self.key_type.thaw_key(key)

    def reports_phases(self) -> bool:
        """Return whether the next operator must know which outputs came before the watermark."""
        if self.layout.before_watermark is not None or not self.time_mode.passes_watermark:
            return False
        return self.reader.before_watermark is not None or self.time_mode is TimeMode.EVENT_TIME

    def keeps_former_watermark(self) -> bool:
        """Return whether the operator must know the watermark of the last micro-batch."""
        return self.reader.before_watermark is not None and self.time_mode is not TimeMode.NONE


Initial = list[tuple[int, bytes]] | DataFrame | None
"""The state that a stream begins with: grouping keys with a registry or segment; None for no state."""
