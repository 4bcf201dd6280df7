# SPDX-License-Identifier: Apache-2.0
"""The line of the user's code that raised, and a hint at its mistake, as text for messages.

Spark drops the cause of an error in a worker and keeps only its text.  So the text of a
`UserFunctionError` names the line that its traceback would show.
"""

from __future__ import annotations

import dis
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Collection, Sequence, Set
from pathlib import Path
from types import FrameType, FunctionType, MethodType
from typing import Any, Final

from pyflinklike._messages import as_utf8, whole_message
from pyflinklike.functions.code_search import overwritten_states
from pyflinklike.functions.contexts import KeyedStateStore, RuntimeContext, TimerService
from pyflinklike.functions.process_functions import (
    OPERATOR_STATE_METHODS,
    OPERATOR_STATE_REMEDY,
    BaseBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from pyflinklike.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.state.fold_functions import Function
from pyflinklike.state.keyed_states import ITERABLES, State

_OURS: Final = f"{Path(__file__).resolve().parents[1]}{os.sep}"
_LIBRARIES: Final = (
    "<frozen",
    *(
        f"{sysconfig.get_path(name)}{os.sep}"
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ),
)
_NO_TIMESTAMP: Final = (
    "; ctx.timestamp() is None if there is no event time: "
    'pass event_time="<column>" to process(), in a job call assign_timestamps_and_watermarks, '
    "in a test pass a timestamp to the harness"
)
_NO_VALUE: Final = (
    "; a state that was never written gives None: write for example (state.value() or 0)"
)
_NO_MODULE: Final = (
    "; the Python that runs the function lacks it: install it there, or on Spark ship it with "
    "spark.sparkContext.addPyFile(path), or --py-files of spark-submit "
    "(docs/how-to/run-on-a-cluster.md)"
)
_YIELDS: Final = "; outputs are yielded: yield value, or yield tag, value for a side output"
_COLLECTORS: Final = frozenset({"out", "collector"})
_ITERABLE: Final = (
    "; the elements and entries of a state are read while they are iterated: make a list of them, "
    "list(state.get())[0]"
)
_CONTEXTS: Final = (
    RuntimeContext,
    KeyedProcessFunction.Context,
    ProcessFunction.Context,
    BaseBroadcastProcessFunction.Context,
    BaseBroadcastProcessFunction.ReadOnlyContext,
)
_STATES: Final = (ValueState, ListState, MapState, ReducingState, AggregatingState)
_PUBLIC: Final = (*_STATES, TimerService)
_READERS: Final = frozenset(
    {
        "current_processing_time",
        "current_watermark",
        "get",
        "get_current_key",
        "is_empty",
        "items",
        "keys",
        "time_domain",
        "timer_service",
        "timestamp",
        "value",
        "values",
    }
)

# For attribute errors: the class of the object, the names that were asked for (None: any), the
# hint.
_ATTRIBUTES: Final[Sequence[tuple[Any, Collection[str] | None, str]]] = (
    (_CONTEXTS, OPERATOR_STATE_METHODS, f"; {OPERATOR_STATE_REMEDY}"),
    (
        StateDescriptor,
        None,
        "; a descriptor only declares: open() gets its state from the runtime_context",
    ),
    (
        _CONTEXTS[1:],
        {"output", "collect"},
        "; write yield value, or yield tag, value for a side output",
    ),
    (type(None), {"collect"}, _YIELDS),
    (ListState, {"append", "extend"}, "; add(value) and add_all(values) append"),
    (
        State,
        {"enable_time_to_live"},
        "; a TTL is declared: descriptor.enable_time_to_live(config), before get_state(descriptor)",
    ),
    (ITERABLES, None, _ITERABLE),
    (
        KeyedStateStore,
        None,
        (
            "; states are obtained by get_state (one value), get_list_state, get_map_state, "
            "get_reducing_state and get_aggregating_state"
        ),
    ),
)

# For type errors: Python's message, names (the code must use one; None: any code), the hint.
_TYPE_ERRORS: Final[Sequence[tuple[re.Pattern[str], Set[str] | None, str]]] = (
    (
        re.compile("offset-naive and offset-aware"),
        None,
        (
            "; one of the two times has a time zone: a timestamp column comes without one, in the "
            "session's time zone, so give it that with replace(tzinfo=ZoneInfo(...)), or compare "
            "ctx.timestamp(), ms since 1970 in UTC"
        ),
    ),
    (
        re.compile(r"'(int|float)' and 'datetime\.|'datetime\.\w+' and '(int|float)'"),
        {"timestamp", "current_watermark", "current_processing_time"},
        (
            "; times here are ints of ms: write for example ctx.timestamp() + 60_000, "
            "timedelta // timedelta(milliseconds=1), or int(time.timestamp() * 1000) of a datetime"
        ),
    ),
    (re.compile("|".join(f"'{each.__name__}'" for each in ITERABLES)), None, _ITERABLE),
)
_METHOD: Final = re.compile(r"'(method|function)'")
_HAS_CALL_BIT: Final = sys.version_info >= (3, 12)


def where_raised(error: BaseException) -> str:
    """Return ` (<file>:<line>, in <function>)` of the user's frame that raised, or an empty text.

    It is the innermost frame of the user's own code, also if a library called from there raised.
    """
    found = _find_raising_line(error)
    if found is None:
        return ""
    frame, line = found
    return as_utf8(f" ({frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})")


def hint(error: Exception, *, has_timestamp: bool) -> str:
    """Return a hint at a misuse of the runtime, or an empty text if no misuse is known.

    Args:
        error: The error that the user's code raised.
        has_timestamp: Whether the current element or timer has a time.
    """
    found = _find_raising_line(error)
    frame = None if found is None else found[0]
    names = () if frame is None else frame.f_code.co_names
    # Flink's Java examples write `out.collect(value)`; a Python function yields.
    if isinstance(error, NameError):
        return _YIELDS if error.name in _COLLECTORS else ""
    if isinstance(error, ModuleNotFoundError):
        return _NO_MODULE
    if isinstance(error, AttributeError):
        misused = _find_misuse(error, frame) or _find_overwritten(error, frame)
        if misused:
            return misused
    if not isinstance(error, (TypeError, AttributeError)):
        return ""
    text = whole_message(error)
    if "NoneType" in text:
        no_timestamp = _NO_TIMESTAMP if "timestamp" in names and not has_timestamp else ""
        no_value = _NO_VALUE if "value" in names or "get" in names else ""
        return no_timestamp + no_value
    if isinstance(error, AttributeError):
        return ""
    if _METHOD.search(text):
        return _find_uncalled(frame)
    known = () if frame is None else (*names, *frame.f_code.co_varnames)
    for pattern, wanted, advice in _TYPE_ERRORS:
        if pattern.search(text) and (wanted is None or not wanted.isdisjoint(known)):
            return advice
    kind = next((each for each in _STATES if f"'{each.__name__}'" in text), None)
    return "" if kind is None else _has(kind)


def _find_misuse(error: AttributeError, frame: FrameType | None) -> str:
    """Return a hint where to find an attribute that an object of ours lacks, or an empty text."""
    thing, name = error.obj, error.name or ""
    for kinds, wanted, advice in _ATTRIBUTES:
        if isinstance(thing, kinds) and (wanted is None or name in wanted):
            return advice
    if isinstance(thing, _CONTEXTS[1:]):
        if name.startswith("get_"):
            return "; states are made in open(), by the runtime_context"
        if hasattr(TimerService, name):
            return f"; write ctx.timer_service().{name}(...)"
    if isinstance(thing, (FunctionType, MethodType)):
        return _find_uncalled(frame)
    return next((_has(kind) for kind in _PUBLIC if isinstance(thing, kind)), "")


def _find_overwritten(error: AttributeError, frame: FrameType | None) -> str:
    """Return a hint at an assignment that took the place of a state, or an empty text."""
    function = None if frame is None else frame.f_locals.get("self")
    if not isinstance(function, Function):
        return ""
    for name, place in overwritten_states(type(function)).items():
        if getattr(function, name, None) is error.obj:
            return f"; self.{name} was a state until {place}: write self.{name}.update(...) there"
    return ""


def _find_uncalled(frame: FrameType | None) -> str:
    """Return a hint at a method of ours that is used without being called, or an empty text."""
    loads = [] if frame is None else dis.get_instructions(frame.f_code)
    found = [
        f"{each.argval}()"
        for each in loads
        # From Python 3.12 on, the lowest bit says that the attribute is called.
        if each.opname == "LOAD_ATTR" and not (_HAS_CALL_BIT and (each.arg or 0) & 1)
        if each.argval in _READERS
    ]
    return f"; a method needs its brackets: {' or '.join(found)}" if found else ""


def _has(kind: type) -> str:
    """Return a hint at the methods of a class of ours."""
    methods = [name for name in dir(kind) if name[0] != "_" and callable(getattr(kind, name))]
    return f"; a {kind.__name__} has {', '.join(f'{name}()' for name in methods)}"


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
