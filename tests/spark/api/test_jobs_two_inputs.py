# SPDX-License-Identifier: Apache-2.0
"""Jobs of two inputs over several restarts, savepoints, and those of examples/."""

from __future__ import annotations

import pytest
from example_support import example
from spark_savepoints import rocksdb
from spark_support import drain, pickle_by_value, reads_state, rows_of
from two_stream_support import (
    BATCHES,
    EXPECTED,
    JOINED,
    EventFeeds,
    Joined,
)

from pyflinklike import Row
from pyflinklike.spark import connect
from pyflinklike.state_processor import read_savepoint
from pyflinklike.testing import KeyedTwoInputHarness

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
