# SPDX-License-Identifier: Apache-2.0
"""How what is the user's comes to a worker: within a pickle that ours opens.

A worker imports the user's modules while it unpickles what names them, which is before anything of
ours runs.  So what Spark pickles has the user's part as bytes, and beside it what must be there
before these are opened:

* the finder of `pyflinklike.run`, where the driver has it: a module that begins with
  `from pyflink.datastream import ...` is imported there as here;
* the folders from which the driver imports, where the workers are on its machine: a script beside
  its modules runs from any directory.

A module that is still missing is told in our words, with the way to ship it.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from pyspark.serializers import CloudPickleSerializer

from pyflinklike.errors import HostError
from pyflinklike.spark.hosts.telling import telling
from pyflinklike.spark.setup.shipping import folders_of_driver

__all__ = ["Carried"]

T = TypeVar("T")

_REMEDY = (
    "ship its file, or a zip of its package: env.add_python_file(path) in a job, else "
    "spark.sparkContext.addPyFile(path), or --py-files of spark-submit"
)


class Carried(Generic[T]):
    """Something of the user's on its way to a worker.

    Args:
        value: A function, or what holds some.
    """

    def __init__(self, value: T) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        serializer: Any = CloudPickleSerializer  # as Spark pickles, with its errors
        finders = [each for each in sys.meta_path if _is_ours(each)]
        folders = folders_of_driver()
        return _opened, (finders, folders, serializer().dumps(self.value))


def _is_ours(finder: Any) -> bool:
    return type(finder).__module__.startswith("pyflinklike.")


@telling
def _opened(finders: Sequence[Any], folders: Sequence[str], pickled: bytes) -> Carried[Any]:  # noqa: ARG001
    """Open it in a worker; the finders have put themselves in place when they were unpickled."""
    known = {os.path.abspath(each) for each in sys.path}
    # As the driver has them: a script's folder is before all others.
    sys.path[:0] = [each for each in folders if each not in known]
    try:
        return Carried(pickle.loads(pickled))  # noqa: S301  # of this query's driver
    except ModuleNotFoundError as error:
        if error.name is None or _names_pyflink(error.name):
            raise
        msg = (
            f"a worker needs the modules of what it runs, got none called {error.name!r}; {_REMEDY}"
        )
        raise HostError(msg) from error
    except AttributeError as error:
        if not str(error).startswith("Can't get attribute"):
            raise
        msg = (
            f"a worker needs the same modules as the driver, got another one: {error}; give the "
            f"module a name of its own, or {_REMEDY}"
        )
        raise HostError(msg) from error


def _names_pyflink(name: str) -> bool:
    """Whether a module is PyFlink's, of which the finder has said what there is instead."""
    return name.partition(".")[0] == "pyflink" and any(map(_is_ours, sys.meta_path))
