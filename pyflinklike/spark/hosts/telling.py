# SPDX-License-Identifier: Apache-2.0
"""What Spark shows of an error of ours: its sentence first, then the user's traceback.

Of a task that failed Spark shows the text of the Python traceback, somewhere between its own.
A chain of errors is written with the first cause on top.  So the error is raised anew, once it
is past all our frames, from a cause that is its own sentence without a traceback.

    pyflinklike.errors.UserFunctionError: Count.process_element failed for key 'a' ...
    (the frames of PySpark's worker, where it shows them)
    pyflinklike.errors.UserFunctionError: Count.process_element failed for key 'a' ...
    (where it came from: the traceback of the user's code)

The user's traceback is a note of the error; Python 3.10 shows no notes, so there it is part of
the message.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from pyflinklike.errors import PyflinklikeError
from pyflinklike.runtime.raised import is_ours

__all__ = ["telling", "telling_each"]

P = ParamSpec("P")
R = TypeVar("R")


def telling(call: Callable[P, R]) -> Callable[P, R]:
    """The call, whose errors of ours are raised as Spark should show them."""

    @functools.wraps(call)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except PyflinklikeError as error:
            failure = error
        headline = _told(failure)
        raise failure.with_traceback(None) from headline

    return told


def telling_each(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """The same for a call that gives an iterator, and fails while that is read."""

    @functools.wraps(call)
    def told(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from call(*args, **kwargs)
        except PyflinklikeError as error:
            failure = error
        else:
            return
        headline = _told(failure)
        raise failure.with_traceback(None) from headline

    return told


def _told(error: PyflinklikeError) -> PyflinklikeError:
    """What an error is raised from; the error itself gets a note of where it came from."""
    headline = type(error)(*error.args)
    for note in getattr(error, "__notes__", ()):
        headline.add_note(note)
    error.add_note(_origin(error))
    if sys.version_info < (3, 11):
        for each in (headline, error):
            each.args = ("\n".join([str(each), *getattr(each, "__notes__", ())]),)
    return headline


def _origin(error: PyflinklikeError) -> str:
    """The traceback from the first frame of the user's code on; all of it if there is none."""
    root = error.__cause__ or error
    first = trace = root.__traceback__
    while trace is not None and is_ours(trace.tb_frame):
        trace = trace.tb_next
    if root is error:
        return "".join(traceback.format_tb(trace or first)).rstrip()
    return "".join(traceback.format_exception(type(root), root, trace or first)).rstrip()
