# SPDX-License-Identifier: Apache-2.0
"""The Python stages of a query: what happens in a worker around the user's code.

The first stage of a stream packs the records of each key group into payloads.  Every stage shows an
error of ours so that its sentence comes first; keeps Python's cycle collector out of hot loops; does
not let the JVM wait for the kernel; and gets the user's part of its pickle in bytes, which are
opened when the worker is ready for them.
"""

from __future__ import annotations

import functools
import gc
import os
import pickle
import re
import socket
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, ParamSpec, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame

from pyflinklike import errors
from pyflinklike._messages import as_utf8, shown, shown_traceback
from pyflinklike._runtime.user_errors import is_ours
from pyflinklike.errors import (
    DeclarationTypeError,
    HostError,
    IncompatibleStateError,
    PyflinklikeError,
)
from pyflinklike.spark._plan.operator_plan import Plan, TimeMode
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.spark._wire.payloads import (
    PACKED_SCHEMA,
    Packing,
    call_homes,
    partitions_of_state,
)
from pyflinklike.spark._wire.record_readers import Reader

__all__ = [
    "Carried",
    "Frozen",
    "acknowledge_pickle",
    "error_of",
    "freeze_imports",
    "make_packing_of",
    "ours_alone",
    "pack_records",
    "tell_errors",
    "tell_errors_of_each",
    "with_imports_frozen",
    "without_collection",
]


def pack_records(keyed: DataFrame, plan: Plan) -> DataFrame:
    """Pack records into payloads by grouping key, with the payloads of homes and the roll call.

    Args:
        keyed: The records, with the key group of each in a first column.
        plan: The plan of the query.
    """
    packing = with_imports_frozen(tell_errors_of_each(make_packing_of(plan)))
    return keyed.mapInArrow(packing, PACKED_SCHEMA.ddl)


def make_packing_of(plan: Plan) -> Packing:
    """Return the function that packs an operator's records, in one task of the first stage."""
    groups = plan.task.max_parallelism
    packing = plan.reader.make_packing(group_ids(groups))
    if plan.key_groups is not None:
        packing = _make_packing(plan.reader, groups, plan.key_groups)
    if plan.keeps_former_watermark():
        packing = call_homes(packing, plan.task.parallelism)
    return packing


def _make_packing(reader: Reader, count: int, key_groups: Callable[[int], int]) -> Packing:
    """Make the packing for the number of key groups that the checkpoint was begun with.

    Args:
        reader: Reads the records.
        count: The number of key groups if Spark does not show the partitions of the state.
        key_groups: Makes their number of the number of partitions.
    """

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partitions = partitions_of_state(TaskContext.get())
        groups = count if partitions is None else key_groups(partitions)
        yield from reader.make_packing(group_ids(groups))(batches)

    return packed


P = ParamSpec("P")
R = TypeVar("R")

# Errors as Spark shows them: our sentence first, then the user's traceback.
#
# Of a failed task Spark shows the text of the Python traceback, somewhere within its own.  A chain
# of errors is written with the first cause on top.  So an error is raised again once it is past all
# our frames, from a cause that is its own sentence without a traceback:
#
#     pyflinklike.errors.UserFunctionError: Count.process_element failed for key 'a' ...
#     (the frames of PySpark's worker, where it shows them)
#     pyflinklike.errors.UserFunctionError: Count.process_element failed for key 'a' ...
#     (where it came from: the traceback of the user's code)
#
# The user's traceback is a note of the error; Python 3.10 shows no notes, so there it is part of the
# message.


def tell_errors(call: Callable[P, R]) -> Callable[P, R]:
    """Have a call raise errors of ours as Spark should show them."""

    @functools.wraps(call)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except PyflinklikeError as error:
            failure = error
        headline = _note_cause(failure)
        raise failure.with_traceback(None) from headline

    return told


def tell_errors_of_each(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """Do the same for a call that returns an iterator, which fails while it is read."""

    @functools.wraps(call)
    def told(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from call(*args, **kwargs)
        except PyflinklikeError as error:
            failure = error
        else:
            return
        headline = _note_cause(failure)
        raise failure.with_traceback(None) from headline

    return told


def _note_cause(error: PyflinklikeError) -> PyflinklikeError:
    """Return the cause from which an error is raised; the error gets a note with its origin."""
    # Spark's worker writes what is raised as UTF-8, and fails itself where it cannot.
    error.args = tuple(as_utf8(each) if isinstance(each, str) else each for each in error.args)
    headline = type(error)(*error.args)
    notes, error.__notes__ = map(as_utf8, getattr(error, "__notes__", ())), []
    for note in notes:
        headline.add_note(note)
        error.add_note(note)
    error.add_note(_origin(error))
    if sys.version_info < (3, 11):
        for each in (headline, error):
            each.args = ("\n".join([str(each), *getattr(each, "__notes__", ())]),)
    return headline


def _origin(error: PyflinklikeError) -> str:
    """Format the traceback from the first frame of the user's code on; all of it without one."""
    root = error.__cause__ or error
    first = trace = root.__traceback__
    while trace is not None and is_ours(trace.tb_frame):
        trace = trace.tb_next
    if root is error:
        return as_utf8("".join(traceback.format_tb(trace or first))).rstrip()
    return shown_traceback(root, trace or first).rstrip()


# The cycle collector
#
# Rows, keys and outputs are tuples by the hundred thousand, none of them in a cycle.  Each wave of
# them makes the collector walk them all, which took a quarter of the Python time of a running count
# (see `docs/explanation/performance.md`).  Reference counting frees them just the same; cycles that
# user code leaves are collected between calls.
#
# Between two tasks of a worker PySpark's daemon collects.  Each of these collections walks all
# objects of pandas, PyArrow and PySpark, unless they are frozen.  It walks warm state, too, where an
# entry is more than a number or a text: timers, maps and lists cost 0.1 to 0.2 us a key and
# collection, from Python 3.14 on every entry 0.02 us or more.  So whatever has survived a long
# collection is frozen as well.  Reference counting frees it all the same, but not a cycle of the
# user's that dies later: therefore everything is collected again at the beginning of a task once the
# long collections since have taken as much time as that will.

_LONG_S = 0.005


def without_collection(call: Callable[P, R]) -> Callable[P, R]:
    """Have a call run with the cycle collector off."""

    @functools.wraps(call)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return call(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return quiet


def with_imports_frozen(call: Callable[P, R]) -> Callable[P, R]:
    """Have a worker call `freeze_imports` first; the call itself is `Carried`."""
    carried = Carried(call)

    def frozen(*args: P.args, **kwargs: P.kwargs) -> R:
        freeze_imports()
        return carried.value(*args, **kwargs)

    # Not all of `functools.wraps`: `__wrapped__` would be pickled beside what is carried.
    frozen.__name__ = getattr(call, "__name__", frozen.__name__)
    return frozen


def freeze_imports() -> None:
    """Hide imported objects from the collections between the tasks of a reused Spark worker."""
    # Spark sets this for workers that it uses again.  No other process collects between tasks.
    if "SPARK_REUSE_WORKER" in os.environ:
        _FROZEN.begin_task()


class Frozen:
    """The objects that are hidden from the collections between the tasks of a worker.

    Args:
        long_s: The CPU seconds from which on a collection is long.
        clock: Returns the CPU seconds of a thread.
    """

    def __init__(
        self, long_s: float = _LONG_S, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._long_s = long_s
        self._clock = clock
        self._began = 0.0
        self._modules = 0
        self._all_s = 0.0
        self._spent_s = 0.0

    def begin_task(self) -> None:
        """Freeze all objects after further imports; collect all after enough long collections."""
        modules = len(sys.modules)
        if self._spent_s > self._all_s:
            gc.unfreeze()
            began = self._clock()
            gc.collect()
            self._all_s = self._clock() - began
        elif modules == self._modules:
            return
        # Imports leave next to no garbage: to collect it took a tenth of a second in the first
        # tasks of a worker, and would free some hundred objects.
        if self.measure_collection not in gc.callbacks:
            gc.callbacks.append(self.measure_collection)
        gc.freeze()
        self._modules, self._spent_s = modules, 0.0

    def measure_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Measure a collection that begins or has ended, for `gc.callbacks`."""
        if info["generation"] != 2:
            return
        if phase == "start":
            self._began = self._clock()
            return
        took_s = self._clock() - self._began
        if took_s >= self._long_s:
            self._spent_s += took_s
            gc.freeze()


_FROZEN = Frozen()

# Errors of ours, out of Spark's
#
# Where a checkpoint forbids a change, Spark itself may refuse it before any task of ours runs, in
# terms of its state stores.  There `error_of` returns the error that says the same in our terms.
# Likewise Spark refuses ways to write a stream that keyed state does not have, in terms of its
# operators; `process` cannot, since it is called before the stream is written.

# Spark keeps the text of a worker's traceback; what follows the sentence begins with one of these.
_TOLD: Final = re.compile(
    r"\bpyflinklike\.errors\.(?P<name>\w+): (?P<sentence>.*?)"
    r"(?=\n\nThe above exception|\nTraceback |\n  File |\n\s*SQLSTATE| SQLSTATE|\n\tat |\n===|\s*\Z)",
    re.DOTALL,
)
_OTHER_TIME: Final = re.compile(r"Cannot change timeMode from (\w+) to (\w+) between restarts")
_OTHER_OPERATORS: Final = "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
_OPERATOR: Final = re.compile(
    r"CollectMetrics (.+?), \[coalesce\(sum.*?TransformWithState\w*.*?, (NoTime|EventTime|ProcessingTime), ",
    re.DOTALL,
)
"""In Spark's picture of a query: the name of an operator, and its time mode."""
_MODES: Final = {
    "NoTime": TimeMode.NONE,
    "EventTime": TimeMode.EVENT_TIME,
    "ProcessingTime": TimeMode.PROCESSING_TIME,
}
"""Spark's names of time modes in its errors and pictures."""
_REFUSED_WRITING: Final = (
    (
        re.compile(
            r"Invalid streaming output mode: complete\. This output mode is not supported for no "
            r"streaming aggregation|Complete output mode not supported when there are no streaming "
            r"aggregation"
        ),
        (
            "the rows of a keyed function are written once each, as it yields them, got "
            'outputMode("complete"), which writes all of a result again: use outputMode("append"), or '
            '"update", and where the latest row of each key is wanted, keep it in a view '
            "(pyflinklike.views) or a table that is merged into"
        ),
    ),
    (
        re.compile(
            r"Invalid streaming output mode: append\. This output mode is not supported for "
            r"streaming aggregations without watermark"
        ),
        (
            "an aggregation of Spark's writes a row in append mode when the watermark has passed it, "
            "got one that has no watermark: behind process(), pass event_time= and output_event_time= "
            'and group by a window of that column; or use outputMode("update") or "complete"'
        ),
    ),
    (
        re.compile(r"Continuous processing does not support (?:MapInArrow|TransformWith|FlatMap)"),
        (
            "keyed state is committed micro-batch by micro-batch, got trigger(continuous=...), which "
            'has none: use trigger(processingTime="1 second"), or leave trigger out, with which batches '
            "run back to back"
        ),
    ),
    (
        re.compile(r"\[STREAMING_REAL_TIME_MODE\."),
        (
            "keyed state is committed micro-batch by micro-batch, got trigger(realTime=...), which "
            "takes operators and sinks of a list of Spark's on which functions in Python are not: use "
            'trigger(processingTime="1 second"), or leave trigger out, with which batches run back to '
            "back"
        ),
    ),
    (
        re.compile(r"Stateful streaming queries does not support async progress tracking"),
        (
            "the state and the progress of a query are committed together, got the option "
            "asyncProgressTrackingEnabled, with which progress is written later: leave it out"
        ),
    ),
)
"""Spark's words for ways to write a stream that it refuses, and ours."""


def error_of(failure: BaseException) -> PyflinklikeError | None:
    """Return the error that a worker raised, for which a query or an action failed.

    Spark passes on only the text of an error in a worker, not the exception.  The error returned
    is of the same class, with the same message, and without a cause.  Where Spark itself refuses
    a change since a checkpoint was begun (an event time dropped or added, an operator more or
    less), it is an `IncompatibleStateError` that says what to do; where it refuses a way to write
    the stream (an output mode, a trigger), a `HostError`.

    Args:
        failure: A `StreamingQueryException`, also of `query.exception()` and of a
            `foreachBatch`; the `PythonException` of a batch, or of an action in `foreachBatch`; what
            `writeStream.start()` raises.

    Returns:
        The error, or None if the failure has no error of pyflinklike in it.

    Raises:
        DeclarationTypeError: `failure` is not an exception.
    """
    if not isinstance(failure, BaseException):
        msg = f"error_of takes an exception, got {shown(failure)}; query.exception() may be None"
        raise DeclarationTypeError(msg)
    if isinstance(failure, PyflinklikeError):
        return failure
    text = str(failure)
    found = _TOLD.search(text)
    kind = getattr(errors, found["name"], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, PyflinklikeError):
        return _explain_refused_restart(text) or _explain_refused_writing(text)
    return kind(found["sentence"].rstrip())


@contextmanager
def ours_alone() -> Iterator[None]:
    """Raise the error of a worker in place of Spark's failure.

    The traceback of Spark's failure is dropped: py4j writes down the error of a `foreachBatch`, and
    our sentence would come behind all of it.
    """
    try:
        yield
    except Exception as failure:
        told = error_of(failure)
        if told is None or told is failure:
            raise
        raise told from None


def _explain_refused_restart(text: str) -> PyflinklikeError | None:
    """Return our error for Spark's refusal of a checkpoint, or None for another failure."""
    found = _OTHER_TIME.search(text)
    if found is not None and set(found.groups()) <= _MODES.keys():
        former, now = (_MODES[each] for each in found.groups())
        return now.restart_refusal(former, _of_mode(text, found[2]))
    if _OTHER_OPERATORS in text:
        names = [name for name, _ in reversed(_OPERATOR.findall(text))]
        return IncompatibleStateError(
            "the stateful operators of a query are fixed by its checkpoint, got another number or "
            f"kind of them{f' ({names})' if names else ''}; put the former ones back, or begin a "
            "new checkpoint with from_savepoint=read_savepoint(spark, <this checkpoint>, "
            "operator_id=<its number>) for each"
        )
    return None


def _explain_refused_writing(text: str) -> HostError | None:
    """Return our error for Spark's refusal of an output mode, trigger or option, or None."""
    found = next((ours for theirs, ours in _REFUSED_WRITING if theirs.search(text)), None)
    return None if found is None else HostError(found)


def _of_mode(text: str, mode: str) -> str:
    names = [repr(name) for name, its in _OPERATOR.findall(text) if its == mode]
    if not names:
        return "an operator of this query"
    return f"operator {names[0]}" if len(names) == 1 else f"one of the operators {', '.join(names)}"


# The connection to the JVM
#
# The JVM writes the pickle of a stage, and then its records.  The kernel holds the records back until
# the pickle is acknowledged (Nagle's algorithm).  It acknowledges with the worker's next answer, or
# after 40 ms; and the worker has no answer before it has read records.  With a few hundred records
# these 40 ms were most of the time of a stage.

_LOOPBACK: Final = ("127.0.0.1", "::1")
_OPEN_FILES: Final = "/proc/self/fd"


def acknowledge_pickle() -> None:
    """Have Linux acknowledge at once what this process has read from local connections.

    For a worker that has read the pickle of its stage and not yet a record.  Elsewhere than on Linux,
    and on a Unix domain socket, which has no acknowledgements, it does nothing.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    # With a default timeout, which a user may set, Python's sockets are non-blocking from the moment
    # they are made, and PySpark's connection, of which one is made here, must not become so.
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


# The user's part of a pickle
#
# A worker imports the user's modules while it unpickles names of theirs, before any code of ours
# runs.  So Spark's pickle has the user's part as bytes, and beside it whatever must be in place before
# these are opened:
#
# * the finder of `pyflinklike.run`, where the driver has it: a module that begins with
#   `from pyflink.datastream import ...` is imported in the worker as on the driver;
# * the folders from which the driver imports, if the workers are on its machine: a script beside its
#   modules runs from any directory.
#
# A module that is still missing is an error of ours, with the way to ship it.

T = TypeVar("T")

_REMEDY = (
    "ship its file, or a zip of its package: env.add_python_file(path) in a job, else "
    "spark.sparkContext.addPyFile(path), or --py-files of spark-submit "
    "(docs/how-to/run-on-a-cluster.md)"
)


class Carried(Generic[T]):
    """An object of the user's on its way to a worker.

    Args:
        value: A function, or an object that has functions.
    """

    def __init__(self, value: T) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        from pyflinklike.spark._plan.session import folders_of_driver  # which no worker needs

        serializer: Any = CloudPickleSerializer  # as Spark pickles, with its errors
        finders = [each for each in sys.meta_path if _is_ours(each)]
        folders = folders_of_driver()
        return _open, (finders, folders, serializer().dumps(self.value))


def _is_ours(finder: Any) -> bool:
    return type(finder).__module__.startswith("pyflinklike.")


@tell_errors
def _open(finders: Sequence[Any], folders: Sequence[str], pickled: bytes) -> Carried[Any]:  # noqa: ARG001
    """Open the user's part in a worker; unpickled finders have put themselves in place already."""
    if TaskContext.get() is not None:
        acknowledge_pickle()  # this is part of the pickle, and the records come behind it
    known = {os.path.abspath(each) for each in sys.path}
    # In the driver's order: a script's folder is before all others.
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
    """Return whether a module is PyFlink's, for which the finder has named the replacement."""
    return name.partition(".")[0] == "pyflink" and any(map(_is_ours, sys.meta_path))
