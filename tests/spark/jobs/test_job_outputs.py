# SPDX-License-Identifier: Apache-2.0
"""Each micro-batch comes to the sinks once, wherever the driver is killed; and what hands them over."""

from __future__ import annotations

import shutil
from threading import Thread

import attrs
import pytest

from pyflinklike.errors import CorruptStateError, SparkSetupError
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.sinks import Renaming
from pyflinklike.pyflink._spark.results import Handover, Ledger, ResultBatch, Results
from pyflinklike.pyflink._spark.stage_outputs import LastSender, Outlets
from pyflinklike.pyflink.common import Encoder, Types
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors.file_system import BucketAssigner, FileSink
from pyflinklike.spark._wire.stage_records import Address, StageRecord, dump


class Killed(Exception):
    """The driver is gone."""


class Clock:
    """Another second, and so another folder, at each look."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        """Of day one."""
        self.now += 1000
        return self.now


CLOCK = Clock()


SECONDS = BucketAssigner.date_time_bucket_assigner("mm-ss", "UTC")


def job_of(folder, buckets=SECONDS):
    """A job with two sinks in one folder."""
    env = StreamExecutionEnvironment.get_execution_environment()
    lines = env.from_collection(["a"], Types.STRING())
    for _ in range(2):
        builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        lines.sink_to(attrs.evolve(builder.with_bucket_assigner(buckets).build(), clock=CLOCK))
    return Job(env._program.graph(), JobSettings())


def batch_of(job, number, outlets=None):
    """Two lines for each sink, which a task has written."""
    sender = LastSender(outlets or Outlets(job.graph.sinks, f"job-{number}"), 0)
    for at, sink in enumerate(job.graph.sinks):
        lines = [(None, f"{at} {number} {line}", None) for line in "xy"]
        sender.parcel(StageRecord(Address(sink.id, 0), dump(lines)))
    (rows,) = sender.end(0)
    return ResultBatch(number, list(zip(*(column.to_pylist() for column in rows.columns))))


def written(folder):
    """All lines that are visible."""
    return sorted(
        line
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
        for line in path.read_text().splitlines()
    )


def life(tmp_path, numbers):
    """A driver that is given micro-batches, until it is killed."""
    job = job_of(tmp_path / "out")
    ledger, results = Ledger(tmp_path / "outputs.json"), Results(job)
    results.remove_unfinished("job")
    for number in numbers:
        results.add_batch(batch_of(job, number), ledger)


def killed_at(monkeypatch, step):
    """Have the driver be killed before a step: a renaming by its number, or the note."""
    renamings = iter(range(10))
    perform, note = Renaming.perform, Ledger.note

    def performing(self):
        if next(renamings) == step:
            raise Killed
        perform(self)

    def noting(self, batch, files):
        if step == "note":
            raise Killed
        note(self, batch, files)

    monkeypatch.setattr(Renaming, "perform", performing)
    monkeypatch.setattr(Ledger, "note", noting)


@pytest.mark.parametrize("step", ["note", 0, 1, 2, 3])
def test_a_micro_batch_is_there_once_wherever_the_driver_was_killed(tmp_path, monkeypatch, step):
    """Also where it was partly visible, and where its folder would be another one by now."""
    with monkeypatch.context() as context:
        killed_at(context, step)
        with pytest.raises(Killed):
            life(tmp_path, [0])

    life(tmp_path, [0, 1])

    assert written(tmp_path / "out") == sorted(
        f"{sink} {number} {line}" for sink in (0, 1) for number in (0, 1) for line in "xy"
    )
    assert not [path for path in (tmp_path / "out").rglob(".*") if path.is_file()]


def test_a_micro_batch_that_was_taken_is_not_taken_again(tmp_path):
    """Spark did not know that it was done."""
    life(tmp_path, [0, 1])
    life(tmp_path, [1])

    assert len(written(tmp_path / "out")) == 8


def test_two_sinks_of_one_folder_do_not_take_each_others_names(tmp_path):
    """A file that is renamed to one that is there would replace it."""
    job = job_of(tmp_path / "out", BucketAssigner.base_path_bucket_assigner())
    results = Results(job)

    results.add_batch(batch_of(job, 0), Ledger(tmp_path / "outputs.json"))

    assert ["0 0 x", "0 0 y", "1 0 x", "1 0 y"] == written(tmp_path / "out")


def test_what_a_task_has_written_is_seen_from_the_driver(tmp_path):
    """Else its lines would be lost without an error."""
    job = job_of(tmp_path / "out")
    batch = batch_of(job, 0)
    shutil.rmtree(tmp_path / "out")

    with pytest.raises(
        SparkSetupError, match=r"that the driver and all workers have mounted, got no "
    ):
        Results(job).add_batch(batch, Ledger(tmp_path / "outputs.json"))
    assert not (tmp_path / "outputs.json").exists()


@pytest.mark.parametrize("end", ["finish", "abandon"])
def test_lines_of_a_job_that_shows_them_at_its_end(tmp_path, end):
    """All of them if it ends well, else none, and nothing hidden."""
    job = job_of(tmp_path / "out")
    results = Results(job)
    for number in (0, 1):
        results.add(batch_of(job, number).rows)
    before = written(tmp_path / "out")

    getattr(results, end)()

    assert ([], 8 if end == "finish" else 0) == (before, len(written(tmp_path / "out")))
    assert not [path for path in (tmp_path / "out").rglob(".*") if path.is_file()]


def test_a_task_that_fails_leaves_nothing(tmp_path):
    """Another attempt writes all of it."""
    job = job_of(tmp_path / "out")
    sender = LastSender(Outlets(job.graph.sinks, "job"), 0)
    sender.records(Address(job.graph.sinks[0].id, 0), [(None, "line", None)])

    sender.abandon()

    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_tasks_do_not_take_each_others_names(tmp_path):
    """Two of one micro-batch write to one folder."""
    job = job_of(tmp_path / "out", BucketAssigner.base_path_bucket_assigner())
    sink = job.graph.sinks[0]
    outlets = Outlets((sink,), "job")
    results = Results(job)
    for task in (0, 1):
        sender = LastSender(outlets, task)
        sender.records(Address(sink.id, 0), [(None, str(task), None)])
        (rows,) = sender.end(0)
        results.add(zip(*(column.to_pylist() for column in rows.columns)))

    results.finish()

    assert ["0", "1"] == written(tmp_path / "out")


def test_what_others_write_stays(tmp_path):
    """Only what is hidden and named after the job goes."""
    for name in (".part-other-0-0.inprogress.1", "part-job-9", ".part-job-0"):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / name).touch()

    life(tmp_path, [])

    assert len([*(tmp_path / "out").iterdir()]) == 3


def test_a_damaged_note_is_seen(tmp_path):
    """It would say that a micro-batch is written that is not."""
    life(tmp_path, [0])
    path = tmp_path / "outputs.json"
    path.write_text(path.read_text().replace('"batch": 0', '"batch": 9'))

    with pytest.raises(CorruptStateError, match="got a damaged one"):
        Ledger(path)


def given(handover, number):
    """A thread that gives a micro-batch, and what became of it."""
    became = []

    def give():
        try:
            handover.give(ResultBatch(number, []))
        except SparkSetupError as error:
            became.append(error)
        else:
            became.append("done")

    thread = Thread(target=give)
    thread.start()
    return thread, became


def test_a_micro_batch_is_noted_when_it_is_done_with():
    """Not when it was taken."""
    handover = Handover()
    thread, became = given(handover, 3)

    batch = handover.take(10)
    before = list(became)
    handover.done()
    thread.join()

    assert (ResultBatch(3, []), [], ["done"]) == (batch, before, became)


def test_a_job_that_ends_turns_a_micro_batch_away():
    """So Spark gives it again after a restart."""
    handover = Handover()
    thread, became = given(handover, 3)
    handover.take(10)
    handover.close()
    thread.join()

    with pytest.raises(SparkSetupError, match="before micro-batch 3 was written"):
        raise became[0]
    with pytest.raises(SparkSetupError, match="before micro-batch 4 was written"):
        handover.give(ResultBatch(4, []))
