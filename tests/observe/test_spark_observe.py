# SPDX-License-Identifier: Apache-2.0
"""A query of Spark that runs while both listeners are asked."""

from __future__ import annotations

import urllib.request

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("prometheus_client", reason="the extra `prometheus`")
pytest.importorskip("opentelemetry.sdk", reason="the extra `otel`")

import observed_queries
from dashboard_support import used_names
from observed_queries import SCHEMA, watched
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from spark_support import Feed, at, passes_watermarks, pickle_by_value, until

from pyflinklike.observe import OpenTelemetryListener, PrometheusListener
from pyflinklike.spark import metrics_of

pickle_by_value(observed_queries.__name__)


@pytest.fixture
def listeners(spark):
    """Both, on a registry and a reader of their own; taken off again."""
    reader = InMemoryMetricReader()
    made = [
        PrometheusListener(0, registry=CollectorRegistry(), triggers={"watched": 10}),
        OpenTelemetryListener(MeterProvider([reader])),
    ]
    for each in made:
        spark.streams.addListener(each)
    yield made[0], reader
    for each in made:
        spark.streams.removeListener(each)
        each.close()


def scrape(listener):
    """What Prometheus reads over HTTP: values by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics") as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def pushed(reader):
    """What OpenTelemetry would export of records."""
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    (records,) = (each for each in metrics if each.name == "pyflinklike.records")
    return [(dict(each.attributes), each.value) for each in records.data.data_points]


@pytest.mark.telling
@passes_watermarks
def test_a_running_query_is_scraped_with_every_name_that_dashboard_and_alerts_use(
    spark, tmp_path, listeners
):
    """The sums are those of its progress; when it ends its gauges go, and its counters stay."""
    listener, reader = listeners
    first, second = (Feed(spark, tmp_path / each, SCHEMA) for each in ("first", "second"))
    first.add(*[[(key, at(60_000 * n), n + 1) for key in "abc"] for n in range(1, 4)])
    second.add(*[[(key, at(60_000 * n), n) for key in "ax"] for n in range(1, 4)])
    writer = watched(first.stream(), second.stream()).writeStream.format("noop")
    writer = writer.queryName("watched").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    records = "pyflinklike_records_total", frozenset({"watched"})
    try:
        until(query, lambda: scrape(listener).get(records) == 15)
        running = scrape(listener)
    finally:
        query.stop()
    told = [metrics_of(each, "watched") for each in query.recentProgress]
    sums = {
        f"pyflinklike_{name}_total": sum(each[name] for each in told[:3])
        for name in ("records", "outputs", "keys")
    }
    assert {name: running[name, frozenset({"watched"})] for name in sums} == sums
    assert 9 == running["pyflinklike_user_counter_total", frozenset({"watched", "seen"})]
    assert set() == used_names() - {name for name, _ in running}
    until(query, lambda: not any("query_running" in name for name, _ in scrape(listener)))
    gone = {name for name, _ in running} - {name for name, _ in scrape(listener)}
    assert {"pyflinklike_live_entries", "pyflinklike_watermark_lag_seconds"} <= gone
    assert 15 == scrape(listener)[records]
    assert [({"query": "watched", "operator": "watched"}, 15)] == pushed(reader)
