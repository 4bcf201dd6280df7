# SPDX-License-Identifier: Apache-2.0
"""A search in the code of a function for processing-time timers.

Spark has one time mode per query, chosen before the function registers its first timer.  In
event-time mode it calls an idle key group when the watermark moves.  In processing-time mode it
calls one at every trigger, so a query runs batches without end and `availableNow` never finishes.
Therefore the right mode matters, and the search looks for the names that the code uses.  If it
misses a timer, no data is lost: registering the timer raises an error with the remedy.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pyflinklike.functions.process_functions import NamespacedFunction

__all__ = ["uses_processing_timers"]

_NAME = "register_processing_time_timer"
# A bound of the search: deeper code is rarely the user's, and each level multiplies the work.
_DEPTH = 4


def uses_processing_timers(function: object) -> bool:
    """Return whether any code that a function can reach names the registration.

    Args:
        function: A `KeyedProcessFunction`, or an attribute of one, such as a trigger.
    """
    if isinstance(function, NamespacedFunction):
        return function.uses_processing_timers(uses_processing_timers)
    return _mentions(type(function), set(), _DEPTH) or any(
        _mentions(value, set(), _DEPTH - 1) for value in vars(function).values()
    )


def _mentions(subject: Any, seen: set[int], depth: int) -> bool:
    if depth < 0 or id(subject) in seen:
        return False
    seen.add(id(subject))
    if isinstance(subject, (staticmethod, classmethod)):
        subject = subject.__func__
    if inspect.ismethod(subject):
        subject = subject.__func__
    if isinstance(subject, FunctionType):
        return _names_it(subject) or any(
            _mentions(each, seen, depth - 1) for each in _find_reached(subject) if _is_users(each)
        )
    if isinstance(subject, type):
        return any(_mentions(member, seen, depth) for member in _members(subject))
    if isinstance(subject, property):
        return any(_mentions(part, seen, depth) for part in (subject.fget, subject.fset))
    return _is_users(type(subject)) and _mentions(type(subject), seen, depth - 1)


def _names_it(function: FunctionType) -> bool:
    """Return whether a function's own code names the registration, also as text."""
    return _NAME in _names(function) or _NAME in _constants(function.__code__)


def _find_reached(function: FunctionType) -> list[Any]:
    """Return the objects that a function's code reaches: globals, members of modules, closures."""
    names, known = _names(function), function.__globals__
    reached = [known[name] for name in names if name in known]
    # The code that calls a module's function has the name of that function, too.
    modules = [each for each in reached if isinstance(each, ModuleType) and _is_users(each)]
    reached += [vars(each)[name] for each in modules for name in names if name in vars(each)]
    return reached + [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]


def _members(cls: type) -> Iterator[Any]:
    """Yield the methods and properties of a class, and those that it inherits from user classes."""
    for each in cls.__mro__:
        if _is_users(each):
            for member in vars(each).values():
                if isinstance(member, (FunctionType, staticmethod, classmethod, property)):
                    yield member


def _names(function: FunctionType) -> set[str]:
    return {name for code in _codes(function.__code__) for name in code.co_names}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _constants(code: CodeType) -> set[str]:
    return {
        constant
        for each in _codes(code)
        for constant in each.co_consts
        if isinstance(constant, str)
    }


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_users(subject: Any) -> bool:
    name = "__name__" if isinstance(subject, ModuleType) else "__module__"
    module = getattr(subject, name, None) or ""
    root = str(module).partition(".")[0]
    return bool(root) and root not in (
        "builtins",
        "pyflinklike",
        "typing",
        "pyspark",
        "collections",
    )
