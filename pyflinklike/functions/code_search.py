# SPDX-License-Identifier: Apache-2.0
"""A search in the code of a function, before it runs: for slips, and for processing-time timers.

Three mistakes would raise nothing, so there are warnings: to call a generator without a loop, to register a timer without an
`on_timer`, and to assign over a state.  First the names in the compiled code show whether there may be
such a mistake; only then the source is read, if it is at hand.

Spark has one time mode per query, chosen before the function registers its first timer.  In
event-time mode it calls an idle key group when the watermark moves.  In processing-time mode it
calls one at every trigger, so a query runs batches without end and `availableNow` never finishes.
Therefore the right mode matters, and `uses_processing_timers` looks for the names that the code uses.
If it misses a timer, no data is lost: registering the timer raises an error with the remedy.
"""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final
from weakref import WeakSet

from pyflinklike._deprecation import warn_once
from pyflinklike.functions.process_functions import NamespacedFunction

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


# Timers


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
    return _NAME in _names(function.__code__) or _NAME in _constants(function.__code__)


def _find_reached(function: FunctionType) -> list[Any]:
    """Return the objects that a function's code reaches: globals, members of modules, closures."""
    names, known = _names(function.__code__), function.__globals__
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
