# SPDX-License-Identifier: Apache-2.0
"""The lock of a job's folder: one run of a job at a time.

On this machine the system locks a file beside the folder, and frees the lock of a process that dies.

A remote file system locks no files.  There the file names the owner of the folder: the run, the Spark
application, and the host and port of its driver.  A run that finds the file connects to that host and
port.  If a driver accepts, the run is refused.  If not, the run writes its own name and owns the folder.
A driver that lives but cannot be reached loses its folder in this way.  So each run checks that it still
owns the folder before it records a micro-batch, and ends if it does not.  If two runs begin at the same
moment, only one can write the next version of the file; the other is refused.
"""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

import attrs
from pyspark.sql import SparkSession

from pyflinklike.errors import SparkSetupError
from pyflinklike.state_processor._folders.folder_paths import (
    FolderPath,
    RemotePath,
    read_json,
    write_json,
)

__all__ = ["Driver", "FolderLock", "driver_of", "is_held", "lock_folder", "lock_of"]

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
