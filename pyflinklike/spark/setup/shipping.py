# SPDX-License-Identifier: Apache-2.0
"""Code that was shipped with a job reaches the worker that Spark starts on the driver, too.

Before the first micro-batch of a query, `transformWithState` asks the processor for its states in
a Python worker *on the driver*.  Spark sets up shipped files (`--py-files`, `--archives`,
`addPyFile`) for the workers of executors, and forgets this one: it has neither the files on its
path, nor does a `spark.pyspark.python` within an archive exist where it is started.

This module makes up for that, with what a running `SparkContext` has in public: its
`environment`, which all workers are started with, `addPyFile` and `SparkFiles`.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyflinklike.errors import HostError

if TYPE_CHECKING:
    from pyspark import SparkContext  # which the client of Spark Connect comes without

__all__ = ["check_python", "link_python", "put_wheels_on_path", "reach_driver_worker"]

_HAS_PYFLINKLIKE = (
    "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyflinklike') is None)"
)
_PATIENCE_SECONDS = 60
_SHIP = (
    "install it for that Python on all nodes, or ship it: "
    "spark-submit --py-files with its wheel, or --archives with an environment"
)


def put_wheels_on_path(spark: SparkSession) -> None:
    """Let workers import from wheels that were shipped.

    A wheel is a zip file.  PySpark puts `.zip`, `.egg` and `.jar` on the path of its workers, and
    leaves a wheel of `--py-files` or `addPyFile` beside it.  Only wheels of pure Python are taken:
    compiled parts cannot be imported from within a file.
    """
    context = _context_of(spark)
    if context is None:
        return
    for wheel in _shipped().glob("*-none-any.whl"):
        as_zip = wheel.with_suffix(".zip")
        if not as_zip.exists():
            shutil.copyfile(wheel, as_zip)
            context.addPyFile(str(as_zip))


def reach_driver_worker(spark: SparkSession) -> None:
    """See that the Python worker on the driver will find what was shipped.

    * What `--py-files`, `addArtifacts` and `addPyFile` have brought goes on its path.
    * A relative `spark.pyspark.python` that lies in an archive of the job is linked from the
      working directory, until the driver ends.

    Over Spark Connect this is the server's business, and nothing is done.

    Raises:
        HostError: The driver does not have the Python of the workers, or that Python does not
            have pyflinklike.
    """
    context = _context_of(spark)
    if context is None:
        return
    shipped = _shipped()
    _put_on_path_of_workers(context, shipped)
    python: str = context.pythonExec
    link_python(python, shipped)
    if python != sys.executable:
        check_python(python, context.environment)


def _context_of(spark: SparkSession) -> SparkContext | None:
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):  # Spark Connect
        return None


def _shipped() -> Path:
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory())


def _put_on_path_of_workers(context: SparkContext, shipped: Path) -> None:
    """Let the workers begin with what the driver's own path has of the shipped files.

    The directory is the driver's alone, so executors find nothing there, and no harm in it.
    """
    if not any(shipped.iterdir()):
        return
    own = [each for each in sys.path if Path(each) == shipped or Path(each).parent == shipped]
    before = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    together = dict.fromkeys(filter(None, [*before, *own]))
    context.environment["PYTHONPATH"] = os.pathsep.join(together)


def link_python(python: str, shipped: Path) -> None:
    """Link the workers' Python into the working directory, if it lies in an archive of the job.

    Args:
        python: `spark.pyspark.python`, of which only a relative path is looked at.
        shipped: Where Spark has unpacked archives.

    Raises:
        HostError: It lies neither here nor there, or cannot be linked.
    """
    relative = Path(python)
    # A name without a directory is looked up on PATH.
    if relative.is_absolute() or os.sep not in python or relative.exists():
        return
    archive = relative.parts[0]
    link, target = Path.cwd() / archive, shipped / archive
    if not (shipped / relative).exists():
        raise HostError(_not_here(python, archive))
    try:
        if link.is_symlink():  # of a driver that was killed
            link.unlink()
        link.symlink_to(target)
    except OSError as problem:
        raise HostError(_not_here(python, archive, problem)) from problem
    atexit.register(_unlink, link, target)


def _not_here(python: str, archive: str, problem: OSError | None = None) -> str:
    but = f", nor can be linked there ({problem})" if problem else ""
    return (
        "transformWithState starts a Python worker in the driver's working directory as well; got "
        f"spark.pyspark.python={python!r}, which is not in {str(Path.cwd())!r}{but}; unpack the "
        f"archive there before you submit: mkdir {archive} && tar -xzf FILE -C {archive}"
    )


def _unlink(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        link.unlink()


def check_python(python: str, environment: Mapping[str, str]) -> None:
    """See that the workers' Python runs on the driver, and has pyflinklike.

    It looks with all that is on the driver's own path as well, which the worker may not have: so
    what it refuses is never right.

    Args:
        python: `spark.pyspark.python`.
        environment: What Spark adds to the environment of its workers.

    Raises:
        HostError: It does not, or has not.
    """
    paths = environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")
    try:
        _look_for_pyflinklike(python, os.pathsep.join(filter(None, paths)))
    except (OSError, subprocess.TimeoutExpired) as problem:
        msg = (
            f"transformWithState starts a Python worker on the driver as well, and "
            f"spark.pyspark.python is {python!r}, which cannot be run here ({problem}); "
            "name one that is at the same place on the driver and on all nodes"
        )
        raise HostError(msg) from problem


@functools.cache  # but not of an error, which the user may have put right meanwhile
def _look_for_pyflinklike(python: str, path: str) -> None:
    run = subprocess.run(
        [python, "-c", _HAS_PYFLINKLIKE],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
    )
    # Any other exit is not an answer: the worker itself will tell what is wrong.
    if run.returncode == 1:
        msg = f"the workers need pyflinklike, and their Python, {python!r}, has none; {_SHIP}"
        raise HostError(msg)
