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

The JVM writes the pickle of a stage to a socket, and then the records of the stage
(https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/api/python/PythonRunner.scala).
The sending kernel holds the records back until the pickle is acknowledged (Nagle's algorithm).  The
receiving kernel acknowledges with the worker's next answer, or after 40 ms, and the worker does not
answer before it has read records.  For a few hundred records, these 40 ms were most of the time of a
stage.  So the worker acknowledges the pickle at once (`acknowledge_pickle`).
"""

from __future__ import annotations

import os
import pickle
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, ParamSpec, TypeVar

from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer

from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._host.collector_freeze import freeze_imports
from pyflinklike.spark._host.worker_errors import report_errors, report_errors_of_each

P = ParamSpec("P")
R = TypeVar("R")
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


def in_worker(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """Prepare a function of record batches for Spark's workers.

    It is `PickledByDriver`, it freezes imports first, and it raises errors as Spark should show them.
    """
    carried = PickledByDriver(report_errors_of_each(call))

    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        freeze_imports()
        return carried.value(*args, **kwargs)

    # `functools.wraps` would also set `__wrapped__`, and the call would be pickled twice.
    run.__name__ = getattr(call, "__name__", run.__name__)
    return run


def _is_ours(finder: Any) -> bool:
    return type(finder).__module__.startswith("pyflinklike.")


@report_errors
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


# An early acknowledgement of the pickle


_LOOPBACK: Final = ("127.0.0.1", "::1")
_OPEN_FILES: Final = "/proc/self/fd"


def acknowledge_pickle() -> None:
    """Make Linux acknowledge at once the bytes that this process has read from local connections.

    A worker calls this when it has read the pickle of its stage and no record yet.  It does nothing
    on other systems than Linux, or on a Unix domain socket, which has no acknowledgements.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    # If the user has set a default timeout, a new socket object makes its connection non-blocking.
    # Below one is made for PySpark's own connection, which must stay blocking.
    if option is None or socket.getdefaulttimeout() is not None:
        return
    # PySpark shows the connection only to its own loop, so it is found among the open files.
    for name in os.listdir(_OPEN_FILES) if os.path.isdir(_OPEN_FILES) else ():
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
                if is_tcp and connection.getpeername()[0] in _LOOPBACK:
                    connection.setsockopt(socket.IPPROTO_TCP, option, 1)
        except OSError:  # closed since, not connected, or no TCP
            continue
