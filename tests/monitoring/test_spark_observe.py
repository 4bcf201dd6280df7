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

from pyflinklike.monitoring import OpenTelemetryListener, PrometheusListener
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
    first.add(*[[(key, at(60_000 * n), n) for key in "abc"] for n in (1, 2)])
    second.add(*[[(key, at(60_000 * n), n) for key in "ax"] for n in (1, 2)])
    df = watched(first.stream(), second.stream(), max_parallelism=4)
    writer = df.writeStream.format("noop").queryName("watched")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    operator = frozenset({"watched"})
    try:
        until(query, lambda: scrape(listener).get(("pyflinklike_records_total", operator)) == 10)
        running = scrape(listener)
    finally:
        query.stop()
    assert set() == used_names() - {name for name, _ in running}
    assert 6 == running["pyflinklike_user_counter_total", frozenset({"watched", "seen"})]
    until(query, lambda: not any("query_running" in name for name, _ in scrape(listener)))
    ended = scrape(listener)
    told = [metrics_of(each, "watched") for each in query.recentProgress]
    names = "records", "outputs", "keys", "timers_fired", "segment_bytes"
    sums = [sum(each[name] for each in told if each is not None) for name in names]
    assert sums == [ended[f"pyflinklike_{name}_total", operator] for name in names]
    gone = {name for name, _ in running} - {name for name, _ in ended}
    assert {"pyflinklike_live_entries", "pyflinklike_watermark_lag_seconds"} <= gone
    assert [({"query": "watched", "operator": "watched"}, 10)] == pushed(reader)
