# SPDX-License-Identifier: Apache-2.0
"""The user's objects in the pickles that the driver sends to workers.

A worker imports the user's modules while it unpickles names from them, before any code of ours runs
(`read_command` in
https://github.com/apache/spark/blob/master/python/pyspark/worker_util.py).  So Spark's pickle has the
user's part as bytes, and beside it two things that must be in place before these bytes are opened:

* the finder of `pyflinklike.run`, if the driver has it: a module that begins with
  `from pyflink.datastream import ...` is imported in the worker as on the driver;
* the folders from which the driver imports, if the workers are on its machine: a script beside its
  modules runs from any directory.

If a module is still missing, the error is ours and says how to ship it.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer

from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._host.pickle_acknowledgement import acknowledge_pickle
from pyflinklike.spark._host.worker_errors import tell_errors

__all__ = ["PickledByDriver"]

T = TypeVar("T")

_REMEDY = (
    "ship its file, or a zip of its package: env.add_python_file(path) in a job, else "
    "spark.sparkContext.addPyFile(path), or --py-files of spark-submit "
    "(docs/how-to/run-on-a-cluster.md)"
)


class PickledByDriver(Generic[T]):
    """An object of the user's on its way to a worker.

    Args:
        value: A function, or an object that holds functions, such as a plan.
    """

    def __init__(self, value: T) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        from pyflinklike.spark._plan.session import folders_of_driver  # no worker needs it

        serializer: Any = CloudPickleSerializer  # as Spark pickles, with its errors
        finders = [each for each in sys.meta_path if _is_ours(each)]
        folders = folders_of_driver()
        return _open, (finders, folders, serializer().dumps(self.value))


def _is_ours(finder: Any) -> bool:
    return type(finder).__module__.startswith("pyflinklike.")


@tell_errors
def _open(finders: Sequence[Any], folders: Sequence[str], pickled: bytes) -> PickledByDriver[Any]:  # noqa: ARG001
    """Open the user's part in a worker; unpickled finders have put themselves in place already."""
    if TaskContext.get() is not None:
        acknowledge_pickle()  # we are within the pickle, and the records come after it
    known = {os.path.abspath(each) for each in sys.path}
    # The driver's order stays: a script's folder is before all others.
    sys.path[:0] = [each for each in folders if each not in known]
    try:
        return PickledByDriver(pickle.loads(pickled))  # noqa: S301  # of this query's driver
    except ModuleNotFoundError as error:
        if error.name is None or _names_pyflink(error.name):
            raise
        msg = (
            f"a worker needs all modules of the program, got none called {error.name!r}; {_REMEDY}"
        )
        raise SparkSetupError(msg) from error
    except AttributeError as error:
        if not str(error).startswith("Can't get attribute"):
            raise
        msg = (
            "a worker needs the same modules as the driver, got another one of the same name: "
            f"{error}; rename the module, or {_REMEDY}"
        )
        raise SparkSetupError(msg) from error


def _names_pyflink(name: str) -> bool:
    """Return whether a module is PyFlink's, for which the finder has named the replacement."""
    return name.partition(".")[0] == "pyflink" and any(map(_is_ours, sys.meta_path))
