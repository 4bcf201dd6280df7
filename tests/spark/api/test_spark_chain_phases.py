# SPDX-License-Identifier: Apache-2.0
"""Operators behind each other on a stream: which records come before the watermark."""

from __future__ import annotations

from random import Random

import pytest
from host_models import model_stream
from relay import SCHEMA, Relay, milliseconds, relays
from spark_support import Feed, at, drain, passes_watermarks, pickle_by_value, rows_of

from pyflinklike import OutputTag
from pyflinklike.errors import DeclarationError
from pyflinklike.spark import get_side_output, key_by, main_output

pickle_by_value(__name__)
pickle_by_value(Relay.__module__)

DDL = "key string, ts timestamp, n long, trace string"
ASIDE = OutputTag("aside")


class Aside(Relay):
    """Relays to a side output."""

    def _traced(self, *seen):
        return ASIDE, super()._traced(*seen)


def _feed(spark, tmp_path):
    random = Random(20261122)
    feed = Feed(spark, tmp_path / "input", DDL)
    for batch in range(3):
        times = [10 + batch * 12 + random.randrange(25) for _ in range(6)]
        feed.add([(random.choice("abc"), at(t), random.randrange(9), "") for t in times])
    return feed


def _process(df, function, uid, **options):
    return key_by(df, "key").process(function, SCHEMA, event_time="ts", uid=uid, **options)


def _chained(df, second=None):
    """Two operators, of which the second is behind a side output of the first."""
    outputs = {ASIDE: SCHEMA}
    first = _process(df, Aside(3), "one", side_outputs=outputs, max_parallelism=3)
    aside = get_side_output(first, ASIDE)
    return _process(aside, second or Relay(3), "two", max_parallelism=2)


@pytest.mark.telling
@pytest.mark.thorough
@passes_watermarks
def test_two_operators_give_what_they_give_element_by_element(spark, tmp_path):
    """Stopped on the way, and with other partitions in the session then: all that each could see is what it sees in harnesses behind each other."""
    feed = Feed(spark, tmp_path / "input", DDL)
    whole = _feed(spark, tmp_path / "whole")
    feed.add(*whole.batches[:2])
    runs = [drain(_chained(feed.stream()), tmp_path / "checkpoint")]
    feed.add(*whole.batches[2:])
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        runs.append(drain(_chained(feed.stream()), tmp_path / "checkpoint"))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")

    expected = _stopped_model(whole)

    assert expected == rows_of(row for run in runs for rows in run.values() for row in rows)
    assert any("element" in trace and "timer" in trace for *_, trace in expected)


def _stopped_model(feed):
    """Each run ends with the micro-batch that its last watermark fires."""
    chain = relays([Aside(3), Relay(3)], side_output=ASIDE)
    first, then = feed.elements()[:2], feed.elements()[2:]
    model_stream(chain, first, "ts")
    seen = max(milliseconds(row.ts) for batch in first for row in batch) - 1
    for batch in then:
        chain.process_watermark(seen)
        chain.process_elements(sorted(((row, milliseconds(row.ts)) for row in batch), key=_time))
        chain.process_watermark(seen)
        seen = max(seen, *(milliseconds(row.ts) - 1 for row in batch))
    chain.process_watermark(seen)
    return sorted(map(tuple, chain.output), key=repr)


def _time(timed):
    return timed[1]


@passes_watermarks
def test_a_lost_phase_is_refused(spark, tmp_path):
    """Where DataFrame code between two operators has not kept it; the message says which arguments do."""
    first = _process(_feed(spark, tmp_path).stream(), Relay(3), "one")

    with pytest.raises(
        DeclarationError,
        match=r"got a DataFrame that does not say so; pass output_before_watermark",
    ):
        _process(first.where("n > 0"), Relay(3), "two")


@pytest.mark.thorough
@passes_watermarks
def test_the_phase_is_in_every_output_and_is_found_there(spark, tmp_path):
    """As the column that was asked for, behind the columns of the output, in a stream as in a batch."""
    feed = _feed(spark, tmp_path)
    options = {"side_outputs": {ASIDE: SCHEMA}, "output_before_watermark": "early"}
    results = [_process(df, Relay(3), "one", **options) for df in (feed.stream(), feed.bounded())]
    expected = [*SCHEMA.names, "early"]

    for result in results:
        assert expected == main_output(result).columns
        assert expected == get_side_output(result, ASIDE).columns
    kept = main_output(results[0]).where("early").select("key", "ts", "n", "trace", "early")
    assert SCHEMA.names == _process(kept, Relay(3), "two").columns
    copied = key_by(kept, "key").process(Relay(3), kept.schema, event_time="ts", uid="two")
    assert ["key", "ts", "n", "trace", "early"] == copied.columns
    assert not copied.schema["early"].metadata
    assert {False} == {row.early for row in main_output(results[1]).collect()}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"before_watermark": "early"}, "before_watermark takes a column of the DataFrame"),
        ({"before_watermark": "n"}, "before_watermark must name a boolean column, got 'n'"),
        ({"before_watermark": 1}, "before_watermark takes the name of a column, got 1"),
        ({"output_before_watermark": 1}, "output_before_watermark takes a name for a column"),
        ({"output_before_watermark": "n"}, r"must differ in name, got \['n'\] twice"),
    ],
    ids=["unknown", "no boolean", "no name", "no name for the output", "a name twice"],
)
def test_a_phase_that_cannot_be_one_is_refused(spark, tmp_path, options, rule):
    """When the query is made, with the remedy."""
    with pytest.raises(DeclarationError, match=rule):
        _process(_feed(spark, tmp_path).stream(), Relay(3), "one", **options)


@pytest.mark.thorough
def test_records_come_as_they_arrived_where_that_is_asked_for(spark, tmp_path):
    """In a stream and in a batch, although they have an event time."""
    feed = _feed(spark, tmp_path)
    arrived = [row[1] for batch in feed.batches for row in batch if row[0] == "a"]

    for df in (feed.stream(), feed.bounded()):
        result = _process(df.where("key = 'a'"), Arrivals(), "arrivals", arrival_order=True)
        rows = result.collect() if not df.isStreaming else _drained(result, tmp_path)
        assert arrived == [row.ts.replace(tzinfo=None) for row in rows]
    assert arrived != sorted(arrived)


class Arrivals(Relay):
    """Passes every record on."""

    def __init__(self):
        super().__init__(1)

    def process_element(self, value, ctx):
        yield value


def _drained(result, tmp_path):
    batches = drain(result, tmp_path / "arrivals")
    return [row for number in sorted(batches) for row in batches[number]]
