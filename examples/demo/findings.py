# SPDX-License-Identifier: Apache-2.0
"""The output of the demo: a progress line while it runs, and the findings."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from demo.flights import (
    FLIGHTS_RUNNING,
    LATE_MINUTES,
    SILENT_AFTER,
)

if TYPE_CHECKING:
    from demo.runs import Findings, MicroBatch

__all__ = [
    "COLD_BATCHES",
    "FlightTables",
    "find_known_silences",
    "print_aircraft",
    "print_findings",
    "progress_display",
]

COLD_BATCHES = 5
"""The first micro-batches warm up the JVM and the Python workers; no rate counts them."""

_MOST = 10
_LAST = 5
_SILENCE = timedelta(milliseconds=SILENT_AFTER.to_milliseconds())
_PLAIN_SECONDS = 5.0

Update = Callable[[int, str], None]


@attrs.frozen
class FlightTables:
    """The flights of a run, counted.

    Args:
        days: The number of files.
        records: The number of their records.
        without_tailnum: The number of records without a key.
        cancelled: The number of cancelled flights that have a key.
        start: The first event time, naive UTC.
        end: The last event time of a flown flight; the final watermark is 1 ms earlier.
    """

    days: int
    records: int
    without_tailnum: int
    cancelled: int
    start: datetime
    end: datetime

    @staticmethod
    def of(days: list[pa.Table]) -> FlightTables:
        """Count tables that `read_days` returned."""
        flights = pa.concat_tables(days)
        has_key, is_flown = pc.is_valid(flights["tailnum"]), pc.is_valid(flights["delay"])
        used = flights.filter(pc.and_(has_key, is_flown))
        times = pc.min_max(used["scheduled"]).as_py()
        return FlightTables(
            len(days),
            flights.num_rows,
            pc.sum(pc.invert(has_key)).as_py(),
            pc.sum(pc.and_(has_key, pc.invert(is_flown))).as_py(),
            times["min"].replace(tzinfo=None),
            times["max"].replace(tzinfo=None),
        )

    @property
    def processed(self) -> int:
        """The number of records that reach the function."""
        return self.records - self.without_tailnum - self.cancelled


def find_known_silences(silences: list[tuple[Any, ...]], end: datetime) -> list[tuple[Any, ...]]:
    """Return the silences that a stream knows when its last flight is at `end`.

    Its watermark is then 1 ms earlier.  A batch knows that no record follows its last one, so at
    its end all aircraft are silent.  A stream waits.
    """
    return [row for row in silences if end - row[1] > _SILENCE]


# While it runs


@contextmanager
def progress_display(total: int) -> Iterator[Update]:
    """Show a progress bar of `total` days with rich on a terminal, or else plain lines.

    Yields a function; call it with the number of finished days and a text about them.
    """
    try:
        from rich import progress
    except ImportError:
        yield _plain_progress(total)
        return
    if not sys.stdout.isatty():
        yield _plain_progress(total)
        return
    columns = (
        progress.SpinnerColumn(),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("days  {task.description}"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns) as bar:
        task = bar.add_task("starting the query", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=text)


def _plain_progress(total: int) -> Update:
    last = [0, time.monotonic() - _PLAIN_SECONDS]

    def update(done: int, text: str) -> None:
        now = time.monotonic()
        if done != last[0] and (done == total or now - last[1] >= _PLAIN_SECONDS):
            last[:] = done, now
            print(f"  {done:3} of {total} days  {text}", flush=True)

    return update


# At the end


def print_findings(
    source: FlightTables, alerts: list[tuple[Any, ...]], silences: list[tuple[Any, ...]]
) -> None:
    """Print the findings of the stream."""
    _print_input(source)
    _print_alerts(alerts)
    _print_silences(silences)


def _print_input(source: FlightTables) -> None:
    print()
    print(f"Flights from New York City, {source.start:%d %b %Y} to {source.end:%d %b %Y} (UTC)")
    _print_pairs(
        [
            ("records", f"{source.records:,}"),
            ("without tail number", f"{source.without_tailnum:,} (left out: they have no key)"),
            ("cancelled", f"{source.cancelled:,} (left out: not flown)"),
            ("processed", f"{source.processed:,}"),
        ]
    )


def _print_alerts(alerts: list[tuple[Any, ...]]) -> None:
    print()
    print(
        f"{len(alerts):,} alerts: {FLIGHTS_RUNNING} flights running "
        f"{LATE_MINUTES} minutes late or more"
    )
    counts = Counter(row[0] for row in alerts)
    latest = {row[0]: row for row in sorted(alerts)}
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
    _print_table(
        ("aircraft", "alerts", "last alert", "flight", "route", "minutes late"),
        [
            (tailnum, count, f"{latest[tailnum][1]:%d %b %H:%M}", *latest[tailnum][2:])
            for tailnum, count in most
        ],
    )


def _print_silences(silences: list[tuple[Any, ...]]) -> None:
    print()
    aircraft = {row[0] for row in silences}
    print(
        f"{len(silences):,} times an aircraft went silent (no flight for {_SILENCE.days} days), "
        f"{len(aircraft):,} aircraft"
    )
    last = sorted(silences, key=lambda row: (row[1], row[0]), reverse=True)[:_LAST]
    if last:
        rows = [(row[0], f"{row[1]:%d %b %H:%M}") for row in last]
        _print_table(("last silent", "last flight"), rows)


def print_aircraft(
    tailnum: str, alerts: list[tuple[Any, ...]], silences: list[tuple[Any, ...]]
) -> None:
    """Print the findings about one aircraft, in order of time."""
    events = [
        (row[1], "late on three flights in a row", f"{row[2]} {row[3]}, {row[4]} min")
        for row in alerts
        if row[0] == tailnum
    ]
    events += [
        (row[1], "the last flight before a silence", "") for row in silences if row[0] == tailnum
    ]
    print()
    print(f"Aircraft {tailnum}:" + ("" if events else " nothing to report"))
    if events:
        rows = [(f"{at:%d %b %H:%M}", what, detail) for at, what, detail in sorted(events)]
        _print_table(("departure", "what", "flight"), rows)


def print_run(
    source: FlightTables, stream: Findings, batch_seconds: float, days_per_batch: int
) -> None:
    """Print the times, and the rates after Spark's warm-up."""
    whole = f"{stream.seconds:.1f} s for {source.days} days, {days_per_batch} to a micro-batch"
    batch = f"{batch_seconds:.1f} s, {source.records / batch_seconds:,.0f} records/s"
    print()
    _print_pairs(
        [
            ("stream", f"{whole}, Spark's warm-up included"),
            *_warm(stream.batches),
            ("batch", f"{batch}: the same files at once, after a first run on one of them"),
        ]
    )


def _warm(batches: Sequence[MicroBatch]) -> list[tuple[str, str]]:
    """Return the rate without the first micro-batches, which warm up the JVM and the workers."""
    warm = [each for each in batches if each.number >= COLD_BATCHES]
    if not warm:
        return [("warm", f"no rate: Spark warms up in the first {COLD_BATCHES} micro-batches")]
    seconds = median(each.seconds for each in warm)
    rate = median(each.records / each.seconds for each in warm)
    records = sum(each.records for each in warm) / len(warm)
    left_out = f"without the first {COLD_BATCHES}"
    return [
        ("warm", f"{rate:,.0f} records/s: {seconds:.2f} s for a micro-batch of {records:,.0f}"),
        ("", f"(medians of {len(warm)} micro-batches, {left_out}; small ones are mostly"),
        ("", "Spark's own work, so larger ones have a higher rate: try --days-per-batch 7)"),
    ]


def print_comparison(equal: bool, unknown: int) -> None:
    """Print whether the batch found the same."""
    print(f"  equal   {'yes' if equal else 'NO'}: the batch found {_equality(equal)}")
    print(
        f"          (and {unknown:,} silences after flights of the last {_SILENCE.days} days,\n"
        "          which a stream cannot report yet: more flights may come)"
    )


def _equality(equal: bool) -> str:
    return "the same alerts and silences, row for row" if equal else "different results"


def print_state(checkpoint: Path, backend: str) -> None:
    """Print the backend, and the place and size of the durable state."""
    files = [path for path in (checkpoint / "state").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    print(f"  state   working copy: {backend}, in the memory of keepers beside Spark's workers")
    print(f"          durable: Spark's state store, {size:.1f} MiB in {len(files)} files under")
    print(f"          {checkpoint / 'state'} (removed when the demo ends)")


def _print_pairs(pairs: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        print(f"  {name:<{width}}  {text}")


def _print_table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    cells = [head, *[tuple(str(cell) for cell in row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip())
