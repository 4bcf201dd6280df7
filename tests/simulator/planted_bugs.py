# SPDX-License-Identifier: Apache-2.0
"""Bugs to plant in the protocol of state, each of which the simulator must find.

`planted_bugs.txt` has them: after `= name @ module` the lines that change, as a diff has them, and
after `?` why no run can see it.  A bug is planted while its module is imported, so that it needs no
copy of the package.  The program that is to have it runs in a process of its own:

    python planted_bugs.py "the nonce is not compared" -- --seed 1 --minutes 1

Each bug loses, doubles, moves or keeps something that it must not, and none of them raises by
itself: where an error tells of it, that is the protocol's own check of another part.  A bug that no
run can see says why.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

import attrs

PACKAGE = "pyflinklike"
ROOT = Path(__file__).resolve().parents[2]


@attrs.frozen
class PlantedBug:
    """A wrong line.

    Args:
        name: What goes wrong, in a few words.
        module: Where, within the package.
        old: The text that is there exactly once.
        new: The text in its place.
        unseen: Why no run can see it, where that is so: another line does the same work there.
    """

    name: str
    module: str
    old: str
    new: str
    unseen: str = ""

    @property
    def path(self) -> Path:
        """The file of the module."""
        return ROOT.joinpath(PACKAGE, *self.module.split(".")).with_suffix(".py")

    def apply(self, source: str) -> str:
        """Return the source with the bug.

        Raises:
            ValueError: The text is not there exactly once.
        """
        found = source.count(self.old)
        if found != 1:
            msg = f"{self.name}: the text must be in {self.module} once, got {found} times"
            raise ValueError(msg)
        return source.replace(self.old, self.new)


def _bugs(text: str) -> Iterator[PlantedBug]:
    for each in re.split(r"^= ", text, flags=re.MULTILINE)[1:]:
        head, *lines = each.splitlines()
        name, _, module = head.partition(" @ ")
        old, new, why = (
            [line[1:] for line in lines if line[:1] in marks] for marks in (" -", " +", "?")
        )
        whole = ("".join(f"{line}\n" for line in some) for some in (old, new))
        yield PlantedBug(name, module, *whole, "".join(why).strip())


BUGS = list(_bugs(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")))
"""All bugs; a test holds that each can be planted."""


def named(name: str) -> PlantedBug:
    """Return the bug of a name."""
    return next(each for each in BUGS if each.name == name)


class _PlantingLoader(SourceFileLoader):
    """Compiles a module with its bug; nothing of it is cached."""

    bug: PlantedBug

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the changed source."""
        path = self.get_filename(fullname)
        source = self.bug.apply(Path(path).read_text(encoding="utf-8"))
        return compile(source, path, "exec", dont_inherit=True)


class PlantingFinder:
    """Finds the module that is to have a bug, before any other finder does.

    Args:
        bug: The bug.
    """

    def __init__(self, bug: PlantedBug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of the module with the bug, None for every other one."""
        if fullname != f"{PACKAGE}.{self._bug.module}":
            return None
        loader = _PlantingLoader(fullname, str(self._bug.path))
        loader.bug = self._bug
        return importlib.util.spec_from_file_location(fullname, self._bug.path, loader=loader)


def main() -> None:
    """Run the simulator with a bug: its name, `--`, and the simulator's arguments."""
    _, name, _, *arguments = sys.argv
    sys.meta_path.insert(0, PlantingFinder(named(name)))
    sys.argv = ["simulation", *arguments]
    runpy.run_module("simulated", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
