# SPDX-License-Identifier: Apache-2.0
"""Slips on Spark: refused on the driver where it can see them, else with their hint in the error."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from spark_support import Feed, at, bounded, drain, passes_watermarks, pickle_by_value

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor, _deprecation
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import error_of, key_by

pickle_by_value(__name__)

SCHEMA = "key string, at timestamp, at2 timestamp"
RESULT = "key string, total long"


class Counts(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), 1


class NoBrackets(Counts):
    """Reads its state without a call."""

    def process_element(self, value, ctx):
        self.total.update((self.total.value or 0) + 1)


@dataclasses.dataclass
class Total:
    """A row as a dataclass."""

    key: str
    total: int


class YieldsDataclass(Counts):
    """Yields what is no row."""

    def process_element(self, value, ctx):
        yield Total("a", 1)


class YieldsNone(Counts):
    """Yields None where it has nothing to say."""

    def process_element(self, value, ctx):
        yield None


class TakesCollector(Counts):
    """Has Java's arguments."""

    def process_element(self, value, ctx, out):
        out.collect(value)


class NeverRings(Counts):
    """Registers a timer, and has no on_timer."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp())


class Echo(KeyedProcessFunction):
    """Yields what it gets."""

    def process_element(self, value, ctx):
        yield value


@pytest.fixture
def feed(spark, tmp_path):
    """A stream of one record with two times."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add([("a", at(1_000), at(2_000))])
    return feed


HINTS = [
    (NoBrackets(), "; a method needs its brackets: value()"),
    (YieldsDataclass(), "; yield dataclasses.astuple(value)"),
    (YieldsNone(), "; for no output, yield nothing"),
]


@pytest.mark.parametrize(
    ("function", "hint"), HINTS, ids=[type(each).__name__ for each, _ in HINTS]
)
def test_a_slip_in_a_batch_has_its_hint(spark, function, hint):
    """At the end of the message that `error_of` gives alone."""
    batch = bounded(spark, [("a", at(1_000), at(2_000))], SCHEMA)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # the class differs by version
        key_by(batch, "key").process(function, RESULT, max_parallelism=1).collect()
    assert str(error_of(raised.value)).endswith(hint)


def test_a_slip_in_a_stream_has_its_hint(feed, tmp_path):
    """Also in the error of the query."""
    totals = key_by(feed.stream(), "key").process(NoBrackets(), RESULT, max_parallelism=1)
    with pytest.raises(StreamingQueryException) as raised:
        drain(totals, tmp_path / "checkpoint")
    assert str(error_of(raised.value)).endswith("; a method needs its brackets: value()")


def test_what_the_driver_can_see_is_refused_there(feed):
    """Before anything runs."""
    with pytest.raises(DeclarationTypeError, match=r"; write key_by\(df, \'key\', \'at\'\)$"):
        key_by(feed.stream(), ["key", "at"])
    with pytest.raises(
        DeclarationTypeError,
        match=r"TakesCollector.process_element is called with \(value, ctx\), got "
        r"process_element\(value, ctx, out\); write for example def "
        r"process_element\(self, value, ctx\), and yield outputs",
    ):
        key_by(feed.stream(), "key").process(TakesCollector(), RESULT)
    with pytest.raises(DeclarationTypeError, match=r"map is called with \(value\), got <lambda>"):
        key_by(feed.stream(), "key").map(lambda a, b: a, RESULT)


# The watermark of another column


@pytest.fixture
def told(monkeypatch):
    """Run something in a process that was told nothing, and return our warnings."""
    monkeypatch.setattr(_deprecation, "_SHOWN", set())

    def run(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        texts = [str(each.message) for each in caught]
        return [text for text in texts if text.startswith(("timers and TTL", "a timer calls"))]

    return run


def process(df, event_time="at", function=None, **options):
    """Apply a function with event time."""
    function = function or Counts()
    result = SCHEMA if isinstance(function, Echo) else RESULT
    options = {"event_time": event_time, "max_parallelism": 1, **options}
    return key_by(df, "key").process(function, result, **options)


def renamed(df):
    """Names both times anew behind the watermark."""
    return df.withWatermark("at2", "1 second").selectExpr("key", "at as a", "at2 as b")


@pytest.mark.parametrize(
    ("prepare", "event_time", "marked"),
    [
        (lambda df: df.withWatermark("at2", "1 second"), "at", "at2"),
        (renamed, "a", "b"),
        (lambda df: df.withWatermark("at2", "1 second").filter("key = 'a'"), "at", "at2"),
    ],
    ids=["as it is", "renamed", "filtered"],
)
def test_the_watermark_of_another_column_is_refused(feed, prepare, event_time, marked):
    """Timers of the stream would never fire, or at any time."""
    with pytest.raises(DeclarationValueError) as raised:
        process(prepare(feed.stream()), event_time)
    assert (
        "timers and TTL go by the watermark, so it must be declared on the event time, got "
        f"event_time={event_time!r} and a watermark on {marked!r}; call "
        f'withWatermark("{event_time}", ...), pass the other column as event_time, or behind '
        f'another process() pass output_event_time="{event_time}" to that one'
    ) == str(raised.value)


def unchanged(frames):
    """A Python stage, through which no mark passes."""
    yield from frames


def rounded(df):
    """Computes the event time anew behind the watermark."""
    return df.withWatermark("at", "1 second").withColumn("at", F.date_trunc("second", "at"))


@pytest.mark.parametrize(
    ("prepare", "event_time"),
    [
        (lambda df: df.withWatermark("at", "1 second"), "at"),
        (renamed, "b"),
        (rounded, "at"),
        (lambda df: df.withWatermark("at", "1 second").mapInPandas(unchanged, SCHEMA), "at"),
        (lambda df: df, "at"),
    ],
    ids=["as it is", "renamed", "rounded", "in Python", "without"],
)
def test_the_watermark_of_the_event_time_is_taken(told, feed, prepare, event_time):
    """Also where its mark was lost on the way, but not its name."""
    assert [] == told(lambda: process(prepare(feed.stream()), event_time))


def test_a_watermark_of_a_column_that_is_gone_is_told(told, feed):
    """The other column may hold the same times under another name, which the plan does not say."""
    gone = feed.stream().withWatermark("at2", "1 second").drop("at2")
    (message,) = told(lambda: process(gone))
    assert message.startswith(
        "timers and TTL go by the watermark, got event_time='at' and a watermark on 'at2'; "
        'unless both hold the same times, call withWatermark("at", ...)'
    )


def test_a_watermark_of_a_batch_is_nothing(told, spark):
    """A batch goes through all of its records in the order of their event time."""
    batch = bounded(spark, [("a", at(1_000), at(2_000))], SCHEMA)
    assert [] == told(lambda: process(batch.withWatermark("at2", "1 second")))


@passes_watermarks
def test_the_watermark_of_a_chain_is_that_of_its_output(feed):
    """The mark of the first operator's output counts for the second."""
    first = process(
        feed.stream(), function=Echo(), output_before_watermark="early", output_event_time="at2"
    )
    with pytest.raises(DeclarationValueError, match="event_time='at' and a watermark on 'at2'"):
        process(first, before_watermark="early")


def test_a_timer_without_on_timer_is_told_on_the_driver(told, feed):
    """The workers' warnings go to their own logs."""
    (message,) = told(lambda: process(feed.stream(), function=NeverRings()))
    assert "and has no on_timer; define it, or register none" in message
