# SPDX-License-Identifier: Apache-2.0
"""Has the driver the packages that PySpark needs, in versions that go together?

PySpark declares none of them as its own requirements.  What is missing or too old shows late: in
a worker's traceback, or as an ImportError that names neither the package nor its version.  Asked
for here, it is one sentence with the remedy, before anything starts.

PySpark knows best which versions it needs: its own checks are taken, and its generated code is
imported.  No table of versions is kept here that would have to follow it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from pyflinklike.checks import install
from pyflinklike.errors import RequirementError
from pyflinklike.shown import shown_message

__all__ = ["check_protobuf", "packages_checked", "pyspark_checked"]

_GENERATED = "pyspark.sql.streaming.proto"
_REMEDY = f"{install('spark')} installs versions that go together"


@contextmanager
def pyspark_checked() -> Iterator[None]:
    """Have an import that fails for want of PySpark, or of what it imports, say so.

    Raises:
        RequirementError: A package is missing, or cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("pyflinklike"):  # our own mistake
            raise
        msg = f"pyflinklike.spark needs PySpark and its packages, got {_told(error)}; {_REMEDY}"
        raise RequirementError(msg, name=error.name) from error


@contextmanager
def packages_checked() -> Iterator[None]:
    """Have PySpark's own refusal of a package come as ours, with the remedy.

    Raises:
        RequirementError: pandas, PyArrow or NumPy is missing, or too old for this PySpark.
    """
    try:
        yield
    except _refusal() as error:
        msg = f"{_pyspark()} needs other packages than there are, got {_told(error)}; {_REMEDY}"
        raise RequirementError(msg) from error


@functools.cache  # but not of an error, which a notebook's user may have put right meanwhile
def check_protobuf() -> None:
    """See that protobuf is there, and not older than PySpark's generated code.

    `transformWithState` talks protobuf, which no requirement of PySpark names.

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
            f"{_version('protobuf')} ({_told(error)}); {_REMEDY}"
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


def _told(error: BaseException) -> str:
    """The first line of a message, without the full stop at its end."""
    return shown_message(error).partition("\n")[0].rstrip(". ")
