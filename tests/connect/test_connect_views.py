# SPDX-License-Identifier: Apache-2.0
"""Views that streams of a Spark Connect server feed, in Python processes of the server."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.errors import StreamingQueryException
from spark_support import Feed, at

from pyflinklike.views import MaterializedView

SCHEMA = "key string, ts timestamp, n int"


def run(stream, write, checkpoint):
    """Feed all there is to a function of `foreachBatch`."""
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


def seen(view):
    """What a view holds, by key."""
    return {row.key: row.n for row in view.query(allow_scan=True)}


@pytest.fixture
def feed(spark, tmp_path):
    """A stream of two batches."""
    made = Feed(spark, tmp_path / "input", SCHEMA)
    made.add([("a", at(1), 1), ("b", at(2), 2)], [("a", at(3), 3)])
    return made


def test_a_new_checkpoint_is_a_new_stream(spark, feed, tmp_path):
    """The view tells its batch 0 from that of the stream before, and a batch that comes again is ignored."""
    with MaterializedView("v", key="key", path=tmp_path / "views") as view:
        run(feed.stream(), view.foreach_batch, tmp_path / "one")
        assert ({"a": 3, "b": 2}, 1) == (seen(view), view.freshness.batch_id)

        feed.add([("c", at(4), 4)])
        run(feed.stream(), view.foreach_batch, tmp_path / "one")
        assert ({"a": 3, "b": 2, "c": 4}, 2) == (seen(view), view.freshness.batch_id)

        late = Feed(spark, tmp_path / "late", SCHEMA)
        late.add([("d", at(5), 5)])
        run(late.stream(), view.foreach_batch, tmp_path / "two")
        assert ({"a": 3, "b": 2, "c": 4, "d": 5}, 0) == (seen(view), view.freshness.batch_id)


def test_two_streams_of_a_session_have_to_be_named(spark, feed, tmp_path):
    """Spark does not tell which of them a batch is of; with names each counts its own."""
    waiting = feed.stream().writeStream.format("noop").queryName("waiting")
    other = waiting.option("checkpointLocation", str(tmp_path / "waiting")).start()
    with MaterializedView("v", key="key", path=tmp_path / "views") as view:
        try:
            with pytest.raises(StreamingQueryException, match=r"got 2 .*name the stream"):
                run(feed.stream(), view.foreach_batch, tmp_path / "one")
            assert {} == seen(view)

            named = partial(view.foreach_batch, source="one")
            run(feed.stream(), named, tmp_path / "one")
            assert {"a": 3, "b": 2} == seen(view)
        finally:
            other.stop()


def test_what_a_view_refuses_reaches_the_client(spark, feed, tmp_path):
    """By the sentence that a classic session shows, in a batch and where the view cannot be opened."""
    with (
        MaterializedView("v", key="nokey", path=tmp_path / "views") as view,
        pytest.raises(StreamingQueryException, match=r"key columns \['nokey'\].*mend the feed"),
    ):
        run(feed.stream(), view.foreach_batch, tmp_path / "one")
    # The worker of the first query may still be there, and with it a log that has the whole file.
    for log in view.path.parent.glob(f"{view.path.name}-*"):
        log.unlink()
    view.path.write_bytes(b"no database " * 1000)
    with pytest.raises(Exception, match=r"view 'v': .*must be") as error:
        run(feed.stream(), view.foreach_batch, tmp_path / "two")
    assert "pyflinklike" in str(error.value)
