# SPDX-License-Identifier: Apache-2.0
"""Types that grow, on Spark: restarts from one checkpoint, and all that reads its log."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException
from spark_savepoints import rocksdb
from spark_support import Feed, drain, pickle_by_value, reads_state

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark import key_by
from pyflinklike.state_processor import (
    diff_state,
    read_savepoint,
    read_state,
    read_state_changes,
    take_savepoint,
)

pytestmark = reads_state
pickle_by_value(__name__)

TEXT = Types.STRING()
OLD = (Types.INT(), Types.ROW_NAMED(["page", "n"], [TEXT, Types.SHORT()]), Types.FLOAT())
NEW = (
    Types.BIG_INT(),
    Types.ROW_NAMED(["n", "city", "page"], [Types.LONG(), TEXT, TEXT]),
    Types.DOUBLE(),
)


class Visits(KeyedProcessFunction):
    """Three states of the types it is given."""

    def __init__(self, types, *, to_integer=True):
        self.types = types
        self.to_integer = to_integer

    def open(self, runtime_context):
        count, visit, share = self.types
        self.count = runtime_context.get_state(ValueStateDescriptor("count", count))
        self.visits = runtime_context.get_list_state(ListStateDescriptor("visits", visit))
        self.shares = runtime_context.get_map_state(MapStateDescriptor("shares", TEXT, share))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + value.n)
        visit = {"page": value.page, "n": value.n % 1000, "city": "Rome"}
        names = self.types[1].get_field_names()
        self.visits.add({name: visit[name] for name in names})
        self.shares.put(value.page, value.n / 2)
        seen = [tuple(visit) for visit in self.visits.get()]
        yield value.user, str(self.count.value()), repr((seen, sorted(self.shares.items())))


def run(feed, checkpoint, types, **options):
    """What a program of these types gives until the feed is read."""
    query = key_by(feed.stream(), "user").process(
        Visits(types), "user string, count string, all string", max_parallelism=2, **options
    )
    batches = drain(query, checkpoint)
    return sorted(tuple(row) for rows in batches.values() for row in rows)


def values(frame):
    """The user and the value of each row."""
    return sorted((row.user, row.value) for row in frame.select("user", "value").collect())


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_state_grows_over_a_restart(spark, tmp_path, backend):
    """Old and new values side by side, for the function and for whoever reads the checkpoint."""
    options = {"uid": "visits"}
    if backend == "rocksdb":
        options["state_backend"] = rocksdb(tmp_path / "db")
    feed, checkpoint = (
        Feed(spark, tmp_path / "feed", "user string, page string, n long"),
        tmp_path / "c",
    )
    feed.add([("a", "x", 1), ("b", "y", 2), ("c", "z", 3)])
    run(feed, checkpoint, OLD, **options)

    feed.add([("b", "y", 5)])
    with pytest.raises(StreamingQueryException, match=r"'Integer', got 'Short'.*cast_state\(\)"):
        run(feed, checkpoint, (Types.SHORT(), *OLD[1:]), **options)
    again = [("b", "7", repr(([("y", 2), ("y", 5)], [("y", 2.5)])))]
    assert again == run(feed, checkpoint, OLD, **options)

    feed.add([("a", "y", 2**60), ("d", "y", 4)])
    grown = run(feed, checkpoint, NEW, **options)
    assert [
        (
            "a",
            str(2**60 + 1),
            repr(([(1, None, "x"), (2**60 % 1000, "Rome", "y")], [("x", 0.5), ("y", 2.0**59)])),
        ),
        ("d", "4", repr(([(4, "Rome", "y")], [("y", 2.0)]))),
    ] == grown
    feed.add([("c", "z", 1)])
    with pytest.raises(StreamingQueryException, match="'BigInteger', got 'Integer'"):
        run(feed, checkpoint, OLD, **options)

    counts = [("a", str(2**60 + 1)), ("b", "7"), ("c", "3"), ("d", "4")]
    assert counts == values(read_state(spark, checkpoint, "count"))
    assert [("a", 1), ("b", 2), ("c", 3)] == values(
        read_state(spark, checkpoint, "count", batch_id=0)
    )
    visits = read_state(spark, checkpoint, "visits")
    assert [None, None, None, None, "Rome", "Rome"] == sorted(
        (row.city for row in visits.select("value.city").collect()), key=str
    )
    changes = read_state_changes(spark, checkpoint, "count", 0, 2)
    assert sorted([*counts, ("a", "1"), ("b", "2")]) == values(changes)
    before = read_state(spark, checkpoint, "visits", batch_id=0)
    added = diff_state(before, visits).collect()
    assert ["insert", "insert", "insert"] == [row.change for row in added]
    changed = diff_state(
        read_state(spark, checkpoint, "count", batch_id=0), read_state(spark, checkpoint, "count")
    )
    assert {("a", "1", str(2**60 + 1)), ("b", "2", "7"), ("d", None, "4")} == {
        (row.user, row.before, row.after) for row in changed.collect()
    }

    take_savepoint(spark, checkpoint, tmp_path / "savepoint")
    wider = (*NEW[:2], Types.DOUBLE())
    for number, savepoint in enumerate((tmp_path / "savepoint", read_savepoint(spark, checkpoint))):
        later = Feed(
            spark, tmp_path / f"feed{number}", feed.schema.simpleString()[7:-1].replace(":", " ")
        )
        later.add([("c", "z", 1), ("a", "x", 1)])
        found = run(later, tmp_path / f"c{number}", wider, uid="visits", from_savepoint=savepoint)
        assert [str(2**60 + 2), "4"] == [count for _, count, _ in found]
