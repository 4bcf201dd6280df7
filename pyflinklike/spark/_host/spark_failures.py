# SPDX-License-Identifier: Apache-2.0
"""Finds our error in a failure of Spark.

Spark keeps only the text of a worker's traceback, not the exception (see `worker_errors`).  So
`error_of` finds our sentence in that text.

If a checkpoint forbids a change, Spark itself may refuse it before any task of ours runs, in terms
of its state stores
(https://github.com/apache/spark/blob/master/sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/state/StateStoreErrors.scala).
Then `error_of` returns the error that says the same in our terms.  Spark also refuses some ways to
write a stream with keyed state, in terms of its operators
(https://github.com/apache/spark/blob/master/sql/catalyst/src/main/scala/org/apache/spark/sql/catalyst/analysis/UnsupportedOperationChecker.scala).
`process` cannot refuse them, since it is called before the stream is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyflinklike import errors
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    DeclarationTypeError,
    IncompatibleStateError,
    PyflinklikeError,
    SparkSetupError,
)
from pyflinklike.spark._plan.operator_plan import TimeMode

# A sentence of ours in the text of a traceback ends before one of these.
_REPORTED: Final = re.compile(
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
"""Finds the name of an operator and its time mode in the plan that Spark prints."""
_MODES: Final = {
    "NoTime": TimeMode.NONE,
    "EventTime": TimeMode.EVENT_TIME,
    "ProcessingTime": TimeMode.PROCESSING_TIME,
}
"""The names of time modes in Spark's errors and printed plans."""
_REFUSED_WRITING: Final = (
    (
        re.compile(
            r"Invalid streaming output mode: complete\. This output mode is not supported for no "
            r"streaming aggregation|Complete output mode not supported when there are no streaming "
            r"aggregation"
        ),
        (
            "the rows of a keyed function are written once each, as it yields them, got "
            'outputMode("complete"), which writes the whole result again: use outputMode("append") or '
            '"update"; if you want the latest row of each key, keep it in a view '
            "(pyflinklike.views), or merge the rows into a table"
        ),
    ),
    (
        re.compile(
            r"Invalid streaming output mode: append\. This output mode is not supported for "
            r"streaming aggregations without watermark"
        ),
        (
            "in append mode an aggregation of Spark's writes a row once the watermark has passed it, "
            "got one without a watermark: pass event_time= and output_event_time= to process(), and "
            'group by a window of that column; or use outputMode("update") or "complete"'
        ),
    ),
    (
        re.compile(r"Continuous processing does not support (?:MapInArrow|TransformWith|FlatMap)"),
        (
            "keyed state is committed micro-batch by micro-batch, got trigger(continuous=...), which "
            'has no micro-batches: use trigger(processingTime="1 second"), or leave trigger out to run '
            "them back to back"
        ),
    ),
    (
        re.compile(r"\[STREAMING_REAL_TIME_MODE\."),
        (
            "keyed state is committed micro-batch by micro-batch, got trigger(realTime=...), which "
            "Spark does not support for functions in Python: use "
            'trigger(processingTime="1 second"), or leave trigger out to run batches back to back'
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
"""Spark's words when it refuses a way to write a stream, and ours."""


def error_of(failure: BaseException) -> PyflinklikeError | None:
    """Return the error of pyflinklike that made a query or an action fail.

    Spark passes on only the text of an error in a worker, not the exception.  The returned error
    has the same class and the same message, but no cause.  If Spark itself refuses a change since
    a checkpoint was begun (an event time or an operator was added or dropped), it is an
    `IncompatibleStateError` that says what to do.  If Spark refuses a way to write the stream (an
    output mode, a trigger), it is a `SparkSetupError`.

    Args:
        failure: A `StreamingQueryException`, which `query.exception()` may return, too; the
            `PythonException` of a batch, or of an action in `foreachBatch`; or an error that
            `writeStream.start()` raises.

    Returns:
        The error, or None if the failure has no error of pyflinklike in it.

    Raises:
        DeclarationTypeError: `failure` is not an exception.
    """
    if not isinstance(failure, BaseException):
        msg = (
            f"error_of takes an exception, got {short_repr(failure)}; query.exception() may be None"
        )
        raise DeclarationTypeError(msg)
    if isinstance(failure, PyflinklikeError):
        return failure
    text = str(failure)
    found = _REPORTED.search(text)
    kind = getattr(errors, found["name"], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, PyflinklikeError):
        return _explain_refused_restart(text) or _explain_refused_writing(text)
    return kind(found["sentence"].rstrip())


@contextmanager
def raise_own_error() -> Iterator[None]:
    """Raise the error of a worker in place of Spark's failure.

    The traceback of Spark's failure is dropped: py4j prints the error of a `foreachBatch`, and our
    sentence would stand below that traceback.
    """
    try:
        yield
    except Exception as failure:
        ours = error_of(failure)
        if ours is None or ours is failure:
            raise
        raise ours from None


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
            "operator_id=<its number>) for each operator"
        )
    return None


def _explain_refused_writing(text: str) -> SparkSetupError | None:
    """Return our error for Spark's refusal of an output mode, trigger or option, or None."""
    found = next((ours for theirs, ours in _REFUSED_WRITING if theirs.search(text)), None)
    return None if found is None else SparkSetupError(found)


def _of_mode(text: str, mode: str) -> str:
    names = [repr(name) for name, its in _OPERATOR.findall(text) if its == mode]
    if not names:
        return "an operator of this query"
    return f"operator {names[0]}" if len(names) == 1 else f"one of the operators {', '.join(names)}"
