# SPDX-License-Identifier: Apache-2.0
"""Compares the names of PyFlink 2.3 with ours: what imports, what has which methods and parameters.

python scripts/pyflink_names.py                 # a table by module, and each name that is missing
python scripts/pyflink_names.py --page          # writes docs/reference/what-runs.md
python scripts/pyflink_names.py --read WHEEL    # reads PyFlink's names anew: the file of a wheel

`pip download 'apache-flink==2.3.*' --no-deps` gives the wheel.  Its sources are parsed, never
imported, which would need Java; only names are stored, in two files: `pyflinklike/common/pyflink.json`
has where a name can be imported and where it is defined, and serves the import of such names;
`tests/support/pyflink_methods.json` has the methods of classes with their parameters.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
NAMES: Final = ROOT / "pyflinklike/common/pyflink.json"
METHODS: Final = ROOT / "tests/support/pyflink_methods.json"
INSIDE: Final = (
    "examples",
    "fn_execution",
    "gen_protos",
    "proto",
    "pyflink_callback_server",
    "pyflink_gateway_server",
    "shell",
    "testing",
    "tests",
)
"""Modules that no program imports: how PyFlink is made, tested and started."""


# What PyFlink has


def read_wheel(wheel: str) -> None:
    """Write the names of a wheel into the two files.

    Args:
        wheel: The path of the file.
    """
    sources: dict[str, ast.Module] = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            parts = Path(path).with_suffix("").parts
            if path.endswith(".py") and parts[0] == "pyflink" and not set(INSIDE) & set(parts):
                inner = parts[1:-1] if parts[-1] == "__init__" else parts[1:]
                sources[".".join(inner)] = ast.parse(archive.read(path))
    names = {module: names_of(sources, module) for module in sources}
    homes = {
        module: {name: home_of(names, module, name) for name in sorted(found)}
        for module, found in names.items()
    }
    NAMES.write_text(json.dumps(homes, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    methods = {
        module: {each.name: methods_of(each) for each in classes_of(source.body)}
        for module, source in sources.items()
    }
    METHODS.write_text(
        json.dumps({m: c for m, c in methods.items() if c}, indent=0, sort_keys=True) + "\n",
        encoding="utf-8",
    )


def names_of(sources: dict[str, ast.Module], module: str) -> dict[str, str]:
    """Return the public names of a module that are PyFlink's, with the module that each comes from."""
    found: dict[str, str] = {}
    for node in run_at_import(sources[module].body):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = module
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id: module for each in targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("pyflink"):
            origin = str(node.module)[len("pyflink.") :]
            for alias in node.names:
                if alias.name == "*":
                    found |= dict.fromkeys(names_of(sources, origin), origin)
                else:
                    found[alias.asname or alias.name] = origin
    for node in ast.walk(sources[module]):
        # `setattr(connectors, "KafkaSource", kafka.KafkaSource)`
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            _, name, value = node.args
            if isinstance(name, ast.Constant) and isinstance(value, ast.Attribute):
                found[str(name.value)] = f"{module}.{ast.unparse(value.value)}"
    return {name: origin for name, origin in found.items() if not name.startswith("_")}


def home_of(names: dict[str, dict[str, str]], module: str, name: str) -> str:
    """Return the module that defines a name; "" for a name of the module itself."""
    home = module
    while home in names and names[home].get(name, home) != home:
        home = names[home][name]
    return "" if home == module else home


def run_at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import runs, also those in `if` and `try`."""
    for node in body:
        if isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from run_at_import(node.body)
        elif isinstance(node, ast.Try):
            yield from run_at_import(node.body)
        else:
            yield node


def classes_of(body: list[ast.stmt], within: str = "") -> Iterator[ast.ClassDef]:
    """Yield the public classes, those within classes by their qualified names."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            node.name = f"{within}{node.name}"
            yield node
            yield from classes_of(node.body, f"{node.name}.")


def methods_of(cls: ast.ClassDef) -> dict[str, list[str]]:
    """Return the public methods and constants of a class with their parameters; `__init__`, too."""
    found: dict[str, list[str]] = {}
    for node in cls.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name.startswith("_") and node.name != "__init__":
                continue
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            names = [each.arg for each in every if each.arg not in ("self", "cls")]
            names += [f"*{given.vararg.arg}"] if given.vararg else []
            names += [f"**{given.kwarg.arg}"] if given.kwarg else []
            found[node.name] = names
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for each in targets:
                if isinstance(each, ast.Name) and not each.id.startswith("_"):
                    found[each.id] = []
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--read", metavar="WHEEL")
    given = parser.parse_args(arguments)
    if given.read:
        read_wheel(given.read)


if __name__ == "__main__":
    main(sys.argv[1:])
