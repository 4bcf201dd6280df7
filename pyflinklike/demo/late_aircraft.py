# SPDX-License-Identifier: Apache-2.0
"""Aircraft that are late three flights running, and aircraft that have gone silent.

The function gives the same results in the harness, on a batch and on a stream, although time passes
differently in each.  TTL and event timers follow the watermark.  On a stream it lags behind the
records, by as much as a micro-batch is long; in a batch it stays at its minimum until all records
are processed.  Three rules make the results independent of that, for any function:

1. **Decide by the timestamps of the elements.**  They are in the data.  The watermark depends on
   the run.
2. **Let TTL bound the state, not define the result.**  TTL removes the history of an aircraft *some
   time after* seven days of silence.  The function checks the gap itself, so it does not matter
   whether an expired history is still there.
3. **Let a timer's time say everything.**  `on_timer` reports only what follows from the timer's
   time.  A flight within seven days deletes the timer of the flight before.  A later flight leaves
   it alone, whether it has fired (a stream) or will fire at the end (a batch).  So each gap is
   reported once, and always in the same way.

This holds for records that are not behind the watermark.  Their history is never removed while it
is needed: the watermark has not passed the timestamp of the next flight, and so has not passed the
end of the seven days either.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from pyflinklike import (
    KeyedProcessFunction,
    OutputTag,
    Row,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

__all__ = [
    "ALERT_TYPE",
    "FLIGHTS_RUNNING",
    "LATE_MINUTES",
    "SILENT",
    "SILENT_AFTER",
    "LateAircraft",
]

LATE_MINUTES = 15
"""From this delay on a flight is late, as the US Department of Transportation counts."""

FLIGHTS_RUNNING = 3
SILENT_AFTER = Time.days(7)

ALERT_TYPE = "tailnum string, departure timestamp_ntz, flight string, route string, delay int"
SILENT = OutputTag(
    "silent",
    Types.ROW_NAMED(["tailnum", "last_departure"], [Types.STRING(), Types.SQL_TIMESTAMP()]),
)

_SILENT_AFTER = SILENT_AFTER.to_milliseconds()


class LateAircraft(KeyedProcessFunction):
    """Keyed by aircraft: an alert at the third late flight running, silence to `SILENT`."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the state: time of the last flight, and how many flights running were late."""
        history = ValueStateDescriptor("history", Types.TUPLE([Types.LONG(), Types.INT()]))
        history.enable_time_to_live(
            StateTtlConfig.new_builder(SILENT_AFTER).use_event_time().build()
        )
        self.history = runtime_context.get_state(history)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Process one flight, at its scheduled departure."""
        now: Any = ctx.timestamp()
        timers = ctx.timer_service()
        last, late = self.history.value() or (None, 0)
        if last is not None and now - last < _SILENT_AFTER:
            timers.delete_event_time_timer(last + _SILENT_AFTER)
        else:
            late = 0
        timers.register_event_time_timer(now + _SILENT_AFTER)
        late = late + 1 if value.delay >= LATE_MINUTES else 0
        self.history.update((now, late))
        if late == FLIGHTS_RUNNING:
            route = f"{value.origin}-{value.dest}"
            yield ctx.get_current_key(), _utc(now), value.flight, route, value.delay

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Report the flight of this timer: no flight followed it within seven days."""
        last = _utc(timestamp - _SILENT_AFTER)
        yield SILENT, Row(tailnum=ctx.get_current_key(), last_departure=last)


def _utc(milliseconds: int) -> datetime:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    return moment.replace(tzinfo=None)
