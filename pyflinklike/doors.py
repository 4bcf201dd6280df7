# SPDX-License-Identifier: Apache-2.0
"""Doors: the packages that users import from, whatever modules lie behind them.

`pin` gives the public classes and functions of a door the door's name as their `__module__`,
as trio does.  So tracebacks and `repr` show the name a user knows; and so does a pickle, which
finds a class by its module and name.  Modules may move behind a door, and what was pickled
before can still be read.

Two things look into the module that `__module__` names.  `typing.get_type_hints` wants there
the names that annotations of a class use; so `pin` resolves these first.
`inspect.getsource` of a pinned class wants its text there, which no door has; it raises
`OSError`, as for trio's classes.  That of any function or method is found.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, get_type_hints

__all__ = ["DOORS", "pin"]

DOORS: Final = frozenset(
    {
        "pyflinklike",
        "pyflinklike.cdc",
        "pyflinklike.columns",
        "pyflinklike.common",
        "pyflinklike.datastream",
        "pyflinklike.datastream.connectors",
        "pyflinklike.datastream.connectors.kafka",
        "pyflinklike.errors",  # it defines what it shows
        "pyflinklike.folds",
        "pyflinklike.joins",
        "pyflinklike.kafka",
        "pyflinklike.replica",
        "pyflinklike.report",
        "pyflinklike.run",
        "pyflinklike.savepoints",
        "pyflinklike.serve",
        "pyflinklike.spark",
        "pyflinklike.stores",
        "pyflinklike.testing",
        "pyflinklike.upsert",
        "pyflinklike.views",
        "pyflinklike.windows",
    }
)
"""All doors, by the name under which they are imported."""


def pin(door: Mapping[str, Any], *hidden: Callable[..., Any]) -> None:
    """Let what a door shows say that it is defined there; last line of the door's module.

    What another door shows already stays that one's.

    Args:
        door: The module's `globals()`.
        hidden: What is not public, but named in pickles: a door has it without showing it.
    """
    names = (*door["__all__"], *(each.__qualname__ for each in hidden))
    for name in names:
        _pin(door[name], door["__name__"])


def _pin(shown: Any, door: str) -> None:
    """Pin a class with all that is nested in it, or a function."""
    if not isinstance(shown, (type, FunctionType)) or not _is_behind_a_door(shown.__module__):
        return
    if isinstance(shown, type):
        _resolve_annotations(shown)
        # From Python 3.13 on it is read as a line of the module that `__module__` names.
        if "__firstlineno__" in vars(shown):
            del shown.__firstlineno__  # type: ignore[attr-defined]
        for member in vars(shown).values():
            nested = getattr(member, "__func__", member)  # static and class methods
            if getattr(nested, "__qualname__", "").startswith(f"{shown.__qualname__}."):
                _pin(nested, door)
    shown.__module__ = door


def _is_behind_a_door(module: str) -> bool:
    return module.startswith("pyflinklike.") and module not in DOORS


def _resolve_annotations(cls: type) -> None:
    """Make types of the texts that annotate a class, while its module can still be told."""
    own = inspect.get_annotations(cls)
    if own:
        hints = get_type_hints(cls, include_extras=True)
        cls.__annotations__ = {name: hints[name] for name in own}
