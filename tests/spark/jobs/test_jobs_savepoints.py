# SPDX-License-Identifier: Apache-2.0
"""Savepoints of jobs between this process and Spark, and between two jobs on Spark."""

from __future__ import annotations

import pytest
from job_lives import written
from job_savepoint_support import collected, stopped_after
from spark_jobs import add, going_on, lines_in, sink_in, until

from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.pyflink.common import (
    JobStatus,
    Time,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows
from pyflinklike.state_processor import open_savepoint

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
pytestmark = pytest.mark.usefixtures("shipped_module")

RECOVERY = "execution.state-recovery.path"


class Everything(KeyedProcessFunction):
    """State of several kinds, and a timer for each element."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.INT()))
        counts = MapStateDescriptor("counts", Types.STRING(), Types.LONG())
        self.counts = runtime_context.get_map_state(counts)

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        self.all.add(value[1])
        kind = "even" if value[1] % 2 == 0 else "odd"
        self.counts.put(kind, (self.counts.get(kind) or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 1_000)
        yield "sum", value[0], self.total.value(), list(self.all), self.counts.get(kind)

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, [], 0


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class ByRule(KeyedBroadcastProcessFunction):
    """Multiplies by a rule, and counts the elements of a key."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        factor = ctx.get_broadcast_state(RULES).get("factor") or 0
        yield "rule", value[0], value[1] * factor, [self.seen.value()], 0

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


class ByNumber(TimestampAssigner):
    """The time of a pair is its number."""

    def extract_timestamp(self, value, record_timestamp):
        return value[1]


PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5), ("a", 6), ("d", 7), ("c", 8)]


def everything(env):
    """Operators side by side and behind one another: state, timers, windows, rules."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    rules = env.from_collection([("factor", 10)]).uid("rules").broadcast(RULES)
    pairs = env.from_collection(PAIRS).uid("pairs").assign_timestamps_and_watermarks(times)
    keyed = pairs.key_by(lambda pair: pair[0], Types.STRING())
    sums = keyed.process(Everything()).uid("everything")
    ruled = keyed.connect(rules).process(ByRule()).uid("ruled")
    # Keys without a declared type; the window is behind no other operator.
    window = TumblingEventTimeWindows.of(Time.milliseconds(100))
    windows = keyed.window(window).reduce(lambda one, two: (one[0], one[1] + two[1])).uid("windows")
    behind = sums.filter(lambda each: each[0] == "sum").key_by(lambda each: each[1])
    greatest = behind.max(2).map(lambda each: ("max", each[1], each[2], [], 0))
    told = windows.map(lambda pair: ("window", pair[0], pair[1], [], 0))
    return sums.union(ruled, told, greatest)


@pytest.fixture
def expected():
    """What the job gives that nobody cuts."""
    return sorted(map(repr, collected(everything)))


def test_a_job_of_this_process_goes_on_on_spark(tmp_path, expected):
    """In other numbers of tasks and key groups; a restart with the path in its settings adds nothing."""
    before = stopped_after(everything, 6, tmp_path / "savepoint", parallelism__default="2")
    settings = {
        RECOVERY: str(tmp_path / "savepoint"),
        "parallelism.default": "3",
        "pipeline.max-parallelism": "12",
        "pyflinklike.source.records-per-batch": "2",
    }
    found = everything(going_on(tmp_path, **settings)).execute_and_collect("job")
    first = [next(found)]
    found.close()
    rest = list(everything(going_on(tmp_path, **settings)).execute_and_collect("job"))

    # The micro-batch of which one element was taken comes again, from the same state.
    assert expected == sorted(map(repr, before + rest))
    assert repr(first[0]) in list(map(repr, rest))


def test_a_job_of_spark_goes_on_in_this_process(spark, tmp_path, expected):
    """From the folder that a run has left which was cancelled in the middle."""
    from pyflinklike.state_processor import take_savepoint

    settings = {"pyflinklike.source.records-per-batch": "1", "pipeline.max-parallelism": "6"}
    found = everything(going_on(tmp_path, **settings)).execute_and_collect("job")
    for _ in range(6):
        next(found)
    found.close()
    folder = tmp_path / "checkpoints" / "job"
    with pytest.raises(DeclarationValueError, match="not written into a job's folder"):
        take_savepoint(spark, folder, folder / "savepoint")
    take_savepoint(spark, folder.as_uri(), tmp_path / "savepoint")

    saved = open_savepoint(tmp_path / "savepoint")
    saved.verify()
    assert {"everything", "ruled", "windows"} < set(saved.operators())
    rest = sorted(
        map(repr, collected(everything, tmp_path / "savepoint", parallelism__default="2"))
    )
    assert len(rest) < len(expected)
    assert [] == [each for each in rest if each not in expected]
    # The state is whole: the last sums of all keys are there, and each timer that is left.
    last = [each for each in expected if "'timer'" in each or "'window'" in each]
    assert [] == [each for each in last if each not in rest]


def started(folder, name, **settings):
    """A job that counts lines by their text and never ends, in the background."""
    env = going_on(folder, **settings)
    lines = lines_in(env, folder)
    pairs = lines.map(lambda line: (line, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    counts = pairs.key_by(lambda pair: pair[0]).sum(1).uid("counts")
    told = counts.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    told.sink_to(sink_in(folder / "out"))
    return env.execute_async(name)


def test_a_job_that_stopped_with_a_savepoint_goes_on_under_another_name(tmp_path):
    """No file is read twice and no count is added twice, also over a restart."""
    add(tmp_path, "one", "a", "b", "a")
    first = started(tmp_path, "first")
    until(tmp_path, 3)
    with pytest.raises(SparkSetupError, match="cannot end the event time"):
        first.stop_with_savepoint(True, str(tmp_path / "savepoints")).result()
    between = first.trigger_savepoint(str(tmp_path / "savepoints")).result()
    add(tmp_path, "two", "a")
    until(tmp_path, 4)
    path = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    first.get_job_execution_result().result()
    settings = {RECOVERY: path, "parallelism.default": "3"}
    second = started(tmp_path, "second", **settings)
    add(tmp_path, "three", "a", "c")
    until(tmp_path, 6)
    second.cancel().result()
    add(tmp_path, "four", "c")
    third = started(tmp_path, "second", **settings)
    until(tmp_path, 7)
    third.cancel().result()

    assert ["a 1", "a 2", "a 3", "a 4", "b 1", "c 1", "c 2"] == sorted(written(tmp_path / "out"))
    assert JobStatus.FINISHED is first.get_job_status().result()
    assert not (tmp_path / "checkpoints" / "first").exists()
    found = [open_savepoint(each).manifest.job.sources[0].position for each in (between, path)]
    paths = [str(tmp_path / "in" / name) for name in ("one", "two")]
    assert [{"found": paths[:1]}, {"found": paths}] == found


def test_a_job_without_state_keeps_its_place(tmp_path):
    """A savepoint of it has the positions of its sources."""

    def lines(**settings):
        env = going_on(tmp_path, **settings)
        stream = lines_in(env, tmp_path).map(str.upper, Types.STRING())
        stream.sink_to(sink_in(tmp_path / "out"))
        return env.execute_async("lines")

    add(tmp_path, "one", "a")
    first = lines()
    until(tmp_path, 1)
    path = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    add(tmp_path, "two", "b")
    second = lines(**{RECOVERY: path})
    until(tmp_path, 2)
    second.cancel().result()

    assert ["A", "B"] == sorted(written(tmp_path / "out"))
