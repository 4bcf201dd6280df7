# SPDX-License-Identifier: Apache-2.0
"""State of a query with every kind of state, read as DataFrames: what a harness says of each batch.

The query changes from one life to the next how its logs are compacted: for their size, or their age.
"""

import functools

import pytest
from all_states import HEAVY, OUTPUT, SCHEMA, STATES, AllStates, model
from savepoint_trap import TRAPPED, Trapped, hostile
from spark_support import Feed, drain, pickle_by_value, reads_state

from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.spark import key_by
from pyflinklike.state_processor import (
    Savepoint,
    diff_state,
    list_states,
    read_keyed_state,
    read_state,
    read_state_changes,
    read_timers,
    take_savepoint,
)

pytestmark = reads_state
for module in (AllStates.__module__, Trapped.__module__):
    __import__(module)
    pickle_by_value(module)

USERS = [f"u{number}" for number in range(6)]
BATCHES = 12
TOLD = [name for name in STATES if name != "blob"]


def records(number):
    """Of a batch: the heavy user has one in each, the others in most; some come twice."""
    users = [user for at, user in enumerate(USERS) if user == HEAVY or (at + number) % 3]
    return [(user, number + 1) for user in users] + [(HEAVY, number + 1)] * (number % 2)


@functools.cache
def expected(last):
    """What a harness says after a batch, by user."""
    return model([records(number) for number in range(last + 1)], USERS)


def started(feed, compacted_every):
    """The query of one life."""
    return key_by(feed.stream(), "user").process(
        AllStates(compacted_every), OUTPUT, max_parallelism=4, uid="all states"
    )


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Of two lives: one that compacts for size, one for age."""
    directory = tmp_path_factory.mktemp("reading")
    feed = Feed(spark, directory / "feed", SCHEMA)
    for life, compacted_every in enumerate((0, 1)):
        half = range(life * BATCHES // 2, (life + 1) * BATCHES // 2)
        feed.add(*map(records, half))
        drain(started(feed, compacted_every), directory / "checkpoint")
    return directory / "checkpoint"


def shown(name, value):
    """A column of `read_keyed_state` as the function sees it."""
    return tuple(value) if name == "mean" and value is not None else value


def test_every_retained_batch_is_what_a_harness_says_of_it(spark, checkpoint):
    """Over a restart, compactions and clears."""
    for batch_id in range(BATCHES):
        rows = read_keyed_state(spark, checkpoint, states=TOLD, batch_id=batch_id).collect()
        found = {row.user: {name: shown(name, row[name]) for name in TOLD} for row in rows}
        said = {
            user: {name: all_of[name] for name in TOLD}
            for user, all_of in expected(batch_id).items()
            if all_of["total"] is not None
        }
        assert said == found, batch_id


def entries(frame, name):
    """The rows of a state by entry: user, and what tells it apart."""
    at = {"last": "user_key", "all": "position", "kv": "store_key"}.get(name)
    return {
        (row.user, at and row[at]): shown("mean", row.value) if name == "mean" else row.value
        for row in frame.collect()
    }


@pytest.mark.parametrize("name", [*TOLD, "kv"])
def test_changes_and_differences_lead_from_each_batch_to_the_last(spark, checkpoint, name):
    """Whatever was compacted in between, and for whatever reason."""
    last = BATCHES - 1
    after = read_state(spark, checkpoint, name)
    changes = [row.asDict() for row in read_state_changes(spark, checkpoint, name, 1).collect()]
    changes.sort(key=lambda row: (row["batch_id"], row["change_type"] != "clear"))
    held = entries(read_state(spark, checkpoint, name, batch_id=0), name)
    at = {"last": "user_key", "all": "position", "kv": "store_key"}.get(name)
    for row in changes:
        where = row["user"], at and row[at]
        if row["change_type"] == "clear":
            held = {each: value for each, value in held.items() if each[0] != row["user"]}
        elif row["change_type"] == "delete":
            held.pop(where, None)
        else:
            held[where] = shown("mean", row["value"]) if name == "mean" else row["value"]
    now = entries(after, name)
    assert (set(range(1, BATCHES)), now) == ({row["batch_id"] for row in changes}, held)
    middle = read_state(spark, checkpoint, name, batch_id=last // 2)
    then, told = entries(middle, name), diff_state(middle, after).collect()
    kinds = {(row.user, at and row[at]): row.change for row in told}
    assert kinds == {
        each: "insert" if each not in then else "delete" if each not in now else "update"
        for each in then.keys() | now.keys()
        if then.get(each) != now.get(each)
    }


def test_a_hundred_reads_of_a_running_query_are_of_whole_batches(spark, tmp_path):
    """Each is what a harness says of one batch: the one asked for, or one committed meanwhile."""
    feed, checkpoint = Feed(spark, tmp_path / "feed", SCHEMA), tmp_path / "checkpoint"
    feed.add(*map(records, range(2)))
    drain(started(feed, 0), checkpoint)
    feed.add(*map(records, range(2, 40)))

    def committed():
        return max(int(each.name) for each in checkpoint.glob("commits/[0-9]*"))

    writer = started(feed, 1).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint))
    query, seen = writer.trigger(processingTime="1 second").start(), set()
    try:
        for number in range(100):
            first = committed()
            name = TOLD[number % len(TOLD)]
            batch_id = first if number % 2 else None
            frame = read_state(spark, checkpoint, name, batch_id=batch_id)
            found = sorted(map(repr, entries(frame, name).values()))
            last = first if number % 2 else committed()
            possible = [
                each for each in range(first, last + 1) if found == _values(expected(each), name)
            ]
            assert possible, (name, first, last)
            seen.add(first)
    finally:
        query.stop()
    assert query.exception() is None
    assert len(seen) > 5


def _values(said, name):
    """All entries of a state that a harness tells of."""
    every = [all_of[name] for all_of in said.values() if all_of[name] is not None]
    if name == "all":
        every = [each for of_key in every for each in of_key]
    if name == "last":
        every = [each for of_key in every for each in of_key.values()]
    return sorted(map(repr, every))


def test_a_hostile_pickle_is_shown_as_bytes(spark, tmp_path):
    """By everything that reads a checkpoint: nobody who reads has asked for it to be opened."""
    feed, checkpoint, trap = (
        Feed(spark, tmp_path / "feed", "user string"),
        tmp_path / "c",
        tmp_path / "trap",
    )
    feed.add([("ann",)], [("ann",)])
    drain(key_by(feed.stream(), "user").process(Trapped(str(trap)), "user string"), checkpoint)
    if trap.exists():
        trap.rmdir()  # the function's own stores read what they replace
    list_states(spark, checkpoint, sizes=True)
    before = read_state(spark, checkpoint, "value", batch_id=0)
    for name in TRAPPED:
        (row,) = read_state(spark, checkpoint, name).collect()
        assert hostile(trap) == bytes(row.value["what"] if name == "row" else row.value), name
        read_state_changes(spark, checkpoint, name, 0).collect()
    assert [] == diff_state(before, read_state(spark, checkpoint, "value")).collect()
    (row,) = read_keyed_state(spark, checkpoint).collect()
    assert hostile(trap) == bytes(row["value"])
    read_timers(spark, checkpoint).collect()
    take_savepoint(spark, checkpoint, tmp_path / "saved")
    (row,) = Savepoint.read(spark, tmp_path / "saved")["map"].collect()
    assert (hostile(trap), False) == (bytes(row.value), trap.exists())


def test_keyed_states_of_two_batches_are_compared(spark, checkpoint):
    """Each state of a key, a map too; what differs is what a harness says."""
    before, after = (
        read_keyed_state(spark, checkpoint, states=["total", "last"], batch_id=batch_id)
        for batch_id in (BATCHES - 2, BATCHES - 1)
    )
    users = {user for user, _ in records(BATCHES - 1)}
    found = {
        each.user: (each.change, each.before.total, each.after.total)
        for each in diff_state(before, after).collect()
    }
    was, now = expected(BATCHES - 2), expected(BATCHES - 1)

    assert {user: ("update", was[user]["total"], now[user]["total"]) for user in users} == found


def test_a_comparison_by_a_map_is_refused(spark, checkpoint):
    """Before Spark does, which says nothing of what to do."""
    frame = read_keyed_state(spark, checkpoint, states=["last"])
    with pytest.raises(DeclarationValueError, match=r"give the key columns as on=\[...\]"):
        diff_state(frame, frame, on=["user", "last"])


def test_a_checkpoint_that_was_moved_says_what_to_do(spark, tmp_path):
    """And is read where a link is put at its former place."""
    former, moved = tmp_path / "former", tmp_path / "moved"
    feed = Feed(spark, tmp_path / "feed", SCHEMA)
    feed.add(records(0))
    drain(started(feed, 0), former)
    former.rename(moved)
    with pytest.raises(
        SparkSetupError, match=rf"looks for this one at {former}, .*ln -s <where it is> {former}"
    ):
        read_state(spark, moved, "total").collect()
    former.symlink_to(moved)

    read = {row.user: row.value for row in read_state(spark, moved, "total").collect()}
    assert {user: expected(0)[user]["total"] for user, _ in records(0)} == read
