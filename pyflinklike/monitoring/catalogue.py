# SPDX-License-Identifier: Apache-2.0
"""The catalogue of metrics: every metric that the listeners export, declared once.

Both listeners, the reader of progress and the page `docs/reference/metrics.md` are made from it.

Names follow Prometheus: `pyflinklike_`, the thing that is counted, the unit, and `_total` for a counter.
The instruments of OpenTelemetry have the same names without unit and ending.  OpenTelemetry's exporters
to Prometheus append these again, so the same dashboards and alerts serve both.

A user's own name (of a query, an operator, a metric of a function) is a label and never part of a name.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

import attrs

Kind = Literal["counter", "sum", "gauge"]
Unit = Literal["", "seconds", "bytes"]
_OTEL_UNITS: Final = {"": "", "seconds": "s", "bytes": "By"}


@attrs.frozen
class CatalogueEntry:
    """A metric that listeners export.

    Args:
        stem: The name without prefix, unit and ending.
        kind: A counter only grows; a sum may also fall; a gauge has the value of the last micro-batch.
        unit: The unit of the values; empty for numbers of things.
        labels: The names of the labels; the first is the query's.
        help: The meaning of the value, which exporters show.
        source: The number of Spark's or ours from which the value comes, for the reference.
    """

    stem: str
    kind: Kind
    unit: Unit
    labels: tuple[str, ...]
    help: str
    source: str

    @property
    def family(self) -> str:
        """The name without the ending of counters, under which Prometheus keeps kind and help."""
        return "_".join(filter(None, ("pyflinklike", self.stem, self.unit)))

    @property
    def name(self) -> str:
        """The name that expressions of Prometheus use."""
        return f"{self.family}_total" if self.kind == "counter" else self.family

    @property
    def instrument(self) -> str:
        """The name of OpenTelemetry's instrument."""
        return f"pyflinklike.{self.stem}"

    @property
    def instrument_unit(self) -> str:
        """The unit of OpenTelemetry's instrument, as UCUM writes it."""
        return _OTEL_UNITS[self.unit]


def _metric(
    labels: tuple[str, ...], name: str, meaning: str, source: str, kind: Kind = "gauge"
) -> CatalogueEntry:
    """Make an entry.

    Args:
        labels: The names of the labels.
        name: The name in Prometheus without its prefix; the unit and, for a counter, `_total` end it.
        meaning: The meaning of the value.
        source: The number of Spark's or ours from which the value comes.
        kind: The kind, unless the name is a counter's.
    """
    stem = name.removesuffix("_total")
    units: tuple[Unit, ...] = ("seconds", "bytes")
    unit: Unit = next((each for each in units if stem.endswith(f"_{each}")), "")
    kind = kind if stem == name else "counter"
    return CatalogueEntry(stem.removesuffix(f"_{unit}"), kind, unit, labels, meaning, source)


_query = partial(_metric, ("query",))
_operator = partial(_metric, ("query", "operator"))
_input = partial(_metric, ("query", "operator", "input"))
_state_operator = partial(_metric, ("query", "state_operator"))
_function = partial(_metric, ("query", "operator", "name"))
_listener = partial(_metric, ())


FROM_OPERATORS: Final = {
    number: _operator(f"{number}_total", meaning, f"`{number}` of `metrics_of`")
    for number, meaning in {
        "records": "Records processed",
        "outputs": "Elements yielded to the main and to side outputs",
        "late_records": "Records whose timestamp the watermark had reached; processed all the same",
        "keys": "Keys that had a record or a timer, counted in each micro-batch",
        "timers_fired": "Timers fired, of both time domains",
        "expired_entries": "Entries deleted because their TTL had passed",
        "key_groups": "Key groups served, counted in each micro-batch",
        "warm_loads": "Key groups whose working state could be used as it was",
        "caught_up_loads": "Key groups whose working state had the latest segments replayed",
        "cold_loads": "Key groups rebuilt from their whole log",
        "segment_bytes": "Bytes written to the logs of state",
        "compactions": "Logs replaced by a snapshot",
        "dead_letters": "Records and timers that became dead letters",
        "dropped_entries": "Entries of states in `drop_states` that left the logs",
        "kept_groups": "Key groups that a keeper served, not one of Spark's Python workers",
    }.items()
}
"""The counters that add up the numbers of `OperatorMetrics`, by the names of these numbers."""


_SERVED = "the key groups that the last micro-batch served"
FROM_KEY_GROUPS: Final = {
    number: _operator(name, meaning, f"`{number}` of `metrics_of`")
    for number, name, meaning in (
        ("key_groups", "served_key_groups", "Key groups that the last micro-batch served"),
        ("live_entries", "live_entries", f"Entries stored in {_SERVED}"),
        ("timers", "timers", f"Timers registered in {_SERVED}"),
        ("state_bytes", "state_bytes", f"Bytes of the logs of {_SERVED}"),
        (
            *("busiest_records", "busiest_key_group_records"),
            "Records of the key group that had most of them in the last micro-batch",
        ),
    )
}
"""The gauges of the key groups that a micro-batch served, by the numbers of `OperatorMetrics`."""


_COMPARABLE = "of a key group; comparable whatever groups were served"
MEANS: Final = {
    number: _operator(name, meaning, f"`{number}` / `key_groups`")
    for number, name, meaning in (
        ("live_entries", "key_group_live_entries", f"Mean number of entries {_COMPARABLE}"),
        ("state_bytes", "key_group_state_bytes", f"Mean size of the log {_COMPARABLE}"),
        (
            *("records", "key_group_records"),
            "Mean number of records of a key group in the last micro-batch",
        ),
    )
}
"""The gauges that are means over the served key groups, by the numbers of `OperatorMetrics`."""


FROM_STATE_OPERATORS: Final = {
    number: _state_operator(name, meaning, f"`stateOperators.{number}`")
    for number, name, meaning in (
        (
            *("numRowsTotal", "state_rows"),
            "Rows in Spark's state store; for an operator of ours these are segments and heads of logs",
        ),
        ("memoryUsedBytes", "state_memory_bytes", "Memory that Spark's state store uses"),
        (
            *("commitTimeMs", "state_commit_duration_seconds_total"),
            "Time spent in commits of Spark's state store, summed over its tasks",
        ),
        (
            *("numRowsDroppedByWatermark", "rows_dropped_by_watermark_total"),
            "Rows that an operator of Spark's own dropped as late",
        ),
    )
}
"""The metrics of Spark's stateful operators, by Spark's names of their numbers."""


_USER = "`metrics_of(...).user`"
CATALOGUE: Final = (
    _query(
        *("query_running", "1 while the query runs; missing once it has ended"),
        "start and end of the query",
    ),
    _query(
        *("query_failures_total", "Ends of the query with an error"),
        "`exception` of `QueryTerminatedEvent`",
    ),
    _query("batches_total", "Micro-batches done", "`batchId`"),
    _query("input_rows_total", "Rows read from all sources", "`numInputRows`"),
    _query(
        *("last_batch_timestamp_seconds", "When the last micro-batch began, in seconds since 1970"),
        "`timestamp`",
    ),
    _query(
        *("batch_duration_seconds", "Duration of the last micro-batch"),
        "`durationMs.triggerExecution`",
    ),
    _metric(
        *(("query", "phase"), "batch_phase_duration_seconds_total"),
        "Time spent in each phase of micro-batches; `other` is the rest of them",
        "`durationMs`",
    ),
    _query(
        *("trigger_interval_seconds", "Interval of the query's trigger, as given to the listener"),
        "`triggers=` of the listener",
    ),
    _query(
        "watermark_timestamp_seconds",
        "The watermark of the last micro-batch, in seconds since 1970; 0 before the first",
        "`eventTime.watermark`",
    ),
    _query(
        "watermark_lag_seconds",
        "How far the watermark was behind the beginning of the last micro-batch",
        "`timestamp` and `eventTime.watermark`",
    ),
    *FROM_OPERATORS.values(),
    _operator(
        *("dropped_records_total", "Late records that windows and joins dropped"),
        "`numLateRecordsDropped` of `metrics_of(...).user`",
    ),
    *FROM_KEY_GROUPS.values(),
    *MEANS.values(),
    _input(
        *("input_records_total", "Records of each of two inputs with event time"),
        "`inputs` of `metrics_of`",
    ),
    _input(
        "input_latest_timestamp_seconds",
        "Latest event time of each of two inputs, in seconds since 1970",
        "`inputs` of `metrics_of`",
    ),
    *FROM_STATE_OPERATORS.values(),
    _function("user_counter_total", "Increase of the counters and meters of a function", _USER),
    _function(
        "user_counter_decrease_total", "Decrease of the counters of a function by `dec`", _USER
    ),
    _function(
        *("user_gauge_min", "Least reading of a function's gauge in the last micro-batch"),
        f"{_USER}, `<name>.min`",
    ),
    _function(
        *("user_gauge_max", "Greatest reading of a function's gauge in the last micro-batch"),
        f"{_USER}, `<name>.max`",
    ),
    _function(
        *("user_distribution_count_total", "Number of values of a function's distribution"),
        f"{_USER}, `<name>.count`",
    ),
    _function(
        "user_distribution_sum",
        "Sum of the values of a function's distribution; falls if values are negative",
        f"{_USER}, `<name>.sum`",
        kind="sum",
    ),
    _function(
        "user_distribution_min",
        "Least value of a function's distribution in the last micro-batch that had one",
        f"{_USER}, `<name>.min`",
    ),
    _function(
        "user_distribution_max",
        "Greatest value of a function's distribution in the last micro-batch that had one",
        f"{_USER}, `<name>.max`",
    ),
    _listener("listener_series", "Series that the listener keeps", "the listener"),
    _listener(
        "listener_dropped_samples_total",
        "Values left out because the listener keeps max_series series already",
        "the listener",
    ),
    _listener(
        "listener_errors_total",
        "Events that the listener could not read; the log has the first",
        "the listener",
    ),
)
"""All metrics, in the order in which the reference has them."""

_BY_STEM: Final = {each.stem: each for each in CATALOGUE}


def find_metric(stem: str) -> CatalogueEntry:
    """Return the metric with this stem."""
    return _BY_STEM[stem]
