# SPDX-License-Identifier: Apache-2.0
"""Functions with a broadcast input on real streams and batches."""

from __future__ import annotations

import broadcast_support
import pytest
from broadcast_support import APPLIED, LIMITS, TOTAL, Alert, Flag
from spark_savepoints import rocksdb
from spark_support import Feed, at, bounded, drain, pickle_by_value, reads_state, rows_of

from pyflinklike import MapStateDescriptor, Types
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    HostError,
    UserFunctionError,
)
from pyflinklike.spark import broadcast, connect, error_of, key_by, read_savepoint
from pyflinklike.testing import BroadcastHarness

pickle_by_value(__name__)
pickle_by_value(broadcast_support.__name__)

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
EVENTS = "user string, number long, at timestamp"
RULES = "name string, limit long"
OUTPUT = "user string, total long, broken string"
SIDES = {APPLIED: "name string"}
PARTITIONS = 2


class Feeds:
    """Two directories, of which a micro-batch reads a file each."""

    def __init__(self, spark, directory):
        self.events = Feed(spark, directory / "events", EVENTS)
        self.rules = Feed(spark, directory / "rules", RULES)

    def add(self, events, rules):
        """Add the records of a micro-batch, with times in ms."""
        self.events.add([(user, number, at(ms)) for user, number, ms in events])
        self.rules.add(rules)

    def alerts(self, **options):
        """`Alert` over both streams."""
        keyed = key_by(self.events.stream(), "user")
        connected = keyed.connect(broadcast(self.rules.stream(), LIMITS))
        return connected.process(Alert(), OUTPUT, event_time="at", side_outputs=SIDES, **options)


def alerts_of(*runs):
    """The main outputs of runs, sorted."""
    rows = [row for run in runs for batch in run.values() for row in batch]
    return rows_of((row.user, row.total, row.broken) for row in rows if row.output_tag is None)


def applied_of(*runs):
    """The names of the rules that were processed, sorted."""
    rows = [row for run in runs for batch in run.values() for row in batch]
    return sorted(row[APPLIED.tag_id][0] for row in rows if row.output_tag is not None)


@pytest.mark.telling
def test_every_key_group_sees_every_rule_over_restarts(spark, tmp_path):
    """Before its micro-batch's records, also where there are none, once in each partition."""
    feeds = Feeds(spark, tmp_path)
    users = [f"u{n}" for n in range(12)]
    feeds.add([(user, 5, 1_000) for user in users[:6]], [("low", 3)])
    runs = [drain(feeds.alerts(max_parallelism=6), tmp_path / "checkpoint")]
    feeds.add([], [("high", 8), ("low", None)])
    runs.append(drain(feeds.alerts(max_parallelism=6), tmp_path / "checkpoint"))
    feeds.add([(user, 5, 2_000) for user in users], [])
    feeds.add([("z", 1, 9_000)], [])
    runs.append(drain(feeds.alerts(max_parallelism=6), tmp_path / "checkpoint"))

    # The timers of the first run fire in a later one, behind the rules of the second.
    first, later = alerts_of(runs[0]), alerts_of(*runs[1:])
    assert [(user, 5, "low") for user in users[:6]] == sorted(set(first))
    expected = {(user, 10, "high") for user in users[:6]} | {(user, 5, "") for user in users[6:]}
    assert expected | {("z", 1, "")} == set(later) - {(user, 5, "low") for user in users[:6]}
    assert sorted(["low", "high", "low"] * PARTITIONS) == applied_of(*runs)


@pytest.mark.telling
def test_a_rule_changes_the_state_of_all_keys(spark, tmp_path):
    """In every key group, on either backend, also after a restart."""
    feeds = Feeds(spark, tmp_path)
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
    feeds = Feeds(spark, tmp_path / "before")
    feeds.add([("a", 5, 1_000)], [("low", 3), ("gone", 1)])
    feeds.add([], [("gone", None)])
    drain(feeds.alerts(max_parallelism=2), tmp_path / "old")
    savepoint = read_savepoint(spark, tmp_path / "old")
    later = Feeds(spark, tmp_path / "later")
    users = [f"u{n}" for n in range(9)]
    later.add([(user, 4, 500) for user in [*users, "a"]], [])
    options = {"max_parallelism": 6, "state_backend": rocksdb(tmp_path / "local")}
    run = drain(later.alerts(from_savepoint=savepoint, **options), tmp_path / "new")

    expected = {("a", 9, "low"), *((user, 4, "low") for user in users)}
    assert expected == set(alerts_of(run))
    with BroadcastHarness(Alert(), [LIMITS], lambda row: row[0], restore=savepoint) as h:
        assert [("a", 5, "low")] == h.process_element(("a", 0))


def test_a_batch_has_the_broadcast_input_before_all_else(spark):
    """As in Flink's batch mode, whatever its place in the query; and every timer sees the rules."""
    users = [f"u{n}" for n in range(8)]
    events = bounded(spark, [(user, 5, at(0)) for user in users], EVENTS)
    rules = bounded(spark, [("low", 1), ("low", None), ("high", 4), ("top", 9)], RULES)
    result = (
        key_by(events, "user")
        .connect(broadcast(rules, LIMITS))
        .process(Alert(), OUTPUT, event_time="at", max_parallelism=4)
    )

    assert rows_of([(user, 5, "high") for user in users] * 2) == rows_of(result.collect())


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


class Number(Flag):
    """`Flag` over the column of a DataFrame."""

    def process_element(self, value, ctx):
        yield from super().process_element(value.n, ctx)


def test_a_batch_without_keys_sees_all_rules(spark):
    """Before its first record."""
    numbers = bounded(spark, [(n,) for n in range(6)], "n long")
    rules = bounded(spark, [("low", 3)], RULES)
    result = connect(numbers, broadcast(rules, LIMITS)).process(Number(), "n long, broken string")

    assert [(n, "low" if n > 3 else "") for n in range(6)] == rows_of(result.collect())


class Fail(Alert):
    """Cannot process a rule."""

    def process_broadcast_element(self, value, ctx):
        return 1 // (value.limit - value.limit)


def test_an_error_names_the_rule(spark):
    """And its method and line, and no key."""
    events = bounded(spark, [("a", 5, at(0))], EVENTS)
    rules = bounded(spark, [("low", 1)], RULES)
    result = key_by(events, "user").connect(broadcast(rules, LIMITS)).process(Fail(), OUTPUT)
    with pytest.raises(Exception, match=r"process_broadcast_element failed for key none") as raised:
        result.collect()

    told = error_of(raised.value)
    assert isinstance(told, UserFunctionError)
    assert "element Row(name='low', limit=1)" in str(told)


# What is refused


@pytest.fixture
def events(spark, tmp_path):
    """A stream."""
    return Feed(spark, tmp_path / "events", EVENTS).stream()


@pytest.fixture
def rules(spark, tmp_path):
    """Another one."""
    return Feed(spark, tmp_path / "rules", EVENTS).stream()


def test_a_function_of_the_other_kind_is_refused(events, rules):
    """As in PyFlink, with the remedy."""
    keyed = key_by(events, "user").connect(broadcast(rules, LIMITS))
    plain = connect(events, broadcast(rules, LIMITS))
    with pytest.raises(DeclarationTypeError, match=r"applied to a non-keyed DataFrame, got Flag"):
        keyed.process(Flag(), OUTPUT)
    with pytest.raises(
        DeclarationTypeError, match=r"applied to a keyed DataFrame, got Alert; call"
    ):
        plain.process(Alert(), OUTPUT)
    with pytest.raises(DeclarationTypeError, match=r"KeyedBroadcastProcessFunction is required"):
        keyed.process("f", OUTPUT)
    with pytest.raises(DeclarationTypeError, match=r"that is the class: give an instance"):
        plain.process(Flag, OUTPUT)


@pytest.mark.parametrize(
    ("descriptors", "error", "told"),
    [
        ((), DeclarationValueError, "at least one broadcast state, each of another name, got"),
        ((LIMITS, LIMITS), DeclarationValueError, r"got \['limits', 'limits'\]"),
        ((TOTAL,), DeclarationTypeError, "broadcast state takes a MapStateDescriptor, got Value"),
    ],
)
def test_what_cannot_be_broadcast_state_is_refused(rules, descriptors, error, told):
    """When the DataFrame is broadcast."""
    with pytest.raises(error, match=told):
        broadcast(rules, *descriptors)


def test_a_stream_and_a_batch_are_not_connected(spark, events):
    """Spark has no union of them."""
    rules = bounded(spark, [("low", 1)], RULES)
    with pytest.raises(DeclarationValueError, match="got a stream and a batch; read the batch as"):
        key_by(events, "user").connect(broadcast(rules, LIMITS))


def test_a_greatest_watermark_is_refused(spark, events, rules):
    """Where the broadcast input has event time, too; else there is only one watermark."""
    spark.conf.set(POLICY, "max")
    try:
        with pytest.raises(HostError, match=f"need {POLICY} to be min, got 'max'"):
            key_by(events, "user").connect(broadcast(rules, LIMITS, event_time="at")).process(
                Alert(), OUTPUT, event_time="at"
            )
        key_by(events, "user").connect(broadcast(rules, LIMITS)).process(
            Alert(), OUTPUT, event_time="at"
        )
    finally:
        spark.conf.unset(POLICY)


def test_arguments_of_another_kind_are_refused(events):
    """What is no DataFrame, no column, or a map that has not the type it says."""
    with pytest.raises(
        DeclarationTypeError, match="broadcast takes a Spark DataFrame, got 'rules'"
    ):
        broadcast("rules", LIMITS)
    with pytest.raises(DeclarationValueError, match="event_time takes a column"):
        broadcast(events, LIMITS, event_time="when")
    with pytest.raises(DeclarationTypeError, match="a type must be a TypeInformation"):
        MapStateDescriptor("limits", Types.STRING, Types.LONG())
