# SPDX-License-Identifier: Apache-2.0
"""Functions of two inputs on real streams and batches: `connect`."""

from __future__ import annotations

import pytest
from spark_support import Feed, at, bounded, drain, passes_watermarks, pickle_by_value, rows_of
from two_input_support import EnrichModel
from two_stream_support import BATCHES, EVENTS, EXPECTED, JOINED, NAMES, EventFeeds, Joined

from pyflinklike import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
    UserFunctionError,
)
from pyflinklike.spark import connect, error_of, key_by, metrics_of

pickle_by_value(__name__)

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@pytest.mark.thorough
@pytest.mark.telling
@passes_watermarks
def test_two_streams_share_state_and_timers_over_restarts(spark, tmp_path):
    """A timer waits for the slower input: "c" gets its name although the first input is past its time."""
    feeds, runs = EventFeeds(spark, tmp_path), []
    for batches in (BATCHES[:2], BATCHES[2:]):
        for events, names in batches:
            feeds.add(events, names)
        runs.append(rows_of(drain(feeds.joined(), tmp_path / "checkpoint")))

    assert EXPECTED == rows_of(row for run in runs for row in run)
    assert [("a", 1, "Ann"), ("b", 3, "Bob")] == runs[0]


class Watermark(KeyedCoProcessFunction):
    """Gives the watermark that each record sees."""

    def process_element1(self, value, ctx):
        yield (ctx.timer_service().current_watermark(),)

    process_element2 = process_element1


@passes_watermarks
def test_the_progress_tells_which_input_holds_the_watermark(spark, tmp_path):
    """Spark has one watermark; each input says what it brought."""
    first = Feed(spark, tmp_path / "first", "key string, made timestamp")
    second = Feed(spark, tmp_path / "second", "key string, seen timestamp")
    connected = connect(first.stream(), second.stream()).key_by("key")
    times = {"event_time": ("made", "seen")}
    df = connected.process(Watermark(), "watermark long", uid="both", **times)
    first.add([("a", at(1_000)), ("b", at(4_000))], [("a", at(90_000))], [("a", at(91_000))])
    second.add([("a", at(5_000))])
    writer = df.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    told = [metrics_of(each, "both") for each in query.recentProgress]
    inputs = [
        [(each.records, each.latest) for each in metrics.inputs]
        for metrics in told
        if metrics is not None and metrics.records
    ]
    assert [
        [(2, 4_000), (1, 5_000)],
        [(1, 90_000), (0, None)],
        [(1, 91_000), (0, None)],
    ] == inputs


def test_a_batch_has_both_inputs_by_event_time(spark):
    """And the watermark at the end, as Flink's batch mode."""
    events = [row for each, _ in BATCHES for row in each]
    names = [row for _, each in BATCHES for row in each]
    first = bounded(spark, [(user, n, at(ms)) for user, n, ms in events], EVENTS)
    second = bounded(spark, [(name, who, at(ms)) for name, who, ms in names], NAMES)
    result = (
        key_by(first, "user")
        .connect(key_by(second, "who"))
        .process(Joined(), JOINED, event_time=("at", "seen"))
    )

    model, expected = EnrichModel(), []
    steps = [(ms, 1, user, n) for user, n, ms in events]
    steps += [(ms, 2, who, name) for name, who, ms in names]
    for ms, number, key, value in sorted(steps, key=lambda step: step[:2]):
        expected += model.element(number, key, value, ms)
    for number in (1, 2):
        expected += model.watermark(number, 1 << 62)
    assert sorted(expected, key=repr) == rows_of(result.collect())


class Lengths(CoMapFunction):
    """Which input, and how long its text is; None for the empty one."""

    def map1(self, value):
        return ("first", len(value.text)) if value.text else None

    def map2(self, value):
        return "second", len(value.name)


class Letters(CoFlatMapFunction):
    """The letters of both inputs."""

    def flat_map1(self, value):
        return [("first", letter) for letter in value.text]

    def flat_map2(self, value):
        yield "second", value.name


def test_maps_of_two_inputs_give_dataframes(spark):
    """Of inputs with different columns, keyed by one name."""
    first = bounded(spark, [("a", "xy"), ("b", "")], "key string, text string")
    second = bounded(spark, [("a", 1, "Ann")], "key string, n int, name string")
    keyed = connect(first, second).key_by("key")

    assert [("first", 2), ("second", 3)] == rows_of(
        keyed.map(Lengths(), "which string, length int").collect()
    )
    assert [("first", "x"), ("first", "y"), ("second", "Ann")] == rows_of(
        keyed.flat_map(Letters(), "which string, letter string").collect()
    )


# What is refused, and how errors are told


class Fail(KeyedCoProcessFunction):
    """Divides by the element of the second input."""

    def process_element1(self, value, ctx):
        yield value.n

    def process_element2(self, value, ctx):
        yield 1 // value.m


def test_an_error_names_the_method_of_its_input(spark):
    """With its line, in what Spark raises."""
    first = bounded(spark, [("a", 1)], "key string, n int")
    second = bounded(spark, [("a", 0)], "key string, m int")
    result = connect(first, second).key_by("key").process(Fail(), "n int")
    with pytest.raises(Exception, match=r"Fail\.process_element2 failed for key 'a'") as raised:
        result.collect()

    told = error_of(raised.value)
    assert isinstance(told, UserFunctionError)
    assert "in process_element2)" in str(told)


@pytest.fixture
def inputs(spark, tmp_path):
    """Two streams and a batch, with the columns of `EVENTS`."""
    feed = Feed(spark, tmp_path / "events", EVENTS)
    return feed.stream(), feed.stream(), bounded(spark, [("a", 1, at(0))], EVENTS)


def test_a_stream_and_a_batch_are_not_connected(inputs):
    """Spark has no union of them."""
    with pytest.raises(DeclarationValueError, match="got a stream and a batch; read the batch as"):
        connect(inputs[0], inputs[2])
    with pytest.raises(DeclarationValueError, match="got a batch and a stream"):
        key_by(inputs[2], "user").connect(key_by(inputs[0], "user"))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (("user", "number"), r"got \(user string\) and \(number bigint\); cast"),
        ((["user", "number"], ["user"]), r"got \(user string, number bigint\) and \(user string\)"),
        ((["user", "number"], ["number", "user"]), r"and \(number bigint, user string\)"),
    ],
)
def test_keys_of_other_types_are_refused(inputs, columns, told):
    """A long and an int of one value would be two keys."""
    with pytest.raises(DeclarationTypeError, match=told):
        connect(*inputs[:2]).key_by(*columns)


def test_a_greatest_watermark_is_refused(spark, inputs):
    """Timers would fire before the slower input has come to their time."""
    keyed = connect(*inputs[:2]).key_by("user")
    spark.conf.set(POLICY, "max")
    try:
        with pytest.raises(SparkSetupError, match=f"need {POLICY} to be min, got 'max'"):
            keyed.process(Joined(), JOINED, event_time="at")
    finally:
        spark.conf.unset(POLICY)


@pytest.mark.parametrize("event_time", ["at", ("at", "at"), ["at", "at"]])
def test_an_event_time_may_be_of_both_inputs_or_a_pair(inputs, event_time):
    """Both inputs get a watermark, below what connects them."""
    result = connect(*inputs[:2]).key_by("user").process(Joined(), JOINED, event_time=event_time)

    assert result.isStreaming


@pytest.mark.parametrize("event_time", [("at",), ("at", None), 1, ("at", "at", "at")])
def test_an_event_time_of_one_input_only_is_refused(inputs, event_time):
    """The other would be left out of the smaller watermark."""
    with pytest.raises(
        DeclarationTypeError, match=r"a pair of names, got .*give a column for each input"
    ):
        connect(*inputs[:2]).key_by("user").process(Joined(), JOINED, event_time=event_time)


def test_a_phase_that_no_input_has_is_refused(inputs):
    """A phase is a column of both, or one of a pair."""
    keyed = connect(*inputs[:2]).key_by("user")
    with pytest.raises(DeclarationTypeError, match="before_watermark takes the name of a column"):
        keyed.process(Joined(), JOINED, event_time="at", before_watermark=("early",))
    with pytest.raises(DeclarationValueError, match="before_watermark takes a column of"):
        keyed.process(Joined(), JOINED, event_time="at", before_watermark=(None, "early"))


def test_arguments_of_another_kind_are_refused(inputs):
    """By the name of what is wanted."""
    keyed = connect(*inputs[:2]).key_by("user")
    with pytest.raises(DeclarationTypeError, match=r"KeyedCoProcessFunction is required for .*got"):
        keyed.process(Lengths(), JOINED)
    with pytest.raises(DeclarationTypeError, match="CoMapFunction is required"):
        keyed.map(Joined(), JOINED)
    with pytest.raises(DeclarationTypeError, match="CoFlatMapFunction is required"):
        keyed.flat_map(Lengths(), JOINED)
    with pytest.raises(DeclarationTypeError, match="connect takes two Spark DataFrames, got 'b'"):
        connect(inputs[0], "b")
    with pytest.raises(
        DeclarationTypeError, match="connect takes a keyed or a broadcast DataFrame, got DataFrame"
    ):
        key_by(inputs[0], "user").connect(inputs[1])
