# SPDX-License-Identifier: Apache-2.0
"""Warnings, before a function runs, about mistakes in its code that would raise nothing.

There are three such mistakes: to call a generator without a loop, to register a timer without an
`on_timer`, and to assign over a state.  First the names in the compiled code show whether there may be
such a mistake; only then the source is read, if it is at hand.
"""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, Final
from weakref import WeakSet

from pyflinklike._deprecation import warn_once

__all__ = ["overwritten_states", "warn_of_slips"]

_OURS: Final = __name__.partition(".")[0]
_GETTERS: Final = frozenset(
    {
        "get_state",
        "get_list_state",
        "get_map_state",
        "get_reducing_state",
        "get_aggregating_state",
        "get_column_state",
        "get_column_map_state",
        "get_store",
    }
)
_REGISTERS: Final = frozenset({"register_event_time_timer", "register_processing_time_timer"})
_SEEN: Final[WeakSet[type]] = WeakSet()  # weak, or classes made in a notebook would stay for ever


def warn_of_slips(function: object) -> None:
    """Warn of slips in the code of a function, once for each class."""
    kind = type(function)
    if kind in _SEEN:
        return
    _SEEN.add(kind)
    methods = dict(_methods_of(kind))
    name = kind.__qualname__
    registers = [each for each in methods.values() if _REGISTERS & _names(each.__code__)]
    # A function of columns has `on_timers` instead, and without it cannot register a timer.
    if registers and _is_ours(getattr(kind, "on_timer", None)):
        warn_once(
            f"a timer calls on_timer when it is due, got {name}, which registers timers "
            f"({_place(registers[0])}) and has no on_timer; define it, or register none"
        )
    for method in methods.values():
        for call, line in _lost_generators(kind, method):
            warn_once(
                f"a generator runs while it is iterated, got {call}(...) without a loop in "
                f"{name}.{method.__name__} ({_place(method, line)}); write yield from {call}(...)"
            )
    for attribute, place in overwritten_states(kind).items():
        warn_once(
            f"an assignment does not write to a state, got self.{attribute} = ... over a state of "
            f"{name} ({place}); write self.{attribute}.update(...)"
        )


def overwritten_states(kind: type) -> dict[str, str]:
    """Return the attributes that hold a state after `open`, and that other methods assign again.

    Args:
        kind: The class of a user's function.

    Returns:
        The file and line of the assignment, by the name of the attribute.
    """
    methods = dict(_methods_of(kind))
    opening = methods.pop("open", None)
    methods.pop("__init__", None)
    # Compiled code is quick to look at, so the source is parsed only if there is a suspect.
    if opening is None or not _GETTERS & _names(opening.__code__):
        return {}
    found = {}
    for method in methods.values():
        suspects = _stored(opening.__code__) & _stored(method.__code__)
        if suspects:
            states = {name for name, _, value in _assignments(opening) if _is_getter(value)}
            for name, line, value in _assignments(method):
                if name in states & suspects and not _is_handle(value):
                    found[name] = _place(method, line)
    return found


# Reading the code


def _methods_of(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """Yield the methods of the user's classes; a class overrides its bases."""
    for each in reversed(kind.__mro__):
        if not _is_ours(each):
            for name, member in vars(each).items():
                if isinstance(member, FunctionType):
                    yield name, member


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] in (_OURS, "builtins", "abc")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _names(code: CodeType) -> set[str]:
    return {name for each in _codes(code) for name in each.co_names}


def _stored(code: CodeType) -> set[str]:
    """Return the names of the attributes that the code assigns, to any object."""
    return {
        each.argval
        for part in _codes(code)
        for each in dis.get_instructions(part)
        if each.opname == "STORE_ATTR"
    }


def _tree(method: FunctionType) -> Any:
    """Return the definition of a method from its source, or None."""
    try:
        lines, _ = inspect.getsourcelines(method)
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return tree


def _place(method: FunctionType, line: int = 1) -> str:
    return f"{method.__code__.co_filename}:{method.__code__.co_firstlineno + line - 1}"


def _lost_generators(kind: type, method: FunctionType) -> Iterator[tuple[str, int]]:
    """Yield the calls of generators whose result is dropped, and their lines."""
    names = _names(method.__code__)
    members = {name: inspect.getattr_static(kind, name, None) for name in names}
    known = {name: method.__globals__.get(name) for name in names}
    if not any(map(_is_generator, [*members.values(), *known.values()])):
        return
    tree = _tree(method)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Name) and _is_generator(known.get(called.id)):
                yield called.id, node.lineno
            own = called.attr if isinstance(called, ast.Attribute) and _is_self(called) else ""
            if _is_generator(members.get(own)):
                yield f"self.{own}", node.lineno


def _is_generator(thing: Any) -> bool:
    return inspect.isgeneratorfunction(getattr(thing, "__func__", thing))


def _assignments(method: FunctionType) -> Iterator[tuple[str, int, ast.expr]]:
    """Yield name, line and value of the assignments to attributes of `self`."""
    tree = _tree(method)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and _is_self(target):
                    yield target.attr, node.lineno, node.value


def _is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_getter(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in _GETTERS
    )


def _is_handle(value: ast.expr) -> bool:
    """Return whether a value may be a state itself: a getter's result, or one of the attributes."""
    if isinstance(value, ast.IfExp):
        return _is_handle(value.body) and _is_handle(value.orelse)
    if isinstance(value, ast.Subscript):
        return _is_handle(value.value)
    return _is_getter(value) or (isinstance(value, ast.Attribute) and _is_self(value))
