# SPDX-License-Identifier: Apache-2.0
"""The folder of a job: which job it is, how far its sources were read, and which run has it.

The job may be running, and one run of it at a time has the folder.  Spark's note of a micro-batch has an offset for each source, in the order of the
program.  For a source of files the offset is a number, and Spark's log of that source lists the files up
to it.  The elements in these files were read, and the elements in all other files were not.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from pyflinklike.errors import CorruptStateError, SparkSetupError
from pyflinklike.state_processor._folders.folder_paths import (
    FolderPath,
    RemotePath,
    read_file,
    read_json,
    write_json,
)
from pyflinklike.state_processor._folders.hadoop_files import folder_path, is_remote_address
from pyflinklike.state_processor._savepoints.manifest import (
    Position,
    SavedJob,
    SavedJobOperator,
    SavedSource,
    move_on,
)
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    copy_to_arrow,
)

JOB_FILE = "job.json"
"""The file that describes the job: its name, its sources and its operators."""
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
"""A position, or None and the reason why it is not known."""


def job_at(location: str, spark: SparkSession | None = None) -> JobAtRest | None:
    """Return the job whose folder, or the checkpoint in it, is at a path, or None if there is no job.

    Args:
        location: The path or address of the folder or the checkpoint.
        spark: A session; without one, or with one of Spark Connect, only folders on this machine are found.

    Raises:
        CorruptStateError: The folder's `job.json` is damaged.
    """
    path = _path(location, spark)
    if path is None:
        return None
    for folder in (path, path.parent) if path.name == "checkpoint" else (path,):
        # Any program may write a file `job.json`; only a job's folder has sources beside it.
        begun = read_json(folder / JOB_FILE) if (folder / "sources").is_dir() else None
        if begun is not None:
            if spark is None or isinstance(folder, Path):
                return JobAtRest(folder, begun)
            return JobAtRest(folder, begun, driver_of(spark))
    return None


def last_written(ledger: FolderPath) -> int:
    """Read the number of the micro-batch that sinks have written last, or -1 before the first.

    Args:
        ledger: The path of the job's `Ledger`.

    Raises:
        CorruptStateError: The file is damaged.
    """
    found = read_json(ledger)
    return -1 if found is None else int(found["batch"])


def _path(location: str, spark: SparkSession | None) -> FolderPath | None:
    """Return the path of a location, or None if it cannot be reached."""
    if is_remote_address(location) and (spark is None or is_remote()):
        return None
    try:
        return folder_path(spark, location)
    except SparkSetupError:
        return None


@attrs.frozen
class JobAtRest:
    """A job in its folder.

    Args:
        path: The folder of the job.
        begun: The contents of `job.json`.
        driver: The driver that asks, if the folder is not on this machine.
    """

    path: FolderPath
    begun: Mapping[str, Any]
    driver: Driver | None = None

    @property
    def checkpoint(self) -> FolderPath:
        """Spark's checkpoint."""
        return self.path / "checkpoint"

    def has(self, location: SavepointLocation) -> bool:
        """Return whether a savepoint would be written into the folder."""
        if isinstance(self.path, Path):
            return Path(location.root).is_relative_to(self.path)
        return f"{location.uri}/".startswith(f"{self.path}/")

    def is_running(self) -> bool:
        """Return whether a run of the job has the folder."""
        return is_held(self.path, self.driver)

    @property
    def is_stateless(self) -> bool:
        """Whether the job has no keyed operators, and so only the positions of its sources."""
        return not self.begun["operators"]

    @property
    def last_commit(self) -> int:
        """The number of the last micro-batch that Spark has committed.

        Raises:
            SparkSetupError: No micro-batch is committed yet.
        """
        commits = self.checkpoint / "commits"
        names = [each.name for each in commits.iterdir()] if commits.exists() else []
        found = [int(name) for name in names if name.isdigit()]
        if not found:
            msg = f"the job in {str(self.path)!r} has committed no micro-batch yet"
            raise SparkSetupError(f"{msg}; wait for its first one")
        return max(found)

    def is_ahead_of(self, batch_id: int | None) -> bool:
        """Return whether sinks have written more than the micro-batch of this number."""
        assert batch_id is not None
        return last_written(self.path / "outputs.json") > batch_id

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
                found: Found = None, "Spark's checkpoint notes offsets in an unknown form"
            elif len(lines) > len(described):
                found = (
                    None,
                    "Spark notes more offsets than the job has sources: a HybridSource has two",
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
        files = {number: _Rows(path) for number, path in sorted(rows_in(folder).items())}
        if not read <= files.keys():
            msg = (
                f"a job's folder must have the rows that Spark has read, got {str(folder)!r} without the "
                f"files {sorted(read - files.keys())}; restore it from a copy"
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
        found = paths_of_log(self.checkpoint / "sources" / str(number))
        return {int(Path(path).stem) for path, batch in found if batch <= last}


def paths_of_log(log: FolderPath) -> list[tuple[str, int]]:
    """Read Spark's log of a source: the files that it has read, each with its number in the log."""
    for attempt in range(_ATTEMPTS):
        try:
            lines = [json.loads(line) for path in _logs(log) for line in _lines(path)]
            break
        except FileNotFoundError:  # a running job has compacted several files into one
            if attempt == _ATTEMPTS - 1:
                raise
    return [(each["path"], each["batchId"]) for each in lines]


def _logs(log: FolderPath) -> Iterator[FolderPath]:
    entries: list[FolderPath] = [*log.iterdir()]
    for path in sorted(entries, key=str):
        if path.name.removesuffix(".compact").isdigit():
            yield path


def _lines(path: FolderPath) -> list[str]:
    lines = read_file(path).decode(errors="replace").split("\n")[1:]
    # Sources that do not read files have notes of another form.
    return [line for line in lines if line.startswith('{"path"')]


def rows_in(folder: FolderPath) -> dict[int, FolderPath]:
    """Return the files of rows in the folder of a source, by their numbers."""
    files = [each for each in folder.iterdir() if each.name.endswith(".parquet")]
    return {int(each.stem): each for each in files if each.name[0].isdigit()}


class _Rows:
    """A file of rows of a source."""

    def __init__(self, path: FolderPath) -> None:
        self._path = path

    def _read(self) -> Any:
        if isinstance(self._path, Path):
            return self._path
        return pa.BufferReader(copy_to_arrow([read_file(self._path)]))

    def parts(self) -> list[str]:
        """Return the names of the splits that the file lists."""
        table = pq.read_table(self._read(), columns=["part"])
        return [each for each in table.column("part").to_pylist() if each is not None]

    def elements(self) -> int:
        """Return the number of elements in the file."""
        return int(pq.read_schema(self._read()).metadata[ELEMENTS])

    def has_splits(self) -> bool:
        """Return whether a row has the number of a split."""
        table = pq.read_table(self._read(), columns=["part", "elements"]).to_pylist()
        return any(each["part"] is None and each["elements"] is None for each in table)


def _find_bounded_position(
    taken: list[_Rows], left: list[_Rows], begun: Mapping[str, Any] | None
) -> Found:
    """Return the position of a source that ends."""
    parts = [part for each in left for part in each.parts()]
    if parts:
        return {"left": [[part, 0] for part in parts]}, ""
    if not any(each.has_splits() or each.elements() for each in left):
        return {"splits": 1, "read": [None]}, ""
    if begun is None or begun["position"] is None:
        return None, "the job has not noted it" if begun is None else str(begun["reason"])
    if any(each.has_splits() for each in left):
        return begun["position"], ""
    return move_on(begun["position"], sum(each.elements() for each in taken)), ""


# The lock of a folder
#
# On this machine the system locks a file beside the folder, and frees the lock of a process that dies.
#
# A remote file system locks no files.  There the file names the owner of the folder: the run, the Spark
# application, and the host and port of its driver.  A run that finds the file connects to that host and
# port.  If a driver accepts, the run is refused.  If not, the run writes its own name and owns the folder.
# A driver that lives but cannot be reached loses its folder in this way.  So each run checks that it still
# owns the folder before it records a micro-batch, and ends if it does not.  If two runs begin at the same
# moment, only one can write the next version of the file; the other is refused.


_PATIENCE_SECONDS = 10.0
"""How long the port of a killed driver may stay open, in seconds."""
_held: set[str] = set()
"""The runs of this process."""


class FolderLock(Protocol):
    """The lock of a folder, which this run has taken."""

    @property
    def is_lost(self) -> bool:
        """Whether another run has taken the folder."""

    def check(self) -> None:
        """Check that the run still has the folder.

        Raises:
            SparkSetupError: Another run has it.
        """

    def release(self) -> None:
        """Let other runs have the folder."""


def _is_listening(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=3):
        return True
    return False


@attrs.frozen
class Driver:
    """The driver of a run.

    Args:
        application: The id of the Spark application.
        host: The host at which the driver takes connections.
        port: The port at which it takes connections, Spark's `spark.driver.port`.
        is_listening: Returns whether something takes connections at a host and port.
        patience: How long a former driver may take to end, in seconds.
    """

    application: str
    host: str
    port: int
    is_listening: Callable[[str, int], bool] = attrs.field(default=_is_listening)
    patience: float = _PATIENCE_SECONDS

    def lives(self, found: dict[str, Any]) -> bool:
        """Return whether the driver that a lock names is alive.

        Args:
            found: The contents of the lock's file.
        """
        if found["run"] in _held:
            return True
        at = (found["host"], found["port"])
        # This driver has the port now, so a former driver with the same port is gone.
        if found["application"] == self.application or at == (self.host, self.port):
            return False
        return self.is_listening(*at)


def driver_of(spark: SparkSession) -> Driver:
    """Return the driver of a session."""
    settings = spark.sparkContext.getConf()
    host, port = settings.get("spark.driver.host"), settings.get("spark.driver.port")
    return Driver(spark.sparkContext.applicationId, host or socket.gethostname(), int(port or 0))


def lock_of(folder: FolderPath) -> Any:
    """Return the path of the file that a run of the job locks."""
    return folder.with_name(f".{folder.name}.lock")


def lock_folder(path: FolderPath, name: str, driver: Driver | None) -> FolderLock:
    """Take the lock of a folder.

    Args:
        path: The folder of the job.
        name: The name of the job, for messages.
        driver: The driver of this run; a folder on this machine needs none.

    Raises:
        SparkSetupError: Another run has it.
    """
    if isinstance(path, RemotePath):
        assert driver is not None
        return _RemoteLock(path, name, driver)
    return _LocalLock(path, name)


def is_held(path: FolderPath, driver: Driver | None) -> bool:
    """Return whether a run of the job has a folder.

    Args:
        path: The folder of the job.
        driver: The driver that asks; a folder on this machine needs none.
    """
    if isinstance(path, RemotePath):
        assert driver is not None
        found = read_json(lock_of(path))
        return found is not None and driver.lives(found)
    import fcntl  # Windows has no such module

    with contextlib.suppress(FileNotFoundError), lock_of(path).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _refusal(name: str, path: FolderPath, what: str, remedy: str) -> SparkSetupError:
    return SparkSetupError(
        f"a job runs once at a time, got {what} of {name!r} in {str(path)!r}; {remedy}"
    )


_CANCEL = "cancel the other one, or give this one another name, as in execute(name)"


class _LocalLock:
    def __init__(self, path: Path, name: str) -> None:
        # Imported here: Windows has no such module.
        import fcntl

        self._file: IO[bytes] = lock_of(path).open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise _refusal(name, path, "a second run", _CANCEL) from error

    is_lost = False

    def check(self) -> None:
        """Do nothing: the system takes no lock from a process that lives."""

    def release(self) -> None:
        self._file.close()


class _RemoteLock:
    def __init__(self, folder: RemotePath, name: str, driver: Driver) -> None:
        self._folder, self._name = folder, name
        self._path: RemotePath = lock_of(folder)
        self._run = uuid.uuid4().hex
        self._wait_for_end(driver)
        noted = {"run": self._run, "application": driver.application}
        # If two runs have read the same version, only one of them can write the next one.
        write_json(self._path, {**noted, "host": driver.host, "port": driver.port})
        _held.add(self._run)

    def _wait_for_end(self, driver: Driver) -> None:
        """Wait until no living driver has the folder."""
        until = time.monotonic() + driver.patience
        while True:
            found = read_json(self._path)
            if found is None or not driver.lives(found):
                return
            if found["run"] in _held or time.monotonic() >= until:
                break
            time.sleep(0.2)  # the system closes the port of a killed driver with a delay
        remedy = (
            f"{_CANCEL}; if nothing runs there any more (something takes connections at "
            f"{found['host']}:{found['port']}), remove {str(self._path)!r} and its versions"
        )
        what = f"a second run beside that of application {found['application']!r}"
        raise _refusal(self._name, self._folder, what, remedy)

    def check(self) -> None:
        """Check that the run still has the folder."""
        if self.is_lost:
            what = "this run although another run could not reach its driver and took the folder,"
            remedy = "let the other one go on, or cancel it and start this one again"
            raise _refusal(self._name, self._folder, what, remedy)

    @property
    def is_lost(self) -> bool:
        """Whether another run has taken the folder, or a user has removed the lock."""
        found = read_json(lock_of(self._folder))
        return found is None or found["run"] != self._run

    def release(self) -> None:
        """Let other runs have the folder, unless one has it already."""
        _held.discard(self._run)
        if not self.is_lost:
            self._path.unlink()
