# SPDX-License-Identifier: Apache-2.0
"""From an exception of Spark back to the error of ours that it tells of.

Where a checkpoint forbids a change, Spark itself may refuse it before any task of ours runs, in
terms of its state stores.  There the error of ours is what the same change means in our terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyflinklike import errors
from pyflinklike.errors import DeclarationTypeError, IncompatibleStateError, PyflinklikeError
from pyflinklike.shown import shown
from pyflinklike.spark.setup.plan import TimeMode

__all__ = ["error_of", "ours_alone"]

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


def error_of(failure: BaseException) -> PyflinklikeError | None:
    """The error that a worker raised, for which a query or an action failed.

    Spark hands on the text of what a worker raised, and not the exception.  This gives it back:
    of the same class, with the same message, and without a cause.  Where Spark itself refuses
    what has changed since a checkpoint was begun (an event time that was dropped or added, an
    operator more or less), it gives an `IncompatibleStateError` that says what to do.

    Args:
        failure: A `StreamingQueryException`, also that of `query.exception()` and of a
            `foreachBatch`; the `PythonException` of a batch, or of an action in `foreachBatch`.

    Returns:
        The error, or None if the failure tells of none of pyflinklike.

    Raises:
        DeclarationTypeError: It is not an exception.
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
        return _refused_restart(text)
    return kind(found["sentence"].rstrip())


@contextmanager
def ours_alone() -> Iterator[None]:
    """Raise the error of a worker for the failure of Spark that tells of it.

    The traceback of Spark's own failure goes: where py4j writes down what a `foreachBatch` raised,
    our sentence would come behind all of it.
    """
    try:
        yield
    except Exception as failure:
        told = error_of(failure)
        if told is None or told is failure:
            raise
        raise told from None


def _refused_restart(text: str) -> PyflinklikeError | None:
    """What Spark's refusal of a checkpoint means, if that is what a failure says."""
    found = _OTHER_TIME.search(text)
    if found is not None and set(found.groups()) <= _MODES.keys():
        former, now = (_MODES[each] for each in found.groups())
        return now.refused_after(former, _of_mode(text, found[2]))
    if _OTHER_OPERATORS in text:
        names = [name for name, _ in reversed(_OPERATOR.findall(text))]
        return IncompatibleStateError(
            "the stateful operators of a query are fixed by its checkpoint, got another number or "
            f"kind of them{f' ({names})' if names else ''}; put the former ones back, or begin a "
            "new checkpoint with from_savepoint=read_savepoint(spark, <this checkpoint>, "
            "operator_id=<its number>) for each"
        )
    return None


def _of_mode(text: str, mode: str) -> str:
    names = [repr(name) for name, its in _OPERATOR.findall(text) if its == mode]
    if not names:
        return "an operator of this query"
    return f"operator {names[0]}" if len(names) == 1 else f"one of the operators {', '.join(names)}"
