# SPDX-License-Identifier: Apache-2.0
"""Sessions of Spark Connect: several on one server, and some that refuse settings."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession
from spark_support import Feed, at, drain, pickle_by_value, rows_of

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.errors import SparkSetupError
from pyflinklike.spark import key_by

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, n int"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class Sums(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.n)
        yield value.key, self.total.value()


def sums(stream):
    """The stream's totals."""
    return key_by(stream, "key").process(Sums(), "key string, total long", max_parallelism=4)


@pytest.fixture
def another(spark):
    """Another client of the same server."""
    made = SparkSession.builder.remote(os.environ["SPARK_REMOTE"]).create()
    yield made
    made.stop()


def test_a_stream_goes_on_in_another_session(spark, another, tmp_path):
    """Its state is the checkpoint's, not the session's, and the first session may be in use meanwhile."""
    first = Feed(spark, tmp_path / "input", SCHEMA)
    first.add([("a", at(1), 1), ("b", at(2), 2)])
    assert [("a", 1), ("b", 2)] == rows_of(drain(sums(first.stream()), tmp_path / "checkpoint"))

    first.add([("a", at(3), 3)])
    schema = first.schema
    stream = another.readStream.schema(schema).parquet(str(tmp_path / "input"))
    assert [("a", 4)] == rows_of(drain(sums(stream), tmp_path / "checkpoint"))


def refusing(session, monkeypatch, *names):
    """Let a session change none of these settings: the server is asked for one that is fixed."""
    conf = type(session.conf)
    given = conf.set

    def changed(self, name, value):
        given(self, "spark.sql.warehouse.dir" if name in names else name, value)

    monkeypatch.setattr(conf, "set", changed)


def test_a_session_that_refuses_settings_serves_where_they_are_right(
    another, tmp_path, monkeypatch
):
    """As they are by the server's start here; where they are not, one error has all of them."""
    feed = Feed(another, tmp_path / "input", SCHEMA)
    feed.add([("a", at(1), 1)])
    right = {name: another.conf.get(name) for name in (PROVIDER, CHANGELOG)}
    another.conf.set(CHANGELOG, "false")
    another.conf.set(PROVIDER, another.conf.get(PROVIDER).replace("RocksDB", "HDFSBacked"))
    refusing(another, monkeypatch, PROVIDER, CHANGELOG)
    with pytest.raises(
        SparkSetupError, match=rf'--conf "{PROVIDER}=.*RocksDB.*" --conf "{CHANGELOG}=true"'
    ):
        sums(feed.stream())

    monkeypatch.undo()
    for name, value in right.items():  # unset would go back to Spark's defaults, not the server's
        another.conf.set(name, value)
    refusing(another, monkeypatch, PROVIDER, CHANGELOG)
    assert [("a", 1)] == rows_of(drain(sums(feed.stream()), tmp_path / "checkpoint"))
