# SPDX-License-Identifier: Apache-2.0
"""Timers on a Spark stream: both domains, with data and without."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.errors import StreamingQueryException
from spark_support import Feed, at, drain, pickle_by_value, rows_of, start, until

from pyflinklike import KeyedProcessFunction, ListStateDescriptor, OutputTag, Types
from pyflinklike.spark import get_side_output, key_by, main_output

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, n long"
FIRED = "key string, domain string, at long, watermark long"


class Absolute(KeyedProcessFunction):
    """Registers an event timer at the time each record names; one of even time comes again 1 ms later."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value.n)
        ctx.timer_service().register_event_time_timer(value.n)
        return []

    def on_timer(self, timestamp, ctx):
        if not timestamp % 2:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        watermark = ctx.timer_service().current_watermark()
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, watermark


@pytest.mark.telling
def test_event_timers_fire_with_data_without_and_in_the_past(spark, tmp_path):
    """A due timer fires once, in the first batch whose watermark reaches it, whether its group has data, none, or there is none at all."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(
        # Timers at 0 and before are due at the first watermark there is.
        [("zero", at(900), 0), ("past", at(900), -2_000), ("odd", at(1_000), 2_501)],
        [("even", at(2_000), 3_000), ("other", at(2_000), 2**63 - 1)],
        [("other", at(2_600), 2**63 - 1)],
        [("late", at(100), 2_001), ("other", at(3_500), 2**63 - 1)],
    )
    result = key_by(feed.stream(), "key").process(
        Absolute(), FIRED, event_time="ts", max_parallelism=64
    )
    batches = drain(result, tmp_path / "checkpoint")

    event = "EVENT_TIME"
    assert [
        [],
        [
            ("past", event, -1_999, 999),
            ("past", event, -2_000, 999),
            ("zero", event, 0, 999),
            ("zero", event, 1, 999),
        ],
        [],
        [("late", event, 2_001, 2_599), ("odd", event, 2_501, 2_599)],
        [("even", event, 3_000, 3_499), ("even", event, 3_001, 3_499)],
    ] == [rows_of(rows) for rows in batches.values()]


class BothDomains(KeyedProcessFunction):
    """Registers timers of both domains for each record; a processing timer of key "again" comes back twice."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(ctx.timestamp() + 10)
        timers.register_processing_time_timer(timers.current_processing_time() + value.n)
        yield ctx.get_current_key(), "ELEMENT", ctx.timestamp(), 0

    def on_timer(self, timestamp, ctx):
        domain, timers = ctx.time_domain().name, ctx.timer_service()
        if domain == "PROCESSING_TIME":
            assert timestamp <= timers.current_processing_time()
            if ctx.get_current_key() == "again" and timestamp % 3:
                timers.register_processing_time_timer(timestamp + 1)
            timestamp = 0
        yield ctx.get_current_key(), domain, timestamp, 0


@pytest.mark.thorough
@pytest.mark.telling
def test_timers_of_both_domains_fire_on_one_idle_stream(spark, tmp_path):
    """Without new data processing timers fire as time passes and event timers as the watermark has come, over a restart."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add([("a", at(1_000), 1), ("slow", at(1_000), 8_000), ("again", at(1_005), 1)])
    feed.add([("c", at(1_012), 1)])
    # By batch id: a batch that the stop interrupted before its commit comes again, as the same batch.
    collected: dict[int, list[object]] = {}

    def run(wanted):
        result = key_by(feed.stream(), "key").process(
            BothDomains(), FIRED, event_time="ts", max_parallelism=4
        )
        query, batches = start(result, tmp_path / "checkpoint")
        try:
            until(query, lambda: wanted <= {row[:3] for row in rows_of({**collected, **batches})})
        finally:
            query.stop()
        collected.update(batches)

    processing, event = "PROCESSING_TIME", "EVENT_TIME"
    run({("a", processing, 0), ("c", processing, 0), ("a", event, 1_010)})
    feed.add([("d", at(1_020), 1)])
    run(
        {
            ("slow", processing, 0),
            ("again", processing, 0),
            ("again", event, 1_015),
            ("d", processing, 0),
        }
    )

    fired = rows_of(collected)
    once = [row[:3] for row in fired if (row[0], row[1]) != ("again", processing)]
    assert [
        ("a", "ELEMENT", 1_000),
        ("a", event, 1_010),
        ("a", processing, 0),
        ("again", "ELEMENT", 1_005),
        ("again", event, 1_015),
        ("c", "ELEMENT", 1_012),
        ("c", processing, 0),
        ("d", "ELEMENT", 1_020),
        ("d", processing, 0),
        ("slow", "ELEMENT", 1_000),
        ("slow", event, 1_010),
        ("slow", processing, 0),
    ] == sorted(once)


FLUSHES = OutputTag("flushes", Types.LONG())


class Buffer(KeyedProcessFunction):
    """Gives the sum of what has gathered an hour after each record, and to the side how much that was."""

    def open(self, runtime_context):
        self.gathered = runtime_context.get_list_state(ListStateDescriptor("n", Types.LONG()))

    def process_element(self, value, ctx):
        self.gathered.add(value.n)
        timers = ctx.timer_service()
        timers.register_event_time_timer(ctx.timestamp() + 1)
        timers.register_processing_time_timer(timers.current_processing_time() + 3_600_000)

    def on_timer(self, timestamp, ctx):
        if ctx.time_domain().name == "PROCESSING_TIME":
            gathered = [*self.gathered.get()]
            yield FLUSHES, len(gathered)
            yield ctx.get_current_key()[0], dt.datetime(2020, 1, 1), sum(gathered)
            self.gathered.clear()
            ctx.timer_service().register_processing_time_timer(timestamp + 1)


@pytest.mark.telling
def test_a_batch_fires_every_timer_at_its_end(spark, tmp_path):
    """Those of processing time, too: what they give comes to the side, and to an operator behind that waits for its own."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add([("a1", at(1_000), 1), ("a2", at(5_000), 2)], [("a1", at(3_000), 4), ("b", at(0), 8)])
    first = key_by(feed.bounded(), "key").process(
        Buffer(), SCHEMA, event_time="ts", side_outputs=[FLUSHES]
    )
    second = key_by(main_output(first), "key").process(Buffer(), SCHEMA, event_time="ts")

    assert [("a", 7), ("b", 8)] == sorted((row.key, row.n) for row in second.collect())
    flushes = get_side_output(first, FLUSHES).collect()
    assert [1, 1, 2] == sorted(value for row in flushes for value in row)


@pytest.mark.thorough
def test_timers_that_would_never_fire_are_refused_with_the_remedy(spark, tmp_path):
    """An event timer without an event time, and a processing timer in event-time mode, are HostErrors that name the argument."""

    class Hidden(KeyedProcessFunction):
        def process_element(self, value, ctx):
            getattr(ctx.timer_service(), f"register_{value.key}_time_timer")(10**15)
            return []

    def run(key, **options):
        feed = Feed(spark, tmp_path / key, SCHEMA)
        feed.add([(key, at(1), 1)])
        result = key_by(feed.stream(), "key").process(Hidden(), FIRED, max_parallelism=2, **options)
        return drain(result, tmp_path / f"{key} checkpoint")

    with pytest.raises(StreamingQueryException, match=r'SparkSetupError: .*pass event_time="'):
        run("event")
    with pytest.raises(
        StreamingQueryException, match=r"SparkSetupError: .*processing_time_timers=True"
    ):
        run("processing", event_time="ts", processing_time_timers=False)
