# SPDX-License-Identifier: Apache-2.0
"""The folder of a job as a reader sees it: which job it is, and how far its sources were read.

The job may be running.  Spark's note of a micro-batch has an offset for each source, in the order of the
program.  For a source of files it is a number, and Spark's log of that source lists the files up to it;
what they hold was read, and the rest was not.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import pyarrow.parquet as pq

from pyflinklike.engine.graph.durable_files import Ledger, read_json
from pyflinklike.engine.graph.files import local_path
from pyflinklike.engine.graph.source_positions import move_on
from pyflinklike.errors import CorruptStateError, HostError
from pyflinklike.savepoints.saved_job import Position, SavedJob, SavedJobOperator, SavedSource

__all__ = [
    "BEGINNING",
    "ELEMENTS",
    "FEED_KIND",
    "JOB_FILE",
    "POSITION",
    "JobAtRest",
    "job_at",
    "lock_of",
]


JOB_FILE = "job.json"
"""The file that says what began the job."""
BEGINNING = "_beginning.json"
"""The file of a source with what `FrameSource.beginning` returned."""
POSITION = "_position.json"
"""The file of a source with the position at which the job began to read it."""
ELEMENTS = b"elements"
"""The number of elements in a file of rows, in the metadata of the file."""
FEED_KIND = "WatermarkFeed"
"""The kind of the source of watermarks that the driver makes."""
_ATTEMPTS = 3

Found = tuple["Position | None", str]
"""A position, or None and the reason."""


def job_at(location: str) -> JobAtRest | None:
    """Return the job whose folder, or the checkpoint in it, is at a path; None if there is none.

    Raises:
        CorruptStateError: The folder does not say what began the job in a form that can be read.
    """
    path = _local(location)
    if path is None:
        return None
    for folder in (path, path.parent) if path.name == "checkpoint" else (path,):
        # Without the rows of sources a file of this name is somebody else's.
        begun = read_json(folder / JOB_FILE) if (folder / "sources").is_dir() else None
        if begun is not None:
            return JobAtRest(folder, begun)
    return None


def lock_of(folder: Path) -> Path:
    """Return the path of the file that a run of the job locks."""
    return folder.with_name(f".{folder.name}.lock")


def _local(location: str) -> Path | None:
    """Return the path of a location on this machine; None for an address of elsewhere."""
    if urlsplit(location).scheme not in ("", "file"):
        return None
    try:
        return local_path(location).absolute()
    except HostError:
        return None


@attrs.frozen
class JobAtRest:
    """A job in its folder.

    Args:
        path: The folder.
        begun: What `job.json` says.
    """

    path: Path
    begun: Mapping[str, Any]

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return self.path / "checkpoint"

    def has(self, root: str) -> bool:
        """Return whether a path is the folder, or lies in it."""
        return Path(root).is_relative_to(self.path)

    def is_running(self) -> bool:
        """Return whether a run of the job has the folder."""
        import fcntl  # Windows has no such module

        with contextlib.suppress(FileNotFoundError), lock_of(self.path).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @property
    def is_stateless(self) -> bool:
        """Whether the job has no keyed operators, and so only the positions of its sources."""
        return not self.begun["operators"]

    @property
    def last_commit(self) -> int:
        """The number of the last micro-batch that Spark has committed.

        Raises:
            HostError: There is none yet.
        """
        commits = self.checkpoint / "commits"
        names = [each.name for each in commits.iterdir()] if commits.exists() else []
        found = [int(name) for name in names if name.isdigit()]
        if not found:
            msg = (
                f"a savepoint is of a micro-batch that is committed, got none in {str(self.path)!r}"
            )
            raise HostError(f"{msg}; wait for the job's first one")
        return max(found)

    def is_ahead_of(self, batch_id: int | None) -> bool:
        """Return whether sinks have written more than the micro-batch of this number."""
        assert batch_id is not None
        return Ledger.last_of(self.path / "outputs.json") > batch_id

    def describe(self, offsets: str) -> SavedJob:
        """Describe the job for a savepoint.

        Args:
            offsets: Spark's note of the micro-batch.

        Raises:
            CorruptStateError: The folder is damaged.
        """
        version, _, *lines = offsets.split("\n")
        described: Sequence[Mapping[str, Any]] = self.begun["sources"]
        sources = []
        for number, fields in enumerate(described):
            if fields["kind"] == FEED_KIND:
                continue  # watermarks are not in a savepoint
            if version != "v1" or len(lines) < len(described):
                found: Found = None, "Spark's checkpoint notes offsets in a form that is not known"
            elif len(lines) > len(described):
                found = (
                    None,
                    "Spark notes more offsets than the job has sources: a HybridSource is of two",
                )
            else:
                found = self._position(number, bool(fields["is_bounded"]), lines[number])
            sources.append(SavedSource(**fields, position=found[0], reason=found[1]))
        operators = tuple(
            SavedJobOperator(each["name"], each["uid"], each["function"])
            for each in self.begun["operators"]
        )
        return SavedJob(self.begun["name"], tuple(sources), operators)

    def _position(self, number: int, is_bounded: bool, offset: str) -> Found:
        folder = self.path / "sources" / str(number)
        if (folder / BEGINNING).exists():
            return (
                ({"offset": offset}, "")
                if offset != "-"
                else (None, "Spark has not begun to read it")
            )
        begun = read_json(folder / POSITION)
        read = self._files_read(number, offset)
        files = {int(path.stem): _Rows(path) for path in sorted(folder.glob("[0-9]*.parquet"))}
        if not read <= files.keys():
            msg = (
                f"a job's folder has the rows that Spark has read, got {str(folder)!r} without the files of "
                f"{sorted(read - files.keys())}; restore it from a copy"
            )
            raise CorruptStateError(msg)
        taken = [files[each] for each in sorted(read)]
        left = [files[each] for each in sorted(files.keys() - read)]
        if is_bounded:
            return _find_bounded_position(taken, left, begun)
        former = [] if begun is None else begun["position"]["found"]
        return {"found": [*former, *(part for each in taken for part in each.parts())]}, ""

    def _files_read(self, number: int, offset: str) -> set[int]:
        """Read the numbers of the files that Spark has read, from its log of a source."""
        if offset == "-":
            return set()
        last = int(json.loads(offset)["logOffset"])
        log = self.checkpoint / "sources" / str(number)
        for attempt in range(_ATTEMPTS):
            try:
                found = [json.loads(line) for path in _logs(log) for line in _lines(path)]
                break
            except FileNotFoundError:  # a running job has made one file of several
                if attempt == _ATTEMPTS - 1:
                    raise
        return {int(Path(each["path"]).stem) for each in found if each["batchId"] <= last}


def _logs(log: Path) -> Iterator[Path]:
    for path in sorted(log.iterdir()):
        if path.name.removesuffix(".compact").isdigit():
            yield path


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().split("\n")[1:] if line]


class _Rows:
    """A file of rows of a source.

    Args:
        path: The path of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def parts(self) -> list[str]:
        """Return the names of the splits."""
        table = pq.read_table(self._path, columns=["part"])
        return [each for each in table.column("part").to_pylist() if each is not None]

    def elements(self) -> int | None:
        """Return the number of elements in it; None if a former version has not noted it."""
        said = (pq.read_schema(self._path).metadata or {}).get(ELEMENTS)
        return None if said is None else int(said)

    def has_splits(self) -> bool:
        """Return whether a row has the number of a split."""
        table = pq.read_table(self._path, columns=["part", "elements"]).to_pylist()
        return any(each["part"] is None and each["elements"] is None for each in table)


def _find_bounded_position(
    taken: list[_Rows], left: list[_Rows], begun: Mapping[str, Any] | None
) -> Found:
    """Return the position of a source that ends."""
    parts = [part for each in left for part in each.parts()]
    if parts:
        return {"left": [[part, 0] for part in parts]}, ""
    former: Position | None = None if begun is None else begun["position"]
    reason = "the job was begun by a former version, which has not noted it"
    if any(each.has_splits() for each in left):
        return (former, "" if former is not None else reason)
    counts = [each.elements() for each in left]
    if None not in counts and not any(counts):
        return {"splits": 1, "read": [None]}, ""
    if former is None:
        return None, reason if begun is None else str(begun["reason"])
    read = [each.elements() for each in taken]
    return move_on(former, sum(each for each in read if each is not None)), ""
