# SPDX-License-Identifier: Apache-2.0
"""Errors that a worker raises, in the form in which Spark should show them.

If a task fails, PySpark's worker writes the traceback as text, and the driver shows that text
somewhere within its own error.  `handle_worker_exception` does this in
https://github.com/apache/spark/blob/master/python/pyspark/util.py.  Python writes a chain of errors
with the first cause on top, so our sentence would stand below the user's traceback.  To put it
first, an error is raised again once it is past all our frames, from a cause that is its own sentence
without a traceback:

    pyflinklike.errors.UserFunctionError: Count.process_element failed for key 'a' ...
    (the frames of PySpark's worker, if it shows them)
    pyflinklike.errors.UserFunctionError: Count.process_element failed for key 'a' ...
    (its origin: the traceback of the user's code)

The user's traceback is a note of the error.  Python 3.10 shows no notes, so there it is part of the
message.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from pyflinklike._messages import as_utf8, shown_traceback
from pyflinklike._runtime.user_errors import is_ours
from pyflinklike.errors import PyflinklikeError

P = ParamSpec("P")
R = TypeVar("R")


def report_errors(call: Callable[P, R]) -> Callable[P, R]:
    """Return a call that raises our errors in the form that Spark should show."""

    @functools.wraps(call)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except PyflinklikeError as error:
            failure = error
        headline = _note_cause(failure)
        raise failure.with_traceback(None) from headline

    return reporting


def report_errors_of_each(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """Do the same for a call that returns an iterator, which fails while it is read."""

    @functools.wraps(call)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from call(*args, **kwargs)
        except PyflinklikeError as error:
            failure = error
        else:
            return
        headline = _note_cause(failure)
        raise failure.with_traceback(None) from headline

    return reporting


def _note_cause(error: PyflinklikeError) -> PyflinklikeError:
    """Return the cause from which an error is raised; the error gets a note with its origin."""
    # Spark's worker writes the error as UTF-8, and fails itself if it cannot.
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
    """Format the traceback from the user's first frame on, or all of it if no frame is the user's."""
    root = error.__cause__ or error
    first = trace = root.__traceback__
    while trace is not None and is_ours(trace.tb_frame):
        trace = trace.tb_next
    if root is error:
        return as_utf8("".join(traceback.format_tb(trace or first))).rstrip()
    return shown_traceback(root, trace or first).rstrip()
