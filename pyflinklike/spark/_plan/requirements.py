# SPDX-License-Identifier: Apache-2.0
"""Spark's requirements on the driver: packages in versions that go together.

PySpark declares none of the packages that it imports as a requirement.  A missing or old one shows
late: in a worker's traceback, or as an ImportError that names neither the package nor its version.
The check here gives one sentence with the remedy, before anything starts.  PySpark knows best which
versions it needs, so we call its own checks and import its generated code.  A table of versions here
would have to follow each release of PySpark.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from pyflinklike._checks import install
from pyflinklike._messages import shown_message
from pyflinklike.errors import RequirementError

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
