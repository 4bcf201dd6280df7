# SPDX-License-Identifier: Apache-2.0
"""The code of a user that a function can reach, and the values that it keeps outside of state.

Reached are the classes of the function and of its attributes, the functions and values that their
code names, what closures and default arguments hold, and so on through everything that is neither
of the standard library, nor installed, nor ours.  Modules that are imported within a function are
not followed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from pyspark import cloudpickle

__all__ = ["UserCode"]

_MOST: Final = 10_000
_INSTALLED: Final = ("site-packages", "dist-packages")
_LIBRARIES: Final = frozenset({"pyflinklike", "pyspark", "pyarrow", "numpy", "pandas"})


class UserCode:
    """What can be reached from some objects.

    Args:
        *subjects: Functions of operators, or anything that they hold.
    """

    def __init__(self, *subjects: Any) -> None:
        self._seen: dict[int, Any] = {}
        self.functions: list[FunctionType] = []
        self.classes: list[type] = []
        self.objects: list[Any] = []
        """Objects of the user's classes."""
        for each in subjects:
            self._visit(each)

    @property
    def names(self) -> set[str]:
        """The names that the code uses, of attributes too."""
        return {name for each in self.functions for name in _names(each.__code__)}

    @property
    def namespaces(self) -> list[dict[str, Any]]:
        """The global names of the functions, module by module."""
        return list({id(each.__globals__): each.__globals__ for each in self.functions}.values())

    def digest_kept(self) -> dict[str, bytes | str]:
        """Return what is kept outside of state: a digest of each value, by what a user calls it."""
        return {name: _digest(value) for name, value in self._values() if _is_kept(value)}

    def _values(self) -> Iterator[tuple[str, Any]]:
        for each in self.objects:
            for name, value in _attributes(each).items():
                yield f"`self.{name}` of {type(each).__name__}", value
        for cls in self.classes:
            for name, value in vars(cls).items():
                if not name.startswith("__"):
                    yield f"`{cls.__name__}.{name}`, an attribute of the class,", value
        for function in self.functions:
            names, known = _names(function.__code__), function.__globals__
            for name in sorted(names & known.keys()):
                yield f"`{name}`, a global name,", known[name]
            for name, value in _closure(function).items():
                yield f"`{name}`, a variable around {function.__name__},", value
            for at, value in enumerate(function.__defaults__ or ()):
                yield f"default {at + 1} of the arguments of {function.__name__}", value

    def _visit(self, subject: Any) -> None:
        if id(subject) in self._seen or len(self._seen) > _MOST:
            return
        self._seen[id(subject)] = subject  # held, so that no other object gets its id
        for each in self._reach(subject):
            self._visit(each)

    def _reach(self, subject: Any) -> Iterator[Any]:
        if isinstance(subject, (staticmethod, classmethod, MethodType)):
            yield subject.__func__
        elif isinstance(subject, property):
            yield from (subject.fget, subject.fset)
        elif isinstance(subject, FunctionType):
            if not _is_users(subject.__globals__):
                # What a wrapper of a library holds may be the user's.
                yield from _closure(subject).values()
                return
            self.functions.append(subject)
            names, known = _names(subject.__code__), subject.__globals__
            yield from (known[name] for name in names if name in known)
            yield from _closure(subject).values()
            yield getattr(subject, "__wrapped__", None)
        elif isinstance(subject, ModuleType):
            if _is_users(vars(subject)):
                used = self.names
                yield from (value for name, value in list(vars(subject).items()) if name in used)
        elif isinstance(subject, type):
            for cls in subject.__mro__:
                if cls not in self.classes and _is_users(_namespace(cls)):
                    self.classes.append(cls)
                    yield from list(vars(cls).values())
        elif isinstance(subject, Mapping):
            yield from list(subject.values())
        elif isinstance(subject, (list, tuple, set, frozenset)):
            yield from list(subject)
        elif not isinstance(subject, (str, bytes, int, float, type(None), BuiltinFunctionType)):
            root = type(subject).__module__.partition(".")[0]
            if _is_users(_namespace(type(subject))):
                self.objects.append(subject)
            elif root not in ("pyflinklike", "functools"):
                return
            yield type(subject)
            yield getattr(subject, "func", None)  # `functools.partial`
            yield getattr(subject, "__wrapped__", None)
            yield from list(_attributes(subject).values())


def _attributes(subject: Any) -> dict[str, Any]:
    found = dict(getattr(subject, "__dict__", {}))
    for cls in type(subject).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name != "__weakref__" and hasattr(subject, name):
                found[name] = getattr(subject, name)
    return found


def _closure(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return found


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names, *(name for each in inner for name in _names(each))}


def _namespace(cls: type) -> Mapping[str, Any]:
    module = sys.modules.get(cls.__module__)
    return {"__name__": cls.__module__} if module is None else vars(module)


def _is_users(namespace: Mapping[str, Any]) -> bool:
    root = str(namespace.get("__name__") or "").partition(".")[0]
    if root in _LIBRARIES or (root in sys.stdlib_module_names and root != "__main__"):
        return False
    file = str(namespace.get("__file__") or "")
    return root != "builtins" and not any(each in file for each in _INSTALLED)


def _is_kept(value: Any) -> bool:
    if isinstance(value, (ModuleType, FunctionType, type, property, staticmethod, classmethod)):
        return False
    return type(value).__module__.partition(".")[0] != "pyflinklike"


def _digest(value: Any) -> bytes | str:
    try:
        found: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception:  # a lock, a connection, a state within a list
        return repr(value)
    return found
