# SPDX-License-Identifier: Apache-2.0
"""Doors: the packages that users import from, whatever modules lie behind them.

`export_public` sets the `__module__` of a door's public classes and functions to the door, as trio does.  So
tracebacks and `repr` show the name that a user knows.  A pickle finds a class by its module and name,
so modules may move behind a door without breaking a pickle.

Two functions of Python look into the module that `__module__` names.  `typing.get_type_hints` looks
there for the names in the annotations of a class, so `export_public` resolves them first.  `inspect.getsource`
looks there for the text of a class.  No door has that text, so it raises `OSError`, as for trio's
classes; it still finds the text of functions and methods.

If a program imports a module of ours, Python imports the packages around it, and these may be doors.
A worker of Spark needs few names of a door, but importing all of them took most of its start.  So some
doors stay closed until somebody asks them for a name (`is_loading`).  A door does not open because another
one does: that could happen in the middle of an import, of a module that both need.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, get_type_hints

import attrs

__all__ = ["DOORS", "export_public", "is_loading", "lazily"]

DOORS: Final = frozenset(
    {
        "pyflinklike",
        "pyflinklike.aggregations",
        "pyflinklike.backends",
        "pyflinklike.cdc",
        "pyflinklike.columns",
        "pyflinklike.errors",  # a module that defines the classes it shows
        "pyflinklike.joins",
        "pyflinklike.kafka",
        "pyflinklike.monitoring",
        "pyflinklike.pyflink.common",
        "pyflinklike.pyflink.datastream",
        "pyflinklike.pyflink.datastream.connectors",
        "pyflinklike.pyflink.datastream.connectors.kafka",
        "pyflinklike.queryable_state",
        "pyflinklike.queryable_state.http",
        "pyflinklike.report",
        "pyflinklike.retries",
        "pyflinklike.run",
        "pyflinklike.spark",
        "pyflinklike.state_processor",
        "pyflinklike.stores",
        "pyflinklike.testing",
        "pyflinklike.upsert",
        "pyflinklike.views",
        "pyflinklike.windows",
    }
)
"""All doors, by the names under which users import them."""


_asked: set[str] = set()
"""The doors that began closed, and have opened since."""


def is_loading(door: dict[str, Any]) -> bool:
    """Return whether a door opens now: only then does it import its names.

    A door is closed when Python imports it, and opens when somebody asks it for a name.

    Args:
        door: The `globals()` of the door's module.
    """
    name = door["__name__"]
    if name in _asked:
        return True

    def open_and_return(wanted: str) -> Any:
        # Python and its tools look for special attributes; that must not open a door.
        if name not in _asked and not wanted.startswith("__"):
            _asked.add(name)
            importlib.reload(sys.modules[name])
            if wanted in door:
                return door[wanted]
        msg = f"module {name!r} has no attribute {wanted!r}"
        raise AttributeError(msg, name=wanted)

    # A door must not define this function itself: a type checker would think it has every name.
    door["__getattr__"] = open_and_return
    return False


def lazily(door: dict[str, Any], **modules: str) -> None:
    """Import some names of a door only when the door is asked for them.

    Args:
        door: The module's `globals()`.
        modules: The name of the module that defines each of them.
    """

    def import_and_return(wanted: str) -> Any:
        if wanted not in modules:
            msg = f"module {door['__name__']!r} has no attribute {wanted!r}"
            raise AttributeError(msg, name=wanted)
        found = door[wanted] = getattr(importlib.import_module(modules[wanted]), wanted)
        _export(found, door["__name__"])
        return found

    # Not a function of the door's own: to a type checker such a door would have every name.
    door["__getattr__"] = import_and_return


def export_public(door: Mapping[str, Any], *hidden: Callable[..., Any]) -> None:
    """Make a door the module of its public names; call this last in the door's module.

    If another door has pinned a name before, the name keeps that door.

    Args:
        door: The `globals()` of the door's module.
        hidden: Functions and classes that are not public, but that pickles name.
    """
    names = (*door["__all__"], *(each.__qualname__ for each in hidden))
    for name in names:
        if name in door:  # a closed door has few of its names
            _export(door[name], door["__name__"])


def _export(shown: Any, door: str) -> None:
    """Pin a class with everything nested in it, or a function."""
    if not isinstance(shown, (type, FunctionType)) or not _is_behind_a_door(shown.__module__):
        return
    if isinstance(shown, type):
        _resolve_annotations(shown)
        # Python 3.13 and newer take it for a line of the module that `__module__` names.
        if "__firstlineno__" in vars(shown):
            del shown.__firstlineno__  # type: ignore[attr-defined]
        for member in vars(shown).values():
            nested = getattr(member, "__func__", member)  # static and class methods
            if getattr(nested, "__qualname__", "").startswith(f"{shown.__qualname__}."):
                _export(nested, door)
    shown.__module__ = door


def _is_behind_a_door(module: str) -> bool:
    return module.startswith("pyflinklike.") and module not in DOORS


def _resolve_annotations(cls: type) -> None:
    """Replace the annotation texts of a class by types, while its own module is still known."""
    own = inspect.get_annotations(cls)
    hints = get_type_hints(cls, include_extras=True)
    if own:
        cls.__annotations__ = {name: hints[name] for name in own}
    if attrs.has(cls) and hasattr(vars(cls).get("__init__"), "__annotations__"):
        # The `__init__` that attrs writes also has annotations of base classes in other modules.
        named = {each.alias: hints[each.name] for each in attrs.fields(cls) if each.name in hints}
        texts = vars(cls)["__init__"].__annotations__
        texts.update({name: named[name] for name in texts if name in named})
