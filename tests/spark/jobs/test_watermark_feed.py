# SPDX-License-Identifier: Apache-2.0
"""The watermark that the driver makes: the least of all splits and sources that are not idle."""

from __future__ import annotations

import pyarrow as pa
import pytest
from local_support import Each

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import CorruptStateError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._spark.job_folder import identity_of
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.job_session import backend_of
from pyflinklike.pyflink._spark.results import Results
from pyflinklike.pyflink._spark.stage_task import SOURCE_SCHEMA
from pyflinklike.pyflink._spark.watermark_feed import (
    SplitWatermark,
    WatermarkFeed,
    mark_row,
    needs_feed,
)
from pyflinklike.pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.spark._wire.stage_records import CALL, PASSED_ON, dump, wrap_to_pass
from pyflinklike.spark._wire.system_columns import END_OF_INPUT

pytest.importorskip("pyspark.sql.datasource", reason="needs PySpark 4.0")

FACTS = SessionFacts(2, 8, "UTC")
SECOND = 1_000


def endless(folder, idle=None, aligned=None):
    """Files without an end, and what their watermarks follow."""
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if idle is not None:
        strategy = strategy.with_idleness(Duration.of_millis(idle))
    if aligned is not None:
        strategy = strategy.with_watermark_alignment(*aligned)
    return files.monitor_continuously(10).build(), strategy


def job_of(*sources, unkeyed=()):
    """The union of sources, keyed; and sources that are only printed."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    streams = [env.from_source(*each, f"source {at}") for at, each in enumerate(sources)]
    streams[0].union(*streams[1:]).key_by(str).process(Each(), Types.STRING()).print()
    for each in unkeyed:
        env.from_source(*each, "printed").print()
    return Job(env._program.graph(), env._program._settings(env._program.graph(), None))


def steps_of(job, is_fed=True):
    """Its steps."""
    steps = JobSteps(job, FACTS, backend_of(job))
    steps.is_fed = is_fed
    return steps


def feed_of(path, job, now=0):
    """The feed of a job, and the numbers of its sources."""
    stage = steps_of(job).stages[0]
    return WatermarkFeed(path / "watermark.json", stage, now), list(stage.entrances)


def told(feed, now):
    """The watermark that Spark would take."""
    from pyflinklike.pyflink._spark.watermark_source import _WatermarkReader

    feed.tell(now)
    return _WatermarkReader(feed.path).latestOffset()["watermark"]


def test_the_least_watermark_of_all_splits(tmp_path):
    """And it never goes back."""
    feed, (source,) = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))

    feed.note([SplitWatermark(source, "t/0", 50), SplitWatermark(source, "t/1", 30)], 1)
    first = told(feed, 1)
    feed.note([SplitWatermark(source, "t/0", 90), SplitWatermark(source, "t/1", 20)], 2)
    second = told(feed, 2)
    feed.note([SplitWatermark(source, "t/1", 60)], 3)

    assert (30, 30, 60) == (first, second, told(feed, 3))


def test_a_source_that_has_given_nothing_holds_the_watermark(tmp_path):
    """Until it is idle, if it has an idleness; without one for ever."""
    sources = [endless(tmp_path / "a"), endless(tmp_path / "b", idle=SECOND)]
    feed, (one, other) = feed_of(tmp_path, job_of(*sources), now=100)

    feed.note([SplitWatermark(one, "", 50)], 100)
    before = told(feed, 100 + SECOND - 1)
    after = told(feed, 100 + SECOND)
    feed.note([SplitWatermark(other, "", 500)], 100 + SECOND)
    feed.note([SplitWatermark(one, "", 400)], 100 + SECOND)

    assert (MIN_WATERMARK, 50, 400) == (before, after, told(feed, 100 + SECOND))


def test_a_split_is_left_out_while_it_is_idle(tmp_path):
    """When it gives something again it counts again, and what has gone on has gone on."""
    feed, (source,) = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))
    feed.note([SplitWatermark(source, "t/0", 10), SplitWatermark(source, "t/1", 20)], 0)
    feed.note([SplitWatermark(source, "t/1", 70)], SECOND - 1)
    before = told(feed, SECOND - 1)
    idle = told(feed, SECOND)
    feed.note([SplitWatermark(source, "t/0", 30), SplitWatermark(source, "t/1", 90)], SECOND)
    again = told(feed, SECOND)
    feed.note([SplitWatermark(source, "t/0", 80)], SECOND)

    assert (10, 70, 70, 80) == (before, idle, again, told(feed, SECOND))


def test_once_all_are_idle_none_holds_back_another_one(tmp_path):
    """As in Flink's operators: the greatest counts then."""
    feed, (source,) = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))
    feed.note([SplitWatermark(source, "t/0", 10), SplitWatermark(source, "t/1", 20)], 0)

    assert (10, 20) == (told(feed, SECOND - 1), told(feed, SECOND))


def test_the_end_of_another_source_is_not_that_of_one_that_is_idle(tmp_path):
    """It may give something again."""
    feed, (source, ended) = feed_of(
        tmp_path, job_of(endless(tmp_path / "a", idle=SECOND), endless(tmp_path / "b"))
    )
    feed.note([SplitWatermark(source, "", 10), SplitWatermark(ended, "", MAX_WATERMARK)], 0)

    assert (10, 10) == (told(feed, 0), told(feed, 9 * SECOND))


def test_a_source_that_no_key_needs_holds_nothing(tmp_path):
    """It may be silent for ever."""
    job = job_of(endless(tmp_path, idle=SECOND), unkeyed=[endless(tmp_path / "printed")])
    feed, numbers = feed_of(tmp_path, job)

    feed.note([SplitWatermark(numbers[0], "", 10)], 0)

    assert 10 == told(feed, 0)


def test_a_restart_goes_on_with_all_splits(tmp_path):
    """Also where the program numbers its nodes otherwise; silence counts from the restart on."""
    feed, (source,) = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))
    feed.note([SplitWatermark(source, "t/0", 10), SplitWatermark(source, "t/1", 20)], 0)
    first = told(feed, 0)

    again, (number,) = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)), now=5 * SECOND)
    again.note([SplitWatermark(number, "t/1", 70)], 5 * SECOND + 1)

    assert (10, 10, 70) == (first, told(again, 5 * SECOND), told(again, 6 * SECOND))


def test_a_damaged_note_is_seen(tmp_path):
    """It would say that no element is late, or that all are."""
    feed, (source,) = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))
    feed.note([SplitWatermark(source, "", 10)], 0)
    feed.tell(0)
    feed.path.write_text(feed.path.read_text().replace("10", "99"))

    with pytest.raises(CorruptStateError, match="got a damaged one"):
        feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))


@pytest.mark.parametrize(("idle", "expected"), [(SECOND, True), (None, False)])
def test_which_jobs_have_such_a_watermark(tmp_path, idle, expected):
    """Those for which Spark's own would be another one; so a restart that changes that is refused."""
    job = job_of(endless(tmp_path, idle=idle))
    steps = steps_of(job, is_fed=needs_feed(job.graph, steps_of(job).stages[0]))

    assert (expected, 1 + expected) == (steps.is_fed, len(identity_of(steps).sources))


def test_tasks_tell_how_far_they_have_come(tmp_path):
    """In a parcel that passes through all operators to the driver; Spark is told nothing."""
    job = job_of(endless(tmp_path, idle=SECOND))
    steps = steps_of(job)
    (source,) = steps.stages[0].entrances
    row = {
        "source": source,
        "split": 0,
        "splits": 1,
        "part": None,
        "elements": dump([("a", 7), ("b", 5)]),
        "is_last": False,
    }
    given = list(
        steps.task(steps.stages[0]).run(
            [pa.RecordBatch.from_pylist([row], schema=SOURCE_SCHEMA.arrow)]
        )
    )
    rows = [row for batch in given for row in zip(*(each.to_pylist() for each in batch.columns))]
    through = [row[2] for row in rows if row[0] >= 0 and row[2].startswith(wrap_to_pass(b""))]
    behind = pa.record_batch({"output": pa.array([PASSED_ON], pa.int32()), "payload": through})
    results = Results(job)
    for batch in steps.task(steps.stages[1]).run([behind]):
        results.add(zip(*(column.to_pylist() for column in batch.columns)))

    assert {None} == {row[3] for row in rows}
    assert [SplitWatermark(source, "", 6)] == results.split_watermarks


@pytest.mark.parametrize(
    ("watermark", "milliseconds"),
    [(5, 5), (0, None), (MIN_WATERMARK, None), (MAX_WATERMARK, END_OF_INPUT)],
)
def test_the_row_that_tells_spark(watermark, milliseconds):
    """Spark's begins with 0, and ends before ours."""
    (time,) = mark_row(watermark).column(3).cast(pa.int64()).to_pylist()

    assert time == (None if milliseconds is None else 1000 * milliseconds)


def test_what_spark_reads_of_the_note(tmp_path):
    """A row whenever the watermark is another one."""
    from pyflinklike.pyflink._spark.watermark_source import WatermarkSource

    feed, (source,) = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))
    reader = WatermarkSource({"path": str(feed.path)}).streamReader(None)
    start = reader.initialOffset()
    before = reader.latestOffset()
    feed.note([SplitWatermark(source, "", 10)], 0)
    feed.tell(0)
    end = reader.latestOffset()

    (partition,) = reader.partitions(start, end)

    assert (start, []) == (before, reader.partitions(start, before))
    assert [(10,)] == list(reader.read(partition))


def test_a_source_that_is_ahead_of_its_group_is_told(tmp_path):
    """By the least of its splits; a source that is idle or has ended holds nobody back."""
    sources = [
        endless(tmp_path / name, idle=SECOND, aligned=(group, 10))
        for name, group in (("a", "one"), ("b", "one"), ("c", "two"))
    ]
    job = job_of(*sources)
    feed, (fast, slow, other) = feed_of(tmp_path, job)
    unknown = feed.find_ahead(0)
    feed.note([SplitWatermark(fast, "t/0", 90), SplitWatermark(fast, "t/1", 31)], 0)
    feed.note([SplitWatermark(slow, "", 20), SplitWatermark(other, "", 500)], 0)

    told = [feed.find_ahead(0)]
    feed.note([SplitWatermark(slow, "", 21)], 0)
    told.append(feed.find_ahead(0))
    feed.note([SplitWatermark(fast, "t/1", 60)], SECOND - 1)
    told += [feed.find_ahead(SECOND - 1), feed.find_ahead(SECOND)]

    assert (set(), [{fast}, set(), {fast}, set()]) == (unknown, told)
    assert needs_feed(job.graph, steps_of(job).stages[0])


def test_alignment_alone_has_the_driver_make_the_watermark(tmp_path):
    """Spark tells nobody how far each source is."""
    aligned = job_of(endless(tmp_path / "a", aligned=("one", 10)), endless(tmp_path / "b"))
    plain = job_of(endless(tmp_path / "a"), endless(tmp_path / "b"))

    found = [needs_feed(each.graph, steps_of(each).stages[0]) for each in (aligned, plain)]

    assert [True, False] == found


def test_a_source_that_ticks_has_an_offset_for_each_trigger_and_calls_all_key_groups(tmp_path):
    """Its row is the watermark, as without ticks; another run of the micro-batch gives the same."""
    from pyflinklike.pyflink._spark.watermark_source import _mark, _WatermarkReader

    feed, _ = feed_of(tmp_path, job_of(endless(tmp_path, idle=SECOND)))
    reader = _WatermarkReader(feed.path, ticks=True)
    start, end = reader.initialOffset(), reader.latestOffset()
    rows = pa.RecordBatch.from_pylist(
        [
            {"milliseconds": each}
            for part in reader.partitions(start, end)
            for (each,) in reader.read(part)
        ]
    )

    calls = [
        row
        for batch in _mark(((0, 2), (1, 3)), [rows])
        for row in zip(*(batch.column(at).to_pylist() for at in (0, 2)))
        if row[1] == CALL
    ]

    assert [*group_ids(2, 0), *group_ids(3, 1)] == [group for group, _ in calls]
    assert reader.partitions(end, end) == []
    assert {"watermark", "tick"} == end.keys()
