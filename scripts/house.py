# SPDX-License-Identifier: Apache-2.0
"""The rooms of the package, who may import whom, and what a reader feels: python scripts/house.py [path ...].

The package has three groups of rooms: the *core*, *programs* on it, and *wings* (the tables below).
`tests/repo/test_layers.py` holds them against every import, and `docs/explanation/architecture.md` shows
them (`--table`).

Each path is that of a checkout.  The numbers of several checkouts stand side by side, so that a change
can be compared with what was before.  Every import counts, also inside functions and under
`TYPE_CHECKING`.

`--loaded N` adds how many modules of ours an import loads, and its seconds; `--alone` lists the modules
that only one other uses, the classes whose name stands twice, and the long functions.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import resolve_name
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_SMALL_MODULE = 40
_LONG_FUNCTION = 40
_LOADED_PROGRAM = """
import sys, time
start = time.perf_counter()
import {module}
took = time.perf_counter() - start
print(sum(name.partition(".")[0] == "pyflinklike" for name in sys.modules), took)
"""

# From the lowest layer to the highest: a module of the core imports from its own layer and the ones
# before it.  A room is a folder with all that is in it, or a module of the root; "" is `__init__.py`.
CORE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "values": (
        (
            "errors",
            "types",
            "_checks",
            "_clock",
            "_deprecation",
            "_exports",
            "_messages",
            "_private_directory",
            "_type_vars",
        ),
        "what a value, a key and a point in time are; how arguments are checked and messages show values",
    ),
    "state": (("state",), "tables of entries, TTL, and the states over them"),
    "functions": (("functions",), "what a user's function subclasses and what it gets"),
    "changelog": (("_changelog",), "how a key group is made durable, and how it is read back"),
    "backends": (("backends",), "where working state is kept"),
    "runtime": (("_runtime",), "the operator, which runs a function over keyed records"),
    "façade": (("",), "the public names of the core"),
    "hosts": (("spark", "testing"), "Spark and the harness, which do not know each other"),
}

# Programs stand on the core, each with the programs that it imports.
PROGRAMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "aggregations": ((), "reduce, sum, min and max of keyed records"),
    "conformance": ((), "the laws that every state backend keeps, as tests"),
    "retries": ((), "simulate: a function that is retried, restarted and moved, on the harness"),
    "windows": (("aggregations",), "assigners, triggers, evictors, and functions of windows"),
    "joins": (("aggregations", "windows"), "window joins and interval joins"),
    "stores": ((), "stores as Kafka Streams has them"),
    "upsert": (("views",), "tables by key with changes in and out, as Materialize has them"),
    "cdc": ((), "change events, and Debezium's envelopes"),
    "views": ((), "tables that can be queried, in files and in PostgreSQL"),
}

# Wings stand on all of these; each with the wings that it imports.
WINGS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "columns": ((), "functions and states of whole columns"),
    "state_processor": ((), "state that is read, edited and saved as data"),
    "queryable_state": (("state_processor",), "the state of a query, read from outside it"),
    "kafka": (("pyflink", "state_processor"), "Kafka as a data source of Spark"),
    "monitoring": ((), "metrics of queries for Prometheus and OpenTelemetry"),
    "report": (("state_processor",), "pages about queries and their state"),
    "cli": (("columns", "queryable_state", "report", "state_processor"), "what a shell asks"),
    "__main__": (("cli",), "the command line as a module"),
    "pyflink": (
        ("kafka", "state_processor"),
        "PyFlink's DataStream API, and the hosts that run it",
    ),
    "run": (("pyflink",), "scripts that import pyflink, as they are"),
}

DOORS = ("spark", "spark.keyed_data_frame")
"""Modules that gather names of all groups for users; only wings and doors import them."""

Graph = dict[str, set[str]]


def place_of(module: str) -> tuple[str, str] | None:
    """Return the group and the room of a module, or None if it is in no room.

    Args:
        module: Its name inside the package, such as "backends.heap".
    """
    if module in DOORS:
        return "door", module
    room = module.partition(".")[0]
    if any(room in rooms for rooms, _ in CORE.values()):
        return "core", room
    for group, rooms in (("program", PROGRAMS), ("wing", WINGS)):
        if room in rooms:
            return group, room
    return None


class Source:
    """The text of a module, and what its lines are.

    Args:
        path: The file that holds the text.
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

    @property
    def defines(self) -> bool:
        """Whether it has functions or classes of its own, and does not only hand names on."""
        return any(
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            for node in self.tree.body
        )

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield each function with the number of lines of its body, without its docstring."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, _lines_of(node)

    def classes(self) -> Iterator[str]:
        """Yield the names of the classes that the module defines at its top."""
        yield from (node.name for node in self.tree.body if isinstance(node, ast.ClassDef))

    def arguments(self) -> Iterator[str]:
        """Yield what each entry under `Args:` says."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _arguments(ast.get_docstring(node) or "")


def _lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _arguments(docstring: str) -> Iterator[str]:
    section = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)*)", docstring, re.MULTILINE)
    for entry in re.split(r"^ {4}(?=\S)", section[1] if section else "", flags=re.MULTILINE)[1:]:
        yield " ".join(entry.partition(":")[2].split())


class Package:
    """The modules of a package, and what they import of each other.

    Args:
        folder: The folder with the package's `__init__.py`.
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
        """Yield the modules of the package that a module imports."""
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
        """Return whether a module is the `__init__` of a folder."""
        return self.files[module].name == "__init__.py"

    def room_of(self, module: str) -> str:
        """Return the folder of a module, or its own name if it lies at the package's root."""
        folder = module.rpartition(".")[0]
        return module if self.is_folder(module) else folder or module

    def rooms(self) -> Graph:
        """Return which folders each folder imports; a module of the root counts as one."""
        found: Graph = defaultdict(set)
        for module, imported in self.modules.items():
            if module in DOORS:
                continue
            room, *others = [self.room_of(each) for each in (module, *imported)]
            if self.is_folder(module):
                # The `__init__` of a folder imports from the folders inside it.
                others = [each for each in others if not each.startswith(f"{room}.")]
            found[room] |= set(others) - {room}
        return dict(found)

    def leaving(self) -> Iterator[tuple[str, str]]:
        """Yield each import of the core that leaves the core."""
        for module, imported in self.modules.items():
            if _group(module) == "core":
                yield from ((module, each) for each in imported if _group(each) != "core")

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield each function with the number of lines of its body, without its docstring."""
        for module, source in self.sources.items():
            yield from ((f"{module or self.name}:{name}", n) for name, n in source.functions())

    def with_one_importer(self) -> Iterator[tuple[str, str]]:
        """Yield each module that only one other imports, of its own folder, and that other."""
        importers: Graph = defaultdict(set)
        for module, imported in self.modules.items():
            for each in imported:
                importers[each].add(module)
        for module, by in importers.items():
            if len(by) == 1 and not self.is_folder(module):
                (one,) = by
                if not self.is_folder(one) and self.room_of(one) == self.room_of(module):
                    yield module, one

    def repeated_classes(self) -> dict[str, list[str]]:
        """Return the names that several public or private classes share, with their modules."""
        found: dict[str, list[str]] = defaultdict(list)
        for module, source in self.sources.items():
            for name in source.classes():
                found[name].append(module)
        return {name: modules for name, modules in found.items() if len(modules) > 1}


def _group(module: str) -> str:
    place = place_of(module)
    return "none" if place is None else place[0]


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


def numbers(package: Package) -> dict[str, float]:
    """Count what a reader of the package feels."""
    lines: dict[str, int] = defaultdict(int)
    for module, source in package.sources.items():
        lines[_group(module)] += len(source.code_lines)
    code = sum(lines.values())
    sources = package.sources.values()
    comments = sum(source.own_line_comments for source in sources)
    arguments = [text for source in sources for text in source.arguments()]
    return {
        "code lines of the core": lines["core"] + lines["door"],
        "code lines of programs": lines["program"],
        "code lines of wings": lines["wing"],
        "code lines of the package": code,
        "modules": len(package.modules),
        "class names defined twice": len(package.repeated_classes()),
        f"functions over {_LONG_FUNCTION} lines": sum(
            n > _LONG_FUNCTION for _, n in package.functions()
        ),
        "entries under Args of three words or fewer": sum(
            len(text.split()) <= 3 for text in arguments
        ),
        "own-line comments in 1,000 code lines": round(1000 * comments / max(code, 1), 1),
        "imports of the core that leave it": sum(1 for _ in package.leaving()),
        "circles of rooms": len(circles(package.rooms())),
        "circles of modules": len(circles(package.modules)),
    }


def report(packages: Sequence[Package]) -> Iterator[str]:
    """Yield the lines of the report: circles by name, then the numbers side by side."""
    for package in packages:
        yield from _circles("Circles of rooms", package.rooms())
        yield from _circles("Circles of modules", package.modules)
    columns = [numbers(package) for package in packages]
    for name in columns[0]:
        yield f"{name:44}" + "".join(f"{column[name]:>10g}" for column in columns)


def _circles(title: str, graph: Graph) -> Iterator[str]:
    found = circles(graph)
    if found:
        yield f"{title}:"
        yield from (f"  {' '.join(circle)}" for circle in found)


def questions(package: Package) -> Iterator[str]:
    """Yield a line for each module, class and function that a reader may trip over."""
    for module, source in package.sources.items():
        if source.defines and len(source.code_lines) < _SMALL_MODULE:
            yield f"  {len(source.code_lines):4} code lines  {module}"
    for module, importer in package.with_one_importer():
        yield f"  one importer     {module}  <- {importer}"
    for name, modules in sorted(package.repeated_classes().items()):
        yield f"  {len(modules)} classes        {name}: {' '.join(modules)}"
    for name, length in package.functions():
        if length > _LONG_FUNCTION:
            yield f"  {length:4} lines       {name}"
    for module, imported in package.leaving():
        yield f"  leaves the core  {module} -> {imported}"


def loaded(packages: Sequence[Package], rounds: int) -> Iterator[str]:
    """Yield how many modules of ours an import loads, and its seconds: medians of rounds in turn."""
    for module in ("pyflinklike", "pyflinklike.testing", "pyflinklike.spark"):
        runs: list[list[tuple[int, float]]] = [[] for _ in packages]
        for _ in range(rounds):
            for package, found in zip(packages, runs, strict=True):
                program = [sys.executable, "-c", _LOADED_PROGRAM.format(module=module)]
                answer = subprocess.run(
                    program, cwd=package.folder.parent, check=True, capture_output=True, text=True
                )
                count, seconds = answer.stdout.split()
                found.append((int(count), float(seconds)))
        for name, of_run in (("modules loaded by", 0), ("seconds of", 1)):
            values = [statistics.median(run[of_run] for run in found) for found in runs]
            yield f"{f'{name} {module}':44}" + "".join(f"{value:>10.4g}" for value in values)


def table(package: Package) -> Iterator[str]:
    """Yield the map of rooms that architecture.md shows, with code lines to the next hundred."""
    lines: dict[str, int] = defaultdict(int)
    for module, source in package.sources.items():
        lines[module.partition(".")[0]] += len(source.code_lines)

    def size(*rooms: str) -> str:
        return f"{max(100, round(sum(lines[room] for room in rooms), -2)):,}"

    yield "| | rooms | what they know | code lines |"
    yield "|---|---|---|--:|"
    for name, (rooms, knows) in CORE.items():
        shown = " ".join(_shown(room) for room in rooms)
        yield f"| core: {name} | {shown} | {knows} | {size(*rooms)} |"
    for group, named in (("program", PROGRAMS), ("wing", WINGS)):
        for room, (others, knows) in named.items():
            imports = f"; imports {' '.join(_shown(each) for each in others)}" if others else ""
            yield f"| {group} | {_shown(room)} | {knows}{imports} | {size(room)} |"


def _shown(room: str) -> str:
    is_folder = (_ROOT / "pyflinklike" / room).is_dir()
    return f"`{room}/`" if room and is_folder else f"`{room or '__init__'}`"


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
    parser.add_argument("--alone", action="store_true", help="list what is to be looked at")
    parser.add_argument("--loaded", type=int, default=0, metavar="N", help="time N imports")
    parser.add_argument("--table", action="store_true", help="print the map of rooms alone")
    options = parser.parse_args()
    if options.table:
        lines = [*table(package_at(options.path[0]))]
    else:
        packages = [package_at(path) for path in options.path]
        lines = [*report(packages)]
        for package in packages:
            lines += questions(package) if options.alone else ()
        lines += loaded(packages, options.loaded) if options.loaded else ()
    print("\n".join(lines))  # noqa: T201  it is a program


if __name__ == "__main__":
    main()
