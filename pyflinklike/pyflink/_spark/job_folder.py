# SPDX-License-Identifier: Apache-2.0
"""The folder of a job in streaming mode, from which a later run goes on after the driver was killed.

    job.json        the sources and keyed operators with which the job began
    checkpoint/     Spark's checkpoint: offsets, state, commits
    sources/        for each source the rows that Spark reads: one file per micro-batch or discovery
    outputs.json    the micro-batch that the sinks have written last
    watermark.json  watermarks of splits, if the driver makes the watermark

The folder is `<execution.checkpointing.dir>/<name of the job>`, and stays until the job has ended.
Without that setting a job has a temporary folder, which is removed with it.

It is on this machine, or on a file system of Hadoop.  All that must survive is in the folder.  Spark's sources in
Python ask again and again for the watermark and whether to wait.  They run in processes on the driver's machine
that cannot reach Hadoop.  So these two are also kept as files in a local folder for signals, which each run
makes anew from the job's folder.

Spark notes the whole addresses of the files of rows that it has read.  So a job's folder cannot be moved.

A job may begin with a savepoint.  `job.json` notes which one, so a later run knows that the job has begun with
it.  Spark adds the state in the first micro-batch only.  Until that is committed, each run needs the savepoint;
afterwards it may be deleted.

Spark's checkpoint knows sources and keyed operators by their positions only.  A program with other ones at these
positions would silently go on with foreign state, so it is refused, and the error names the changes.
Functions without state, sinks and names may change.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs

from pyflinklike.errors import CorruptStateError, SparkSetupError
from pyflinklike.pyflink._graph.job import JobSettings
from pyflinklike.pyflink._graph.job_savepoint import class_of, savepoint_id, source_of
from pyflinklike.pyflink._graph.nodes import FromSource, Node
from pyflinklike.pyflink._graph.sources import HybridSource
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.results import Ledger
from pyflinklike.state_processor._checkpoints.job_at_rest import (
    FEED_KIND,
    JOB_FILE,
    Driver,
    FolderLock,
    last_written,
    lock_folder,
    paths_of_log,
)
from pyflinklike.state_processor._folders.folder_paths import (
    FolderPath,
    RemotePath,
    local_path,
    read_json,
    remove_folder,
    write_json,
)
from pyflinklike.state_processor._folders.hadoop_files import is_remote_address
from pyflinklike.state_processor._savepoints.manifest import SavedJobOperator, SavedSource
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)

_FORMAT = 1
_ROWS = re.compile(r"/*(/.*)/sources/\d+/\d{10}\.parquet", re.DOTALL)


def folder_name(job_name: str) -> str:
    """Return the name of a job's folder; two job names never have one folder."""
    # "." and ".." are no names of folders, and "a/b" and "a_b" must not have one folder.
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", job_name)
    if plain == job_name and plain.strip("."):
        return plain
    return f"{plain}-{zlib.crc32(job_name.encode()):08x}"


class JobFolder:
    """The folder of a job, locked for this run until `leave`.

    Args:
        settings: The settings of the job.
        directory: The path of `settings.checkpoint_dir`; None if it is on this machine.
        driver: The driver of this run, which holds a lock on Hadoop; None if the folder is on this machine.
        locate: Finds the directory of a savepoint.

    Raises:
        SparkSetupError: Another run of the job has the folder, or the program names another one to go on from, or
            a savepoint although the job has begun without it.
        CorruptStateError: The folder or the savepoint is damaged.
    """

    def __init__(
        self,
        settings: JobSettings,
        directory: FolderPath | None = None,
        driver: Driver | None = None,
        locate: Callable[[str], SavepointLocation] = savepoint_location_of,
    ) -> None:
        self._settings, self._locate = settings, locate
        self._lock: FolderLock | None = None
        self.is_durable = settings.checkpoint_dir is not None
        self.path: FolderPath = (
            self._find(directory, driver) if self.is_durable else new_folder(None)
        )
        self.signals = self.path if isinstance(self.path, Path) else new_folder(None)
        """The folder, on this machine, of the files that Spark's sources ask for."""
        self.checkpoint, self.watermark = self.path / "checkpoint", self.path / "watermark.json"
        self._outputs = self.path / "outputs.json"
        try:
            if isinstance(self.path, RemotePath):
                self.path.finish_removal()
            self._begun = self._read()
            self.savepoint = self._find_savepoint()
            """The savepoint with which the job begins; None if there is none, or if the job has begun."""
        except BaseException:
            self.leave(is_over=False)
            raise

    @property
    def is_begun(self) -> bool:
        """Whether an earlier run has begun the job."""
        return self._begun is not None

    @property
    def name(self) -> str:
        """The prefix of files that the job writes: the same in each run, unique to this folder."""
        assert self._begun is not None
        return str(self._begun["token"])

    def source(self, position: int) -> FolderPath:
        """Return the folder with the rows of a source.

        Args:
            position: The position among all sources of the job, from 0.
        """
        return self.path / "sources" / str(position)

    def signals_of(self, position: int) -> Path:
        """Return the folder of the files by which a source of Spark knows whether to wait.

        Args:
            position: The position among all sources of the job, from 0.
        """
        return self.signals / "sources" / str(position)

    def facts(self, facts: SessionFacts) -> SessionFacts:
        """Return the facts with which the job began, since a later session must keep to them.

        Args:
            facts: The facts of this session; used if the job begins now.
        """
        if self._begun is None:
            return facts
        # The state in the checkpoint is divided by these numbers, but does not depend on the time zone.
        partitions, groups = self._begun["partitions"], self._begun["max_parallelism"]
        return SessionFacts(partitions, groups, facts.time_zone)

    def begin(self, identity: JobIdentity, facts: SessionFacts) -> Ledger:
        """Begin the job, or check that the program is the one with which it began.

        Args:
            identity: The sources and operators of the program.
            facts: The result of `facts`.

        Returns:
            The record of what the sinks have written.

        Raises:
            SparkSetupError: The program has other sources or operators.
            CorruptStateError: The folder is damaged.
        """
        if self._begun is None:
            # Without job.json the job has not begun: a run may have been killed before it wrote that.
            if isinstance(self.path, RemotePath):
                remove_folder(self.path)  # a run that lost its lock may have written since
            self._begun = self._write(identity, facts, uuid.uuid4().hex[:12])
        elif self._has_nothing():
            # The token stays: it finds the unfinished files of the earlier run.
            remove_folder(self.path)
            self._begun = self._write(identity, facts, self.name)
        else:
            refuse_changes(JobIdentity.from_json(self._begun), identity, str(self.path))
            self._refuse_moved()
            self._refuse_gaps(identity)
        return Ledger(self._outputs, None if self._lock is None else self._lock.check)

    def _refuse_moved(self) -> None:
        """Check that the folder has not been moved.

        In a moved folder Spark would find rows that it has read under new addresses, and read them again.
        """
        begun = self._begun or {}
        is_here = isinstance(self.path, Path)
        former = begun.get("address")
        if former is None and is_here:
            former = self._find_former_path()
        if former != (None if is_here and former is None else str(self.path)):
            msg = (
                f"a job's folder cannot be moved, got {str(self.path)!r} for one that began at "
                f"{former or 'a path on the driver'!r}; move it back, or take a savepoint "
                "of it (take_savepoint) and begin with that under another name"
            )
            raise SparkSetupError(msg)

    def _find_former_path(self) -> str | None:
        """Return the path of this folder as Spark has noted it; None if Spark has read no files in it."""
        logs, here = self.checkpoint / "sources", str(self.path)
        for log in logs.iterdir() if logs.exists() else ():
            for path, _ in paths_of_log(log):
                # The program's own sources may be files, too, but without such names.
                found = _ROWS.fullmatch(unquote(path.removeprefix("file:")))
                if found is not None:
                    former = os.path.normpath(found[1])
                    return here if former == os.path.normpath(here) else former
        return None

    def _refuse_gaps(self, identity: JobIdentity) -> None:
        """Check that no part of the folder was removed, or restored alone.

        Without the checkpoint Spark would count micro-batches from 0 again, with empty state, and sinks
        would leave out the numbers that they have written.  Without the rows of a source Spark would
        mistake new rows for rows that it has read.
        """
        noted = last_written(self._outputs)
        # Offsets are written before a micro-batch runs, so they cannot be behind what sinks have written.
        lacks = []
        if max(_batches(self.checkpoint / "offsets"), default=-1) < noted:
            lacks.append(f"the checkpoint of micro-batch {noted}, which was written")
        lacks += [
            f"the rows of source {position}"
            for position in range(identity.number_of_sources)
            if not self.source(position).is_dir()
        ]
        if identity.is_fed and not self.watermark.exists():
            lacks.append(f"the watermark, {self.watermark.name}")
        if lacks:
            msg = (
                f"a job's folder must be kept as a whole, got {str(self.path)!r} without {'; '.join(lacks)}; "
                "restore it from a copy, or remove all of it to begin anew"
            )
            raise CorruptStateError(msg)

    def leave(self, *, is_over: bool) -> None:
        """Unlock the folder for other runs.

        Args:
            is_over: True removes the folder: no later run goes on from it.
        """
        # Another run that has taken the folder goes on with it.
        is_lost = self._lock is not None and self._lock.is_lost
        if (is_over or not self.is_durable) and not is_lost:
            remove_folder(self.path)
        if isinstance(self.path, RemotePath):
            shutil.rmtree(self.signals, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _find(self, directory: FolderPath | None, driver: Driver | None) -> FolderPath:
        parent = directory or local_path(str(self._settings.checkpoint_dir)).absolute()
        parent.mkdir(parents=True, exist_ok=True)
        path = parent / folder_name(self._settings.name)
        self._lock = lock_folder(path, self._settings.name, driver)
        return path

    def _read(self) -> dict[str, Any] | None:
        found = read_json(self.path / JOB_FILE)
        if found is None and self.checkpoint.exists():
            msg = (
                f"a job's folder with a checkpoint has a job.json, got {str(self.path)!r} without; "
                "restore it from a copy, or begin anew with another execution.checkpointing.dir"
            )
            raise CorruptStateError(msg)
        if found is not None and found.get("format") != _FORMAT:
            msg = (
                f"this version of pyflinklike reads format {_FORMAT} of a job's folder, got "
                f"{found.get('format')!r} in {str(self.path)!r}; use the version that wrote it"
            )
            raise CorruptStateError(msg)
        return found

    def _find_savepoint(self) -> SavepointDirectory | None:
        """Return the savepoint with which the job begins; None if there is none, or if the job has begun.

        Raises:
            SparkSetupError: The path to recover from is no savepoint, or the job has begun without it.
            CorruptStateError: The savepoint is damaged, or gone before the job has begun with it.
        """
        asked = self._settings.recovery_path
        noted = None if self._begun is None else self._begun.get("savepoint")
        if asked is not None and self._is_own(asked):
            if not self.is_begun:
                msg = (
                    "execution.state-recovery.path is a savepoint, or the folder that an earlier run of the job "
                    f"has left, got {asked!r}, which does not exist; leave the key out: a job goes on in "
                    f"{str(self.path)!r} by itself"
                )
                raise SparkSetupError(msg)
            asked = None
        found = None if asked is None else self._open(asked, noted)
        if found is not None and self.is_begun and not self._has_nothing():
            self._refuse_second(found, noted)
        if self._has_committed():
            return None
        if found is None and noted is not None:
            # Even if the program does not name it any more: else the job would begin without state.
            found = SavepointDirectory.at(self._locate(noted["path"]))
        return found

    def _refuse_second(self, found: SavepointDirectory, noted: dict[str, Any] | None) -> None:
        if noted is not None and noted["id"] == savepoint_id(found.manifest):
            return
        begun = "without one" if noted is None else f"with the one of {noted['path']!r}"
        msg = (
            f"a job begins with a savepoint once, got {found.location.address!r} for one that has begun "
            f"{begun} and goes on in {str(self.path)!r}; leave execution.state-recovery.path out to go on, "
            "or give the job another name, or remove its folder"
        )
        raise SparkSetupError(msg)

    def _is_own(self, path: str) -> bool:
        if isinstance(self.path, Path):
            return not is_remote_address(path) and local_path(path).absolute() == self.path
        return is_remote_address(path) and self.path.is_at(path)

    def _open(self, asked: str, noted: dict[str, Any] | None) -> SavepointDirectory | None:
        """Open the savepoint that the program names; None if it is gone, and the job has begun with it."""
        location = self._locate(asked)
        if location.is_savepoint():
            return SavepointDirectory.at(location)
        if noted is not None and noted["path"] == asked and self._has_committed():
            return None
        msg = (
            "execution.state-recovery.path is a savepoint, or the folder that an earlier run of the job has "
            f"left, got {asked!r}, which is neither; leave the key out to begin anew: a job goes on in "
            f"{str(self.path)!r} by itself"
        )
        raise SparkSetupError(msg)

    def _has_committed(self) -> bool:
        return bool(_batches(self.checkpoint / "commits"))

    @property
    def has_planned(self) -> bool:
        """Whether Spark has begun a micro-batch."""
        return bool(_batches(self.checkpoint / "offsets"))

    @property
    def last_commit(self) -> int:
        """The number of the last micro-batch that Spark has committed; -1 before the first."""
        return max(_batches(self.checkpoint / "commits"), default=-1)

    @property
    def last_written(self) -> int:
        """The number of the last micro-batch that sinks have written; -1 before the first."""
        return last_written(self._outputs)

    def _has_nothing(self) -> bool:
        """Return whether no micro-batch was completed, so that another program may begin here."""
        return not self._has_committed() and self.last_written < 0

    def _write(self, identity: JobIdentity, facts: SessionFacts, token: str) -> dict[str, Any]:
        self.path.mkdir(parents=True, exist_ok=True)
        saved = self.savepoint
        begun = {
            "format": _FORMAT,
            "name": self._settings.name,
            "token": token,
            "partitions": facts.partitions,
            "max_parallelism": facts.max_parallelism,
            **identity.to_json(),
        }
        if saved is not None:
            begun["savepoint"] = {
                "path": saved.location.address,
                "id": savepoint_id(saved.manifest),
            }
        if isinstance(self.path, RemotePath):
            begun["address"] = str(self.path)
        write_json(self.path / JOB_FILE, begun)
        return begun


def _batches(log: FolderPath) -> set[int]:
    """Read the numbers of the micro-batches in a log of Spark's checkpoint."""
    names = [each.name for each in log.iterdir()] if log.exists() else []
    return {int(name) for name in names if name.isdigit()}


def new_folder(parent: str | None) -> Path:
    """Make a folder for one run.

    Args:
        parent: The folder in which it is made; None for the folder of temporary files of this machine.
    """
    if parent is None:
        return Path(tempfile.mkdtemp(prefix="pyflinklike-job-"))
    directory = local_path(parent)
    directory.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="job-", dir=directory))


_FEED = (
    "the watermark of splits and idle inputs (with_idleness, with_watermark_alignment, a KafkaSource with "
    "watermarks, or processing-time timers beside event time)"
)


def _is_same_source(one: SavedSource, other: SavedSource) -> bool:
    """Return whether a source may go on as another one.

    A bounded source wrote all its rows and its end when the job began, while an unbounded one looks for more.
    So neither can go on as the other.
    """
    if (one.is_bounded, one.kind) != (other.is_bounded, other.kind):
        return False
    # The position of a HybridSource names its sources by their numbers.
    return one.is_same(other) and (one.kind != HybridSource.__name__ or one.what == other.what)


@attrs.frozen
class JobOperator(SavedJobOperator):
    """The identity of a keyed operator.

    Args:
        key_type: The `repr` of the type of its keys.
        max_parallelism: The number of key groups.
        depth: The level of the operator: the most keyed operators that an element passes up to and including
            this one.  Operators of one level share a state operator of Spark.
        has_own_time: Whether it has reassigned timestamps: times that are assigned after another operator.
    """

    key_type: str
    max_parallelism: int
    depth: int
    has_own_time: bool = False

    def __str__(self) -> str:
        own = ", times assigned behind another operator" if self.has_own_time else ""
        return (
            f"operator {self.name!r} ({self.function}, keys {self.key_type}, "
            f"max_parallelism {self.max_parallelism}, depth {self.depth}{own})"
        )

    def is_same(self, other: JobOperator) -> bool:
        """Return whether it is the same operator; its function may change if it has a uid."""
        # Spark calls key groups by timers that it keeps, and these follow either its watermark or the end.
        if (self.depth, self.has_own_time) != (other.depth, other.has_own_time):
            return False
        settings = (self.name, self.key_type, self.max_parallelism)
        if settings != (other.name, other.key_type, other.max_parallelism):
            return False
        return bool(self.uid or other.uid) or self.function == other.function


@attrs.frozen
class JobIdentity:
    """All parts of a job that have state between micro-batches.

    Args:
        sources: The sources, in the order of the program.
        operators: The keyed operators, in the order of the program.
        timers: "event time" or "processing time": the time by which Spark wakes all operators.
    """

    sources: tuple[SavedSource, ...]
    operators: tuple[JobOperator, ...]
    timers: str

    @property
    def is_fed(self) -> bool:
        """Whether the driver makes the watermark."""
        return any(each.kind == FEED_KIND for each in self.sources)

    @property
    def number_of_sources(self) -> int:
        """The number of sources, not counting the source of the watermark."""
        return len(self.sources) - self.is_fed

    def to_json(self) -> dict[str, Any]:
        """Return values that JSON can write, without the positions of sources."""
        return attrs.asdict(self, filter=lambda field, _: field.name not in ("position", "reason"))

    @classmethod
    def from_json(cls, contents: dict[str, Any]) -> JobIdentity:
        """Restore what `to_json` returned."""
        return cls(
            tuple(SavedSource(**each) for each in contents["sources"]),
            tuple(JobOperator(**each) for each in contents["operators"]),
            contents["timers"],
        )


def identity_of(steps: JobSteps) -> JobIdentity:
    """Return the identity of a job."""
    graph = steps.job.graph
    sources = tuple(map(source_of, graph.of_kind(FromSource)))
    if steps.is_fed:
        sources += (SavedSource(None, FEED_KIND, _FEED, False),)
    operators = tuple(
        _operator(steps, graph.nodes[number], stage.number)
        for stage in steps.stages[1:]
        for number in stage.entrances
    )
    timers = "event time" if steps.time_mode.passes_watermark else "processing time"
    return JobIdentity(sources, operators, timers)


def _operator(steps: JobSteps, node: Node, depth: int) -> JobOperator:
    return JobOperator(
        name=steps.job.graph.state_names[node.id],
        uid=node.uid,
        function=class_of(getattr(node, "function", None)),
        key_type=repr(steps.key_type(node)),
        max_parallelism=steps.key_groups(node),
        depth=depth,
        has_own_time=node.id in steps.reassigners,
    )


def refuse_changes(former: JobIdentity, now: JobIdentity, folder: str) -> None:
    """Check that a program may go on in a folder.

    Args:
        former: The identity of the program that began it.
        now: The identity of the program that goes on.
        folder: The path of the folder, for the message.

    Raises:
        SparkSetupError: The program has another source or keyed operator in some position.
    """
    found = list(_changes(former, now))
    if found:
        msg = (
            f"a job goes on only with the sources and keyed operators that it began with, in "
            f"their order, got {'; '.join(found)}; undo these changes (with a uid(...), the class "
            "of an operator and the paths of a source may change), or begin anew with another "
            f"job name or another execution.checkpointing.dir than {folder!r} has"
        )
        raise SparkSetupError(msg)


def _changes(former: JobIdentity, now: JobIdentity) -> Iterator[str]:
    sources = zip_longest(former.sources, now.sources)
    operators = zip_longest(former.operators, now.operators)
    both: Any = [(_is_same_source, *each) for each in sources]
    both += [(JobOperator.is_same, *each) for each in operators]
    for is_same, one, other in both:
        if one is None:
            yield f"{_shown(other)} where there was none"
        elif other is None:
            yield f"none where there was {_shown(one)}"
        elif not is_same(one, other):
            yield f"{_shown(other)} where there was {_shown(one)}"
    if former.timers != now.timers:
        yield f"keyed operators that wake by {now.timers}, and by {former.timers} before"


def _shown(part: SavedSource | JobOperator) -> str:
    if isinstance(part, JobOperator):
        return str(part)
    named = str(part) if part.uid else part.what
    return named if part.is_bounded else f"{named} (without an end)"
