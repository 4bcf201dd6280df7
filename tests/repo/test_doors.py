# SPDX-License-Identifier: Apache-2.0
"""Doors: what users import says that it is defined where they import it from."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
import typing
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from pyflinklike import (
    KeyedProcessFunction,
    OutputTag,
    ReduceFunction,
    Row,
    StateTtlConfig,
    Types,
)
from pyflinklike._exports import PUBLIC_MODULES, export_public
from pyflinklike._messages import short_repr
from pyflinklike.types.row import row_class

ROOT = Path(__file__).resolve().parents[2]


def shown_by(door: str) -> dict[str, Any]:
    """The public classes and functions of a door."""
    module = importlib.import_module(door)
    every = {name: getattr(module, name) for name in module.__all__}
    return {name: each for name, each in every.items() if isinstance(each, (type, FunctionType))}


# What a door needs that need not be installed.
NEEDED = {
    "pyflinklike.spark": "pyspark",
    "pyflinklike.spark.daemon": "pyspark",
    "pyflinklike.pyflink.datastream.connectors.kafka": "confluent_kafka",
    "pyflinklike.kafka": "confluent_kafka",
    "pyflinklike.monitoring": "pyspark",
    "pyflinklike.report": "pyspark",
    "pyflinklike.state_processor": "pyspark",
    "pyflinklike.queryable_state.http": "uvicorn",
}

PUBLIC = {
    f"{door}.{name}": each
    for door in sorted(PUBLIC_MODULES)
    if door not in NEEDED or importlib.util.find_spec(NEEDED[door])
    for name, each in shown_by(door).items()
}
CLASSES = {name: each for name, each in PUBLIC.items() if isinstance(each, type)}


def test_what_a_door_shows_says_so():
    """Its module is a door, and has it under its name; the façade has what two doors show."""
    behind = {name for name, each in PUBLIC.items() if each.__module__ not in PUBLIC_MODULES}
    others = {
        name
        for name, each in PUBLIC.items()
        if getattr(sys.modules[each.__module__], each.__qualname__, None) is not each
    }

    assert (set(), set()) == (behind, others)
    assert len(PUBLIC) > 200


@pytest.mark.parametrize(
    "nested",
    [
        KeyedProcessFunction.Context,
        KeyedProcessFunction.OnTimerContext,
        StateTtlConfig.Builder,
        StateTtlConfig.UpdateType,
        StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy,
        Types.LIST,
    ],
    ids=lambda nested: nested.__qualname__,
)
def test_what_is_nested_in_a_class_goes_with_it(nested: Any):
    """It keeps its qualified name, so that pickle finds it through the door."""
    assert nested.__module__ == "pyflinklike"
    assert pickle.loads(pickle.dumps(nested)) is nested


def test_the_annotations_of_a_public_class_can_be_asked_for():
    """`get_type_hints` looks them up in the door, where what they speak of is not."""
    own = {name: inspect.get_annotations(each) for name, each in CLASSES.items()}
    unknown = {
        name
        for name, each in CLASSES.items()
        if not typing.get_type_hints(each).keys() >= own[name].keys()
    }
    texts = {name for name in own if any(isinstance(each, str) for each in own[name].values())}

    assert (set(), set()) == (unknown, texts)


# NumPy, pandas and PySpark need not be installed, and what speaks of them loads none.
SPEAK_OF_OPTIONAL = {
    "KeyedDataFrame.process",
    "pyflinklike.state_processor.write_savepoint",
    "Report.data",
    "QueryableState.open",
}


def functions_of(cls: type) -> dict[str, FunctionType]:
    """The public functions of a class and of the classes nested in it, and its `__init__`."""
    found: dict[str, FunctionType] = {}
    for name, member in vars(cls).items():
        own = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if isinstance(own, FunctionType) and (name == "__init__" or not name.startswith("_")):
            found[f"{cls.__qualname__}.{name}"] = own
        elif isinstance(member, type) and member.__qualname__.startswith(f"{cls.__qualname__}."):
            found |= functions_of(member)
    return found


def test_the_hints_of_every_public_function_can_be_asked_for():
    """Also of the options of `process`, and of the `__init__` that attrs writes for a subclass."""
    functions = {name: each for name, each in PUBLIC.items() if isinstance(each, FunctionType)}
    for cls in CLASSES.values():
        functions |= functions_of(cls)
    unknown = set()
    for name, each in functions.items():
        try:
            typing.get_type_hints(each)
        except (NameError, TypeError):
            unknown.add(name)

    assert unknown <= SPEAK_OF_OPTIONAL, unknown - SPEAK_OF_OPTIONAL
    assert len(functions) > 1_000


def test_a_class_of_rows_is_of_the_door_of_row():
    """Such a class is made when a schema is met, which is after `Row` was pinned."""
    assert row_class(("met", "now")).__module__ == "pyflinklike"
    assert short_repr(Row(met="x" * 1_000, now=1)).endswith("now=1)")


def test_pinning_leaves_alone_what_is_not_of_the_package_or_of_another_door():
    """A function of the standard library, an error, a constant and a row type keep their module."""
    door = {
        "__name__": "pyflinklike.nowhere",
        "__all__": ["dumps", "KeyError", "Row", "LEVEL"],
        "dumps": pickle.dumps,
        "KeyError": KeyError,
        "Row": Row,
        "LEVEL": 7,
    }

    export_public(door)

    assert Row.__module__ == "pyflinklike"
    assert KeyError.__module__ == "builtins"


def test_spark_sends_what_a_door_shows_by_its_name():
    """`cloudpickle` writes no class or function of the package by value."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")

    for each in (Row, KeyedProcessFunction.Context, Types.LIST, ReduceFunction, OutputTag):
        data = cloudpickle.dumps(each)
        assert len(data) < 120
        assert pickle.loads(data) is each


def test_the_light_doors_open_without_spark():
    """Only those of Spark, Kafka, reports and state as data import PySpark; neither pandas, RocksDB nor pytest is needed."""
    light = sorted(PUBLIC_MODULES - set(NEEDED))
    code = (
        f"import sys, {', '.join(light)}\n"
        "heavy = {'pandas', 'py4j', 'pyspark', 'rocksdict', 'pytest', 'hypothesis'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )

    run = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT
    )

    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "", "")


AS_A_WORKER = """
import sys
from importlib.machinery import ModuleSpec

sys.modules["__main__"].__spec__ = ModuleSpec("pyspark.daemon", None)
"""
CLOSED = ["pyflinklike.spark", "pyflinklike.stores", "pyflinklike.views", "pyflinklike.windows"]


def told(code: str) -> list[str]:
    """What a process prints that Spark has started as a worker."""
    run = subprocess.run(
        [sys.executable, "-c", AS_A_WORKER + code],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (0, "") == (run.returncode, run.stderr)
    return run.stdout.splitlines()


def test_a_worker_of_spark_leaves_doors_closed_until_it_is_asked_for_a_name():
    """To serve key groups it needs a third of what they show; then they show what they do elsewhere."""
    pytest.importorskip("pyspark.sql.streaming.stateful_processor")
    code = f"""
import pyflinklike.spark._host.streaming_host, pyflinklike.stores, pyflinklike.views, pyflinklike.windows
doors = [sys.modules[name] for name in {CLOSED}]
print([getattr(each, "__wrapped__", None) for each in doors])
unneeded = ["pyflinklike.state_processor._checkpoints", "pyflinklike.stores.state_store", "pyflinklike.columns", "pyflinklike.views.file_database", "pandas", "sqlite3"]
print([each for each in unneeded if each in sys.modules])
pyflinklike.views.MaterializedView
print(sorted({{(each.__name__, name, getattr(getattr(each, name), "__module__", "")) for each in doors for name in each.__all__}}))
"""
    modules = [sys.modules[name] for name in CLOSED]
    shown = {
        (each.__name__, name, getattr(getattr(each, name), "__module__", ""))
        for each in modules
        for name in each.__all__
    }

    assert [str([None] * 4), "[]", str(sorted(shown))] == told(code)


@pytest.mark.parametrize("host", ["batch_host", "group_state_host", "streaming_host"])
def test_a_worker_imports_a_host_first(host: str):
    """Whatever comes first in a worker, no door opens in the middle of an import."""
    pytest.importorskip("pyspark.sql.streaming.stateful_processor")
    code = f"""
import pyflinklike.spark._host.{host}, pyflinklike.aggregations
doors = [sys.modules[name] for name in {CLOSED} if name in sys.modules]
print([name for each in doors for name in each.__all__ if name in vars(each)])
print(pyflinklike.spark.key_by.__module__)
"""
    assert ["[]", "pyflinklike.spark"] == told(code)


def test_a_pickle_of_what_a_closed_door_shows_opens_it():
    """A function that the driver has pickled finds its classes, also such that are not public."""
    from pyflinklike.functions.output_tag import ChangelogTag
    from pyflinklike.stores import KeyValueStoreDescriptor

    pickled = pickle.dumps((KeyValueStoreDescriptor, ChangelogTag))
    code = f"""
import pickle
print([each.__module__ for each in pickle.loads({pickled!r})])
"""
    assert [str(["pyflinklike.stores"] * 2)] == told(code)
