# SPDX-License-Identifier: Apache-2.0
"""Pictures of plans, in SVG."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import pytest

from pyflinklike.errors import DeclarationValueError, RequirementError
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment

SVG = "{http://www.w3.org/2000/svg}"


def diamond():
    """An environment with a job of two arms."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([1]).name("numbers")
    less = stream.map(lambda n: n - 1).name('less "<&>"')
    stream.union(less).print().name("out")
    return env


def test_a_picture_has_every_node_and_every_way():
    """Whatever characters names have; the same each time."""
    pytest.importorskip("graphlay")

    drawing = diamond().explain("svg")

    root = ElementTree.fromstring(drawing)
    texts = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
    ways = [path for path in root.iter(f"{SVG}path") if path.get("marker-end")]
    assert {"numbers", 'less "<&>"', "Union", "out"} == texts
    assert 4 == len(ways)
    assert drawing == diamond().explain("svg")


def test_without_the_package_the_extra_is_named(monkeypatch):
    """And what needs none."""
    monkeypatch.setitem(sys.modules, "graphlay", None)

    with pytest.raises(RequirementError, match=r"'.\[plan\]'.*explain\('mermaid'\)"):
        diamond().explain("svg")


def test_another_form_is_refused():
    """With those that there are."""
    with pytest.raises(DeclarationValueError, match="'mermaid' or 'svg', got 'png'"):
        diamond().explain("png")
