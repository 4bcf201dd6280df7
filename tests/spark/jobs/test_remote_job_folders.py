# SPDX-License-Identifier: Apache-2.0
"""Folders of jobs on HDFS and on object stores, simulated: drivers that die at every step, and two at once."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings
from job_folder_support import FACTS, environment, keyed, run
from simulated.file_system import FileSystem, MissingFileError

from pyflinklike.errors import CorruptStateError, SparkSetupError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._graph.sinks import Renaming
from pyflinklike.pyflink._spark.job_folder import JobFolder, JobIdentity, identity_of
from pyflinklike.pyflink._spark.job_plan import JobSteps
from pyflinklike.pyflink._spark.job_session import backend_of
from pyflinklike.pyflink._spark.results import Ledger
from pyflinklike.pyflink._spark.stream_sources import StreamSource
from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.state_processor._checkpoints import job_at_rest
from pyflinklike.state_processor._checkpoints.job_at_rest import Driver, JobAtRest, rows_in
from pyflinklike.state_processor._folders.folder_paths import (
    Listed,
    RemotePath,
    read_json,
    write_json,
)
from pyflinklike.state_processor._folders.hadoop_files import is_remote_address

DIRECTORY = "hdfs://name/jobs"
ELEMENTS = 3
STEPS = 200
"""More than a life has."""
STRIDE = 1 if settings().max_examples > 1000 else 4
"""Each step only where time is no matter."""


class Killed(BaseException):
    """The end of a driver."""


class Remote:
    """A file system, on which a driver may die at a step.

    On HDFS a file is written under another name first; on an object store a folder goes file by file, and
    nobody sets a time.

    Args:
        kind: "HDFS" or "object store".
    """

    def __init__(self, kind: str) -> None:
        self.kind, self.files = kind, FileSystem(kind)
        self.times: dict[tuple[str, ...], int] = {}
        self.now, self.left = 1_000, STEPS

    def step(self) -> None:
        """Live on, or die."""
        self.left -= 1
        if self.left < 0:
            raise Killed

    def whole(self, address: str) -> str:
        """As it is."""
        return address.rstrip("/")

    def create(self, path: str, contents: bytes, newer_than: int) -> int | None:
        """Once."""
        where = tuple(path.split("/"))
        self.step()
        if self.kind == "HDFS":
            hidden = (*where[:-1], f".{where[-1]}.{self.left}.tmp")
            self.files.create(hidden, contents)
            self.step()
            self.files.delete(hidden)
            self.now = max(self.now, newer_than + 1)
        if not self.files.create(where, contents):
            return None
        self.times[where] = self.now
        self.step()
        return self.now

    def read(self, path: str) -> bytes | None:
        """All."""
        try:
            return bytes(self.files.read(tuple(path.split("/"))))
        except MissingFileError:
            return None

    def entries(self, path: str) -> list[Listed]:
        """By the names of files."""
        folder = tuple(path.split("/"))
        found = {each[len(folder)]: each for each in self.files.under(*folder)}
        return [
            Listed(name, self.times.get(each, 0), len(each) > len(folder) + 1)
            for name, each in found.items()
        ]

    def make_folder(self, path: str) -> None:
        """Folders are parts of names."""

    def delete(self, path: str) -> None:
        """One by one where it cannot be done at once."""
        for each in list(self.files.under(*path.split("/"))):
            if self.kind != "HDFS":
                self.step()
            self.files.delete(each)
        self.step()


@pytest.fixture(params=["HDFS", "object store"])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    """A file system of each kind."""
    job_at_rest._held.clear()
    yield Remote(request.param)
    job_at_rest._held.clear()


@functools.cache
def job() -> Job:
    """A job of three elements."""
    values = {"execution.checkpointing.dir": DIRECTORY}
    values["pyflinklike.source.records-per-batch"] = "1"
    configuration = Configuration.from_dict(values)
    return keyed(StreamExecutionEnvironment.get_execution_environment(configuration))


def driver(number: int, *, lives: bool = False) -> Driver:
    """One of an application of its own; whether others listen."""
    return Driver(f"application-{number}", "host", number, lambda *_: lives, 0)


def opened(remote: Remote, number: int = 0, *, lives: bool = False) -> JobFolder:
    """The folder of the job, for a run."""
    directory = RemotePath(remote, DIRECTORY)
    return JobFolder(job().settings, directory, driver(number, lives=lives))


@functools.cache
def identity() -> JobIdentity:
    """Of the job."""
    return identity_of(JobSteps(job(), FACTS, backend_of(job())))


def begun(folder: JobFolder) -> Ledger:
    """The record of a job that has begun in its folder."""
    return folder.begin(identity(), FACTS)


def live(remote: Remote, number: int, out: Path, *, ends: bool = True) -> None:
    """Run the job as Spark does: offsets, rows of a source, files of a sink, record, commit."""
    folder = opened(remote, number)
    ledger = begun(folder)
    (node,) = job().graph.of_kind(FromSource)
    StreamSource(node, job().settings_of(node), folder.source(0), None, folder.signals_of(0))
    for batch, elements in enumerate(rows_of(folder.source(0))[:ELEMENTS]):
        (folder.checkpoint / "offsets" / str(batch)).touch()
        if not ledger.has(batch):
            hidden = out / f".{number}-{batch}"
            hidden.write_text(elements)
            ledger.note(batch, [Renaming(hidden, out / f"{number}-{batch}")])
        (folder.checkpoint / "commits" / str(batch)).touch()
    folder.leave(is_over=ends)


def rows_of(source: RemotePath) -> list[str]:
    """What Spark reads of each file, in the order of their times."""
    times = source.times()
    files = sorted(rows_in(source).values(), key=lambda path: (times[path.name], path.name))
    tables = [pq.read_table(pa.BufferReader(path.read_once())) for path in files]
    return [str(table.column("elements").to_pylist()) for table in tables]


def test_a_driver_that_dies_at_any_step_loses_and_doubles_nothing(remote, tmp_path):
    """Each life gets further than the one before; what they have written is that of one life."""
    random = Random(len(remote.kind))
    expected = tmp_path / "expected"
    expected.mkdir()
    live(Remote(remote.kind), 0, expected)
    texts = sorted(each.read_text() for each in expected.iterdir())
    for step in range(random.randrange(STRIDE), STEPS, STRIDE):
        world, out = Remote(remote.kind), tmp_path / str(step)
        out.mkdir()
        world.left = step
        try:
            live(world, 1, out)
            is_whole = True
        except Killed:
            is_whole = False
            job_at_rest._held.clear()
            world.left = STEPS
            live(world, 2, out)
        visible = [each for each in out.iterdir() if not each.name.startswith(".")]
        left = [each for each in world.files.under() if not each[-1].endswith(".tmp")]
        if len(visible) > ELEMENTS:
            # It had come to its end, and left nothing to go on from.
            assert sorted(each.read_text() for each in visible if each.name[0] == "1") == texts
        else:
            assert texts == sorted(each.read_text() for each in visible)
        assert [] == left
        if is_whole:
            return
    pytest.fail("no life has come to its end")


def test_two_deaths_in_a_row(remote, tmp_path):
    """A run that dies while it mends what another one has left."""
    expected = tmp_path / "expected"
    expected.mkdir()
    live(Remote(remote.kind), 0, expected, ends=False)
    texts = sorted(each.read_text() for each in expected.iterdir())
    pairs = [(first, second) for first in range(5, 60, 3) for second in range(1, 30, 2)]
    for first, second in pairs[:: 8 * STRIDE]:
        world, out = Remote(remote.kind), tmp_path / f"{first}-{second}"
        out.mkdir()
        for number, left in enumerate((first, second, STEPS)):
            world.left = left
            try:
                live(world, number, out, ends=False)
            except Killed:
                job_at_rest._held.clear()

        visible = [each for each in out.iterdir() if not each.name.startswith(".")]
        assert texts == sorted(each.read_text() for each in visible)


def test_a_second_run_is_refused_while_the_driver_of_the_first_lives(remote):
    """In the same process, and where something listens at its host and port."""
    first = opened(remote, 1)
    with pytest.raises(SparkSetupError, match="a job runs once at a time, got a second run beside"):
        opened(remote, 1)
    job_at_rest._held.clear()  # as another process
    with pytest.raises(SparkSetupError, match=r"takes connections at host:1\), remove '.*\.lock'"):
        opened(remote, 2, lives=True)

    first.leave(is_over=False)
    opened(remote, 2, lives=True).leave(is_over=False)


def test_a_run_that_has_lost_its_folder_writes_no_micro_batch(remote, tmp_path):
    """And leaves the folder to the run that has taken it."""
    first = opened(remote, 1)
    ledger = begun(first)
    job_at_rest._held.clear()
    second = opened(remote, 2)
    hidden = tmp_path / ".hidden"
    hidden.touch()

    with pytest.raises(SparkSetupError, match="another run could not reach its driver"):
        ledger.note(0, [Renaming(hidden, tmp_path / "seen")])
    first.leave(is_over=True)

    assert (True, 1) == (hidden.exists(), begun_by(second))
    second.leave(is_over=False)


def begun_by(folder: JobFolder) -> int:
    """The number of files that say what began the job."""
    return len([each for each in folder.path.iterdir() if each.name == "job.json"])


def test_a_small_file_may_name_a_path_that_is_no_utf8(tmp_path: Path) -> None:
    """On Linux a path may hold any bytes; Python has lone surrogates for those that are no UTF-8."""
    path = os.fsdecode(b"/data/caf\xe9")

    write_json(tmp_path / "job.json", {"path": path, "name": "Caf\u00e9"})

    assert {"path": path, "name": "Caf\u00e9"} == read_json(tmp_path / "job.json")


def test_of_two_that_write_a_record_at_once_one_is_refused(remote):
    """Also when what the other has written has made way for more."""
    path = RemotePath(remote, f"{DIRECTORY}/record.json")
    one, other = (RemotePath(remote, str(path)) for _ in range(2))
    write_json(one, {"n": 0})
    assert {"n": 0} == read_json(other)
    write_json(one, {"n": 1})

    with pytest.raises(SparkSetupError, match="written by one run at a time, got another run"):
        write_json(other, {"n": 2})
    write_json(one, {"n": 3})
    write_json(one, {"n": 4})
    with pytest.raises(SparkSetupError, match="written by one run at a time, got another run"):
        write_json(other, {"n": 2})

    assert {"n": 4} == read_json(path)


def test_a_damaged_record_is_refused(remote):
    """It appears when it is whole, so it was damaged later."""
    folder = opened(remote)
    begun(folder).note(0, [])
    folder.leave(is_over=False)
    where = (*str(folder.path).split("/"), "outputs.json")
    remote.files.replace(where, remote.files.read(where)[:-3])

    with pytest.raises(CorruptStateError, match="as they were written, got a damaged one"):
        begun(opened(remote))


@pytest.mark.restarts("job: its folder moved, or under another scheme", "refused")
def test_a_folder_that_was_moved_is_refused(remote):
    """Spark has noted where its files are."""
    folder = opened(remote)
    begun(folder).note(0, [])
    folder.source(0).touch()
    (folder.checkpoint / "offsets" / "0").touch()
    folder.leave(is_over=False)
    for each in list(remote.files.under(*DIRECTORY.split("/"))):
        to = ("s3a:", "", "bucket", *each[3:])
        remote.files.create(to, remote.files.read(each))

    moved = JobFolder(job().settings, RemotePath(remote, "s3a://bucket/jobs"), driver(0))
    with pytest.raises(SparkSetupError, match=r"cannot be moved, got 's3a://bucket/jobs/.*'hdfs:"):
        begun(moved)
    moved.leave(is_over=False)


@pytest.mark.parametrize("has_moved", [True, False])
def test_a_folder_of_this_machine_that_was_moved_is_refused(tmp_path, has_moved):
    """By the paths that Spark has noted; those of other sources say nothing of it."""
    folder = run(keyed(environment(tmp_path / "a b")))
    log = folder.checkpoint / "sources" / "0"
    log.mkdir(parents=True)
    paths = [tmp_path / "mine" / "0000000000.parquet", folder.source(0) / "0000000000.parquet"]
    entries = [{"path": each.as_uri(), "timestamp": 0, "batchId": 0} for each in paths]
    (log / "0").write_text("\n".join(["v1", *map(json.dumps, entries)]))
    (log / "1").write_text('v1\n{"topic":{"0":3}}')
    at = tmp_path / "a b"
    if has_moved:
        at = at.rename(tmp_path / "elsewhere")

    if has_moved:
        with pytest.raises(SparkSetupError, match=f"one that began at '{folder.path}'"):
            run(keyed(environment(at)))
    else:
        run(keyed(environment(at)))


def test_the_job_in_a_folder_elsewhere(remote, tmp_path):
    """For a savepoint: what it is, what Spark has committed, and whether it runs."""
    folder = opened(remote, 1)
    begun(folder)
    (folder.checkpoint / "commits" / "7").touch()
    found = JobAtRest(folder.path, read_json(folder.path / "job.json"), driver(2))

    assert (7, True, True) == (found.last_commit, found.is_ahead_of(-2), found.is_running())
    folder.leave(is_over=False)
    assert not found.is_running()


def test_rows_that_a_killed_driver_has_left_are_written_anew(remote, tmp_path):
    """Nobody has read them while the mark is not there that all first rows are."""
    folder = RemotePath(remote, DIRECTORY)
    for number in (0, 7):
        (folder / f"{number:010}.parquet").create(b"half of a source")
    (node,) = job().graph.of_kind(FromSource)
    StreamSource(node, job().settings_of(node), folder, None, tmp_path)

    assert ([0, 1, 2, 3], ELEMENTS + 1) == (sorted(rows_in(folder)), len(rows_of(folder)))


def test_times_that_fall_are_refused(tmp_path):
    """Spark orders the files of a source by them."""
    remote = Remote("object store")
    folder = RemotePath(remote, DIRECTORY)
    (node,) = job().graph.of_kind(FromSource)
    StreamSource(node, job().settings_of(node), folder, None, tmp_path)
    remote.now -= 1

    with pytest.raises(SparkSetupError, match="times that rise, by which Spark orders them"):
        StreamSource(node, job().settings_of(node), folder, None, tmp_path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data", False),
        ("file:///data", False),
        ("s3a://b/x", True),
        ("hdfs:/x", True),
        ("a:/b", False),
    ],
)
def test_which_addresses_are_elsewhere(path, expected):
    """Those with a scheme that is not that of this machine."""
    assert expected == is_remote_address(path)
