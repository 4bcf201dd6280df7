# SPDX-License-Identifier: Apache-2.0
"""The signatures that the documentation shows are read from the source, and are those that run."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from pyflinklike._exports import PUBLIC_MODULES

griffe = pytest.importorskip("griffe", reason="griffe is not installed (the extra `docs`)")
pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

ROOT = Path(__file__).resolve().parents[2]

WITH_OPTIONS = [
    "pyflinklike.spark._api.broadcast_data_frame.BroadcastConnectedDataFrame.process",
    "pyflinklike.spark._api.connected_data_frames.KeyedConnectedDataFrames.process",
    "pyflinklike.spark.keyed_data_frame.KeyedDataFrame.process",
]
"""Methods whose options are a TypedDict in the source."""


@pytest.fixture(scope="module")
def package():
    """The package as mkdocstrings loads it."""
    extensions = griffe.load_extensions(str(ROOT / "scripts" / "griffe_fields.py"))
    return griffe.load(
        "pyflinklike", search_paths=[str(ROOT)], extensions=extensions, resolve_aliases=True
    )


def shown(cls):
    """Names, kinds and whether there is a default, as the documentation shows them."""
    parameters = [each for each in cls.members["__init__"].parameters if each.name != "self"]
    return [
        (each.name, each.kind.name, each.default not in (None, "()", "{}")) for each in parameters
    ]


def run(path):
    """The same of the class that runs."""
    parameters = inspect.signature(griffe.dynamic_import(path)).parameters.values()
    return [
        (each.name, each.kind.name.lower(), each.default not in (each.empty, (), {}))
        for each in parameters
    ]


def public_classes(package):
    """Those of the doors whose `__init__` a decorator, `NamedTuple` or `__new__` makes."""
    for door in PUBLIC_MODULES:
        module = package[door.partition(".")[2]] if "." in door else package
        for name in module.exports or ():
            member = module[str(name)]
            cls = member.final_target if member.is_alias else member
            if (
                cls.is_class
                and "__init__" in cls.members
                and cls.members["__init__"].lineno is None
            ):
                yield cls


def test_signatures_are_those_of_the_classes(package):
    """Also of classes that inherit fields, take some by name only, or leave some out."""
    classes = {each.path: each for each in public_classes(package)}

    assert len(classes) > 40
    assert {path: run(path) for path in classes} == {path: shown(classes[path]) for path in classes}


@pytest.mark.parametrize("path", WITH_OPTIONS)
def test_methods_show_each_of_their_options(package, path):
    """By name, in order, with default and annotation, as `inspect.signature` shows them."""
    method = package[path.partition(".")[2]]
    signature = inspect.signature(griffe.dynamic_import(path))

    assert [
        (each.name, each.kind.name.lower(), str(each.default), str(each.annotation))
        for each in signature.parameters.values()
        if each.name != "self" and each.default is not each.empty
    ] == [
        (each.name, each.kind.name, each.default, str(each.annotation))
        for each in method.parameters
        if each.default is not None
    ]
