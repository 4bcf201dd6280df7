# SPDX-License-Identifier: Apache-2.0
"""The session of a query: the settings that it needs, and the code that its workers import.

We change a setting that has its default.  If the user has chosen a value that rules keyed state out,
that is an error.

Before the first micro-batch, `transformWithState` asks the processor for its states in a Python
worker *on the driver*.  Spark sets up shipped files (`--py-files`, `--archives`, `addPyFile`) for
the workers of executors and forgets this one: the files are not on its path, and a
`spark.pyspark.python` within an archive does not exist in its working directory.
`reach_driver_worker` makes up for that with the public parts of a running `SparkContext`:
`environment`, which all workers start with, `addPyFile` and `SparkFiles`.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import GroupedData, SparkSession

from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._plan.process_options import MAX_KEY_GROUPS

if TYPE_CHECKING:
    from pyspark import SparkContext  # which the client of Spark Connect comes without

HAS_TRANSFORM_WITH_STATE = hasattr(GroupedData, "transformWithStateInPandas")
"""Whether this is PySpark 4.0 or newer."""
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DEFAULT = "HDFSBackedStateStoreProvider"
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_MIN_KEY_GROUPS = 16
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_NOT_REPLACING = "FileSystemBasedCheckpointFileManager"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
# An earlier Spark refuses to restart a query if the setting differs from its checkpoint's format.
# A user who followed our note there could not restart the old queries.
_FORMAT_FROM = (4, 3)

_log = logging.getLogger("pyflinklike.spark")


def prepare_session(spark: SparkSession) -> None:
    """Make the session store streaming state in RocksDB, as `transformWithState` demands.

    If a session does not show a setting, we trust it: Spark itself refuses another provider when
    the stream starts.

    Raises:
        SparkSetupError: The session has another state store provider, or its checkpoints do not
            replace files, or it does not let us change a setting; the message names every setting.
    """
    check_file_manager(spark)
    provider = _read_setting(spark, _PROVIDER) or ""
    chosen = provider and not provider.endswith((_DEFAULT, "RocksDBStateStoreProvider"))
    if chosen:
        msg = (
            f"keyed state on a stream needs {_PROVIDER} to be {_ROCKSDB}, got {provider!r}; "
            f'call spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")'
        )
        raise SparkSetupError(msg)
    refused = {}
    if not provider.endswith("RocksDBStateStoreProvider"):
        refused.update(_set_or_refuse(spark, _PROVIDER, _ROCKSDB))
    if _read_setting(spark, _CHANGELOG) != "true":
        refused.update(_set_or_refuse(spark, _CHANGELOG, "true"))
    if refused:
        needed = " and ".join(f"{name} to be {value}" for name, value in refused.items())
        flags = " ".join(f'--conf "{name}={value}"' for name, value in refused.items())
        msg = (
            f"keyed state on a stream needs {needed}, got a session that does not let us set that; "
            f"start its cluster, or the server of Spark Connect, with {flags}"
        )
        raise SparkSetupError(msg)


def check_file_manager(spark: SparkSession) -> None:
    """Check that a repeated micro-batch replaces the files of a checkpoint.

    Raises:
        SparkSetupError: The session has a file manager that does not.
    """
    # The rename of such a manager returns false if the file exists, and Spark takes that for
    # success.  So the state of the second attempt stays only in memory, and the next micro-batch
    # is added to the files of the first attempt.
    manager = _read_setting(spark, _MANAGER) or ""
    if manager.endswith(_NOT_REPLACING):
        msg = (
            "keyed state on a stream needs checkpoint files that are replaced when a micro-batch is "
            f"repeated, got {_MANAGER}={manager}, which keeps the old files and breaks the "
            f'checkpoint at the second restart; call spark.conf.unset("{_MANAGER}")'
        )
        raise SparkSetupError(msg)


def note_checkpoint_format(spark: SparkSession) -> None:
    """Write to the log, once, that a new checkpoint is safer in Spark's second format.

    It writes no note if the session names a format or hides the setting, or if this Spark does not
    keep the format of an existing checkpoint.
    """
    if tuple(map(int, __version__.split(".")[:2])) < _FORMAT_FROM:
        return
    try:
        # With "" as the default, Spark complains that it is not a number.
        chosen = spark.conf.get(_FORMAT, None)
    except PySparkException:
        return
    if chosen is None:
        _note_format()


@functools.cache
def _note_format() -> None:
    _log.info(
        "a new checkpoint is safer in Spark's second format, got no choice, so Spark takes the "
        "first: there a late attempt of a task may replace a committed file, and "
        'Spark keeps no checksums; call spark.conf.set("%s", "2") before the first start, or "1" '
        "to keep the first without this note; an existing checkpoint keeps its format",
        _FORMAT,
    )


_DAEMON = "spark.python.daemon.module"


def note_daemon(spark: SparkSession) -> None:
    """Write to the log, once, what a daemon of workers that has imported everything would give."""
    context = _context_of(spark)
    if context is not None and not context.getConf().contains(_DAEMON):
        _note_daemon()


@functools.cache
def _note_daemon() -> None:
    _log.info(
        "Python workers start sooner and share the memory of imported packages if the session is "
        "built with %s=pyflinklike.spark.daemon, got Spark's own daemon; the package must be "
        "installed on the nodes (docs/reference/spark-settings.md)",
        _DAEMON,
    )


def check_watermark_policy(spark: SparkSession) -> None:
    """Check that the watermark of a query is the smallest of its inputs'.

    Raises:
        SparkSetupError: The session takes the greatest.
    """
    policy = _read_setting(spark, _POLICY) or "min"
    if policy.lower() != "min":
        msg = (
            f"two inputs with event time need {_POLICY} to be min, got {policy!r}: timers would fire "
            "before the slower input reaches their time; call "
            f'spark.conf.set("{_POLICY}", "min")'
        )
        raise SparkSetupError(msg)


def partitions_of(spark: SparkSession) -> int:
    """Return the number of tasks after a shuffle; 1 if Spark chooses it."""
    return partitions_told(spark) or 1


def partitions_told(spark: SparkSession) -> int | None:
    """Return the number of tasks after a shuffle, or None if the session does not show it."""
    try:
        partitions = spark.conf.get("spark.sql.shuffle.partitions") or ""
    except PySparkException:
        return None  # serverless platforms choose, and some do not show it
    return int(partitions) if partitions.isdigit() else None


def max_parallelism_for(partitions: int) -> int:
    """Return the default number of key groups for a number of tasks."""
    # Each key group that has data costs a micro-batch some round trips, so there should be few.
    # A multiple of the partitions gives each partition as many as the others.
    per_partition = -(-_MIN_KEY_GROUPS // partitions)
    return min(partitions * per_partition, MAX_KEY_GROUPS)


def time_zone_of(spark: SparkSession) -> str:
    """Return the session's time zone."""
    try:
        zone = spark.conf.get("spark.sql.session.timeZone")
    except PySparkException:  # a setting that the session does not show
        zone = spark.sql("SELECT current_timezone()").collect()[0][0]
    return zone or "UTC"


def _read_setting(spark: SparkSession, name: str) -> str | None:
    """Return a setting, "" if it has its default, or None if the session does not show it."""
    try:
        return spark.conf.get(name, "")
    except PySparkException:
        return None


def _set_or_refuse(spark: SparkSession, name: str, value: str) -> dict[str, str]:
    """Set a setting; return it if it has another value that the session does not let us change."""
    try:
        spark.conf.set(name, value)
    except PySparkException:
        return {} if _read_setting(spark, name) is None else {name: value}
    return {}


_LOOK = """
import importlib.util
import sys
for name in sys.argv[1:]:
    if importlib.util.find_spec(name) is None:
        print(name)
        raise SystemExit(1)
"""
_PATIENCE_SECONDS = 60
_TAKE_THIS = (
    "before the session begins, unset PYSPARK_PYTHON and spark.pyspark.python, or set "
    f'os.environ["PYSPARK_PYTHON"] = sys.executable, which is {sys.executable!r} here'
)
_SHIP = (
    "install it for that Python on all nodes, or ship it: "
    "spark-submit --py-files with its wheel, or --archives with an environment"
)


_workers_are_here: bool = False
"""Whether the session's workers run on the driver's machine."""


def folders_of_driver() -> list[str]:
    """Return the folders and archives for workers on the driver's machine to import from.

    These are the entries of the driver's path that its Python does not have by itself.  On a cluster
    the list is empty.
    """
    if not _workers_are_here:
        return []
    libraries = {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    paths = [os.path.abspath(each) for each in sys.path]  # "" is the working directory
    return [each for each in paths if each not in libraries and os.path.exists(each)]


def prepare_workers(spark: SparkSession) -> None:
    """Let the workers import the modules of the program.

    * Workers of a local master run the Python of the driver, unless the user names another
      (`PYSPARK_PYTHON`, `spark.pyspark.python`).  Spark's default, `python3` on the PATH, is another
      Python if a virtual environment is not activated.  The workers import from the folders of the
      driver, too.  If the named Python has no pyflinklike, we refuse it here, before Spark fails.
    * Workers import from shipped wheels.  A wheel is a zip file, but PySpark puts only `.zip`,
      `.egg` and `.jar` on the path of its workers.  We take only wheels of pure Python, because
      compiled modules cannot be imported from an archive.

    Over Spark Connect it does nothing, because the server starts the workers.

    Raises:
        SparkSetupError: The master is local, and the Python that is named has no pyflinklike.
    """
    global _workers_are_here  # noqa: PLW0603  # Spark has one context in a process
    context = _context_of(spark)
    _workers_are_here = context is not None and str(context.master).startswith("local")
    if context is None:
        return
    if _workers_are_here:
        # PySpark ignores this setting if a program sets it in the builder of its own session.
        configured = dict(context.getConf().getAll()).get("spark.pyspark.python")
        if not os.environ.get("PYSPARK_PYTHON"):
            context.pythonExec = configured or sys.executable
    for wheel in _root_of_shipped_files().glob("*-none-any.whl"):
        as_zip = wheel.with_suffix(".zip")
        if not as_zip.exists():
            shutil.copyfile(wheel, as_zip)
            context.addPyFile(str(as_zip))
    python: str = context.pythonExec
    # A Python in an archive of the job is linked later, and only if a worker on the driver needs it.
    is_linked = os.sep in python and not os.path.isabs(python)
    if _workers_are_here and python != sys.executable and not is_linked:
        shipped = _with_shipped(context, _root_of_shipped_files())
        check_python(python, {"PYTHONPATH": shipped}, is_local=True)


def reach_driver_worker(spark: SparkSession) -> None:
    """Let the Python worker on the driver find the shipped files.

    * The files of `--py-files`, `addArtifacts` and `addPyFile` go on its path.
    * If `spark.pyspark.python` is a relative path into an archive of the job, the archive is linked
      from the working directory until the driver ends.

    Over Spark Connect it does nothing, because the server starts the workers.

    Raises:
        SparkSetupError: The driver does not have the Python of the workers, or that Python has no
            pyflinklike.
    """
    context = _context_of(spark)
    if context is None:
        return
    shipped = _root_of_shipped_files()
    _put_on_path_of_workers(context, shipped)
    python: str = context.pythonExec
    link_python(python, shipped)
    if python != sys.executable:
        check_python(python, context.environment)


def slots_of(spark: SparkSession) -> int:
    """Return how many tasks an executor runs at once; 0 if only the executor knows."""
    context = _context_of(spark)
    if context is None:
        return 0
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", str(context.master))
    if local is not None:
        return os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
    cores = context.getConf().get("spark.executor.cores", "0") or "0"
    each = context.getConf().get("spark.task.cpus", "1") or "1"
    return int(cores) // int(each) if cores.isdigit() and each.isdigit() and int(each) else 0


def _context_of(spark: SparkSession) -> SparkContext | None:
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):  # Spark Connect
        return None


def _root_of_shipped_files() -> Path:
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory())


def _put_on_path_of_workers(context: SparkContext, shipped: Path) -> None:
    """Copy the shipped files from the driver's own path to the path of its workers.

    Only the driver has this directory.  Executors find nothing there, and that does no harm.
    """
    if any(shipped.iterdir()):
        context.environment["PYTHONPATH"] = _with_shipped(context, shipped)


def _with_shipped(context: SparkContext, shipped: Path) -> str:
    """Return the path of the workers, with the shipped files of the driver's path behind it."""
    own = [each for each in sys.path if Path(each) == shipped or Path(each).parent == shipped]
    before = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys(filter(None, [*before, *own])))


def link_python(python: str, shipped: Path) -> None:
    """Link the workers' Python into the working directory, if it lies in an archive of the job.

    Args:
        python: `spark.pyspark.python`; an absolute path is ignored.
        shipped: The folder in which Spark has unpacked archives.

    Raises:
        SparkSetupError: It is in neither of the two folders, or cannot be linked.
    """
    relative = Path(python)
    # A name without a directory is looked up on PATH.
    if relative.is_absolute() or os.sep not in python or relative.exists():
        return
    archive = relative.parts[0]
    link, target = Path.cwd() / archive, shipped / archive
    if not (shipped / relative).exists():
        raise SparkSetupError(_not_here(python, archive))
    try:
        if link.is_symlink():  # of a driver that was killed
            link.unlink()
        link.symlink_to(target)
    except OSError as problem:
        raise SparkSetupError(_not_here(python, archive, problem)) from problem
    atexit.register(_unlink, link, target)


def _not_here(python: str, archive: str, problem: OSError | None = None) -> str:
    but = f", nor can be linked there ({problem})" if problem else ""
    return (
        "transformWithState starts a Python worker in the driver's working directory as well, got "
        f"spark.pyspark.python={python!r}, which is not in {str(Path.cwd())!r}{but}; unpack the "
        f"archive there before you submit: mkdir {archive} && tar -xzf FILE -C {archive}"
    )


def _unlink(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        link.unlink()


def check_python(python: str, environment: Mapping[str, str], *, is_local: bool = False) -> None:
    """Check that the workers' Python runs on the driver, and has pyflinklike.

    The check searches the driver's own path as well, which the worker may not have.  So it never
    refuses a Python that would do.

    Args:
        python: The command or path in `spark.pyspark.python`.
        environment: The variables that Spark adds to the environment of its workers.
        is_local: Whether all workers run on the driver's machine.

    Raises:
        SparkSetupError: It does not run, or pyflinklike is missing.
    """
    paths = environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")
    try:
        _look_for_pyflinklike(python, os.pathsep.join(filter(None, paths)), is_local=is_local)
    except (OSError, subprocess.TimeoutExpired) as problem:
        if is_local:
            msg = f"the workers run {python!r}, which PYSPARK_PYTHON names, got {problem}"
            raise SparkSetupError(f"{msg}; {_TAKE_THIS}") from problem
        msg = (
            "transformWithState starts a Python worker on the driver as well, got "
            f"spark.pyspark.python={python!r}, which cannot be run here ({problem}); "
            "name a path that the driver and all nodes have"
        )
        raise SparkSetupError(msg) from problem


@functools.cache  # errors are not cached: the user may have put them right meanwhile
def _look_for_pyflinklike(python: str, path: str, *, is_local: bool) -> None:
    # In a checkout of pyflinklike any Python finds it on the path, so a local one must have PyArrow.
    needed = ["pyflinklike", *(["pyarrow"] if is_local else [])]
    run = subprocess.run(
        [python, "-c", _LOOK, *needed],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        text=True,
        timeout=_PATIENCE_SECONDS,
    )
    # Any other exit says nothing about pyflinklike: the worker itself will show what is wrong.
    if run.returncode == 1:
        missing = run.stdout.strip() or "pyflinklike"
        msg = f"the workers need {missing}, got a Python without it, {python!r}; "
        msg += _TAKE_THIS if is_local else _SHIP
        raise SparkSetupError(msg)
