# SPDX-License-Identifier: Apache-2.0
"""Views fed by Spark: exactly once per batch id, with the values that functions see."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections import Counter
from decimal import Decimal

import pytest
from example_support import example
from pyspark.sql.utils import is_remote
from spark_support import Feed, at

from pyflinklike import Row
from pyflinklike.views import MaterializedView

SCHEMA = """id long, at timestamp, local timestamp_ntz, day date, price decimal(10, 2), data binary,
    tags array<string>, counts map<string, long>, place struct<x: double, when: timestamp>, n int"""


def record(key, n, second):
    """A record with a value of every kind."""
    when = at(1_700_000_000_000 + 1_000 * second)
    place = {"x": 1.5, "when": when}
    many = (when, when, when.date(), Decimal("1.50"), b"\0", ["a", None], {"b": 1}, place)
    return (key, *many, n)


def run(stream, view, checkpoint):
    """A stream into a view, to its end."""
    writer = stream.writeStream.foreachBatch(view.foreach_batch).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


@pytest.mark.telling
def test_a_stream_feeds_a_view_exactly_once(spark, tmp_path):
    """Values come as functions see them; a repeated batch is known, another stream's is not."""
    feed = Feed(spark, tmp_path / "feed", SCHEMA)
    feed.add([record(1, 1, 0), record(2, 1, 1)], [record(1, 2, 2), record(1, 3, 3)])
    # Stateful, and in no certain order within a batch.
    marked = feed.stream().withWatermark("at", "1 second")
    stream = marked.dropDuplicatesWithinWatermark(["id", "n"])
    with MaterializedView("v", key="id", order_by="at", path=tmp_path) as view:
        following = view.changes(timeout=0)
        run(stream, view, tmp_path / "one")

        expected = feed.bounded().orderBy("n").collect()[-1].asDict(recursive=True)
        expected["place"] = Row(**expected["place"])
        expected["data"] = bytes(expected["data"])
        assert Row(**expected) == view[1]
        # Over Connect a process of the server feeds the view, and tells its own subscribers.
        assert is_remote() or {(1, 1), (2, 1), (1, 3)} == {(c.key, c.after.n) for c in following}
        last, watermark, lag = view.freshness
        assert (last, 1_700_000_003_000) == (max(_commits(tmp_path / "one")), watermark)
        assert lag > 0

        # The stream dies before it notes that its last batch is in.
        (tmp_path / "one" / "commits" / str(last)).unlink()
        (tmp_path / "one" / "commits" / f".{last}.crc").unlink(missing_ok=True)
        feed.add([record(2, 9, 9)])
        run(stream, view, tmp_path / "one")
        assert is_remote() or [(2, 9)] == [(c.key, c.after.n) for c in following]
        assert max(_commits(tmp_path / "one")) == view.freshness.batch_id > last
        with sqlite3.connect(view.path) as file:
            applied = file.execute("SELECT batch_id FROM batches ORDER BY seq").fetchall()
        file.close()
        assert [(number,) for number in range(view.freshness.batch_id + 1)] == applied

        # A new checkpoint is a new stream, whose ids begin at 0 again.
        other = Feed(spark, tmp_path / "other", SCHEMA)
        other.add([record(3, 5, 0)])
        run(other.stream(), view, tmp_path / "two")
        assert (5, 3) == (view[3].n, len(view))

        zone = spark.conf.get("spark.sql.session.timeZone")
        try:
            spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
            view.foreach_batch(feed.bounded().where("n = 9"), 0)
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        assert at(1_700_000_009_000) + dt.timedelta(hours=9) == view[2].at


def test_a_view_knows_the_watermark_of_its_stream(spark, tmp_path):
    """That of the batch before, where no column of its rows tells a later one."""
    feed = Feed(spark, tmp_path / "feed", "id long, at timestamp")
    feed.add([(1, at(5_000))], [(1, at(9_000))], [(1, at(9_000))])
    with MaterializedView("v", key="id", path=tmp_path, clock=lambda: 10_000) as view:
        run(feed.stream().withWatermark("at", "1 second"), view, tmp_path / "one")

        assert (2, 4_000, 6_000) == view.freshness


def _commits(checkpoint):
    """The batches that a stream noted as done."""
    return [int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit()]


@pytest.mark.thorough
def test_a_reprocessed_version_takes_the_place_of_the_old(spark, tmp_path):
    """The Kappa example: stream and batch of one function agree with plain Python, and a rollback."""
    kappa = example("kappa_reprocess")
    serving = kappa.run(spark, tmp_path, 200)
    events = [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted((tmp_path / "log").iterdir())
        if file.suffix == ".json"
    ]

    def spent(files, *, with_refunds):
        totals = {}
        for event in (event for file in files for event in file):
            count, total = totals.get(event["customer"], (0, 0))
            amount = event["amount"] if event["amount"] > 0 or with_refunds else 0
            totals[event["customer"]] = (count + 1, total + amount)
        return totals

    def served():
        rows = serving.get_many(f"c{n:02}" for n in range(30))
        return {key: (row.events, row.spent) for key, row in rows.items()}

    assert spent(events, with_refunds=True) == served()
    second = serving.layers[0]
    reprocessed = {key: (row.events, row.spent) for key, row in second.as_of(0).items()}
    assert spent(events[:1], with_refunds=True) == reprocessed  # the stream's 0 was no news
    serving.rollback()
    assert spent(events[:1], with_refunds=False) == served()
    second.close()
    serving.layers[0].close()


@pytest.mark.thorough
def test_each_event_is_in_one_layer(spark, tmp_path):
    """The Lambda example: at the cut-off, without a time, and late, as the next batch counts it."""
    model = example("lambda_merge")
    cut_off = model.BEGIN + model.DAY
    first = [*model.day_of_views(0, 0, 60), (1_000, "/articles/1", None)]
    second, late = model.day_of_views(2_000, 1, 60), model.day_of_views(3_000, 0, 20)
    assert cut_off == second[0][2]
    model.append(tmp_path, first)
    model.append(tmp_path, second)
    log = spark.read.schema(model.EVENTS).json(str(tmp_path / "log"))
    old, recent = ({row.id for row in each.collect()} for each in model.layers(log, cut_off))
    assert ({event[0] for event in first}, {event[0] for event in second}) == (old, recent)

    batch, speed = model.open_layers(spark, tmp_path, cut_off)
    serving = model.ServingView(batch, speed, merge=model.merged)

    def served():
        rows = serving.get_many(f"/articles/{n}" for n in range(12))
        return {page: row.views for page, row in rows.items()}

    assert Counter(page for _, page, _ in first + second) == served()
    third = model.day_of_views(4_000, 2, 60)
    model.append(tmp_path, late)
    model.append(tmp_path, third)
    model.catch_up(spark, tmp_path, speed, cut_off)
    assert Counter(page for _, page, _ in first + second + third) == served()

    serving.swap(*model.open_layers(spark, tmp_path, cut_off + model.DAY))
    assert Counter(page for _, page, _ in first + second + late + third) == served()
    replaced = serving.rollback()
    assert Counter(page for _, page, _ in first + second + third) == served()
    for view in (*replaced, *serving.layers):
        view.close()
