# SPDX-License-Identifier: Apache-2.0
"""Compares the names of PyFlink 2.3 with ours: what imports, what has which methods and parameters.

python scripts/pyflink_names.py                 # a table by module, and each name that is missing
python scripts/pyflink_names.py --page          # writes docs/reference/what-runs.md
python scripts/pyflink_names.py --read WHEEL    # reads PyFlink's names anew: the file of a wheel

`pip download 'apache-flink==2.3.*' --no-deps` gives the wheel.  Its sources are parsed, never
imported, which would need Java; only names are stored, in two files: `pyflinklike/pyflink/pyflink.json`
has where a name can be imported and where it is defined, and serves the import of such names;
`tests/support/pyflink_methods.json` has the methods of classes with their parameters.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, whatever is installed

from pyflinklike._deprecation import JAVA, WithoutJava, is_of_java  # noqa: E402
from pyflinklike.pyflink._foreign_names import Refused  # noqa: E402
from pyflinklike.pyflink._names import former_names, modules_left_out, reason_why  # noqa: E402

NAMES: Final = ROOT / "pyflinklike/pyflink/pyflink.json"
METHODS: Final = ROOT / "tests/support/pyflink_methods.json"
INSIDE: Final = (
    "examples",
    "find_flink_home",
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
                if inner:  # the package itself has two decorators of its own
                    sources[".".join(inner)] = ast.parse(archive.read(path))
    names = {module: names_of(sources, module) for module in sources}
    homes = {
        module: {name: home_of(names, module, name) for name in found}
        for module, found in names.items()
        if found
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
    """Return the names of a module that are PyFlink's, with the module that each comes from.

    Private ones are among them, since scripts import them; `import *` brings none.
    """
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
                    public = [each for each in names_of(sources, origin) if not is_private(each)]
                    found |= dict.fromkeys(public, origin)
                else:
                    found[alias.asname or alias.name] = origin
    for call in ast.walk(sources[module]):
        # `setattr(connectors, "KafkaSource", kafka.KafkaSource)`
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "setattr":
            _, name, value = call.args
            if isinstance(name, ast.Constant) and isinstance(value, ast.Attribute):
                found[str(name.value)] = f"{module}.{ast.unparse(value.value)}"
    return {name: origin for name, origin in found.items() if not name.startswith("__")}


def is_private(name: str) -> bool:
    """Return whether a name begins with an underscore."""
    return name.startswith("_")


def home_of(names: dict[str, dict[str, str]], module: str, name: str) -> str:
    """Return the module that defines a name; "" for a name of the module itself."""
    home = module
    while home in names and names[home].get(name, home) != home:
        home = names[home][name]
    return home if home != module and home in names else ""


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


# What is here


class Found(NamedTuple):
    """A name of PyFlink, and what became of it here.

    Args:
        module: The module of PyFlink, below `pyflink`.
        name: The name there; `Class.method` for a method.
        verdict: One of `VERDICTS`.
        why: The reason and the remedy, or what is wrong; "" where it is equal.
    """

    module: str
    name: str
    verdict: str
    why: str = ""


EQUAL, TOLD, SILENT, REFUSED, MISSING = VERDICTS = (
    "equal",
    "taken with a warning",
    "taken without an effect",
    "refused when used",
    "missing",
)
MADE: Final = {
    "common.typeinfo.InstantTypeInfo": "Types.INSTANT() makes it",
    "datastream.connectors.base.Sink": "sinks make themselves",
    "datastream.connectors.base.Source": "sources make themselves",
    "datastream.data_stream.AllWindowedStream": "window_all makes it",
    "datastream.data_stream.BroadcastConnectedStream": "connect makes it",
    "datastream.data_stream.WindowedStream": "window makes it",
}
"""Classes whose constructor programs do not call: what makes one."""
PRIVATE: Final = ("EPOCH_ORDINAL",)
"""Constants that PyFlink has for its own conversions."""


def compare() -> Iterator[Found]:
    """Yield all names that can be imported from PyFlink, and all methods of classes that are here."""
    from pyflinklike.run import install, uninstall

    names = json.loads(NAMES.read_text(encoding="utf-8"))
    methods = json.loads(METHODS.read_text(encoding="utf-8"))
    install(shadow=True)
    try:
        for module in names:
            ours = importlib.import_module(f"pyflink.{module}" if module else "pyflink")
            for name in names[module]:
                yield found_name(ours, module, name)
            for cls, theirs in methods.get(module, {}).items():
                yield from found_methods(ours, module, cls, theirs)
    finally:
        uninstall()


def found_name(ours: Any, module: str, name: str) -> Found:
    """Return what became of a name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            each = getattr(ours, name)
    except AttributeError as error:
        return Found(module, name, MISSING, str(error))
    if isinstance(each, Refused):
        return Found(module, name, REFUSED, each.reason)
    if isinstance(each, type) and hasattr(each, "without_effect"):
        return Found(module, name, TOLD, each.without_effect)
    return Found(module, name, EQUAL)


def found_methods(
    ours: Any, module: str, qualified: str, theirs: dict[str, list[str]]
) -> Iterator[Found]:
    """Yield what became of the methods and constants of a class, if the class is here."""
    cls: Any = ours
    for part in qualified.split("."):
        cls = getattr(cls, part, None)
        if isinstance(cls, Refused):
            return
        if cls is None:
            yield Found(module, qualified, MISSING, "no such class")
            return
    for name, parameters in theirs.items():
        place = f"{qualified}.{name}"
        if (name == "__init__" and is_made(module, qualified, parameters)) or name in PRIVATE:
            continue
        yield found_method(cls, module, place, name, parameters)


def is_made(module: str, cls: str, parameters: list[str]) -> bool:
    """Return whether programs never call a constructor: it takes an object of Java."""
    # One that takes it instead of others, which programs give, has it last.
    return f"{module}.{cls}" in MADE or bool(parameters and parameters[0].startswith("j_"))


def found_method(cls: Any, module: str, place: str, name: str, theirs: list[str]) -> Found:
    """Return what became of a method."""
    each = getattr(cls, name, None)
    if each is None:
        if issubclass(cls, WithoutJava) and (is_of_java(name) or name in cls._refused):
            return Found(module, place, REFUSED, cls._refused.get(name, JAVA))
        return Found(module, place, MISSING, "no such method")
    if isinstance(each, Refused):
        return Found(module, place, REFUSED, each.reason)
    if not callable(each):
        return Found(module, place, EQUAL)
    wanted = [name for name in theirs if not name.startswith("j_")]
    lacking = difference_of(each, wanted)
    if lacking:
        return Found(module, place, MISSING, lacking)
    said = (inspect.getdoc(each) or "").partition("\n")[0]
    if hasattr(each, "without_effect") and not isinstance(each, type):
        return Found(module, place, TOLD, each.without_effect)
    if said.startswith("Refuse "):
        return Found(module, place, REFUSED, said)
    is_setting = module != "datastream.state"  # which stores values
    is_silent = is_setting and said.startswith(("Store ", "Accept ", "Do nothing"))
    return Found(module, place, SILENT if is_silent else EQUAL, said if is_silent else "")


def difference_of(ours: Any, wanted: list[str]) -> str:
    """Return in which parameters a method of ours differs; "" if programs can call it as theirs."""
    try:
        parameters = inspect.signature(ours).parameters.values()
    except ValueError:  # an enum's or a builtin's
        return ""
    kinds = {each.kind for each in parameters}
    own = [each.name for each in parameters if each.name not in ("self", "cls")]
    own = [f"*{each}" if each in stars_of(parameters) else each for each in own]
    is_open = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds
    if is_open or own[: len(wanted)] == wanted:
        return ""
    # The name of `*args` is nobody's.
    if [each.partition("*")[0] for each in own] == [each.partition("*")[0] for each in wanted]:
        return ""
    return f"takes {', '.join(own) or 'nothing'}, PyFlink's {', '.join(wanted) or 'nothing'}"


def stars_of(parameters: Any) -> set[str]:
    """Return the names of parameters that take any number of arguments."""
    return {each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL}


def main(arguments: list[str]) -> None:
    """Read names, or compare them and print a table.

    Args:
        arguments: Those of the command line.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--read", metavar="WHEEL", help="the names of a wheel")
    parser.add_argument("--page", action="store_true", help="write docs/reference/what-runs.md")
    given = parser.parse_args(arguments)
    if given.read:
        read_wheel(given.read)
    found = list(compare())
    if given.page:
        PAGE.write_text(page_of(found), encoding="utf-8")
    lacking = [each for each in found if each.verdict == MISSING]
    lines = [f"missing: {each.module}.{each.name}: {each.why}" for each in lacking]
    sys.stdout.write("\n".join([table_of(found), *lines, ""]))


# The page


PAGE: Final = ROOT / "docs/reference/what-runs.md"
_BEGIN: Final = """# What runs

<!-- Written by scripts/pyflink_names.py --page; tests/repo/test_pyflink_names.py compares. -->

A script that runs with [`python -m pyflinklike.run job.py`](datastream-api.md#running-scripts) can import every name of PyFlink 2.3, from every place where PyFlink has it.
{equal} of {all} names and methods are here with PyFlink's parameters; [Migrate from PyFlink](../how-to/migrate-from-pyflink.md#what-differs-in-a-job) lists the results that differ.
This page lists the others. A name that is not on it is here.

- **No effect**: the call changes no result. If it sets something, its getter returns that.
- **Warns**: the call has no effect, and a warning says why, once in a process.
- **Refused**: you can import the name and use it in annotations. A call, an attribute or a subclass raises an error with the reason and the replacement, for names a `RefusedNameError`.

"""


def page_of(found: list[Found]) -> str:
    """Return the page of all names.

    Args:
        found: What `compare` has found.
    """
    found = [each for each in found if not is_private(each.name)]  # one line says it of all
    names = [each for each in found if "." not in each.name]
    methods = [each for each in found if "." in each.name]
    equal = sum(each.verdict == EQUAL for each in found)
    return "\n".join(
        [
            _BEGIN.format(equal=f"{equal:,}", all=f"{len(found):,}").rstrip("\n"),
            "",
            "## Names",
            "",
            "| names | here |",
            "|---|---|",
            *rows_of(names),
            "",
            "Attributes that begin with `_j_`, `get_java_` or `to_j_` and the gateway need Java, and are refused.",
            "So are names that begin with an underscore, such as `data_stream._get_one_input_stream_operator`.",
            "",
            "## Methods",
            "",
            "| methods | here |",
            "|---|---|",
            *rows_of_methods(methods),
            "",
            "No effect:",
            "",
            *lines_of_silent(methods),
            "",
            "## Flink 1",
            "",
            "These names of Flink 1 work as they did; a `DeprecationWarning` names the new form once.",
            "",
            "| Flink 1 | today |",
            "|---|---|",
            *rows_of_former(),
            "",
            "## Modules that cannot be imported",
            "",
            "| module | why |",
            "|---|---|",
            *(f"| `{module}` | {why} |" for module, why in sorted(modules_left_out().items())),
            "",
        ]
    )


_WORDS: Final = {TOLD: "warns", REFUSED: "refused"}
"""The verdicts as the page has them."""
_NO_TABLES: Final = reason_why("table.schema", "Schema") or ""
"""The reason that all of the Table API has; some names add what Spark has instead."""


def rows_of(names: list[Found]) -> Iterator[str]:
    """Yield a row for each reason; a name is in the module that defines it in PyFlink."""
    homes = json.loads(NAMES.read_text(encoding="utf-8"))
    own = [each for each in names if not homes[each.module][each.name]]
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for each in own:
        if each.verdict != EQUAL:
            modules = rows.setdefault((each.verdict, each.why), {})
            modules.setdefault(each.module, []).append(each.name)
    for (verdict, why), modules in rows.items():
        said = [shown_names(module, those, own) for module, those in modules.items()]
        if why == _NO_TABLES:
            said = ["all of `table` without a row of its own"]
        elif why.startswith(_NO_TABLES):
            why = why[len(_NO_TABLES) :].lstrip("; ")
        yield f"| {', '.join(said)} | {_WORDS[verdict]}: {why} |"


def shown_names(module: str, those: list[str], own: list[Found]) -> str:
    """Return the names of a module that a row is about, or that it is about all, or all but some."""
    others = [each.name for each in own if each.module == module and each.name not in those]
    if not others and len(those) > 1:
        return f"all of `{module}`"
    if len(others) < len(those) // 4:
        return f"all of `{module}` but {in_order(others)}"
    return in_order(those)


def in_order(names: list[str]) -> str:
    """Return names as code, with commas between them."""
    return ", ".join(f"`{name}`" for name in sorted(names))


def rows_of_methods(methods: list[Found]) -> Iterator[str]:
    """Yield a row for each reason of methods that warn or are refused; ways to Java are left out."""
    rows: dict[tuple[str, str], list[str]] = {}
    for each in sorted(set(methods)):
        if each.verdict in _WORDS and each.why != JAVA:
            rows.setdefault((each.verdict, reason_in(each.why)), []).append(each.name)
    for (verdict, why), those in rows.items():
        yield f"| {in_order(those)} | {_WORDS[verdict]}: {why} |"


def lines_of_silent(methods: list[Found]) -> Iterator[str]:
    """Yield a line for each class that has methods without an effect."""
    rows: dict[str, list[str]] = {}
    for each in sorted(set(methods)):
        if each.verdict == SILENT:
            cls, _, method = each.name.rpartition(".")
            rows.setdefault(cls, []).append(method)
    for cls, those in sorted(rows.items()):
        yield f"- `{cls}`: {in_order(those)}"


def reason_in(why: str) -> str:
    """Return the reason alone of a docstring, such as "Refuse a timeout: it is no operator."."""
    reason = why.partition(": ")[2] or why.partition(", because ")[2]
    return reason.rstrip(".") if why.startswith("Refuse ") and reason else why


def rows_of_former() -> Iterator[str]:
    """Yield a row for what programs write today instead of names, methods and parameters of Flink 1."""
    moved: dict[str, set[str]] = {}
    rows: dict[str, list[str]] = {}
    for place, today in sorted(former_names().items()):
        name = place.rpartition(".")[2]
        if today.endswith(f" import {name}"):
            moved.setdefault(today.split()[1], set()).add(name)
        else:
            rows.setdefault(in_code(today), []).append(name)
    for cls in classes_here():
        for name, each in vars(cls).items():
            method = getattr(each, "__func__", each)  # of a static one
            called = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
            if hasattr(method, "today"):
                rows.setdefault(in_code(method.today), []).append(called)
            for old, new in getattr(method, "renamed_keywords", {}).items():
                rows.setdefault(f"`{new}=`", []).append(f"{called}({old}=)")
    for module, those in sorted(moved.items()):
        yield f"| {in_order(list(those))}, from elsewhere | `from {module} import ...` |"
    for today, old_names in rows.items():
        yield f"| {in_order(list(set(old_names)))} | {today} |"


def in_code(today: str) -> str:
    """Return what programs write today, as code where it is code."""
    return f"`{today}`" if "(" in today or " import " in today else today


def classes_here() -> Iterator[type]:
    """Yield the classes that PyFlink has, too."""
    methods = json.loads(METHODS.read_text(encoding="utf-8"))
    for module, classes in methods.items():
        if is_here(module):
            ours = importlib.import_module(f"pyflinklike.pyflink.{module}")
            found = [getattr(ours, name, None) for name in classes if "." not in name]
            yield from (each for each in found if isinstance(each, type))


def is_here(module: str) -> bool:
    """Return whether there is a file of ours for a module of PyFlink."""
    path = ROOT / "pyflinklike" / "pyflink" / module.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def table_of(found: list[Found]) -> str:
    """Return the counts by module, of names and of methods."""
    lines = []
    for what, is_wanted in (("names", False), ("methods", True)):
        chosen = [each for each in found if ("." in each.name) == is_wanted]
        lines.append(f"{what:42}" + "".join(f"{verdict:>26}" for verdict in VERDICTS))
        for module in [*dict.fromkeys(each.module for each in chosen), None]:
            counts = Counter(each.verdict for each in chosen if module in (each.module, None))
            title = "all" if module is None else module or "pyflink"
            lines.append(f"{title:42}" + "".join(f"{counts[each]:26}" for each in VERDICTS))
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
