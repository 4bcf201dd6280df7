# SPDX-License-Identifier: Apache-2.0
"""A check that Spark finds a Java that is new enough.

If Java is missing or too old, Spark fails with a stack trace or a class file version.  `check_java`
searches as Spark's launcher does: only in `JAVA_HOME` if that is set, else on `PATH`
(https://github.com/apache/spark/blob/master/bin/spark-class).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pyflinklike.errors import SparkSetupError

__all__ = ["check_java", "parse_java_version"]

MINIMUM_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'\bversion "(?:1\.)?(\d+)')
_RULE = f"Spark needs Java {MINIMUM_JAVA} or newer"
_REMEDY = f"install a JDK {MINIMUM_JAVA} or newer and set JAVA_HOME to it"
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
        msg = f"{_RULE}, but {java!r} cannot be run ({problem}); {_REMEDY}"
        raise SparkSetupError(msg) from problem
    # Java 8 to 21 all print their version on stderr.
    version = parse_java_version((run.stderr + run.stdout).decode(errors="replace"))
    if version is None:
        msg = f"{_RULE}, but {java!r} does not print its version; {_REMEDY}"
        raise SparkSetupError(msg)
    if version < MINIMUM_JAVA:
        msg = f"{_RULE}, but {java!r} is Java {version}; {_REMEDY}"
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
            msg = f"{_RULE}, but JAVA_HOME is {home!r}, which has no bin/java; {_REMEDY}"
            raise SparkSetupError(msg)
        return java
    # An empty PATH here means no PATH.  For None, shutil.which would search the process's own.
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        msg = f"{_RULE}, but there is no java on PATH; {_REMEDY}"
        raise SparkSetupError(msg)
    return on_path
