# SPDX-License-Identifier: Apache-2.0
"""Which part of a graph runs between which shuffles."""

from __future__ import annotations

import pytest

from pyflinklike.datastream import StreamExecutionEnvironment
from pyflinklike.spark.jobs.stages import stages_of


@pytest.fixture
def env():
    """An environment whose jobs nobody starts."""
    return StreamExecutionEnvironment.get_execution_environment()


def stages(env):
    """The stages of what was declared, each as the names of what it runs."""
    graph = env._program.graph()
    named = {number: node.name for number, node in graph.nodes.items()}
    return [[named[number] for number in sorted(stage.inner)] for stage in stages_of(graph)]


def first(value):
    """The key."""
    return value[0]


def test_a_job_without_keys_is_one_stage(env):
    """There is no shuffle."""
    env.from_collection([1]).map(str).name("text").print()

    assert stages(env) == [["text"]]


def test_the_key_is_told_in_the_stage_before_the_operator(env):
    """The stage is what packs."""
    pairs = env.from_collection([("a", 1)]).map(tuple).name("pair")
    pairs.key_by(first).sum(1).name("sum").map(str).name("text").print()

    before, behind = stages(env)

    assert before[0] == "pair"
    assert len(before) == 2
    assert behind == ["text"]


def test_operators_side_by_side_are_one_behind_the_other(env):
    """A diamond is a line; what joins its arms is behind both."""
    keyed = env.from_collection([("a", 1)]).key_by(first)
    sums = keyed.sum(1).name("sum").map(tuple).name("of sum")
    mins = keyed.min(1).name("min")
    sums.union(mins).map(str).name("text").print()

    before, behind_sum, behind_min = stages(env)

    assert len(before) == 1
    assert behind_sum == ["of sum"]
    assert "text" in behind_min


def test_a_source_reaches_only_its_own_part(env):
    """What other sources feed is left out, also where both come together."""
    one = env.from_collection([1]).map(str).name("one")
    other = env.from_collection([2]).map(str).name("other")
    one.union(other).map(str).name("both").print()
    graph = env._program.graph()
    (stage,) = stages_of(graph)
    source = next(iter(stage.entrances))

    part = stage.reached_from(source)

    names = {graph.nodes[number].name for number in part.inner}
    assert {"one", "both"} <= names
    assert "other" not in names
