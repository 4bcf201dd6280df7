# SPDX-License-Identifier: Apache-2.0
"""Readings of a query's progress: the numbers of one micro-batch, as values of the catalogue's metrics.

A reading of a counter is the number that the micro-batch adds; a reading of a gauge is its value.

Progress comes as an object of PySpark (a dict from 4.0 on) or as the dict of its JSON.  Any part of it
may be missing, and then gives no reading.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyflinklike._checks import is_int
from pyflinklike.functions.metric_group import SUMMARY_PARTS, name_of_metric
from pyflinklike.monitoring.catalogue import FROM_OPERATORS, CatalogueEntry, find_metric
from pyflinklike.spark._host.observed_metrics import OF_INPUTS, read_metrics
from pyflinklike.windows.window_operator import LATE_RECORDS

__all__ = ["Reading", "did_a_batch", "get", "label_of", "read_progress"]


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_TOTAL = "triggerExecution"
_OURS = {"records", "key_groups", "live_entries", "timers", "state_bytes"}
"""Every observation of our operators has these names, and others' observations do not."""


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


def get(progress: Any, name: str, default: Any = None) -> Any:
    """Return a part of a progress; PySpark 3.5 has objects, and other versions have dicts."""
    is_dict = isinstance(progress, Mapping)
    found = progress.get(name) if is_dict else getattr(progress, name, None)
    return default if found is None else found


def label_of(progress: Any) -> str:
    """Return the name of a query for labels; without a name its id, which a restart keeps."""
    return str(get(progress, "name") or get(progress, "id"))


def did_a_batch(progress: Any) -> bool:
    """Return whether a trigger did a micro-batch; without new data it does none."""
    return "addBatch" in get(progress, "durationMs", {})


def read_progress(progress: Any) -> Iterator[Reading]:
    """Yield the readings of a query's micro-batch.

    Args:
        progress: The progress, as Spark reports it or as its JSON has it.
    """
    query = label_of(progress)
    yield Reading(find_metric("batches"), (query,), 1)
    yield Reading(find_metric("input_rows"), (query,), get(progress, "numInputRows", 0))
    yield from _read_times(progress, query)
    for number, operator in enumerate(get(progress, "stateOperators", [])):
        yield from _read_state_operator(operator, (query, str(number)))
    # An operator with two inputs has a second observation, which `read_metrics` reads with the first.
    for uid in get(progress, "observedMetrics", {}):
        if not uid.endswith(OF_INPUTS):
            yield from _read_operator(progress, query, uid)


def _read_times(progress: Any, query: str) -> Iterator[Reading]:
    durations = dict(get(progress, "durationMs", {}))
    total = durations.pop(_TOTAL, sum(durations.values()))
    # Spark rounds each phase, so the rest could be negative.
    durations["other"] = max(total - sum(durations.values()), 0)
    yield Reading(find_metric("batch_duration"), (query,), total / 1000)
    for phase, milliseconds in durations.items():
        yield Reading(find_metric("batch_phase_duration"), (query, phase), milliseconds / 1000)
    began = _seconds(get(progress, "timestamp"))
    yield Reading(find_metric("last_batch_timestamp"), (query,), began)
    watermark = get(get(progress, "eventTime", {}), "watermark")
    if watermark is not None:
        seconds = _seconds(watermark)
        yield Reading(find_metric("watermark_timestamp"), (query,), seconds)
        if seconds:  # before the first event Spark's watermark is 1970
            yield Reading(find_metric("watermark_lag"), (query,), began - seconds)


def _seconds(instant: str) -> float:
    """Return the seconds since 1970 of a time in Spark's text."""
    return (dt.datetime.fromisoformat(instant.replace("Z", "+00:00")) - _EPOCH).total_seconds()


def _read_state_operator(operator: Any, labels: tuple[str, str]) -> Iterator[Reading]:
    yield Reading(find_metric("state_rows"), labels, get(operator, "numRowsTotal", 0))
    yield Reading(find_metric("state_memory"), labels, get(operator, "memoryUsedBytes", 0))
    commits = get(operator, "commitTimeMs", 0) / 1000
    yield Reading(find_metric("state_commit_duration"), labels, commits)
    dropped = get(operator, "numRowsDroppedByWatermark", 0)
    yield Reading(find_metric("rows_dropped_by_watermark"), labels, dropped)


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
        for name, counter in FROM_OPERATORS.items():
            # Progress from another version of pyflinklike may lack some of the names.
            if name in told:
                yield Reading(counter, labels, told[name])
        yield Reading(find_metric("dropped_records"), labels, users.pop(LATE_RECORDS, 0))
        # Without key groups, gauges keep the values that they have.
        if told["key_groups"]:
            yield from _read_key_groups(told, labels)
    for number, each in enumerate(told.get("inputs", ()), 1):
        own = (*labels, str(number))
        yield Reading(find_metric("input_records"), own, each.records)
        if each.latest is not None:
            yield Reading(find_metric("input_latest_timestamp"), own, each.latest / 1000)
    yield from _read_users(users, labels)


def _read_key_groups(told: Mapping[str, Any], labels: tuple[str, str]) -> Iterator[Reading]:
    groups = told["key_groups"]
    yield Reading(find_metric("served_key_groups"), labels, groups)
    yield Reading(find_metric("live_entries"), labels, told["live_entries"])
    yield Reading(find_metric("timers"), labels, told["timers"])
    yield Reading(find_metric("state"), labels, told["state_bytes"])
    yield Reading(find_metric("key_group_live_entries"), labels, told["live_entries"] / groups)
    yield Reading(find_metric("key_group_state"), labels, told["state_bytes"] / groups)
    yield Reading(find_metric("key_group_records"), labels, told["records"] / groups)
    if "busiest_records" in told:
        yield Reading(find_metric("busiest_key_group_records"), labels, told["busiest_records"])


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
