# SPDX-License-Identifier: Apache-2.0
"""Listeners for Prometheus and OpenTelemetry, told of queries as PySpark tells them."""

from __future__ import annotations

import copy
import pickle
import socket
import sys
import urllib.request
import uuid
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("prometheus_client", reason="the extra `prometheus`")
pytest.importorskip("opentelemetry.sdk", reason="the extra `otel`")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from played_queries import recorded, tell
from prometheus_client import CollectorRegistry

from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    RequirementError,
    SparkSetupError,
)
from pyflinklike.monitoring import OpenTelemetryListener, PrometheusListener
from pyflinklike.monitoring.catalogue import CATALOGUE
from pyflinklike.monitoring.query_listener import read_progress

COUNTS = {**dict.fromkeys(OperatorMetrics.names(), 0), "busiest_records": 0, "user": {}}
RUNS = [str(uuid.UUID(int=n)) for n in range(9)]


def progress(batch, run=RUNS[1], name="clicks", query=RUNS[0], **changes):
    """What a listener is told of a micro-batch."""
    told = {
        "id": query,
        "runId": run,
        "name": name,
        "timestamp": "2026-11-26T05:00:10.500Z",
        "batchId": batch,
        "batchDuration": 350,
        "numInputRows": 100,
        "inputRowsPerSecond": 50.0,
        "processedRowsPerSecond": 200.0,
        "durationMs": {"addBatch": 300, "walCommit": 20, "triggerExecution": 350},
        "eventTime": {"watermark": "2026-11-26T05:00:08.000Z"},
        "stateOperators": [],
        "observedMetrics": {},
        "sources": [],
        "sink": {"description": "", "numOutputRows": 0},
    }
    return {"progress": {**told, **changes}}


def counted(batch, uid="count", **counts):
    """A micro-batch with an operator's numbers."""
    return progress(batch, observedMetrics={uid: {**COUNTS, **counts}})


def started(name="clicks", query=RUNS[0], run=RUNS[1]):
    """The start of a query."""
    return {"started": {"id": query, "runId": run, "name": name, "timestamp": ""}}


def ended(query=RUNS[0], run=RUNS[1], exception=None):
    """The end of a query."""
    own = {"id": query, "runId": run}
    return {"terminated": {**own, "exception": exception, "errorClassOnException": None}}


def shown(registry):
    """What a scrape has: values by name and the values of labels."""
    return {
        (sample.name.removeprefix("pyflinklike_"), *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


@pytest.fixture
def scraped():
    """Tells a new listener of events, and returns what a scrape has then."""

    def scrape(*events, **options):
        registry = CollectorRegistry()
        listener = PrometheusListener(registry=registry, **options)
        for each in events:
            tell(listener, each)
        return shown(registry)

    return scrape


def test_counters_are_sums_and_gauges_of_the_last_batch(scraped):
    """By the name of the query and the uid of the operator."""
    found = scraped(
        counted(0, records=8, key_groups=4, live_entries=8, segment_bytes=100, busiest_records=5),
        counted(1, records=2, key_groups=2, live_entries=6, segment_bytes=50, busiest_records=1),
    )
    expected = {
        ("records_total", "clicks", "count"): 10,
        ("segment_bytes_total", "clicks", "count"): 150,
        ("live_entries", "clicks", "count"): 6,
        ("key_group_live_entries", "clicks", "count"): 3,
        ("busiest_key_group_records", "clicks", "count"): 1,
        ("batches_total", "clicks"): 2,
        ("input_rows_total", "clicks"): 200,
        ("batch_duration_seconds", "clicks"): 0.35,
        ("batch_phase_duration_seconds_total", "clicks", "addBatch"): 0.6,
        ("batch_phase_duration_seconds_total", "clicks", "other"): 0.06,
        ("watermark_lag_seconds", "clicks"): 2.5,
        ("query_running", "clicks"): 1,
    }
    assert expected == {each: pytest.approx(found[each]) for each in expected}


def test_a_batch_that_is_told_twice_counts_once(scraped):
    """By its run and number; the same number of another run was done once more."""
    again = counted(0, records=1)
    again["progress"]["runId"] = RUNS[2]
    found = scraped(*[counted(0, records=5)] * 2, again, counted(0, records=5))
    assert 6 == found["records_total", "clicks", "count"]


def test_a_trigger_that_did_nothing_counts_as_no_batch(scraped):
    """Spark tells of it with the number that the next micro-batch will have."""
    idle = progress(0, durationMs={"latestOffset": 3, "triggerExecution": 3})
    found = scraped(idle, counted(0, records=5))
    assert (1, 5) == (found["batches_total", "clicks"], found["records_total", "clicks", "count"])


def test_gauges_stay_where_a_batch_serves_no_key_group(scraped):
    """Nothing was read of the state, so nothing is known anew."""
    found = scraped(counted(0, key_groups=2, live_entries=4), counted(1))
    assert 2 == found["key_group_live_entries", "clicks", "count"]


def test_the_gauges_of_a_query_go_with_it_and_its_counters_stay(scraped):
    """The last micro-batch is still read, and nobody takes an old watermark for today's."""
    found = scraped(started(), counted(0, records=5, key_groups=1), ended(exception="boom"))
    names = {each[0] for each in found if each[1:2] == ("clicks",)}
    gauges = {each.name.removeprefix("pyflinklike_") for each in CATALOGUE if each.kind == "gauge"}
    assert (set(), 1, 5) == (
        names & gauges,
        found["query_failures_total", "clicks"],
        found["records_total", "clicks", "count"],
    )


def test_a_query_that_is_started_again_goes_on(scraped):
    """Its counters do, and its gauges are there again; an end without an error is no failure."""
    again = counted(1, records=1, key_groups=1)
    again["progress"]["runId"] = RUNS[2]
    run = started(run=RUNS[2])
    found = scraped(started(), counted(0, records=5), ended(), counted(0, records=9), run, again)
    assert (6, 1, 0) == (
        found["records_total", "clicks", "count"],
        found["query_running", "clicks"],
        found["query_failures_total", "clicks"],
    )


@pytest.mark.parametrize(
    "again", [started(run=RUNS[2]), started(query=RUNS[3], run=RUNS[2])], ids=["itself", "another"]
)
def test_an_end_that_is_told_after_the_next_start_ends_nothing(scraped, again):
    """Spark tells of starts at once, and of batches and ends when it comes to it."""
    told = counted(0, key_groups=1), counted(1, key_groups=1)
    found = scraped(started(), told[0], again, told[1], ended(exception="boom"))
    assert (1, 1, 1) == (
        found["query_running", "clicks"],
        found["query_failures_total", "clicks"],
        found["served_key_groups", "clicks", "count"],
    )


def test_progress_may_come_as_objects():
    """As PySpark 3.5 gives it, whose progress is no dict."""
    told = recorded("stands-still")[3]["progress"]
    operators = [SimpleNamespace(**each) for each in told["stateOperators"]]
    as_object = SimpleNamespace(**{**told, "stateOperators": operators})
    assert list(read_progress(told)) == list(read_progress(as_object))


def test_a_query_without_a_name_is_called_by_its_id(scraped):
    """Which a restart keeps, where that of a run is new."""
    found = scraped(started(None), progress(0, name=None), ended())
    assert (1, 0) == (found["batches_total", RUNS[0]], found["query_failures_total", RUNS[0]])


def test_a_watermark_that_never_moved_has_no_lag(scraped):
    """Spark's is 1970 then: that it stands still shows, and no lag of 56 years."""
    found = scraped(progress(0, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}))
    assert (0, False) == (
        found["watermark_timestamp_seconds", "clicks"],
        ("watermark_lag_seconds", "clicks") in found,
    )


USER = {
    "fives": 2,
    "open": -3,
    "of.sizes.count": 4,
    "of.sizes.min": -1,
    "of.sizes.max": 1,
    "seven.min": 7,
    "seven.max": 8,
    "x.count=": 5,
    "latency.min=": 3,
    "latency.max=": 4,
    "numLateRecordsDropped": 6,
}


def test_the_metrics_of_functions_are_told_by_kind(scraped):
    """A counter, one that fell, a distribution of sum 0, a gauge, and counters whose names look like parts."""
    found = scraped(counted(0, user=USER))
    own = {
        key: value for key, value in found.items() if key[0].startswith(("user", "dropped_records"))
    }
    where = ("clicks", "count")
    assert {
        ("dropped_records_total", *where): 6,
        ("user_counter_total", *where, "fives"): 2,
        ("user_counter_total", *where, "x.count"): 5,
        ("user_counter_total", *where, "latency.min"): 3,
        ("user_counter_total", *where, "latency.max"): 4,
        ("user_counter_decrease_total", *where, "open"): 3,
        ("user_distribution_count_total", *where, "of.sizes"): 4,
        ("user_distribution_sum", *where, "of.sizes"): 0,
        ("user_distribution_min", *where, "of.sizes"): -1,
        ("user_distribution_max", *where, "of.sizes"): 1,
        ("user_gauge_min", *where, "seven"): 7,
        ("user_gauge_max", *where, "seven"): 8,
    } == own


def test_functions_without_keys_and_what_others_observe(scraped):
    """A job's map has its own metrics alone; what a user observes is not ours."""
    observed = {
        "Map": {"user": {"seen": 3}},
        "mine": {"rows": 7},
        "mine too": {"user": None, "n": 1},
    }
    found = scraped(progress(0, observedMetrics=observed))
    operators = {key: value for key, value in found.items() if key[2:3] and "phase" not in key[0]}
    assert {("user_counter_total", "clicks", "Map", "seen"): 3} == operators


def test_there_are_never_more_series_than_allowed(scraped, caplog):
    """What is left out is counted, and told once; the series that are known go on."""
    names = [{f"user {batch} {n}": 1 for n in range(50)} for batch in range(20)]
    told = [counted(batch, records=1, user=each) for batch, each in enumerate(names)]
    found = scraped(*told, max_series=100)
    own = (
        ("listener_series",),
        ("listener_dropped_samples_total",),
        ("records_total", "clicks", "count"),
    )
    assert [100, 20] == [found[own[0]], found[own[2]]]
    assert found[own[1]] > 800
    assert 100 + 3 == len(found)
    assert 1 == len([each for each in caplog.records if "max_series=100" in each.message])


def test_queries_that_ended_first_make_room(scraped):
    """A session that starts query after query has the series of the last ones."""
    events = []
    for n in range(100):
        own = {"query": str(uuid.UUID(int=100 + n)), "run": str(uuid.UUID(int=1_000 + n))}
        name = f"q{n}"
        events += [started(name, **own), progress(0, name=name, **own), ended(**own)]
    found = scraped(*events, max_series=50)
    assert (0, True, False) == (
        found[("listener_dropped_samples_total",)],
        ("batches_total", "q99") in found,
        ("batches_total", "q0") in found,
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"timestamp": "yesterday"},
        {"durationMs": {"addBatch": "long"}},
        {"batchId": None},
        {"observedMetrics": {"count": {**COUNTS, "records": None}}},
    ],
    ids=lambda broken: next(iter(broken)),
)
def test_no_error_leaves_a_listener_and_nothing_of_its_batch_is_added(scraped, caplog, broken):
    """The query goes on; the error is counted and the first is in the log."""
    found = scraped(counted(0, records=5), progress(1, **broken), counted(2, records=1))
    assert (6, 2) == (
        found["records_total", "clicks", "count"],
        found["batches_total", "clicks"],
    )
    assert 1 == found[("listener_errors_total",)]
    assert "the query is not affected" in caplog.text


def test_triggers_are_told_by_the_name_of_a_query(scraped):
    """Spark does not tell them."""
    found = scraped(started(), started("other", RUNS[4], RUNS[5]), triggers={"clicks": 10})
    expected = {("trigger_interval_seconds", "clicks"): 10.0}
    assert expected == {key: value for key, value in found.items() if "trigger" in key[0]}


def test_opentelemetry_has_the_same_numbers_under_the_same_names():
    """Its names with unit and ending are Prometheus' (the rule of its exporters), for a whole recorded query."""
    reader, registry = InMemoryMetricReader(), CollectorRegistry()
    other = OpenTelemetryListener(MeterProvider([reader]))
    listener = PrometheusListener(registry=registry)
    for each in recorded("healthy")[:-1]:
        tell(listener, each)
        tell(other, each)
    units = {"s": "_seconds", "By": "_bytes", "": ""}
    (resource,) = reader.get_metrics_data().resource_metrics
    found = {}
    for each in resource.scope_metrics[0].metrics:
        ending = "_total" if getattr(each.data, "is_monotonic", False) else ""
        name = f"{each.name.replace('.', '_')}{units[each.unit]}{ending}"
        for point in each.data.data_points:
            key = (name.removeprefix("pyflinklike_"), *point.attributes.values())
            found[key] = point.value
    assert shown(registry) == found
    assert len(found) > 50


def test_opentelemetry_drops_gauges_and_all_after_close():
    """As Prometheus does, at the next export."""
    reader = InMemoryMetricReader()
    listener = OpenTelemetryListener(MeterProvider([reader]))
    for each in (started(), counted(0, key_groups=1), ended()):
        tell(listener, each)
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    names = {each.name for each in metrics}
    listener.close()
    assert ("pyflinklike.records" in names, "pyflinklike.live_entries" in names) == (True, False)
    assert reader.get_metrics_data() is None


def test_it_is_served_on_this_machine_until_it_is_closed():
    """By prometheus-client's own server; the registry can be taken again."""
    registry = CollectorRegistry()
    listener = PrometheusListener(0, registry=registry)
    tell(listener, counted(0, records=5))
    url = f"http://127.0.0.1:{listener.port}/metrics"
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    listener.close()
    listener.close()
    assert 'pyflinklike_records_total{operator="count",query="clicks"} 5.0' in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url)
    PrometheusListener(registry=registry).close()


def test_a_port_that_is_taken_is_told():
    """And the registry is free again."""
    registry = CollectorRegistry()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            SparkSetupError, match=rf"got '127.0.0.1':{port} .*; give another one, or 0"
        ):
            PrometheusListener(port, registry=registry)
    PrometheusListener(registry=registry).close()


def test_a_registry_takes_one_listener():
    """Two would give each series twice."""
    registry = CollectorRegistry()
    PrometheusListener(registry=registry)
    with pytest.raises(DeclarationError, match="got a second one"):
        PrometheusListener(registry=registry)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"port": "9464"}, DeclarationTypeError),
        ({"port": True}, DeclarationTypeError),
        ({"port": 65_536}, DeclarationValueError),
        ({"address": 5}, DeclarationTypeError),
        ({"registry": {}}, DeclarationTypeError),
        ({"max_series": "many"}, DeclarationTypeError),
        ({"max_series": 0}, DeclarationValueError),
        ({"triggers": 10}, DeclarationTypeError),
        ({"triggers": {"clicks": "10 seconds"}}, DeclarationTypeError),
        ({"triggers": {"clicks": 0}}, DeclarationValueError),
    ],
)
def test_wrong_arguments_are_refused(wrong, error):
    """With what was got, before anything is served."""
    (given,) = wrong.values()
    with pytest.raises(error, match=str(given).partition("{")[0] or "got {"):
        PrometheusListener(**{"registry": CollectorRegistry(), **wrong})


@pytest.mark.parametrize(
    ("listener", "package", "extra"),
    [
        (PrometheusListener, "prometheus_client", "prometheus"),
        (OpenTelemetryListener, "opentelemetry", "otel"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, listener, package, extra):
    """When the listener is made: the door opens without either."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RequirementError, match=rf"{package}.*\[{extra}\]"):
        listener()


def test_what_is_no_provider_is_refused():
    """The global one is taken without it."""
    with pytest.raises(DeclarationTypeError, match="got 'http'; leave it out"):
        OpenTelemetryListener("http")


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy])
def test_a_listener_is_not_sent_to_a_server(send):
    """PySpark 3.5 would run it in the process of the Connect server, where nobody reads it."""
    listener = PrometheusListener(registry=CollectorRegistry())
    with pytest.raises(SparkSetupError, match=r"got a session of Spark Connect 3\.5"):
        send(listener)
