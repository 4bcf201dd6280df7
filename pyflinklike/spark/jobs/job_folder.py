# SPDX-License-Identifier: Apache-2.0
"""The folder of a job in streaming mode: what it goes on from when its driver was killed.

    job.json       what began the job
    checkpoint/    Spark's: offsets, state, commits
    sources/       for each source the rows that Spark reads, a file for each micro-batch or discovery
    outputs.json   which micro-batch the sinks have
    watermark.json what the driver makes the watermark of, where it does

It is `<execution.checkpointing.dir>/<name of the job>`, and stays until the job has come to its end.
A job without such a directory has a folder that goes with it.

What a job's folder belongs to: the sources and keyed operators of a program, in their order.

A checkpoint of Spark knows both by their places only.  So a program that has others in these places
would go on with what is not its own, without an error; it is refused by name.  All that keeps
nothing between micro-batches may change: functions without state, sinks, names.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

import attrs

from pyflinklike.engine.graph.files import local_path
from pyflinklike.engine.graph.job import JobSettings
from pyflinklike.engine.graph.nodes import FromSource, Node
from pyflinklike.errors import CorruptStateError, HostError
from pyflinklike.spark.jobs.durable_files import Ledger, read_json, write_json
from pyflinklike.spark.jobs.job_plan import JobSteps, SessionFacts
from pyflinklike.windows.window_operator import WindowOperator

__all__ = [
    "JobFolder",
    "JobIdentity",
    "JobOperator",
    "JobSource",
    "folder_name",
    "identity_of",
    "new_folder",
    "refuse_changes",
]


_FORMAT = 3


def folder_name(job_name: str) -> str:
    """What the folder of a job is called.

    Args:
        job_name: Any text; two names never have one folder.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", job_name)
    if plain == job_name and plain.strip("."):
        return plain
    return f"{plain}-{zlib.crc32(job_name.encode()):08x}"


class JobFolder:
    """The folder of a job; nobody else has it until it is left.

    Args:
        settings: Of the job.

    Raises:
        HostError: Another run of the job has it, or the job is to go on from where it is not.
        CorruptStateError: It is damaged.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._lock: IO[bytes] | None = None
        self.is_durable = settings.checkpoint_dir is not None
        self.path = self._found() if self.is_durable else new_folder(None)
        try:
            self._begun = self._read()
            if settings.recovery_path is not None:
                self._refuse_other(settings.recovery_path)
        except BaseException:
            self.leave(is_over=False)
            raise

    @property
    def is_begun(self) -> bool:
        """Whether a former run has been here."""
        return self._begun is not None

    @property
    def name(self) -> str:
        """Names the files that the job writes: the same in each run, and no other folder's."""
        assert self._begun is not None
        return str(self._begun["token"])

    @property
    def checkpoint(self) -> Path:
        """Spark's."""
        return self.path / "checkpoint"

    def source(self, position: int) -> Path:
        """Where rows of a source are.

        Args:
            position: Of the source among all of the job, from 0.
        """
        return self.path / "sources" / str(position)

    @property
    def watermark(self) -> Path:
        """The file of the watermark that the driver makes."""
        return self.path / "watermark.json"

    def facts(self, facts: SessionFacts) -> SessionFacts:
        """What the job was begun with: a session with other settings goes on with these.

        Args:
            facts: Of the session.
        """
        if self._begun is None:
            return facts
        partitions, groups = self._begun["partitions"], self._begun["max_parallelism"]
        return SessionFacts(partitions, groups, facts.time_zone)

    def begin(self, identity: JobIdentity, facts: SessionFacts) -> Ledger:
        """Begin the job, or see that it is the one that was begun.

        Args:
            identity: Of the program.
            facts: As `facts` gave them.

        Returns:
            The note of what its sinks have.

        Raises:
            HostError: It is another one.
            CorruptStateError: The folder is damaged.
        """
        if self._begun is None:
            self._begun = self._written(identity, facts, uuid.uuid4().hex[:12])
        elif self._has_nothing():
            # Its name stays: what it has begun to write is found by it.
            shutil.rmtree(self.path)
            self._begun = self._written(identity, facts, self.name)
        else:
            refuse_changes(JobIdentity.from_json(self._begun), identity, str(self.path))
            self._refuse_gaps(identity)
        return Ledger(self._outputs)

    @property
    def _outputs(self) -> Path:
        return self.path / "outputs.json"

    def _refuse_gaps(self, identity: JobIdentity) -> None:
        """See that the parts of the folder are of one time: none was removed, or put back by itself.

        Without the checkpoint Spark would count micro-batches from 0 again, with empty state, and
        those that were written once would be left out; without the rows of a source it would take
        new ones for those that it has read.
        """
        noted = Ledger.last_of(self._outputs)
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
                f"a job's folder is kept as a whole, got {str(self.path)!r} without {'; '.join(lacks)}; "
                "restore it from a copy, or remove all of it to begin anew"
            )
            raise CorruptStateError(msg)

    def leave(self, *, is_over: bool) -> None:
        """Let others have it.

        Args:
            is_over: Whether nobody will go on from it.
        """
        if is_over or not self.is_durable:
            # In one step: what is half removed is no folder of a job.
            gone = self.path.with_name(f".removed-{uuid.uuid4()}")
            if self.path.exists():
                self.path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _found(self) -> Path:
        parent = local_path(str(self._settings.checkpoint_dir)).absolute()
        parent.mkdir(parents=True, exist_ok=True)
        path = parent / folder_name(self._settings.name)
        self._lock = _locked(path, self._settings.name)
        return path

    def _read(self) -> dict[str, Any] | None:
        found = read_json(self.path / "job.json")
        if found is None and self.checkpoint.exists():
            msg = (
                f"a job's folder says what began it, got {str(self.path)!r} with a checkpoint and without "
                "job.json; restore it from a copy, or begin anew with another execution.checkpointing.dir"
            )
            raise CorruptStateError(msg)
        if found is not None and found.get("format") != _FORMAT:
            msg = f"a job's folder of format {_FORMAT} is read, got {found.get('format')!r}; use the version of pyflinklike that wrote it"
            raise CorruptStateError(msg)
        return found

    def _refuse_other(self, recovery_path: str) -> None:
        asked = local_path(recovery_path).absolute()
        if asked != self.path or not self.is_begun:
            what = (
                "where no job was" if asked == self.path else "another place than the job's folder"
            )
            msg = (
                f"execution.state-recovery.path is the folder that a former run of the job has left, got "
                f"{recovery_path!r}, {what}; leave the key out: a job goes on in {str(self.path)!r} by itself"
            )
            raise HostError(msg)

    def _has_nothing(self) -> bool:
        """Whether no micro-batch has come to its end: then another program may begin here."""
        return not _batches(self.checkpoint / "commits") and not self._outputs.exists()

    def _written(self, identity: JobIdentity, facts: SessionFacts, token: str) -> dict[str, Any]:
        self.path.mkdir(parents=True, exist_ok=True)
        begun = {
            "format": _FORMAT,
            "name": self._settings.name,
            "token": token,
            "partitions": facts.partitions,
            "max_parallelism": facts.max_parallelism,
            **identity.to_json(),
        }
        write_json(self.path / "job.json", begun)
        return begun


def _batches(log: Path) -> set[int]:
    """The numbers of the micro-batches in a log of Spark's checkpoint."""
    names = [each.name for each in log.iterdir()] if log.exists() else []
    return {int(name) for name in names if name.isdigit()}


def new_folder(parent: str | None) -> Path:
    """A folder of one run.

    Args:
        parent: Where it shall be; None is this machine's folder for what does not stay.
    """
    if parent is None:
        return Path(tempfile.mkdtemp(prefix="pyflinklike-job-"))
    directory = local_path(parent)
    directory.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="job-", dir=directory))


def _locked(path: Path, name: str) -> IO[bytes]:
    """Take the lock of a folder, which a killed process does not hold any more."""
    import fcntl

    lock = path.with_name(f".{path.name}.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        msg = (
            f"a job runs once at a time, got a second run of {name!r} in {str(path)!r}; cancel the other "
            "one, or give this one another name, as in execute(name)"
        )
        raise HostError(msg) from error
    return lock


_FEED_KIND = "WatermarkFeed"
_FEED = "the watermark of splits and idle inputs (with_idleness, or a KafkaSource with watermarks)"


@attrs.frozen
class JobSource:
    """One source.

    Args:
        uid: As the program says, or None.
        kind: The class of the source.
        what: What it reads.
        is_bounded: Whether it ends.
    """

    uid: str | None
    kind: str
    what: str
    is_bounded: bool

    def __str__(self) -> str:
        named = f"source {self.uid!r}" if self.uid else self.what
        return named if self.is_bounded else f"{named} (without an end)"

    def is_same(self, other: JobSource) -> bool:
        """Whether it is the same one: by their uids, or else by what they read.

        One that ends has noted all that it gives and its end when the job began, and one that does
        not end looks for more: neither can go on as the other.
        """
        if self.is_bounded is not other.is_bounded:
            return False
        if self.uid and other.uid:
            return (self.kind, self.uid) == (other.kind, other.uid)
        return (self.kind, self.what) == (other.kind, other.what)


@attrs.frozen
class JobOperator:
    """One keyed operator.

    Args:
        name: Of its state.
        uid: As the program says, or None.
        function: The class of its function.
        key_type: Of its keys.
        max_parallelism: How many key groups there are.
        depth: How many keyed operators an element comes through at most up to this one, with it;
            those of one depth share a state operator.
    """

    name: str
    uid: str | None
    function: str
    key_type: str
    max_parallelism: int
    depth: int

    def __str__(self) -> str:
        return (
            f"operator {self.name!r} ({self.function}, keys {self.key_type}, "
            f"max_parallelism {self.max_parallelism}, depth {self.depth})"
        )

    def is_same(self, other: JobOperator) -> bool:
        """Whether it is the same one; a uid that says so is enough for its function to change."""
        settings = (self.name, self.key_type, self.max_parallelism, self.depth)
        if settings != (other.name, other.key_type, other.max_parallelism, other.depth):
            return False
        return bool(self.uid or other.uid) or self.function == other.function


@attrs.frozen
class JobIdentity:
    """What keeps something between micro-batches.

    Args:
        sources: In order.
        operators: In order.
        timers: By which time operators are woken: Spark holds to it.
    """

    sources: tuple[JobSource, ...]
    operators: tuple[JobOperator, ...]
    timers: str

    @property
    def is_fed(self) -> bool:
        """Whether the driver makes the watermark."""
        return any(each.kind == _FEED_KIND for each in self.sources)

    @property
    def number_of_sources(self) -> int:
        """Those of the program."""
        return len(self.sources) - self.is_fed

    def to_json(self) -> dict[str, Any]:
        """As JSON can say it."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, contents: dict[str, Any]) -> JobIdentity:
        """What `to_json` gave."""
        return cls(
            tuple(JobSource(**each) for each in contents["sources"]),
            tuple(JobOperator(**each) for each in contents["operators"]),
            contents["timers"],
        )


def identity_of(steps: JobSteps) -> JobIdentity:
    """That of a job.

    Args:
        steps: Of the job.
    """
    graph = steps.job.graph
    sources = tuple(
        JobSource(
            node.uid, type(node.source).__name__, node.source.identity, node.source.is_bounded
        )
        for node in graph.of_kind(FromSource)
    )
    if steps.is_fed:
        sources += (JobSource(None, _FEED_KIND, _FEED, False),)
    operators = tuple(
        _operator(steps, graph.nodes[number], stage.number)
        for stage in steps.stages[1:]
        for number in stage.entrances
    )
    return JobIdentity(sources, operators, _timers(steps))


def _timers(steps: JobSteps) -> str:
    return "event time" if steps.time_mode.passes_watermark else "processing time"


def _operator(steps: JobSteps, node: Node, depth: int) -> JobOperator:
    return JobOperator(
        name=steps.job.graph.state_names[node.id],
        uid=node.uid,
        function=_classes_of(getattr(node, "function", None)),
        key_type=repr(steps.key_type(node)),
        max_parallelism=steps.key_groups(node),
        depth=depth,
    )


def _classes_of(function: object) -> str:
    """The class of a function; of windows those of the functions that are within."""
    name = type(function).__qualname__
    if not isinstance(function, WindowOperator):
        return name
    return f"{name} of {', '.join(type(each).__qualname__ for each in function.functions)}"


def refuse_changes(former: JobIdentity, now: JobIdentity, folder: str) -> None:
    """See that a program may go on in a folder.

    Args:
        former: Of the program that began it.
        now: Of the program that is to go on.
        folder: Which one.

    Raises:
        HostError: The program has another source or keyed operator in some place.
    """
    found = list(_changes(former, now))
    if found:
        msg = (
            f"a job goes on where it was with the sources and keyed operators that it began with, in "
            f"their order, got {'; '.join(found)}; take that back (uid(...) says which operator or "
            "source is which, where its class or its paths have changed), or begin anew with another "
            f"job name or execution.checkpointing.dir than that of {folder!r}"
        )
        raise HostError(msg)


def _changes(former: JobIdentity, now: JobIdentity) -> Iterator[str]:
    pairs = [*zip_longest(former.sources, now.sources)]
    both: list[tuple[Any, Any]] = [*pairs, *zip_longest(former.operators, now.operators)]
    for one, other in both:
        if one is None:
            yield f"{other} where there was none"
        elif other is None:
            yield f"none where there was {one}"
        elif not one.is_same(other):
            yield f"{other} where there was {one}"
    if former.timers != now.timers:
        yield f"keyed operators that are woken by {now.timers} and were by {former.timers}"
