# SPDX-License-Identifier: Apache-2.0
"""The report of a query's micro-batches from its progress, and the log that keeps the progress.

Spark forgets the progress with the query, so a `ProgressLog` writes it to a file.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.errors import DeclarationValueError
from pyflinklike.report.page import Picture, Report, check_path, lines, stack_bars
from pyflinklike.spark._host.observed_metrics import metrics_of

_PHASES = (
    *("latestOffset", "getBatch", "queryPlanning", "addBatch", "walCommit", "commitOffsets"),
    *("commitBatch",),
)
_DRAWN = ("warm_loads", "cold_loads", "timers_fired", "expired_entries", "late_records")
_MILLISECOND = dt.timedelta(milliseconds=1)
Progress = Mapping[str, Any]
Rows = list[dict[str, Any]]


def query_report(
    query: StreamingQuery | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
) -> Report:
    """Write a page about the micro-batches of a query.

    The page is one HTML file of about 1 MB, which any browser opens without a network.  The
    property `data` of the result has the numbers, as DataFrames of pandas by name, with one or
    more rows for each batch:

    - `throughput`: the rows read, and the rows per second that came in and were processed;
    - `durations`: the ms of each phase (`addBatch`, `walCommit`, ...); "other" is the rest of the batch;
    - `watermark`: the ms by which the watermark was behind the time of the batch;
    - `state`: the rows and bytes in memory that Spark counts for each stateful operator;
    - `operators`: the metrics of operators of `process`, such as `cold_loads`;
    - `metrics`: the metrics of the user's functions.

    Args:
        query: A query, or the file of a `ProgressLog`.  Spark keeps the last 100 batches of a query
            (`spark.sql.streaming.numRecentProgressUpdates`).
        path: The file of the page, which is overwritten if it exists.
        name: The name or id of the query, if the file has the progress of several queries.

    Raises:
        RequirementError: altair or vl-convert-python is missing: the extra `report`.
        DeclarationValueError: The query has done no batch yet, the file is no progress log, or it
            has the progress of several queries.
        OSError: The file cannot be read, or the page cannot be written.
    """
    written = check_path(path)
    if isinstance(query, (str, os.PathLike)):
        every = _of_one(list(read_progress(query)), name, os.fspath(query))
    else:
        every = [json.loads(each.json) for each in query.recentProgress]
    batches = _once(every)
    if not batches:
        msg = "query_report needs a query that has done a micro-batch, got one without any"
        raise DeclarationValueError(f"{msg}; wait for its first progress")
    first, last = batches[0], batches[-1]
    called = last.get("name") or last["id"]
    facts = f"batches {first['batchId']} to {last['batchId']}, {first['timestamp']} to {last['timestamp']}"
    draws = (_throughput, _durations, _watermark, _state, _operators, _metrics)
    pictures = [draw(batches) for draw in draws]
    return Report(written, f"Query {called}", facts, pictures).write()


def _of_one(every: list[Progress], name: str | None, file: str) -> list[Progress]:
    if name is not None:
        every = [each for each in every if name in (each.get("name"), each["id"])]
    known = {each["id"]: each.get("name") or each["id"] for each in every}
    if len(known) > 1:
        msg = f"query_report takes the progress of one query, got file {file!r} with {sorted(known.values())}"
        raise DeclarationValueError(f"{msg}; choose with name=")
    return every


def _once(every: Iterable[Progress]) -> list[Progress]:
    """Return the last progress of each batch that did something, sorted by batch."""
    # After a restart, the first batch may be done again, so a log may have a batch twice.
    batches = {each["batchId"]: each for each in every if "addBatch" in each.get("durationMs", {})}
    return [batches[each] for each in sorted(batches)]


def _throughput(batches: Sequence[Progress]) -> Picture:
    rows = [
        {
            "batch": each["batchId"],
            "at": each["timestamp"],
            "rows": each.get("numInputRows"),
            "in_per_second": _finite(each.get("inputRowsPerSecond")),
            "processed_per_second": _finite(each.get("processedRowsPerSecond")),
        }
        for each in batches
    ]
    drawn = [
        {"batch": row["batch"], "what": what, "rows per second": row[what]}
        for row in rows
        for what in ("in_per_second", "processed_per_second")
        if row[what] is not None
    ]
    charts = [lines(drawn, "rows per second", "batch", "what")] if drawn else []
    return Picture("throughput", "Throughput", "", list(rows[0]), rows, charts)


def _durations(batches: Sequence[Progress]) -> Picture:
    rows: Rows = []
    for each in batches:
        told = dict(each["durationMs"])
        # Spark's total includes all other phases.
        total = told.pop("triggerExecution", sum(told.values()))
        told["other"] = max(total - sum(told.values()), 0)
        rows += [{"batch": each["batchId"], "phase": what, "ms": ms} for what, ms in told.items()]
    note = "The time of each phase of a batch; in addBatch the state is read, changed and written."
    chart = stack_bars(rows, "ms", "batch", "phase", [*_PHASES, "other"])
    return Picture("durations", "Time of a batch", note, list(rows[0]), rows, [chart])


def _watermark(batches: Sequence[Progress]) -> Picture:
    rows: Rows = []
    for each in batches:
        watermark = each.get("eventTime", {}).get("watermark")
        # Before the first event Spark's watermark is 1970.
        if watermark is not None and not watermark.startswith("1970-01-01T00:00:00"):
            lag = (_instant(each["timestamp"]) - _instant(watermark)) // _MILLISECOND
            rows.append({"batch": each["batchId"], "watermark": watermark, "lag_ms": lag})
    note = "How far the watermark was behind the time of the batch." if rows else "There was none."
    drawn = [{**row, "what": "watermark"} for row in rows]
    charts = [lines(drawn, "lag_ms", "batch", "what")] if rows else []
    return Picture("watermark", "Watermark", note, ["batch", "watermark", "lag_ms"], rows, charts)


def _state(batches: Sequence[Progress]) -> Picture:
    rows = [
        {
            "batch": each["batchId"],
            "operator_id": number,
            "rows": operator.get("numRowsTotal"),
            "memory_bytes": operator.get("memoryUsedBytes"),
        }
        for each in batches
        for number, operator in enumerate(each.get("stateOperators", []))
    ]
    note = "Spark's own numbers: a row is a segment of a key group's log, or its head."
    charts = [lines(rows, "memory_bytes", "batch", "operator_id")] if rows else []
    columns = ["batch", "operator_id", "rows", "memory_bytes"]
    return Picture("state", "State in Spark's store", note, columns, rows, charts)


def _operators(batches: Sequence[Progress]) -> Picture:
    names = OperatorMetrics.names()
    rows = [
        {"batch": batch, "operator": uid, "metric": name, "value": told[name]}
        for batch, uid, told in _observed(batches)
        if told.keys() >= set(names)
        for name in names
        if told[name] is not None
    ]
    note = "The operators' own numbers; the chart has loads, timers, expiry and late records."
    drawn = [row for row in rows if row["metric"] in _DRAWN]
    return _draw_metrics("operators", "Operators", note, rows, drawn)


def _metrics(batches: Sequence[Progress]) -> Picture:
    rows = [
        {"batch": batch, "operator": uid, "metric": name, "value": value}
        for batch, uid, told in _observed(batches)
        for name, value in (told.get("user") or {}).items()
    ]
    note = "The metrics that functions have registered." if rows else "The functions count nothing."
    return _draw_metrics("metrics", "The functions' own metrics", note, rows, rows)


def _observed(batches: Sequence[Progress]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield batch, operator and numbers of each observation of an operator of ours."""
    for each in batches:
        for uid in each.get("observedMetrics", {}):
            found = metrics_of(each, uid)
            if found is not None:
                yield each["batchId"], uid, found.asDict()


def _draw_metrics(name: str, title: str, note: str, rows: Rows, drawn: Rows) -> Picture:
    points = [
        {"batch": r["batch"], "what": f"{r['operator']} {r['metric']}", "number": r["value"]}
        for r in drawn
    ]
    charts = [lines(points, "number", "batch", "what")] if points else []
    return Picture(name, title, note, ["batch", "operator", "metric", "value"], rows, charts)


def _finite(value: Any) -> float | None:
    """Round a rate; return None for NaN and Infinity, which Spark reports for a batch of no time."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        return round(float(value), 1)
    return None


def _instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))


# The log of progress in a file


class ProgressLog(StreamingQueryListener):
    """Appends the progress of each micro-batch to a file, as a line of JSON.

    `spark.streams.addListener(ProgressLog("progress.jsonl"))` logs all queries of a session until
    `removeListener`.  The file keeps its lines: a restarted query appends to them.

    Args:
        path: The file on the driver, which is created if it does not exist.

    Raises:
        OSError: The file cannot be opened for writing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        with self._path.open("a", encoding="utf-8"):
            pass  # raises here rather than in Spark's thread, which would only log the error

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - as Spark calls it
        """Ignore the event."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Append the progress of a micro-batch."""
        line = json.dumps(json.loads(event.progress.json), separators=(",", ":"))
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Ignore the event."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Ignore the event."""


def read_progress(path: str | os.PathLike[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the progress in the file of a `ProgressLog`; a last line that was cut off is left out.

    Raises:
        DeclarationValueError: Another line is no progress of a query.
        OSError: The file cannot be read.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            progress = _progress(line)
        except (ValueError, TypeError) as error:
            if number == len(lines) and not line.endswith("\n"):
                return  # the driver ended while it wrote the line
            msg = f"a progress log has a query's progress in each line, got {line[:80]!r} in line {number}"
            raise DeclarationValueError(f"{msg}; write it with ProgressLog") from error
        yield progress


def _progress(line: str) -> Mapping[str, Any]:
    progress = json.loads(line)
    if "batchId" not in progress or "runId" not in progress:
        raise ValueError(line)
    found: Mapping[str, Any] = progress
    return found
