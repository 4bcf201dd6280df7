# SPDX-License-Identifier: Apache-2.0
"""Functions with a broadcast input on real streams and batches."""

from __future__ import annotations

import pytest
from broadcast_support import LIMITS, TOTAL, Alert, Flag
from spark_support import Feed, at, bounded, drain, pickle_by_value, rows_of
from two_stream_support import (
    EVENTS,
    OUTPUT,
    PARTITIONS,
    RULES,
    Number,
    RuleFeeds,
    alerts_of,
    applied_of,
)

from pyflinklike import MapStateDescriptor, Types
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
    UserFunctionError,
)
from pyflinklike.spark import broadcast, connect, error_of, key_by

pickle_by_value(__name__)

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@pytest.mark.telling
def test_every_key_group_sees_every_rule_over_restarts(spark, tmp_path):
    """Before its micro-batch's records, also where there are none, once in each partition."""
    feeds = RuleFeeds(spark, tmp_path)
    users = [f"u{n}" for n in range(12)]
    feeds.add([(user, 5, 1_000) for user in users[:6]], [("low", 3)])
    feeds.add([], [("high", 8), ("low", None)])
    runs = [drain(feeds.alerts(max_parallelism=6), tmp_path / "checkpoint")]
    feeds.add([(user, 5, 2_000) for user in users], [])
    feeds.add([("z", 1, 9_000)], [])
    runs.append(drain(feeds.alerts(max_parallelism=6), tmp_path / "checkpoint"))

    first, later = alerts_of(runs[0]), alerts_of(runs[1])
    assert {(user, 5, "low") for user in users[:6]} == set(first) - {
        (user, 5, "")
        for user in users[:6]  # of timers, where they fired behind the second rules
    }
    expected = {(user, 10, "high") for user in users[:6]} | {(user, 5, "") for user in users[6:]}
    assert expected | {("z", 1, "")} == set(later) - {(user, 5, "") for user in users[:6]}
    assert sorted(["low", "high", "low"] * PARTITIONS) == applied_of(*runs)


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
        with pytest.raises(SparkSetupError, match=f"need {POLICY} to be min, got 'max'"):
            key_by(events, "user").connect(broadcast(rules, LIMITS, event_time="at")).process(
                Alert(), OUTPUT, event_time="at"
            )
        with pytest.raises(SparkSetupError, match=f"need {POLICY} to be min, got 'max'"):
            key_by(events, "user").connect(
                broadcast(rules.withWatermark("at", "1 minute"), LIMITS)
            ).process(Alert(), OUTPUT, event_time="at")
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
