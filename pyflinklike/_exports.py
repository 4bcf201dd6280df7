# SPDX-License-Identifier: Apache-2.0
"""Public modules: those that users import from, whatever modules define the names.

`export_public` sets the `__module__` of a public class or function to its public module, as trio does.
So tracebacks and `repr` show the name that a user knows.  A pickle finds a class by its module and
name, so a class may move to another module of ours without breaking a pickle.

Two functions of Python look into the module that `__module__` names.  `typing.get_type_hints` looks
there for the names in the annotations of a class, so `export_public` resolves them first.
`inspect.getsource` looks there for the text of a class.  No public module has that text, so it raises
`OSError`, as for trio's classes; it still finds the text of functions and methods.

If a program imports a module of ours, Python imports the packages around it, and these may be public
modules.  A worker of Spark needs few of their names, but importing all of them took most of its start.
So some public modules stay unloaded until somebody asks them for a name (`is_loading`), and some names
are loaded one by one (`lazily`).  A public module is not loaded because another one is: that could
happen in the middle of an import, of a module that both need.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, get_type_hints

import attrs

PUBLIC_MODULES: Final = frozenset(
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
        "pyflinklike.spark.daemon",  # a module that Spark runs
        "pyflinklike.state_processor",
        "pyflinklike.stores",
        "pyflinklike.testing",
        "pyflinklike.upsert",
        "pyflinklike.views",
        "pyflinklike.windows",
    }
)
"""All public modules, by the names under which users import them."""

_asked: set[str] = set()
"""The modules that a first look-up of a name has loaded."""


def is_loading(module: dict[str, Any]) -> bool:
    """Return whether a public module is loaded now: only then does it import its names.

    Python's import of the module loads nothing.  The first look-up of a name loads everything.

    Args:
        module: The `globals()` of the module.
    """
    name = module["__name__"]
    if name in _asked:
        return True

    def load_and_return(wanted: str) -> Any:
        # Python and its tools look for special attributes; that must not load a module.
        if name in _asked or wanted.startswith("__"):
            raise _no_attribute(name, wanted)
        _asked.add(name)
        return getattr(importlib.reload(sys.modules[name]), wanted)

    # A module must not define this function itself: a type checker would think it has every name.
    module["__getattr__"] = load_and_return
    return False


def lazily(module: dict[str, Any], **sources: str) -> None:
    """Import some names of a public module only when it is asked for them.

    Args:
        module: The `globals()` of the module.
        sources: The name of the module that defines each of them.
    """

    def import_and_return(wanted: str) -> Any:
        if wanted not in sources:
            raise _no_attribute(module["__name__"], wanted)
        found = module[wanted] = getattr(importlib.import_module(sources[wanted]), wanted)
        _export(found, module["__name__"])
        return found

    # Not a function of the module's own, as in `is_loading`.
    module["__getattr__"] = import_and_return


def _no_attribute(module: str, wanted: str) -> AttributeError:
    return AttributeError(f"module {module!r} has no attribute {wanted!r}", name=wanted)


def export_public(module: Mapping[str, Any], *hidden: Callable[..., Any]) -> None:
    """Make a public module the module of its names; call this last in the module.

    If another public module has exported a name before, the name keeps that module.

    Args:
        module: The `globals()` of the module.
        hidden: Functions and classes that are not public, but that pickles name.
    """
    names = (*module["__all__"], *(each.__qualname__ for each in hidden))
    for name in names:
        if name in module:  # a module that is not loaded has few of its names
            _export(module[name], module["__name__"])


def _export(shown: Any, module: str) -> None:
    """Set the module of a class with everything nested in it, or of a function."""
    if not isinstance(shown, (type, FunctionType)) or not _is_private(shown.__module__):
        return
    if isinstance(shown, type):
        _resolve_annotations(shown)
        # Python 3.13 and newer take it for a line of the module that `__module__` names.
        if "__firstlineno__" in vars(shown):
            del shown.__firstlineno__  # type: ignore[attr-defined]
        for member in vars(shown).values():
            nested = getattr(member, "__func__", member)  # static and class methods
            if getattr(nested, "__qualname__", "").startswith(f"{shown.__qualname__}."):
                _export(nested, module)
    shown.__module__ = module


def _is_private(module: str) -> bool:
    return module.startswith("pyflinklike.") and module not in PUBLIC_MODULES


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
