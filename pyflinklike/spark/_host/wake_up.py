# SPDX-License-Identifier: Apache-2.0
"""The timer that makes Spark call a key group although it has no records.

Spark holds one timer per key group.  The operator's own queues decide which of the function's
timers fire then.  The time mode of the query decides when Spark calls a key group:

| mode           | chosen when                          | event timers       | processing timers  |
|----------------|--------------------------------------|--------------------|--------------------|
| None           | neither of the below                 | refused            | refused            |
| EventTime      | `event_time` is given                | as the watermark moves | refused; in jobs see below |
| ProcessingTime | the function has processing timers   | at every trigger   | at every trigger   |

A job of the DataStream API may have processing timers in the mode EventTime.  The processing time is
the time of the micro-batch, so a due timer fires when its key group is called for records.  An
unbounded job calls all key groups at every trigger (`pyflink._spark`).  A bounded job calls each key
group with such timers at its end: due timers fire and the others are dropped, as in Flink.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pyflinklike._changelog.log_storage import Head
from pyflinklike._clock import MAX_WATERMARK, TimeDomain
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import BatchResult, TimerScheduling
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.system_columns import ENDED

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle


class Times(Protocol):
    """The times of a micro-batch, in ms."""

    @property
    def processing_time(self) -> int:
        """The wall clock at the beginning of the micro-batch."""

    @property
    def watermark(self) -> int:
        """The watermark."""


def find_timer_scheduling(
    mode: TimeMode, *, has_reassigned_timestamps: bool = False
) -> TimerScheduling:
    """Return how Spark calls a key group without records in a time mode.

    Args:
        mode: The time mode of the query.
        has_reassigned_timestamps: Whether the operator has a watermark that Spark does not know.  Then a task
            before it calls all key groups, and Spark calls them only at the end.
    """
    if has_reassigned_timestamps:
        return TimerScheduling(mode.domain(), _at_the_end)
    policies = {TimeMode.EVENT_TIME: _by_watermark, TimeMode.PROCESSING_TIME: _by_trigger}
    policy = policies.get(mode)
    return TimerScheduling() if policy is None else TimerScheduling(mode.domain(), policy)


def find_wanted_call(
    mode: TimeMode, times: Times, earliest: Mapping[TimeDomain, int]
) -> int | None:
    """Return the latest time in ms at which to call a key group; None if it needs no call.

    Args:
        mode: The time mode of the query.
        times: The times of the micro-batch that served the group, or of a later one.
        earliest: The time of the first timer in ms, by domain; a domain without timers is missing.
    """
    event = earliest.get(TimeDomain.EVENT_TIME)
    if mode is TimeMode.EVENT_TIME:
        processing = earliest.get(TimeDomain.PROCESSING_TIME)
        return _as_watermark_moves(times, event, processing, None)
    if mode is TimeMode.PROCESSING_TIME:
        return _at_triggers(times, event, earliest.get(TimeDomain.PROCESSING_TIME), None)
    return None


def replace_timer(handle: StatefulProcessorHandle, served: BatchResult, fired: int | None) -> None:
    """Ask Spark to call the current key group at the time in its new head.

    Args:
        handle: Spark's handle of the current key group.
        served: The heads before and after the micro-batch.
        fired: The expiry in ms of the Spark timer that Spark is handling now, or None.
    """
    former, wake_at = _wake_of(served.former), _wake_of(served.head)
    if wake_at == former:
        return
    # Spark itself deletes the timer whose expiry it is handling.
    if former is not None and former != fired:
        handle.deleteTimer(former)
    if wake_at is not None:
        handle.registerTimer(wake_at)


def _by_watermark(operator: KeyedProcessOperator, sweep_at: int | None) -> int | None:
    event = operator.earliest_timer(operator.event_timers)
    processing = operator.earliest_timer(operator.processing_timers)
    return _as_watermark_moves(operator.clock, event, processing, sweep_at)


def _by_trigger(operator: KeyedProcessOperator, sweep_at: int | None) -> int | None:
    event = operator.earliest_timer(operator.event_timers)
    processing = operator.earliest_timer(operator.processing_timers)
    return _at_triggers(operator.clock, event, processing, sweep_at)


def _at_the_end(operator: KeyedProcessOperator, sweep_at: int | None) -> int | None:
    if operator.clock.watermark == MAX_WATERMARK:
        return None
    queues = operator.event_timers, operator.processing_timers
    times = [sweep_at, *map(operator.earliest_timer, queues)]
    return None if times == [None] * len(times) else ENDED


def _as_watermark_moves(
    times: Times, event: int | None, processing: int | None, sweep_at: int | None
) -> int | None:
    # If a timer is still due, on_timer has registered it, and it waits until its clock moves on.
    # For a time that has come, Spark would call again in this very micro-batch.
    if times.watermark == MAX_WATERMARK:
        return None  # the watermark cannot move any more
    # Before the first event, Spark's watermark is 0, and ours is far below it.
    at_end = None if processing is None else ENDED
    wake_at = _earlier(
        event, _earlier(sweep_at, at_end, at_least=1), at_least=max(times.watermark + 1, 1)
    )
    return None if wake_at is None else min(wake_at, ENDED)


def _at_triggers(
    times: Times, event: int | None, processing: int | None, sweep_at: int | None
) -> int | None:
    # In this mode Spark calls by processing time alone.  A key group with an event timer is called
    # in the next micro-batch, because the watermark of any micro-batch may fire the timer.
    next_batch = times.processing_time + 1
    if event is not None:
        return next_batch
    # A timer that is still due waits for the next micro-batch, as above.
    return _earlier(processing, sweep_at, at_least=next_batch)


def _wake_of(head: Head | None) -> int | None:
    return None if head is None else head.wake_at


def _earlier(one: int | None, other: int | None, at_least: int) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return max(min(known), at_least) if known else None
