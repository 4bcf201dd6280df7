# SPDX-License-Identifier: Apache-2.0
"""Jobs that never end, in this process: they are cancelled, collected from, and go on."""

from __future__ import annotations

import pytest
from job_lives import wait_for, written

from pyflinklike.common import Configuration, Duration, Encoder, JobStatus, Types, WatermarkStrategy
from pyflinklike.datastream import StreamExecutionEnvironment
from pyflinklike.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    StreamFormat,
)
from pyflinklike.errors import HostError, UserFunctionError

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")


@pytest.fixture(autouse=True)
def shipped_jobs(spark, request):
    """The functions of this module go to workers by value."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def environment(folder, **settings):
    """One whose jobs run on Spark and go on."""
    values = {
        "execution.target": "spark",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        **settings,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


def add(folder, name, *lines):
    """A file of input."""
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / "in" / f".{name}"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(folder / "in" / name)


def counts(env, folder):
    """Counts of lines by their text."""
    files = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(folder / "in")
    ).monitor_continuously(Duration.of_millis(20))
    lines = env.from_source(files.build(), WatermarkStrategy.no_watermarks(), "files")
    pairs = lines.map(lambda line: (line, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    return pairs.key_by(lambda pair: pair[0]).sum(1)


def started(folder, **settings):
    """The job with a sink of files, in the background."""
    env = environment(folder, **settings)
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
    told = counts(env, folder).map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    told.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    return env.execute_async("counts")


def until(folder, count):
    """Wait for so many lines of output."""
    wait_for(folder / "out", lambda lines: len(lines) >= count)


def test_a_cancelled_job_goes_on_where_it_was(tmp_path):
    """With its state, and without what it has read; with another retention its checkpoint goes."""
    add(tmp_path, "one", "a", "b", "a")
    first = started(tmp_path)
    until(tmp_path, 3)
    with pytest.raises(HostError, match="a job runs once at a time"):
        started(tmp_path)
    first.cancel().result()
    add(tmp_path, "two", "a", "c")

    retention = "execution.checkpointing.externalized-checkpoint-retention"
    second = started(tmp_path, **{retention: "DELETE_ON_CANCELLATION"})
    until(tmp_path, 5)
    running = second.get_job_status().result()
    second.cancel().result()

    assert ["a 1", "a 2", "a 3", "b 1", "c 1"] == sorted(written(tmp_path / "out"))
    assert (JobStatus.RUNNING, JobStatus.CANCELED) == (running, second.get_job_status().result())
    assert not (tmp_path / "checkpoints" / "counts").exists()


def test_what_is_collected_from_a_job_that_never_ends(tmp_path):
    """Closing the iterator cancels the job; a micro-batch of which not all was taken comes again."""
    add(tmp_path, "one", "a")
    found = counts(environment(tmp_path), tmp_path).execute_and_collect("collected")
    first = next(found)
    add(tmp_path, "two", "b", "b")
    second = next(found)
    found.close()

    found = counts(environment(tmp_path), tmp_path).execute_and_collect("collected")
    again = [next(found), next(found)]
    found.close()

    assert [("a", 1), ("b", 1), [("b", 1), ("b", 2)]] == [first, second, again]


def test_a_bounded_job_goes_on_to_its_end(tmp_path):
    """And leaves nothing to go on from."""

    def collected():
        env = environment(tmp_path, **{"pyflinklike.source.records-per-batch": "1"})
        pairs = env.from_collection([("a", 1), ("a", 2), ("a", 4)])
        return pairs.key_by(lambda pair: pair[0]).sum(1).execute_and_collect("bounded")

    found = collected()
    first = [next(found), next(found)]
    found.close()
    rest = list(collected())

    assert ([("a", 1), ("a", 3)], [("a", 3), ("a", 7)]) == (first, rest)
    assert not (tmp_path / "checkpoints" / "bounded").exists()


def fails_for_b(line):
    """Never for another one."""
    if line == "b":
        raise ValueError(line)
    return line


def test_a_job_that_failed_goes_on_when_it_is_mended(tmp_path):
    """A micro-batch that failed is no micro-batch."""

    def lines(function):
        env = environment(tmp_path)
        files = FileSource.for_record_stream_format(
            StreamFormat.text_line_format(), str(tmp_path / "in")
        ).monitor_continuously(20)
        stream = env.from_source(files.build(), WatermarkStrategy.no_watermarks(), "files")
        return stream.map(function, Types.STRING()).execute_and_collect("mended")

    add(tmp_path, "one", "a")
    found = lines(fails_for_b)
    first = next(found)
    add(tmp_path, "two", "c", "b")
    with pytest.raises(UserFunctionError, match="failed for element 'b'"):
        next(found)
    found = lines(str)
    again = [next(found), next(found)]
    found.close()

    assert ("a", ["c", "b"]) == (first, again)
