# SPDX-License-Identifier: Apache-2.0
"""Times and watermarks that are assigned behind a keyed operator, through the functions that Spark runs."""

from __future__ import annotations

import pytest
from job_savepoint_support import told
from job_stream_support import job_collected, results_of_stream
from jobs.timed import ByField, timed
from local_support import Each

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.job_session import refuse_what_is_missing
from pyflinklike.pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

pytest.importorskip("pyspark.sql.datasource", reason="needs PySpark 4.0")

FACTS = SessionFacts(partitions=1, max_parallelism=4, time_zone="UTC")


def environment(target="spark", **settings):
    """One whose micro-batches have an element each."""
    values = {
        "execution.target": target,
        "pyflinklike.source.records-per-batch": "1",
        **settings,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


class Seen(KeyedProcessFunction):
    """Tells the watermark that each element sees; and of a timer the one at which it fires."""

    def process_element(self, value, ctx):
        times = ctx.timer_service()
        times.register_event_time_timer(ctx.timestamp() + 5)
        yield value[0], "sees", times.current_watermark()

    def on_timer(self, timestamp, ctx):
        watermark = ctx.timer_service().current_watermark()
        yield ctx.get_current_key(), "fires", "end" if watermark == MAX_WATERMARK else watermark


def again(stream, delay=0):
    """The stream behind a keyed operator, with the second field as its times."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(delay))
    passed = stream.key_by(lambda pair: pair[0], Types.STRING()).process(Each())
    return passed.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ByField(1)))


def by_name(stream):
    """The stream by its first field."""
    return stream.key_by(lambda pair: pair[0], Types.STRING())


ELEMENTS = [("a", 10), ("b", 12), ("a", 16), ("b", 13), ("c", 30), ("a", 28)]


@pytest.mark.parametrize("delay", [0, 4])
def test_an_operator_behind_sees_the_watermarks_of_the_new_times(delay):
    """Those of the elements of earlier micro-batches, as on the local runner after each element."""
    stream = by_name(again(environment().from_collection(ELEMENTS), delay)).process(Seen())
    here = by_name(again(environment("local").from_collection(ELEMENTS), delay)).process(Seen())

    found = results_of_stream(job_collected(stream), FACTS)

    assert told(here.execute_and_collect()) == told(found)
    assert ("a", "sees", MIN_WATERMARK) == found[0]


def test_earlier_watermarks_do_not_pass():
    """The source is far ahead in its own time, which the operator behind does not see."""
    elements = [(name, time, 1_000_000 + time) for name, time in ELEMENTS]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField(2))

    def declared(env):
        source = env.from_collection(elements).assign_timestamps_and_watermarks(strategy)
        return by_name(again(source)).process(Seen())

    found = results_of_stream(job_collected(declared(environment())), FACTS)

    assert told(declared(environment("local")).execute_and_collect()) == told(found)
    assert {time for _, what, time in found if what == "sees"} == {MIN_WATERMARK, 9, 11, 15, 29}


def test_the_watermark_passes_to_the_second_operator_behind():
    """Windows of windows, by times that a function between has assigned."""

    def declared(env):
        windows = by_name(again(env.from_collection(ELEMENTS)))
        firsts = windows.window(TumblingEventTimeWindows.of(Time.milliseconds(5))).reduce(max)
        wider = by_name(firsts).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return wider.reduce(lambda one, other: (one[0], one[1] + other[1]))

    found = results_of_stream(job_collected(declared(environment())), FACTS)

    assert told(declared(environment("local")).execute_and_collect()) == told(found)
    assert found


def test_two_assigners_behind_each_other_count_as_the_last_one():
    """Each operator has the watermark of the one before it."""

    def declared(env):
        return by_name(
            again(by_name(again(env.from_collection(ELEMENTS))).process(Each()))
        ).process(Seen())

    found = results_of_stream(job_collected(declared(environment())), FACTS)

    assert told(declared(environment("local")).execute_and_collect()) == told(found)


def test_operators_side_by_side_have_watermarks_of_their_own():
    """One has that of Spark, the other one that of the times between; they share a state operator."""
    env = environment()
    pairs = timed(env, *ELEMENTS)
    passed = by_name(pairs).process(Each())
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1_000))
    later = passed.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ByField(1)))
    both = by_name(passed).process(Seen()).union(by_name(later).process(Seen()))
    job = job_collected(both)

    steps = JobSteps(job, FACTS, None)
    plain, own = steps.operators(*steps.stages[1:3])
    found = results_of_stream(job, FACTS)

    assert (None, (own.reassigner,)) == (plain.reassigner, plain.reassigners)
    assert 2 * len(ELEMENTS) == len([each for each in found if each[1] == "sees"])
    assert {"end"} < {each[2] for each in found if each[1] == "fires"}


def test_ways_with_and_without_new_times_are_refused_where_they_meet():
    """Spark tells nobody its watermark before the one of the new times is known."""

    def united():
        pairs = environment().from_collection(ELEMENTS)
        return by_name(again(pairs).union(pairs))

    folded, meeting = united().reduce(max), united().process(Seen())

    refuse_what_is_missing(job_collected(folded))
    with pytest.raises(
        SparkSetupError, match=r"on one of several ways to another one.*after the union"
    ):
        refuse_what_is_missing(job_collected(meeting))


def test_a_strategy_before_folds_alone_makes_no_calls():
    """The outputs of a fold do not depend on time, so nobody has to know the watermark."""
    stream = by_name(again(environment().from_collection(ELEMENTS))).reduce(max)

    assert {} == JobSteps(job_collected(stream), FACTS, None).reassigners
