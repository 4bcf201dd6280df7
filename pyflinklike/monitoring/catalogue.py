# SPDX-License-Identifier: Apache-2.0
"""The catalogue of metrics: every metric that the listeners export, declared once.

Both listeners, the reader of progress and the page `docs/reference/metric-names.md` are made from it.

Names follow Prometheus: `pyflinklike_`, the thing that is counted, the unit, and `_total` for a counter.
The instruments of OpenTelemetry have the same names without unit and ending.  OpenTelemetry's exporters
to Prometheus append these again, so the same dashboards and alerts serve both.

A user's own name (of a query, an operator, a metric of a function) is a label and never part of a name.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

__all__ = [
    "CATALOGUE",
    "FROM_OPERATORS",
    "CatalogueEntry",
    "Kind",
    "find_metric",
]


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


_QUERY = ("query",)
_OPERATOR = ("query", "operator")
_INPUT = ("query", "operator", "input")
_STATE_OPERATOR = ("query", "state_operator")
_USERS = ("query", "operator", "name")


def _make_counter(field: str, text: str, unit: Unit = "") -> CatalogueEntry:
    stem = field.removesuffix(f"_{unit}") if unit else field
    return CatalogueEntry(stem, "counter", unit, _OPERATOR, text, f"`{field}` of `metrics_of`")


FROM_OPERATORS: Final = {
    "records": _make_counter("records", "Records processed"),
    "outputs": _make_counter("outputs", "Elements yielded to the main and to side outputs"),
    "late_records": _make_counter(
        "late_records", "Records whose timestamp the watermark had reached; processed all the same"
    ),
    "keys": _make_counter("keys", "Keys that had a record or a timer, counted in each micro-batch"),
    "timers_fired": _make_counter("timers_fired", "Timers fired, of both time domains"),
    "expired_entries": _make_counter(
        "expired_entries", "Entries deleted because their TTL had passed"
    ),
    "key_groups": _make_counter("key_groups", "Key groups served, counted in each micro-batch"),
    "warm_loads": _make_counter(
        "warm_loads", "Key groups whose working state could be used as it was"
    ),
    "caught_up_loads": _make_counter(
        "caught_up_loads", "Key groups whose working state had the latest segments replayed"
    ),
    "cold_loads": _make_counter("cold_loads", "Key groups rebuilt from their whole log"),
    "segment_bytes": _make_counter("segment_bytes", "Bytes written to the logs of state", "bytes"),
    "compactions": _make_counter("compactions", "Logs replaced by a snapshot"),
    "dead_letters": _make_counter("dead_letters", "Records and timers that became dead letters"),
    "dropped_entries": _make_counter(
        "dropped_entries", "Entries of states in `drop_states` that left the logs"
    ),
}
"""The counters that add up the numbers of `OperatorMetrics`, by the names of these numbers."""


def _make_gauge(stem: str, text: str, source: str, unit: Unit = "") -> CatalogueEntry:
    return CatalogueEntry(stem, "gauge", unit, _OPERATOR, text, source)


CATALOGUE: Final = (
    # A query
    CatalogueEntry(
        *("query_running", "gauge", "", _QUERY),
        "1 while the query runs; missing once it has ended",
        "start and end of the query",
    ),
    CatalogueEntry(
        *("query_failures", "counter", "", _QUERY),
        "Ends of the query with an error",
        "`exception` of `QueryTerminatedEvent`",
    ),
    CatalogueEntry(*("batches", "counter", "", _QUERY), "Micro-batches done", "`batchId`"),
    CatalogueEntry(
        *("input_rows", "counter", "", _QUERY), "Rows read from all sources", "`numInputRows`"
    ),
    CatalogueEntry(
        *("last_batch_timestamp", "gauge", "seconds", _QUERY),
        "When the last micro-batch began, in seconds since 1970",
        "`timestamp`",
    ),
    CatalogueEntry(
        *("batch_duration", "gauge", "seconds", _QUERY),
        "Duration of the last micro-batch",
        "`durationMs.triggerExecution`",
    ),
    CatalogueEntry(
        *("batch_phase_duration", "counter", "seconds", ("query", "phase")),
        "Time spent in each phase of micro-batches; `other` is the rest of them",
        "`durationMs`",
    ),
    CatalogueEntry(
        *("trigger_interval", "gauge", "seconds", _QUERY),
        "Interval of the query's trigger, as given to the listener",
        "`triggers=` of the listener",
    ),
    CatalogueEntry(
        *("watermark_timestamp", "gauge", "seconds", _QUERY),
        "The watermark of the last micro-batch, in seconds since 1970; 0 before the first",
        "`eventTime.watermark`",
    ),
    CatalogueEntry(
        *("watermark_lag", "gauge", "seconds", _QUERY),
        "How far the watermark was behind the beginning of the last micro-batch",
        "`timestamp` and `eventTime.watermark`",
    ),
    # An operator
    *FROM_OPERATORS.values(),
    CatalogueEntry(
        *("dropped_records", "counter", "", _OPERATOR),
        "Late records that windows and joins dropped",
        "`numLateRecordsDropped` of `metrics_of(...).user`",
    ),
    _make_gauge(
        "served_key_groups",
        "Key groups that the last micro-batch served",
        "`key_groups` of `metrics_of`",
    ),
    _make_gauge(
        "live_entries",
        "Entries stored in the key groups that the last micro-batch served",
        "`live_entries` of `metrics_of`",
    ),
    _make_gauge(
        "timers",
        "Timers registered in the key groups that the last micro-batch served",
        "`timers` of `metrics_of`",
    ),
    _make_gauge(
        "state",
        "Bytes of the logs of the key groups that the last micro-batch served",
        "`state_bytes` of `metrics_of`",
        "bytes",
    ),
    _make_gauge(
        "key_group_live_entries",
        "Mean number of entries of a key group; comparable whatever groups were served",
        "`live_entries` / `key_groups`",
    ),
    _make_gauge(
        "key_group_state",
        "Mean size of the log of a key group; comparable whatever groups were served",
        "`state_bytes` / `key_groups`",
        "bytes",
    ),
    _make_gauge(
        "key_group_records",
        "Mean number of records of a key group in the last micro-batch",
        "`records` / `key_groups`",
    ),
    _make_gauge(
        "busiest_key_group_records",
        "Records of the key group that had most of them in the last micro-batch",
        "`busiest_records` of `metrics_of`",
    ),
    CatalogueEntry(
        *("input_records", "counter", "", _INPUT),
        "Records of each of two inputs with event time",
        "`inputs` of `metrics_of`",
    ),
    CatalogueEntry(
        *("input_latest_timestamp", "gauge", "seconds", _INPUT),
        "Latest event time of each of two inputs, in seconds since 1970",
        "`inputs` of `metrics_of`",
    ),
    # Spark's own stateful operators
    CatalogueEntry(
        *("state_rows", "gauge", "", _STATE_OPERATOR),
        "Rows in Spark's state store; for an operator of ours these are segments and heads of logs",
        "`stateOperators.numRowsTotal`",
    ),
    CatalogueEntry(
        *("state_memory", "gauge", "bytes", _STATE_OPERATOR),
        "Memory that Spark's state store uses",
        "`stateOperators.memoryUsedBytes`",
    ),
    CatalogueEntry(
        *("state_commit_duration", "counter", "seconds", _STATE_OPERATOR),
        "Time spent in commits of Spark's state store, summed over its tasks",
        "`stateOperators.commitTimeMs`",
    ),
    CatalogueEntry(
        *("rows_dropped_by_watermark", "counter", "", _STATE_OPERATOR),
        "Rows that an operator of Spark's own dropped as late",
        "`stateOperators.numRowsDroppedByWatermark`",
    ),
    # The user's functions
    CatalogueEntry(
        *("user_counter", "counter", "", _USERS),
        "Increase of the counters and meters of a function",
        "`metrics_of(...).user`",
    ),
    CatalogueEntry(
        *("user_counter_decrease", "counter", "", _USERS),
        "Decrease of the counters of a function by `dec`",
        "`metrics_of(...).user`",
    ),
    CatalogueEntry(
        *("user_gauge_min", "gauge", "", _USERS),
        "Least reading of a function's gauge in the last micro-batch",
        "`metrics_of(...).user`, `<name>.min`",
    ),
    CatalogueEntry(
        *("user_gauge_max", "gauge", "", _USERS),
        "Greatest reading of a function's gauge in the last micro-batch",
        "`metrics_of(...).user`, `<name>.max`",
    ),
    CatalogueEntry(
        *("user_distribution_count", "counter", "", _USERS),
        "Number of values of a function's distribution",
        "`metrics_of(...).user`, `<name>.count`",
    ),
    CatalogueEntry(
        *("user_distribution_sum", "sum", "", _USERS),
        "Sum of the values of a function's distribution; falls if values are negative",
        "`metrics_of(...).user`, `<name>.sum`",
    ),
    CatalogueEntry(
        *("user_distribution_min", "gauge", "", _USERS),
        "Least value of a function's distribution in the last micro-batch that had one",
        "`metrics_of(...).user`, `<name>.min`",
    ),
    CatalogueEntry(
        *("user_distribution_max", "gauge", "", _USERS),
        "Greatest value of a function's distribution in the last micro-batch that had one",
        "`metrics_of(...).user`, `<name>.max`",
    ),
    # The listener itself
    CatalogueEntry(
        *("listener_series", "gauge", "", ()), "Series that the listener keeps", "the listener"
    ),
    CatalogueEntry(
        *("listener_dropped_samples", "counter", "", ()),
        "Values left out because the listener keeps max_series series already",
        "the listener",
    ),
    CatalogueEntry(
        *("listener_errors", "counter", "", ()),
        "Events that the listener could not read; the log has the first",
        "the listener",
    ),
)
"""All metrics, in the order in which the reference has them."""

_BY_STEM: Final = {each.stem: each for each in CATALOGUE}


def find_metric(stem: str) -> CatalogueEntry:
    """Return the metric with this stem."""
    return _BY_STEM[stem]
