# SPDX-License-Identifier: Apache-2.0
"""Runs PyFlink's scripts without changes: `import pyflink...` means this library.

python -m pyflinklike.run job.py            # in a shell
pyflinklike.run.install()                   # in a program or test, before it imports pyflink

A module has two names, and both are of one object: `pyflink.X` is `pyflinklike.pyflink.X`.  Python asks each
finder in `sys.meta_path` for the spec of a module.  `install` puts `_Finder` first.  For `pyflink.X` it returns a
spec whose loader imports `pyflinklike.pyflink.X` and gives that very module, so that a class is the same class
under both names.  See https://docs.python.org/3/reference/import.html#the-meta-path.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from pyflinklike._exports import export_public
from pyflinklike.errors import DeclarationError
from pyflinklike.pyflink._names import is_known, module_of_names, why_missing

__all__ = ["install", "uninstall"]

_THEIRS: Final = "pyflink"
_OURS: Final = "pyflinklike.pyflink"


class _SameModule(Loader):
    """Loads a module of PyFlink by returning ours, unchanged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._own_spec: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = importlib.import_module(self._name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Python has put the spec of the other name into the module; a reload would go wrong.
        module.__spec__ = self._own_spec


class _OfNames(Loader):
    """Loads a module that PyFlink has and we do not: each of its names fails when it is used."""

    def __init__(self, inner: str) -> None:
        self._inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return module_of_names(spec.name, self._inner)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is made already."""


class _Finder(MetaPathFinder):
    """Finds modules of PyFlink among ours; the error for a missing one says what to use instead."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != _THEIRS and not fullname.startswith(f"{_THEIRS}."):
            return None
        inner = fullname[len(_THEIRS) + 1 :]
        remedy = why_missing(inner)
        if remedy is not None:
            msg = f"pyflinklike has nothing for {fullname}: {remedy}"
            raise ModuleNotFoundError(msg, name=fullname)
        found = _spec_of_ours(inner)
        if found is None and is_known(inner):
            return ModuleSpec(fullname, _OfNames(inner), is_package=True)
        if found is None:
            msg = f"pyflinklike has no module {inner!r}; its reference lists the modules it has"
            raise ModuleNotFoundError(msg, name=fullname)
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(
            fullname, _SameModule(found.name), origin=found.origin, is_package=is_package
        )

    def __reduce__(self) -> tuple[Callable[[], MetaPathFinder], tuple[()]]:
        # A pickled finder installs itself in a Spark worker before the worker imports user modules.
        return _in_place, ()


def _spec_of_ours(inner: str) -> ModuleSpec | None:
    """Return the spec of our module at a path of PyFlink, or None if we do not have it."""
    package = inner.rpartition(".")[0]
    # `importlib` raises for a module in a package that does not exist; each package is looked up first.
    if package and _spec_of_ours(package) is None:
        return None
    return importlib.util.find_spec(f"{_OURS}.{inner}" if inner else _OURS)


_FINDER: Final = _Finder()


def _in_place() -> MetaPathFinder:
    """Install the finder in this process, as the process that sent it did, and return it."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    return _FINDER


def install(*, shadow: bool = False) -> None:
    """Have `import pyflink...` mean this library in this process; a second call does nothing.

    Args:
        shadow: If True, a PyFlink that is installed is hidden; if False, `install` refuses.

    Raises:
        DeclarationError: A PyFlink is installed and must not be hidden, or is imported already.
    """
    if _FINDER in sys.meta_path:
        return
    imported = sys.modules.get(_THEIRS)
    if imported is not None:
        msg = f"pyflink is imported already, got {imported!r}; call install() before"
        raise DeclarationError(msg)
    found = importlib.util.find_spec(_THEIRS)
    if found is not None and not shadow:
        msg = (
            f"a PyFlink is installed and would be hidden, got {found.origin}; give shadow=True, or "
            "--shadow to python -m pyflinklike.run, if that is wanted"
        )
        raise DeclarationError(msg)
    sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    """Undo `install`; a module that has imported a name of PyFlink keeps it."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    for name in [name for name in sys.modules if name.partition(".")[0] == _THEIRS]:
        del sys.modules[name]


export_public(globals())
