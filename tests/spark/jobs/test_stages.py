# SPDX-License-Identifier: Apache-2.0
"""Which part of a graph runs between which shuffles, and which partitionings have no place there."""

from __future__ import annotations

import pytest

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._spark.job_session import refuse_what_is_missing
from pyflinklike.pyflink._spark.stages import stages_of
from pyflinklike.pyflink.common import Types
from pyflinklike.pyflink.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.state import MapStateDescriptor
from pyflinklike.spark._wire.key_groups import MOST_OPERATORS


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


def test_operators_side_by_side_are_behind_one_stage(env):
    """They share a shuffle and a state operator; what joins them is behind it."""
    keyed = env.from_collection([("a", 1)]).key_by(first)
    sums = keyed.sum(1).name("sum").map(tuple).name("of sum")
    mins = keyed.min(1).name("min")
    sums.union(mins).map(str).name("text").print()

    before, behind = stages(env)

    assert len(before) == 1
    assert {"of sum", "text"} <= set(behind)


def test_an_operator_is_behind_the_longest_way_to_it(env):
    """What joins arms of different lengths; a shorter arm's outputs pass."""
    keyed = env.from_collection([("a", 1)]).key_by(first)
    once = keyed.min(1).name("once").map(tuple).name("of once")
    twice = keyed.max(1).key_by(first).sum(1).name("twice").map(tuple).name("of twice")
    once.union(twice).key_by(first).sum(1).name("joined").map(str).name("text").print()

    *_, behind_once, behind_twice, behind_joined = stages(env)

    assert "of once" in behind_once
    assert "of twice" in behind_twice
    assert behind_joined == ["text"]


def test_operators_that_are_too_many_for_a_state_operator_have_two(env):
    """Each key group needs a grouping key."""
    keyed = env.from_collection([("a", 1)]).key_by(first)
    sums = [keyed.sum(1) for _ in range(MOST_OPERATORS + 1)]
    sums[0].union(*sums[1:]).print()
    graph = env._program.graph()

    before, middle, _ = stages_of(graph)

    assert [MOST_OPERATORS, 1] == [len(before.following), len(middle.following)]


def test_a_source_reaches_only_its_own_part(env):
    """What other sources feed is left out, also where both come together."""
    one = env.from_collection([1]).map(str).name("one")
    other = env.from_collection([2]).map(str).name("other")
    one.union(other).map(str).name("both").print()
    graph = env._program.graph()
    (stage,) = stages_of(graph)
    source = next(iter(stage.entrances))

    part = stage.part_reached_from(source)

    names = {graph.nodes[number].name for number in part.inner}
    assert {"one", "both"} <= names
    assert "other" not in names


# Partitionings that functions see, where a task cannot give what is asked for

RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())


class Nothing(BroadcastProcessFunction):
    """Gives nothing."""

    def process_element(self, value, ctx):
        """Nothing."""

    def process_broadcast_element(self, value, ctx):
        """Nothing."""


def refuse(env, program):
    """See that Spark can run a program."""
    program(env.from_collection([1])).print()
    graph = env._program.graph()
    refuse_what_is_missing(Job(graph, env._program._settings(graph, None)))


def keyed(stream):
    """A fold of each key."""
    return stream.key_by(lambda n: n).sum()


@pytest.mark.parametrize(
    "program",
    [
        lambda stream: keyed(stream.broadcast()),
        lambda stream: stream.broadcast().connect(stream.broadcast(RULES)).process(Nothing()),
        lambda stream: stream.broadcast().union(keyed(stream)),
    ],
    ids=["keys", "a broadcast input", "a union with what is behind a shuffle"],
)
def test_copies_that_would_be_lost_are_refused(env, program):
    """What is behind would get one of each element."""
    with pytest.raises(SparkSetupError, match=r"a broadcast\(\) or partition_custom\(\) before"):
        refuse(env, program)


def test_copies_for_functions_and_sinks_are_there(env):
    """Also of what is behind a shuffle."""
    refuse(env, lambda stream: stream.broadcast())
    refuse(env, lambda stream: keyed(keyed(stream).broadcast().map(lambda n: n)))
    refuse(env, lambda stream: keyed(stream.partition_custom(lambda key, n: 0, lambda n: n)))
