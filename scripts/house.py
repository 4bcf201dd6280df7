# SPDX-License-Identifier: Apache-2.0
"""What the package's layout looks like, read from its source: python scripts/house.py [path].

    rooms     its folders; a module of the root is a room of its own
    floors    rooms, and modules, on the longest chain of imports
    arrows    pairs of rooms of which one imports the other
    circles   rooms, and modules, that import each other

Every import counts, also inside functions and under `TYPE_CHECKING`.

The path is that of the package, or of a checkout.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_LONG_MODULE = 300
_LONG_FUNCTION = 25

Graph = dict[str, set[str]]


class Package:
    """The modules of a package, and what they import of each other.

    Args:
        folder: Where its `__init__.py` is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.files = {self._module_of(path): path for path in sorted(folder.rglob("*.py"))}
        self.trees = {
            name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.files.items()
        }
        self.modules: Graph = {name: set(self._imported(name)) - {name} for name in self.files}

    def _module_of(self, path: Path) -> str:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _imported(self, module: str) -> Iterator[str]:
        """The modules that a module imports, the package's own only."""
        full = f"{self.name}.{module}".rstrip(".")
        is_folder = self.files[module].name == "__init__.py"
        package = full if is_folder else full.rpartition(".")[0]
        for node in ast.walk(self.trees[module]):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = resolve_name("." * node.level + (node.module or ""), package)
                names = [f"{base}.{alias.name}" for alias in node.names]
            for name in names:
                top, _, inner = name.partition(".")
                if top == self.name:
                    yield inner if inner in self.files else inner.rpartition(".")[0]

    def room_of(self, module: str) -> str:
        """The folder of a module; its own name where that is the package's root."""
        is_folder = self.files[module].name == "__init__.py"
        return module if is_folder else module.rpartition(".")[0] or module

    def rooms(self, *, outermost: bool = False) -> Graph:
        """Which rooms each room imports.

        Args:
            outermost: Take a folder of the root with all folders in it as one room.
        """
        found: Graph = defaultdict(set)
        for module, imported in self.modules.items():
            names = [self.room_of(each) for each in (module, *imported)]
            room, *others = [each.partition(".")[0] if outermost else each for each in names]
            found[room] |= set(others) - {room}
        return dict(found)

    def functions(self) -> Iterator[tuple[str, int]]:
        """Each function with the number of lines of its body, without its docstring."""
        for module, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{module or self.name}:{node.name}", _lines_of(node)


def _lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The largest sets of nodes that reach each other (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
            if other in path:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            at = path.index(node)
            if len(path) - at > 1:
                found.append(sorted(path[at:]))
            del path[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def floors(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The nodes by the longest chain of imports below them; a circle is on one floor."""
    whole = {node: circle[0] for circle in circles(graph) for node in circle}
    merged: Graph = defaultdict(set)
    for node, others in graph.items():
        mine = whole.get(node, node)
        merged[mine] |= {whole.get(each, each) for each in others} - {mine}
    level: dict[str, int] = {}
    for node in TopologicalSorter(merged).static_order():
        level[node] = max((level[each] + 1 for each in merged.get(node, ())), default=0)
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for node in graph:
        found[level[whole.get(node, node)]].append(node)
    return found


def report(package: Package) -> Iterator[str]:
    """The lines of the report."""
    rooms, modules = package.rooms(), package.modules
    outermost = package.rooms(outermost=True)
    by_floor = floors(rooms)
    yield "Rooms by floor, with what they import:"
    for floor, names in enumerate(by_floor):
        for name in sorted(names):
            inside = sum(package.room_of(each) == name for each in modules)
            imported = " ".join(sorted(each or package.name for each in rooms[name]))
            yield f"  {floor:2}  {name or package.name:22}{inside:4}  {imported}"
    yield from _circles("Circles of rooms", rooms)
    yield from _circles("Circles of modules", modules)
    lines = {n: len(path.read_text("utf-8").splitlines()) for n, path in package.files.items()}
    yield from _longest(f"Modules over {_LONG_MODULE} lines", lines, _LONG_MODULE)
    functions = dict(package.functions())
    yield from _longest(f"Functions over {_LONG_FUNCTION} lines", functions, _LONG_FUNCTION)
    in_root = sum(path.parent == package.folder for path in package.files.values())
    numbers = {
        "modules": len(modules),
        "modules in the root": in_root,
        **_shape("rooms", rooms),
        **_shape("outermost rooms", outermost),
        **_shape("modules", modules),
        "lines": sum(lines.values()),
        f"modules over {_LONG_MODULE} lines": sum(n > _LONG_MODULE for n in lines.values()),
        f"functions over {_LONG_FUNCTION} lines": sum(
            n > _LONG_FUNCTION for _, n in package.functions()
        ),
    }
    yield "In numbers:"
    yield from (f"  {name:32}{number:6}" for name, number in numbers.items())


def _shape(of_what: str, graph: Graph) -> dict[str, int]:
    return {
        of_what: len(graph),
        f"floors of {of_what}": len(floors(graph)),
        f"arrows between {of_what}": sum(map(len, graph.values())),
        f"circles of {of_what}": len(circles(graph)),
    }


def _circles(title: str, graph: Graph) -> Iterator[str]:
    found = circles(graph)
    if found:
        yield f"{title}:"
        yield from (f"  {' '.join(circle)}" for circle in found)


def _longest(title: str, sizes: Mapping[str, int], limit: int) -> Iterator[str]:
    long = sorted(((n, name) for name, n in sizes.items() if n > limit), reverse=True)
    if long:
        yield f"{title}:"
        yield from (f"  {number:4}  {name}" for number, name in long)


def package_at(path: Path) -> Package:
    """The package in a folder, which may be its own or that of a checkout."""
    inside = path / "pyflinklike"
    folder = inside if (inside / "__init__.py").exists() else path
    if not (folder / "__init__.py").exists():
        sys.exit(f"the path must be a package or a checkout, got {path}; there is no __init__.py")
    return Package(folder.resolve())


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description="rooms, floors, arrows and circles of the package")
    parser.add_argument("path", nargs="?", type=Path, default=_ROOT)
    for line in report(package_at(parser.parse_args().path)):
        print(line)  # noqa: T201  it is a program


if __name__ == "__main__":
    main()
