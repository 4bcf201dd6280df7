# SPDX-License-Identifier: Apache-2.0
"""Where and why a user's function raised: the line of the user's code, and what it got wrong.

A Spark worker may show no line of the user's: it drops the cause of what it is told, and keeps
the text.  So the text of a `UserFunctionError` says what its traceback would.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from types import FrameType
from typing import Final

from pyflinklike.api.broadcast import BaseBroadcastProcessFunction
from pyflinklike.api.context import RuntimeContext
from pyflinklike.api.operator_state import OPERATOR_STATE_METHODS, OPERATOR_STATE_REMEDY
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.state import ListState
from pyflinklike.state.descriptors import StateDescriptor

__all__ = ["hint", "is_ours", "where_raised"]

_OURS: Final = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_LIBRARIES: Final = (
    "<frozen",
    *(
        f"{sysconfig.get_path(name)}{os.sep}"
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ),
)
_NO_TIMESTAMP: Final = (
    "; ctx.timestamp() is None where there is no event time: "
    'pass event_time="<column>" to process(), in a job call assign_timestamps_and_watermarks, '
    "in a test pass a timestamp to the harness"
)
_CONTEXTS: Final = (
    RuntimeContext,
    KeyedProcessFunction.Context,
    BaseBroadcastProcessFunction.Context,
    BaseBroadcastProcessFunction.ReadOnlyContext,
)
_NO_VALUE: Final = (
    "; a state that was never written gives None: write for example (state.value() or 0)"
)


def where_raised(error: BaseException) -> str:
    """` (<file>:<line>, in <function>)` of the user's frame that raised, or nothing if none did.

    That is the innermost frame of the user's own code: what raises in a library was called there.
    """
    found = _raising(error)
    if found is None:
        return ""
    frame, line = found
    return f" ({frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})"


def hint(error: Exception, *, has_timestamp: bool) -> str:
    """What the user's code got wrong about the runtime, where that can be seen; or nothing.

    That is where it met a None that the runtime gives, or an attribute that it does not have.

    Args:
        error: What the user's code raised.
        has_timestamp: Whether the current element or timer has a time.
    """
    if isinstance(error, AttributeError):
        misused = _misused(error)
        if misused:
            return misused
    if not isinstance(error, (TypeError, AttributeError)) or "NoneType" not in str(error):
        return ""
    found = _raising(error)
    names = () if found is None else found[0].f_code.co_names
    no_timestamp = _NO_TIMESTAMP if "timestamp" in names and not has_timestamp else ""
    no_value = _NO_VALUE if "value" in names or "get" in names else ""
    return no_timestamp + no_value


def _misused(error: AttributeError) -> str:
    """Where an attribute is to be found that an object of ours does not have; or nothing."""
    thing, name = error.obj, error.name or ""
    if name in OPERATOR_STATE_METHODS and isinstance(thing, _CONTEXTS):
        return f"; {OPERATOR_STATE_REMEDY}"
    if isinstance(thing, StateDescriptor):
        return "; a descriptor only declares: open() gets its state from the runtime_context"
    if isinstance(thing, _CONTEXTS[1:]) and name.startswith("get_"):
        return "; states are made in open(), by the runtime_context"
    if isinstance(thing, KeyedProcessFunction.Context) and name in ("output", "collect"):
        return "; write yield value, or yield tag, value for a side output"
    if isinstance(thing, ListState) and name in ("append", "extend"):
        return "; add(value) and add_all(values) append"
    return ""


def _raising(error: BaseException) -> tuple[FrameType, int] | None:
    """The innermost frame of the user's, and its line."""
    frames = [each for each in traceback.walk_tb(error.__traceback__) if not is_ours(each[0])]
    if not frames:
        return None
    # The user's function may itself be installed beside other libraries.
    package = _package(frames[0][0])
    users = [each for each in frames if _package(each[0]) == package or not _is_library(each[0])]
    return users[-1]


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of this package."""
    return frame.f_code.co_filename.startswith(_OURS)


def _is_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
