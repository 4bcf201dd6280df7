# SPDX-License-Identifier: Apache-2.0
"""What the package's layout looks like, read from its source: python scripts/house.py [path ...].

    rooms     its folders; a module of the root, or of a wing's, is a room of its own
    floors    rooms, and modules, on the longest chain of imports
    arrows    pairs of rooms, or modules, of which one imports the other
    circles   rooms, and modules, that import each other

Each path is that of the package, or of a checkout; for several of them the numbers stand side by
side, so that a tree can be compared with what it was.  Every import counts, also inside functions
and under `TYPE_CHECKING`.  No number is a limit: each says what a reader will feel.

`--rooms` lists the rooms by floor, `--alone` the modules that few lines or one importer make a
question, `--loaded` what an import of the library loads and how long that takes.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import re
import statistics
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_SMALL_MODULE = 40
_LONG_MODULE = 600
_LONG_FUNCTION = 25
_WINGS = ("engine",)
# Last words of names that end as a gerund or a participle does, and are nouns.
_NOUNS = {"feed", "testing"}
_LOADED_PROGRAM = """
import sys, time
start = time.perf_counter()
import {module}
took = time.perf_counter() - start
print(sum(name.partition(".")[0] == "pyflinklike" for name in sys.modules), took)
"""

Graph = dict[str, set[str]]


class Source:
    """The text of a module, and what its lines are.

    Args:
        path: Its file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @cached_property
    def code_lines(self) -> set[int]:
        """The numbers of the lines with code: no docstring, no comment, nothing empty."""
        docstrings = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        passed_over = {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        }
        lines = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in passed_over:
                lines |= set(range(token.start[0], token.end[0] + 1))
        return lines - docstrings

    @cached_property
    def own_line_comments(self) -> int:
        """How many lines hold a comment and nothing else, without the licence's."""
        return sum(
            line.lstrip().startswith("#")
            and not line.startswith(("# SPDX", "#!"))
            and number not in self.code_lines
            for number, line in enumerate(self.text.splitlines(), 1)
        )

    @cached_property
    def import_lines(self) -> int:
        """How many lines of code import something."""
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return len(lines)

    @property
    def defines(self) -> bool:
        """Whether it has code of its own, and does not only hand names on."""
        return any(
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            for node in self.tree.body
        )

    def functions(self) -> Iterator[tuple[str, int]]:
        """Each function with the number of lines of its body, without its docstring."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, _lines_of(node)

    def arguments(self) -> Iterator[str]:
        """What each entry under `Args:` says."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _arguments(ast.get_docstring(node) or "")


def _arguments(docstring: str) -> Iterator[str]:
    section = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)*)", docstring, re.MULTILINE)
    for entry in re.split(r"^ {4}(?=\S)", section[1] if section else "", flags=re.MULTILINE)[1:]:
        yield " ".join(entry.partition(":")[2].split())


class Package:
    """The modules of a package, and what they import of each other.

    Args:
        folder: Where its `__init__.py` is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.files = {self._module_of(path): path for path in sorted(folder.rglob("*.py"))}
        self.sources = {name: Source(path) for name, path in self.files.items()}
        self.modules: Graph = {name: set(self._imported(name)) - {name} for name in self.files}

    def _module_of(self, path: Path) -> str:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _imported(self, module: str) -> Iterator[str]:
        """The modules that a module imports, the package's own only."""
        full = f"{self.name}.{module}".rstrip(".")
        package = full if self.is_folder(module) else full.rpartition(".")[0]
        for node in ast.walk(self.sources[module].tree):
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

    def is_folder(self, module: str) -> bool:
        """Whether a module is the `__init__` of a folder."""
        return self.files[module].name == "__init__.py"

    def room_of(self, module: str) -> str:
        """The folder of a module; its own name where that is the package's root."""
        folder = module.rpartition(".")[0]
        return module if self.is_folder(module) or folder in _WINGS else folder or module

    def rooms(self, *, outermost: bool = False) -> Graph:
        """Which rooms each room imports.

        Args:
            outermost: Take a folder of the root with all folders in it as one room.
        """
        found: Graph = defaultdict(set)
        for module, imported in self.modules.items():
            names = [self.room_of(each) for each in (module, *imported)]
            room, *others = [each.partition(".")[0] if outermost else each for each in names]
            if self.is_folder(module):
                # A door imports from the rooms behind it.
                others = [each for each in others if not each.startswith(f"{room}.")]
            found[room] |= set(others) - {room}
        return dict(found)

    def functions(self) -> Iterator[tuple[str, int]]:
        """Each function with the number of lines of its body, without its docstring."""
        for module, source in self.sources.items():
            yield from ((f"{module or self.name}:{name}", n) for name, n in source.functions())

    def with_one_importer(self) -> Iterator[tuple[str, str]]:
        """Each module that only one other imports, of its own folder, and that one."""
        importers: Graph = defaultdict(set)
        for module, imported in self.modules.items():
            for each in imported:
                importers[each].add(module)
        for module, by in importers.items():
            if len(by) == 1 and not self.is_folder(module):
                (one,) = by
                if not self.is_folder(one) and self.room_of(one) == self.room_of(module):
                    yield module, one

    def small(self) -> Iterator[tuple[str, int]]:
        """Each module with code of its own and few lines of it."""
        for module, source in self.sources.items():
            if source.defines and len(source.code_lines) < _SMALL_MODULE:
                yield module, len(source.code_lines)

    def verbs(self) -> list[str]:
        """Return the modules that a gerund or a participle names, with no noun behind it."""
        last_words = {module: re.split(r"[._]", module)[-1] for module in self.modules}
        return [
            module
            for module, word in last_words.items()
            if word not in _NOUNS and re.search(r"(ing|ed|held|kept|told|given|taken)$", word)
        ]

    def namesakes(self) -> list[tuple[str, str]]:
        """Return the pairs of modules of one name that lie in one folder or in two levels of it."""
        by_name: dict[str, list[str]] = defaultdict(list)
        for module in self.modules:
            if not self.is_folder(module):
                by_name[module.rpartition(".")[2]].append(module)
        return [
            (one, other)
            for modules in by_name.values()
            for one, other in itertools.combinations(modules, 2)
            if any(
                above and other.startswith(f"{above}.")
                for above in (self.room_of(one), self.room_of(one).rpartition(".")[0])
            )
        ]

    def repeated_names(self) -> dict[str, int]:
        """Names that more than two files have, with how many."""
        names = Counter(path.stem for path in self.files.values() if path.stem[0] != "_")
        return {name: count for name, count in names.items() if count > 2}


def _lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the largest sets of nodes that reach each other (Tarjan)."""
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
    """Return the nodes by the longest chain of imports below them; a circle is on one floor."""
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


def numbers(package: Package) -> dict[str, float]:
    """Count what a reader of the package feels."""
    sources = package.sources.values()
    defining = [len(source.code_lines) for source in sources if source.defines]
    code = sum(len(source.code_lines) for source in sources)
    arguments = [text for source in sources for text in source.arguments()]
    comments = sum(source.own_line_comments for source in sources)
    imports = sum(source.import_lines for source in sources)
    rooms, modules = package.rooms(), package.modules
    return {
        "modules": len(modules),
        "modules with code of their own": len(defining),
        "median of their code lines": statistics.median(defining or [0]),
        f"those under {_SMALL_MODULE} code lines": sum(1 for _ in package.small()),
        "code lines": code,
        "lines that import, % of code": round(100 * imports / max(code, 1), 1),
        "modules with one importer": sum(1 for _ in package.with_one_importer()),
        "own-line comments, % of code": round(100 * comments / max(code, 1), 1),
        "entries under Args": len(arguments),
        "those of three words or fewer": sum(len(text.split()) <= 3 for text in arguments),
        "names that more than two files have": len(package.repeated_names()),
        "modules named by a gerund or participle": len(package.verbs()),
        f"functions over {_LONG_FUNCTION} lines": sum(
            n > _LONG_FUNCTION for _, n in package.functions()
        ),
        **_shape("rooms", rooms),
        **_shape("modules", modules),
    }


def _shape(of_what: str, graph: Graph) -> dict[str, float]:
    return {
        f"floors of {of_what}": len(floors(graph)),
        f"arrows between {of_what}": sum(map(len, graph.values())),
        f"circles of {of_what}": len(circles(graph)),
    }


def report(packages: Sequence[Package]) -> Iterator[str]:
    """Give the lines of the report: circles by name, then the numbers side by side."""
    for package in packages:
        yield from _circles("Circles of rooms", package.rooms())
        yield from _circles("Circles of modules", package.modules)
    columns = [numbers(package) for package in packages]
    for name in columns[0]:
        yield f"{name:42}" + "".join(f"{column[name]:>10g}" for column in columns)


def _circles(title: str, graph: Graph) -> Iterator[str]:
    found = circles(graph)
    if found:
        yield f"{title}:"
        yield from (f"  {' '.join(circle)}" for circle in found)


def rooms_by_floor(package: Package) -> Iterator[str]:
    """Give a line for each room: its floor, how many modules it has, what it imports."""
    rooms = package.rooms()
    for floor, names in enumerate(floors(rooms)):
        for name in sorted(names):
            inside = sum(package.room_of(each) == name for each in package.modules)
            imported = " ".join(sorted(each or package.name for each in rooms[name]))
            yield f"  {floor:2}  {name or package.name:22}{inside:4}  {imported}"


def questions(package: Package) -> Iterator[str]:
    """Give a line for each module whose standing alone, length or name is to be looked at."""
    for module, lines in package.small():
        yield f"  {lines:4} code lines  {module}"
    for module, importer in package.with_one_importer():
        yield f"  one importer     {module}  <- {importer}"
    for module, source in package.sources.items():
        if len(source.code_lines) > _LONG_MODULE:
            yield f"  {len(source.code_lines):4} code lines  {module}"
    yield from (f"  name             {module}" for module in package.verbs())
    for name, count in sorted(package.repeated_names().items()):
        yield f"  {count} files are called {name}"


def loaded(packages: Sequence[Package], rounds: int) -> Iterator[str]:
    """Give how many modules of ours an import loads, and its seconds: the median of rounds in turn."""
    for module in ("pyflinklike", "pyflinklike.spark"):
        runs: list[list[tuple[int, float]]] = [[] for _ in packages]
        for _ in range(rounds):
            for package, found in zip(packages, runs, strict=True):
                program = [sys.executable, "-c", _LOADED_PROGRAM.format(module=module)]
                answer = subprocess.run(
                    program, cwd=package.folder.parent, check=True, capture_output=True, text=True
                )
                count, seconds = answer.stdout.split()
                found.append((int(count), float(seconds)))
        for name, of_run in (("own modules loaded by", 0), ("seconds of", 1)):
            values = [statistics.median(run[of_run] for run in found) for found in runs]
            yield f"{f'{name} {module}':42}" + "".join(f"{value:>10.4g}" for value in values)


def package_at(path: Path) -> Package:
    """Open the package in a folder, which may be its own or that of a checkout."""
    inside = path / "pyflinklike"
    folder = inside if (inside / "__init__.py").exists() else path
    if not (folder / "__init__.py").exists():
        sys.exit(f"the path must be a package or a checkout, got {path}; there is no __init__.py")
    return Package(folder.resolve())


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description="what the package's layout looks like")
    parser.add_argument("path", nargs="*", type=Path, default=[_ROOT])
    parser.add_argument("--rooms", action="store_true", help="list the rooms by floor")
    parser.add_argument("--alone", action="store_true", help="list what is to be looked at")
    parser.add_argument("--loaded", type=int, default=0, metavar="N", help="time N imports")
    options = parser.parse_args()
    packages = [package_at(path) for path in options.path]
    lines = [*report(packages)]
    for package in packages:
        lines += rooms_by_floor(package) if options.rooms else ()
        lines += questions(package) if options.alone else ()
    lines += loaded(packages, options.loaded) if options.loaded else ()
    print("\n".join(lines))  # noqa: T201  it is a program


if __name__ == "__main__":
    main()
