# SPDX-License-Identifier: Apache-2.0
"""Spark's requirements on the driver: Java, and packages in versions that go together.

PySpark declares none of the packages that it imports as a requirement.  A missing or old one shows
late: in a worker's traceback, or as an ImportError that names neither the package nor its version.
The check here gives one sentence with the remedy, before anything starts.  PySpark knows best which
versions it needs, so we call its own checks and import its generated code.  A table of versions here
would have to follow each release of PySpark.

If Java is missing or too old, Spark fails with a stack trace or a class file version.  `check_java`
searches as Spark's launcher does: only in `JAVA_HOME` if that is set, else on `PATH`
(https://github.com/apache/spark/blob/master/bin/spark-class).
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyflinklike._checks import install
from pyflinklike._messages import shown_message
from pyflinklike.errors import RequirementError, SparkSetupError

__all__ = [
    "check_java",
    "check_protobuf",
    "packages_checked",
    "parse_java_version",
    "pyspark_checked",
]


_GENERATED = "pyspark.sql.streaming.proto"
_REMEDY = f"{install('spark')} installs versions that go together"


@contextmanager
def pyspark_checked() -> Iterator[None]:
    """Turn an import error of PySpark, or of a package that it imports, into ours.

    Raises:
        RequirementError: A package is missing, or cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("pyflinklike"):  # our own mistake
            raise
        msg = (
            f"pyflinklike.spark needs PySpark and its packages, got {_first_line(error)}; {_REMEDY}"
        )
        raise RequirementError(msg, name=error.name) from error


@contextmanager
def packages_checked() -> Iterator[None]:
    """Turn PySpark's own refusal of a package into our error, with the remedy.

    Raises:
        RequirementError: pandas, PyArrow or NumPy is missing, or too old for this PySpark.
    """
    try:
        yield
    except _refusal() as error:
        msg = f"{_pyspark()} needs other packages, got {_first_line(error)}; {_REMEDY}"
        raise RequirementError(msg) from error


@functools.cache  # errors are not cached: a notebook's user may have put them right meanwhile
def check_protobuf() -> None:
    """Check that protobuf is installed and fits PySpark's generated code.

    `transformWithState` speaks protobuf, but PySpark does not declare protobuf as a requirement.

    Raises:
        RequirementError: It is missing or too old, or too new.
    """
    if importlib.util.find_spec(_GENERATED) is None:  # Spark 3.5
        return
    try:
        importlib.import_module(f"{_GENERATED}.StateMessage_pb2")
    except Exception as error:  # protobuf's VersionError is an Exception, and no ImportError
        msg = (
            f"streams on {_pyspark()} need a protobuf that its generated code accepts, got "
            f"{_version('protobuf')} ({_first_line(error)}); {_REMEDY}"
        )
        raise RequirementError(msg) from error


def _refusal() -> type[ImportError]:
    import pyspark.errors

    # PySpark 3.5 raises a plain ImportError.
    refusal: type[ImportError] = getattr(pyspark.errors, "PySparkImportError", ImportError)
    return refusal


def _pyspark() -> str:
    return f"PySpark {importlib.import_module('pyspark').__version__}"


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


def _first_line(error: BaseException) -> str:
    """Return the first line of a message, without the full stop at its end."""
    return shown_message(error).partition("\n")[0].rstrip(". ")


MINIMUM_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'\bversion "(?:1\.)?(\d+)')
_RULE = f"Spark needs Java {MINIMUM_JAVA} or newer"
_JAVA_REMEDY = f"install a JDK {MINIMUM_JAVA} or newer and set JAVA_HOME to it"
_PATIENCE_SECONDS = 60


def check_java(environ: Mapping[str, str] = os.environ) -> int:
    """Return the major version of the Java that Spark would run on.

    Args:
        environ: The environment, with `JAVA_HOME` and `PATH` if they are set.

    Raises:
        SparkSetupError: There is no Java, it cannot be run, or it is too old.
    """
    java = _find_java(environ)
    try:
        run = subprocess.run(
            [java, "-version"], capture_output=True, check=False, timeout=_PATIENCE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        msg = f"{_RULE}, but {java!r} cannot be run ({problem}); {_JAVA_REMEDY}"
        raise SparkSetupError(msg) from problem
    # Java 8 to 21 all print their version on stderr.
    version = parse_java_version((run.stderr + run.stdout).decode(errors="replace"))
    if version is None:
        msg = f"{_RULE}, but {java!r} does not print its version; {_JAVA_REMEDY}"
        raise SparkSetupError(msg)
    if version < MINIMUM_JAVA:
        msg = f"{_RULE}, but {java!r} is Java {version}; {_JAVA_REMEDY}"
        raise SparkSetupError(msg)
    return version


def parse_java_version(text: str) -> int | None:
    """Return the major version in the output of `java -version`, or None.

    Up to Java 8 the major version is the second number (`1.8.0_392`); since Java 9 it is the first
    (`17.0.15`, `21-ea`).
    """
    found = _VERSION.search(text)
    return int(found[1]) if found else None


def _find_java(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    if home:
        java = str(Path(home) / "bin" / "java")
        if shutil.which(java) is None:
            msg = f"{_RULE}, but JAVA_HOME is {home!r}, which has no bin/java; {_JAVA_REMEDY}"
            raise SparkSetupError(msg)
        return java
    # An empty PATH here means no PATH.  For None, shutil.which would search the process's own.
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        msg = f"{_RULE}, but there is no java on PATH; {_JAVA_REMEDY}"
        raise SparkSetupError(msg)
    return on_path
