# SPDX-License-Identifier: Apache-2.0
"""The line of the user's code that raised, and a hint at its mistake, as text for messages.

Spark drops the cause of an error in a worker and keeps only its text.  So the text of a
`UserFunctionError` names the line that its traceback would show.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from types import FrameType
from typing import Final

from pyflinklike.engine.api.contexts import RuntimeContext
from pyflinklike.engine.api.process_functions import (
    OPERATOR_STATE_METHODS,
    OPERATOR_STATE_REMEDY,
    BaseBroadcastProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.engine.shown import as_utf8, whole_message
from pyflinklike.engine.state import ListState
from pyflinklike.engine.state.descriptors import StateDescriptor

__all__ = ["hint", "is_ours", "where_raised"]

_OURS: Final = f"{Path(__file__).resolve().parents[2]}{os.sep}"
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
    """Return ` (<file>:<line>, in <function>)` of the user's frame that raised, or an empty text.

    It is the innermost frame of the user's own code, also when a library called from there raised.
    """
    found = _find_raising_line(error)
    if found is None:
        return ""
    frame, line = found
    return as_utf8(f" ({frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})")


def hint(error: Exception, *, has_timestamp: bool) -> str:
    """Return a hint at a misuse of the runtime, or an empty text if none can be seen.

    It knows two mistakes: a None of the runtime used as a value, and a missing attribute.

    Args:
        error: The error that the user's code raised.
        has_timestamp: Whether the current element or timer has a time.
    """
    if isinstance(error, AttributeError):
        misused = _find_misuse(error)
        if misused:
            return misused
    if not isinstance(error, (TypeError, AttributeError)) or "NoneType" not in whole_message(error):
        return ""
    found = _find_raising_line(error)
    names = () if found is None else found[0].f_code.co_names
    no_timestamp = _NO_TIMESTAMP if "timestamp" in names and not has_timestamp else ""
    no_value = _NO_VALUE if "value" in names or "get" in names else ""
    return no_timestamp + no_value


def _find_misuse(error: AttributeError) -> str:
    """Return where to find an attribute that an object of ours lacks, or an empty text."""
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


def _find_raising_line(error: BaseException) -> tuple[FrameType, int] | None:
    """Find the innermost frame of the user's code, and its line."""
    frames = [each for each in traceback.walk_tb(error.__traceback__) if not is_ours(each[0])]
    if not frames:
        return None
    # The user's package may be installed beside libraries: frames of its name count as the user's.
    package = _package(frames[0][0])
    users = [each for each in frames if _package(each[0]) == package or not _is_library(each[0])]
    return users[-1]


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of this package."""
    return frame.f_code.co_filename.startswith(_OURS)


def _is_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
