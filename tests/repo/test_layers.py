# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the border around the core, and its layers, read from the source of every module.

Three groups: the *core*, *programs* on it, and *wings*.  The core imports no program and no wing, a
program the core and the programs that it names, a wing also programs and the wings that it names.
*Doors* gather names of all groups for users, and only wings and other doors import them.
`scripts/house.py` has the groups in tables, and what each room may import.

Every `import` counts, wherever it stands: at the top, inside a function (it is
still a dependency) or under `TYPE_CHECKING` (a name that only the annotations
know is still knowledge of a higher layer).
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pyflinklike"

_SCRIPT = PACKAGE.parent / "scripts" / "house.py"
_SPEC = importlib.util.spec_from_file_location("house", _SCRIPT)
house = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(house)
place_of = house.place_of

# The rooms of Spark, from the lowest to the highest: none imports one behind it.
SPARK = ["_wire", "_plan", "_host", "_api"]

# Rooms of one layer that never import each other.
STRANGERS = [("testing", "spark")]

# Besides the standard library: what every module may import, and what only some may.
EVERYWHERE = {"attr", "attrs", "pyarrow"}
ONLY_IN = {
    "pyspark": [
        "spark",
        "aggregations._element_types",
        "aggregations._spark",
        "cdc._spark",
        "columns.columnar_layout",
        "joins._spark",
        "windows._rows",
        "windows._spark",
        "pyflink._spark",
        "queryable_state.queryable_state",
        "queryable_state.replica_source",
        "state_processor._checkpoints",
        "state_processor._folders",
        "state_processor._spark",
        "kafka",
        "cli.answers",
        "cli.command",
        "cli.checkpoint_answers",
        "report",
        "monitoring",
    ],
    "anyio": ["queryable_state.http"],
    "starlette": ["queryable_state.http"],
    "uvicorn": ["cli.commands"],
    "confluent_kafka": ["kafka", "pyflink._former_clients"],
    "cloudpickle": ["pyflink._graph.functions", "retries"],
    "py4j": ["spark", "state_processor._checkpoints", "state_processor._spark", "pyflink._spark"],
    "pandas": [
        "spark",
        "cdc._spark",
        "pyflink._spark",
        "queryable_state.replica_source",
        "state_processor._checkpoints",
        "report",
    ],
    "altair": ["report"],
    "prometheus_client": ["monitoring.exporters"],
    "opentelemetry": ["monitoring.exporters"],
    "fastavro": ["pyflink.datastream"],
    "graphlay": ["pyflink._graph"],
    "vl_convert": ["report"],
    "rocksdict": ["backends.rocksdb.local_database"],
    "psycopg": [
        "views.postgres_database",
        "views.postgres_follower",
        "views.postgres_staging",
        "views.postgres_tables",
        "views.postgres_view",
        "views.postgres_writer",
        "pyflink.datastream.connectors.jdbc",
    ],
    "msgspec": [
        "cdc",
        "views",
        "upsert",
        "_runtime.failure_snapshot",
        "types.plain_values",
        "pyflink.datastream.formats.json",
    ],
    "numpy": ["columns"],
    "typing_extensions": ["_type_vars"],  # for type checkers only
    "pytest": ["conformance", "testing"],
    "hypothesis": ["columns.cuts", "conformance", "testing"],
    "rich": ["cli"],
    "click": ["cli"],
}

# Rooms that only some modules of another room may import: whoever composes, and nobody else.
ONLY_FROM = {
    ("_runtime", "backends.heap"): [],
    ("spark", "backends.heap"): ["spark._api.query"],
    ("pyflink._local", "spark"): [],
    ("pyflink._local", "testing"): [],
    # What needs no state runs on Spark as it does in this process.
    ("pyflink._spark", "pyflink._local"): [
        "pyflink._spark.job_plan",
        "pyflink._spark.stage_task",
    ],
    ("stores", "backends.heap"): ["stores.in_memory_store"],
}


def is_within(module: str, name: str) -> bool:
    """Whether this is the module of that name, or one inside the package of that name."""
    return module == name or (name != "" and module.startswith(f"{name}."))


def layer_of(room: str) -> int:
    """The index of the layer of a room of the core."""
    return next(index for index, (names, _) in enumerate(house.CORE.values()) if room in names)


def floor_of(module: str) -> int:
    """The index of a module's room in SPARK; the highest for the modules beside them, -1 outside."""
    if not is_within(module, "spark"):
        return -1
    room = f"{module}..".split(".")[1]
    return SPARK.index(room) if room in SPARK else len(SPARK)


def imported_names(tree: ast.Module, package: str) -> Iterator[str]:
    """The full dotted name of everything that a module imports.

    Args:
        tree: The module.
        package: The full name of the package it is in, for relative imports.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            inside = Path(PACKAGE, *base.split(".")[1:])
            for alias in node.names:
                # `from pyflinklike import state` names a module, `import ValueState` the façade.
                is_module = base.partition(".")[0] == "pyflinklike" and (
                    (inside / alias.name / "__init__.py").exists()
                    or (inside / f"{alias.name}.py").exists()
                )
                yield f"{base}.{alias.name}" if is_module else base


def violations(module: str, tree: ast.Module, *, is_package: bool = False) -> list[str]:
    """What a module imports although it may not.

    Args:
        module: Its name inside pyflinklike, such as "backends.heap".
        tree: Its source.
        is_package: Whether it is an `__init__.py`.
    """
    place = place_of(module)
    if place is None:
        return [f"{module!r} is in no room; add it to scripts/house.py"]
    full_name = f"pyflinklike.{module}".rstrip(".")
    package = full_name if is_package else full_name.rpartition(".")[0]
    found = []
    for name in dict.fromkeys(imported_names(tree, package)):
        top, _, inner = name.partition(".")
        found += _inside(module, *place, inner) if top == "pyflinklike" else _outside(module, top)
    return found


def _inside(module: str, group: str, room: str, imported: str) -> list[str]:
    """What is wrong with importing this module of the package."""
    target = place_of(imported)
    if target is None:
        return [f"{module!r} imports {imported!r}, which is in no room; add it"]
    name = imported or "pyflinklike"
    their_group, their_room = target
    if group == "core":
        if their_group != "core":
            return [f"{module!r} imports {name!r}: the core no {their_group}"]
        if layer_of(their_room) > layer_of(room):
            return [f"{module!r} imports {name!r}, of a higher layer"]
        for pair in STRANGERS:
            if {room, their_room} == set(pair):
                return [f"{module!r} imports {name!r}: {room!r} and {their_room!r} are strangers"]
    elif room != their_room and (
        (group == "program" and their_group != "core" and their_room not in house.PROGRAMS[room][0])
        or (group == "wing" and their_group == "wing" and their_room not in house.WINGS[room][0])
    ):
        return [f"{module!r} imports {name!r}, which {room!r} does not name"]
    if is_within(module, "spark") and floor_of(module) < floor_of(imported):
        return [f"{module!r} imports {name!r}, a higher room of Spark"]
    for (here, other), allowed in ONLY_FROM.items():
        if is_within(module, here) and is_within(imported, other) and module not in allowed:
            who = " and ".join(allowed) or "no module there"
            return [f"{module!r} imports {name!r}, which of {here!r} only {who} may"]
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


@pytest.fixture(scope="module")
def package():
    """The package as the script reads it."""
    return house.package_at(PACKAGE.parent)


def test_a_module_imports_only_what_its_layer_may(package):
    """No module knows a layer above its own, nor a package that is not its business."""
    found = [
        violation
        for module, source in package.sources.items()
        for violation in violations(module, source.tree, is_package=package.is_folder(module))
    ]

    assert [] == found
    assert len(package.sources) > 300


def test_every_directory_of_the_package_is_a_package():
    """A directory without `__init__.py` would be left out of the wheel."""
    bare = {path.parent for path in MODULES if not (path.parent / "__init__.py").exists()}

    assert sorted(str(directory.relative_to(PACKAGE)) for directory in bare) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("state.ttl_table", "from pyflinklike._runtime.keyed_operator import X"),
        ("state.ttl_table", "import pyflinklike._runtime.keyed_operator"),
        ("state.ttl_table", "from pyflinklike import _runtime"),
        ("errors", "from . import _runtime"),
        ("backends.state_backend", "from ..stores.window_store import X"),
        ("state.ttl_table", "from pyflinklike import ValueState"),
        ("state.ttl_table", "def f():\n    import pyflinklike.spark"),
        (
            "state.ttl_table",
            "if TYPE_CHECKING:\n    from pyflinklike._runtime.micro_batch import X",
        ),
        ("testing.harnesses", "import pyflinklike.spark._api.results"),
        ("spark._api.query", "from pyflinklike.testing import X"),
        ("spark._wire.schema", "import pyflinklike.spark._host.task"),
        ("upsert.upsert_function", "import pyflinklike.stores"),
        ("_runtime.assembly", "import pyflinklike.backends.heap.heap_backend"),
        ("_runtime.keyed_operator", "import pyspark.sql"),
        ("views.batch_frame", "from pyspark.sql import DataFrame"),
        ("backends.rocksdb.many_table", "import rocksdict"),
        ("state.table", "import numpy"),
        ("surprise", ""),
        ("state.ttl_table", "import pyflinklike.surprise"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str):
    """The checker sees every form in which an import can be written."""
    assert len(violations(module, ast.parse(source))) == 1


def test_a_relative_import_in_a_package_is_resolved_from_itself():
    """`.` in backends/__init__.py is pyflinklike.backends, not pyflinklike."""
    tree = ast.parse("from .heap import X\nfrom ..spark import Y")

    assert len(violations("backends", tree, is_package=True)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "state.ttl_table",
            "import json\nimport attrs\nfrom pyflinklike._clock import Clock",
        ),
        ("state.ttl_table", "from pyflinklike.state import ValueState"),
        ("", "from pyflinklike._runtime.keyed_operator import X"),
        ("columns.columnar_operator", "from pyflinklike._runtime.assembly import X\nimport numpy"),
        (
            "spark.keyed_data_frame",
            "import pyspark\nimport pandas\nfrom pyflinklike import Row",
        ),
        ("backends.rocksdb.local_database", "import rocksdict"),
        ("views.postgres_database", "import psycopg"),
    ],
)
def test_what_a_layer_may_import_is_not_reported(module: str, source: str):
    """The checker leaves alone what is allowed."""
    assert violations(module, ast.parse(source)) == []


def test_the_package_has_no_circle(package):
    """Neither of rooms nor of modules: each can be understood after what it imports."""
    planted = {"top": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a", "low"}, "low": set()}

    assert [["a", "b", "c"]] == house.circles(planted)
    assert [] == house.circles(package.rooms())
    assert [] == house.circles(package.modules)


def test_the_core_has_fewer_than_20000_code_lines(package):
    """Who adds to it takes something away."""
    core = [
        len(source.code_lines)
        for module, source in package.sources.items()
        if place_of(module)[0] in ("core", "door")
    ]

    assert 10_000 < sum(core) < 20_000


def parts_of(line):
    """A line of the map without its size, and the size."""
    text, _, size = line.rstrip(" |").rpartition(" | ")
    return text, int(size.replace(",", ""))


def test_the_architecture_has_the_map_of_rooms(package):
    """`python scripts/house.py --table` prints it; sizes may be off by a fifth."""
    page = (PACKAGE.parent / "docs/explanation/architecture.md").read_text("utf-8").splitlines()
    header, rule, *rows = house.table(package)
    begin = page.index(header)

    shown = [parts_of(line) for line in page[begin + 2 : begin + 2 + len(rows)]]
    expected = [parts_of(row) for row in rows]

    assert rule == page[begin + 1]
    assert [text for text, _ in expected] == [text for text, _ in shown]
    assert [] == [
        (text, is_now, size)
        for (text, is_now), (_, size) in zip(expected, shown, strict=True)
        if abs(is_now - size) > max(200, is_now / 5)
    ]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanation/walks.md"])
def test_the_files_that_a_page_names_are_there(page):
    """Paths of the package stand in code, from the package's folder on, without a `*`."""
    named = set(re.findall(r"`([\w/]+/\w+\.py)`", (PACKAGE.parent / page).read_text("utf-8")))

    assert named
    assert [] == [
        name
        for name in named
        if not any((PACKAGE.parent / at / name).exists() for at in ("", "pyflinklike"))
    ]


LACKED_BY_SPARK_3_5 = """
import importlib, pkgutil, sys
import pyspark.sql.streaming
vars(pyspark.sql.streaming).pop("StatefulProcessor", None)
sys.modules["pyspark.sql.datasource"] = None
for room in ("spark", "pyflink._spark", "state_processor", "windows", "joins", "aggregations", "cdc"):
    package = importlib.import_module(f"pyflinklike.{room}")
    for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            importlib.import_module(each.name)
        except ImportError:
            print(each.name)
"""


def test_what_pyspark_3_5_lacks_is_needed_by_four_modules_alone():
    """Batches, of jobs too, run there: whatever else imports one of these would end them all."""
    pytest.importorskip("pyspark")

    done = subprocess.run(
        [sys.executable, "-c", LACKED_BY_SPARK_3_5], capture_output=True, text=True, check=True
    )

    assert [
        "pyflinklike.pyflink._spark.watermark_source",
        "pyflinklike.spark._host.relay",
        "pyflinklike.spark._host.state_declaration",
        "pyflinklike.spark._host.streaming_host",
    ] == sorted(done.stdout.split())
