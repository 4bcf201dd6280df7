# SPDX-License-Identifier: Apache-2.0
"""The listener of both exporters: it adds up the progress of queries, for an exporter to read.

Rules of this file:

1. A counter is the sum over the micro-batches since the listener was made.  A new driver begins at
   0, which Prometheus takes for a restart.
2. A micro-batch counts once, by the id of its run and its number: Spark reports some of them twice,
   and a program may add a listener twice.
3. When a query ends, its gauges go.  Its counters stay, so that an exporter still reads what the last
   micro-batch added, and they go on if the query starts again.
4. There are never more than `max_series` series.  If there is no room, the series of the queries that
   ended first go.  If no query has ended, new series are left out and counted.
5. An error never leaves a listener, because metrics must not disturb a query.

Progress comes as an object of PySpark (a dict from 4.0 on) or as the dict of its JSON.  Any part of it
may be missing, and then gives no reading.
"""

from __future__ import annotations

import datetime as dt
import functools
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from pyspark.sql.streaming import StreamingQueryListener

from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.functions.metric_group import SUMMARY_PARTS, name_of_metric
from pyflinklike.monitoring.catalogue import (
    FROM_KEY_GROUPS,
    FROM_OPERATORS,
    FROM_STATE_OPERATORS,
    MEANS,
    CatalogueEntry,
    find_metric,
)
from pyflinklike.spark._host.observed_metrics import OF_INPUTS, read_metrics
from pyflinklike.windows.window_operator import LATE_RECORDS

MAX_SERIES: Final = 2_000
_RUNS: Final = 1_000
"""So many runs are remembered with their last micro-batch."""
_LOG = logging.getLogger("pyflinklike.monitoring")
_Listener = TypeVar("_Listener", bound="QueryListener")
Samples = list[tuple[tuple[str, ...], float]]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_OURS = {"records", "key_groups", "live_entries", "timers", "state_bytes"}
"""Every observation of our operators has these names, and others' observations do not."""


def _keep_errors(
    handle: Callable[[_Listener, Any], None],
) -> Callable[[_Listener, Any], None]:
    """Keep the errors of an event's handler away from Spark; the first one is logged."""

    @functools.wraps(handle)
    def handle_safely(self: _Listener, event: Any) -> None:
        try:
            with self._lock:
                handle(self, event)
        except Exception:
            self._note_error()

    return handle_safely


class QueryListener(StreamingQueryListener):
    """Adds up the progress of a session's queries.

    Args:
        max_series: The most series that it keeps.
        triggers: The interval of each query's trigger in seconds, by the query's name.
    """

    def __init__(self, max_series: int, triggers: Mapping[str, float] | None) -> None:
        self._max_series = _check_max_series(max_series)
        self._triggers = _check_triggers(triggers)
        self._lock = threading.RLock()
        self._series: dict[CatalogueEntry, dict[tuple[str, ...], float]] = {}
        self._size = 0
        self._running: dict[str, tuple[str, str]] = {}  # label and run of a query, by its id
        self._last_batches: dict[str, float] = {}
        self._ended: dict[str, None] = {}
        self._dropped = self._errors = 0

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: PySpark 3.5 would run a pickled listener in the Connect server."""
        msg = (
            f"{type(self).__name__} runs in the process that adds it, and is not sent to a server; "
            "got a session of Spark Connect 3.5: use a classic session, or PySpark 4.0 or newer"
        )
        raise SparkSetupError(msg)

    @_keep_errors
    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - as Spark calls it
        """Note that a query has started."""
        self._begin(event)

    @_keep_errors
    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Add the numbers of a micro-batch."""
        self._add_progress(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Ignore the event: an idle query has no new numbers."""

    @_keep_errors
    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Remove the gauges of a query, and count it if it failed."""
        identity, run = str(event.id), str(event.runId)
        # The event of an end has no name, so the start or a progress must have brought it.
        query, running = self._running.get(identity, (identity, run))
        self._note_batch(run, math.inf)
        self._add(Reading(find_metric("query_failures"), (query,), int(bool(event.exception))))
        # Spark reports a start at once and an end later, so the query may already run again.
        if running == run:
            self._running.pop(identity, None)
        if all(label != query for label, _ in self._running.values()):
            self._remove(query, gauges_only=True)
            self._ended[query] = None

    def samples(self, of: CatalogueEntry) -> Samples:
        """Return the present values of a metric, each with the values of its labels."""
        with self._lock:
            if not of.labels:
                own = {
                    "listener_series": self._size,
                    "listener_dropped_samples": self._dropped,
                    "listener_errors": self._errors,
                }
                return [((), own[of.stem])]
            return list(self._series.get(of, {}).items())

    def _begin(self, told: Any) -> None:
        """Note that the query of an event or a progress runs."""
        query, identity, run = _label_of(told), str(_get(told, "id")), str(_get(told, "runId"))
        known = run in self._last_batches
        # If a known run is not the one that runs, it is over, and this is one of its late batches.
        if self._running.get(identity) == (query, run) or (known and identity in self._running):
            return
        self._running[identity] = query, run
        if not known:
            self._note_batch(run, -1)
        self._ended.pop(query, None)
        self._add(Reading(find_metric("query_running"), (query,), 1))
        self._add(Reading(find_metric("query_failures"), (query,), 0))
        if query in self._triggers:
            self._add(Reading(find_metric("trigger_interval"), (query,), self._triggers[query]))

    def _add_progress(self, progress: Any) -> None:
        run, batch = str(_get(progress, "runId")), _get(progress, "batchId")
        if not _did_a_batch(progress) or batch <= self._last_batches.get(run, -1):
            return
        # Everything is read before anything is added, so that an error adds no half of a micro-batch.
        # `0 +` raises for a value that is no number.
        readings = [each._replace(value=0 + each.value) for each in read_progress(progress)]
        self._begin(progress)
        self._note_batch(run, batch)
        for reading in readings:
            self._add(reading)

    def _note_batch(self, run: str, batch: float) -> None:
        # Out and in again, so that the first run in the dict is the one that was quiet for longest.
        self._last_batches.pop(run, None)
        self._last_batches[run] = batch
        if len(self._last_batches) > _RUNS:
            del self._last_batches[next(iter(self._last_batches))]

    def _add(self, reading: Reading) -> None:
        of, labels, value = reading
        values = self._series.setdefault(of, {})
        if labels not in values:
            if self._size >= self._max_series and not self._make_room():
                self._drop(of)
                return
            self._size += 1
        values[labels] = value if of.kind == "gauge" else values.get(labels, 0) + value

    def _make_room(self) -> bool:
        """Forget the queries that ended first, until there is room for another series."""
        while self._ended and self._size >= self._max_series:
            query = next(iter(self._ended))
            del self._ended[query]
            self._remove(query, gauges_only=False)
        return self._size < self._max_series

    def _remove(self, query: str, *, gauges_only: bool) -> None:
        """Forget the series of a query, or only its gauges."""
        for kept, values in self._series.items():
            if kept.kind == "gauge" or not gauges_only:
                for labels in [each for each in values if each[0] == query]:
                    del values[labels]
                    self._size -= 1

    def _drop(self, of: CatalogueEntry) -> None:
        if not self._dropped:
            _LOG.warning(
                "a listener keeps at most max_series=%d series, got one more, of %s; it and others "
                "are left out and counted by %s: raise max_series, or give queries names and "
                "metrics fewer names",
                *(self._max_series, of.name, find_metric("listener_dropped_samples").name),
            )
        self._dropped += 1

    def _note_error(self) -> None:
        with self._lock:
            self._errors += 1
            if self._errors == 1:
                _LOG.warning(
                    "a listener could not read an event; the query is not affected, and further "
                    "ones are counted by %s",
                    find_metric("listener_errors").name,
                    exc_info=True,
                )


def _check_max_series(given: Any) -> int:
    least = len(FROM_OPERATORS)
    msg = f"max_series must be an int of at least {least}, got {short_repr(given)}; the default is 2000"
    if not is_int(given):
        raise DeclarationTypeError(msg)
    if given < least:
        raise DeclarationValueError(msg)
    return int(given)


def _check_triggers(given: Any) -> dict[str, float]:
    msg = (
        f"triggers must be the intervals in seconds by the names of queries, got {short_repr(given)}; "
        "give for example {'clicks': 10}"
    )
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise DeclarationTypeError(msg)
    for name, seconds in given.items():
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not isinstance(name, str) or not number:
            raise DeclarationTypeError(msg)
        if not (math.isfinite(seconds) and seconds > 0):
            raise DeclarationValueError(msg)
    return {name: float(seconds) for name, seconds in given.items()}


# Readings: the numbers of one micro-batch, as values of the catalogue's metrics


class Reading(NamedTuple):
    """A value of a metric.

    Args:
        metric: The metric, from the catalogue.
        labels: The values of its labels, in their order.
        value: The number that a micro-batch adds to a counter or a sum, or the value of a gauge.
    """

    metric: CatalogueEntry
    labels: tuple[str, ...]
    value: float


def _get(progress: Any, name: str, default: Any = None) -> Any:
    """Return a part of a progress; PySpark 3.5 has objects, and other versions have dicts."""
    is_dict = isinstance(progress, Mapping)
    found = progress.get(name) if is_dict else getattr(progress, name, None)
    return default if found is None else found


def _label_of(progress: Any) -> str:
    """Return the name of a query for labels; without a name its id, which a restart keeps."""
    return str(_get(progress, "name") or _get(progress, "id"))


def _did_a_batch(progress: Any) -> bool:
    """Return whether a trigger did a micro-batch; without new data it does none."""
    return "addBatch" in _get(progress, "durationMs", {})


def read_progress(progress: Any) -> Iterator[Reading]:
    """Yield the readings of a query's micro-batch.

    Args:
        progress: The progress, as Spark reports it or as its JSON has it.
    """
    query = _label_of(progress)
    yield Reading(find_metric("batches"), (query,), 1)
    yield Reading(find_metric("input_rows"), (query,), _get(progress, "numInputRows", 0))
    yield from _read_times(progress, query)
    for number, operator in enumerate(_get(progress, "stateOperators", [])):
        yield from _read_state_operator(operator, (query, str(number)))
    # An operator with two inputs has a second observation, which `read_metrics` reads with the first.
    for uid in _get(progress, "observedMetrics", {}):
        if not uid.endswith(OF_INPUTS):
            yield from _read_operator(progress, query, uid)


def _read_times(progress: Any, query: str) -> Iterator[Reading]:
    durations = dict(_get(progress, "durationMs", {}))
    total = durations.pop("triggerExecution", sum(durations.values()))
    # Spark rounds each phase, so the rest could be negative.
    durations["other"] = max(total - sum(durations.values()), 0)
    yield Reading(find_metric("batch_duration"), (query,), total / 1000)
    for phase, milliseconds in durations.items():
        yield Reading(find_metric("batch_phase_duration"), (query, phase), milliseconds / 1000)
    began = _seconds(_get(progress, "timestamp"))
    yield Reading(find_metric("last_batch_timestamp"), (query,), began)
    watermark = _get(_get(progress, "eventTime", {}), "watermark")
    if watermark is not None:
        seconds = _seconds(watermark)
        yield Reading(find_metric("watermark_timestamp"), (query,), seconds)
        if seconds:  # before the first event Spark's watermark is 1970
            yield Reading(find_metric("watermark_lag"), (query,), began - seconds)


def _seconds(instant: str) -> float:
    """Return the seconds since 1970 of a time in Spark's text."""
    return (dt.datetime.fromisoformat(instant.replace("Z", "+00:00")) - _EPOCH).total_seconds()


def _read_state_operator(operator: Any, labels: tuple[str, str]) -> Iterator[Reading]:
    numbers = {number: _get(operator, number, 0) for number in FROM_STATE_OPERATORS}
    numbers["commitTimeMs"] /= 1000
    yield from _read_numbers(FROM_STATE_OPERATORS, numbers, labels)


def _read_numbers(
    metrics: Mapping[str, CatalogueEntry], numbers: Mapping[str, Any], labels: tuple[str, ...]
) -> Iterator[Reading]:
    # Progress from another version of pyflinklike may lack some of the numbers.
    return (Reading(metrics[n], labels, numbers[n]) for n in metrics if n in numbers)


def _read_operator(progress: Any, query: str, uid: str) -> Iterator[Reading]:
    row = read_metrics(progress, uid)
    told = {} if row is None else row.asDict()
    counts = told.keys() >= _OURS
    # A user may observe other things, and they are not for these metrics.
    if not counts and told.keys() != {"user"}:
        return
    labels = (query, uid)
    users = dict(told.get("user") or {})
    if counts:
        yield from _read_numbers(FROM_OPERATORS, told, labels)
        yield Reading(find_metric("dropped_records"), labels, users.pop(LATE_RECORDS, 0))
        # Without key groups, gauges keep the values that they have.
        if groups := told["key_groups"]:
            yield from _read_numbers(FROM_KEY_GROUPS, told, labels)
            means = {number: told[number] / groups for number in MEANS}
            yield from _read_numbers(MEANS, means, labels)
    for number, each in enumerate(told.get("inputs", ()), 1):
        own = (*labels, str(number))
        yield Reading(find_metric("input_records"), own, each.records)
        if each.latest is not None:
            yield Reading(find_metric("input_latest_timestamp"), own, each.latest / 1000)
    yield from _read_users(users, labels)


def _read_users(users: Mapping[str, Any], labels: tuple[str, str]) -> Iterator[Reading]:
    """Read the metrics of a function; no counter has the name of a part of a summary."""
    distributions = {name.removesuffix(".count") for name in users if name.endswith(".count")}
    summaries = {name.removesuffix(".min") for name in users if name.endswith(".min")}
    for name in sorted(distributions | summaries):
        kind = "distribution" if name in distributions else "gauge"
        # A batch does not report a sum of 0.
        found = {"sum": 0} if kind == "distribution" else {}
        for part in ("count", "sum", "min", "max"):
            value = users.get(f"{name}.{part}", found.get(part))
            if value is not None:
                yield Reading(find_metric(f"user_{kind}_{part}"), (*labels, name), value)
    for own, value in users.items():
        if own.endswith(SUMMARY_PARTS) or not is_int(value):
            continue
        name = name_of_metric(own)
        if value < 0:
            yield Reading(find_metric("user_counter_decrease"), (*labels, name), -value)
        else:
            yield Reading(find_metric("user_counter"), (*labels, name), value)
