# SPDX-License-Identifier: Apache-2.0
"""Jobs of two inputs over several restarts, savepoints, and those of examples/."""

from __future__ import annotations

import pytest
from broadcast_support import LIMITS, Alert
from example_support import example
from spark_savepoints import rocksdb
from spark_support import Feed, drain, pickle_by_value, reads_state, rows_of
from two_stream_support import (
    BATCHES,
    EXPECTED,
    JOINED,
    PARTITIONS,
    RULES,
    SIDES,
    EventFeeds,
    Joined,
    Number,
    RuleFeeds,
    alerts_of,
    applied_of,
)

from pyflinklike import Row
from pyflinklike.spark import broadcast, connect
from pyflinklike.state_processor import read_savepoint
from pyflinklike.testing import BroadcastHarness, KeyedTwoInputHarness

pickle_by_value(__name__)

SIZES = {"fraud_rules": 1_200, "long_rides": 300}
RESTARTS = (2, 5)


@pytest.mark.parametrize("name", SIZES)
def test_a_job_agrees_with_a_plain_loop(spark, tmp_path, name):
    """At the end, after a restart in the middle; and there is something to be found."""
    job = example(name)
    batches = job.made(SIZES[name])
    tables = {"fraud_rules": ("rules", "payments"), "long_rides": ("starts", "ends")}[name]
    for number, batch in enumerate(batches):
        for table, rows in zip(tables, batch):
            job.write(spark, tmp_path / table, getattr(job, table.upper()), rows, number)
        if number in RESTARTS:
            found = job.run(spark, tmp_path)

    assert len(found) > 20
    assert job.expected(batches) == found


# Two inputs


def test_a_silent_input_holds_the_watermark(spark, tmp_path):
    """As in Flink; its state stays what it is, and nothing fires."""
    feeds = EventFeeds(spark, tmp_path)
    feeds.add([("a", 1, 1_000)], [])
    feeds.add([("a", 2, 9_000)], [])

    assert [] == rows_of(drain(feeds.joined(), tmp_path / "checkpoint"))


@reads_state
def test_a_stream_goes_on_from_a_savepoint_over_another_backend(spark, tmp_path):
    """With another max_parallelism, from half of the batches; a harness goes on from it, too."""
    feeds = EventFeeds(spark, tmp_path / "before")
    for events, names in BATCHES[:2]:
        feeds.add(events, names)
    first = drain(feeds.joined(max_parallelism=4), tmp_path / "old")
    savepoint = read_savepoint(spark, tmp_path / "old")
    later = EventFeeds(spark, tmp_path / "later")
    for events, names in BATCHES[2:]:
        later.add(events, names)
    backend = rocksdb(tmp_path / "local")
    options = {"max_parallelism": 6, "state_backend": backend, "from_savepoint": savepoint}
    second = drain(later.joined(**options), tmp_path / "new")

    assert EXPECTED == sorted(rows_of(first) + rows_of(second), key=repr)
    with KeyedTwoInputHarness(Joined(), lambda row: row.who, restore=savepoint) as h:
        assert [("c", 2, "Cid")] == h.process_element2(Row(who="c", name="Cid", seen=None))


def test_a_checkpoint_refuses_other_key_columns_of_the_second_input(spark, tmp_path):
    """Its records would look for state under keys that mean something else."""
    feeds = EventFeeds(spark, tmp_path)
    feeds.add(*BATCHES[0])
    drain(feeds.joined(), tmp_path / "checkpoint")
    feeds.add(*BATCHES[1])
    other = connect(feeds.events.stream(), feeds.names.stream()).key_by("user", "name")
    result = other.process(Joined(), JOINED, event_time=("at", "seen"))
    with pytest.raises(Exception, match=r"user = who"):
        drain(result, tmp_path / "checkpoint")


# A broadcast input


def test_a_rule_changes_the_state_of_all_keys(spark, tmp_path):
    """In every key group, on either backend, also after a restart."""
    feeds = RuleFeeds(spark, tmp_path)
    users = [f"u{n}" for n in range(8)]
    feeds.add([(user, 5, 1_000) for user in users], [])
    options = {"max_parallelism": 4, "state_backend": rocksdb(tmp_path / "local")}
    drain(feeds.alerts(**options), tmp_path / "checkpoint")
    feeds.add([], [("reset", 100)])
    feeds.add([(user, 1, 500) for user in users], [])
    run = drain(feeds.alerts(**options), tmp_path / "checkpoint")

    assert {(user, 101, "") for user in users} <= set(alerts_of(run))


@reads_state
def test_rules_come_along_with_a_savepoint(spark, tmp_path):
    """To more key groups, some of which had no record yet, to another backend, and to a harness."""
    feeds = RuleFeeds(spark, tmp_path / "before")
    feeds.add([("a", 5, 1_000)], [("low", 3), ("gone", 1)])
    feeds.add([], [("gone", None)])
    drain(feeds.alerts(max_parallelism=2), tmp_path / "old")
    savepoint = read_savepoint(spark, tmp_path / "old")
    later = RuleFeeds(spark, tmp_path / "later")
    users = [f"u{n}" for n in range(9)]
    later.add([(user, 4, 500) for user in [*users, "a"]], [])
    options = {"max_parallelism": 6, "state_backend": rocksdb(tmp_path / "local")}
    run = drain(later.alerts(from_savepoint=savepoint, **options), tmp_path / "new")

    expected = {("a", 9, "low"), *((user, 4, "low") for user in users)}
    assert expected == set(alerts_of(run))
    with BroadcastHarness(Alert(), [LIMITS], lambda row: row[0], restore=savepoint) as h:
        assert [("a", 5, "low")] == h.process_element(("a", 0))


def test_elements_without_keys_see_the_rules(spark, tmp_path):
    """On a stream, dealt to all partitions, and over a restart."""
    numbers = Feed(spark, tmp_path / "numbers", "n long")
    rules = Feed(spark, tmp_path / "rules", RULES)
    numbers.add([(n,) for n in range(6)])
    rules.add([("low", 3)])

    def flagged():
        connected = connect(numbers.stream(), broadcast(rules.stream(), LIMITS))
        return connected.process(Number(), "n long, broken string", side_outputs=SIDES)

    def found(run):
        rows = [row for batch in run.values() for row in batch if row.output_tag is None]
        return rows_of((row.n, row.broken) for row in rows)

    first = drain(flagged(), tmp_path / "checkpoint")
    numbers.add([])
    rules.add([("high", 4)])
    numbers.add([(5,)])
    second = drain(flagged(), tmp_path / "checkpoint")

    assert [(n, "low" if n > 3 else "") for n in range(6)] == found(first)
    assert [(5, "high,low")] == found(second)
    assert sorted(["low", "high"] * PARTITIONS) == applied_of(first, second)
