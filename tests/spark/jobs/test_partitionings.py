# SPDX-License-Identifier: Apache-2.0
"""Partitionings that functions see, where a task cannot give what is asked for: refused by name."""

from __future__ import annotations

import pytest

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._spark.job_session import refuse_what_is_missing
from pyflinklike.pyflink.common import Types
from pyflinklike.pyflink.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.state import MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())


class Nothing(BroadcastProcessFunction):
    """Gives nothing."""

    def process_element(self, value, ctx):
        """Nothing."""

    def process_broadcast_element(self, value, ctx):
        """Nothing."""


def refuse(program):
    """See that Spark can run a program."""
    env = StreamExecutionEnvironment.get_execution_environment()
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
def test_copies_that_would_be_lost_are_refused(program):
    """What is behind would get one of each element."""
    with pytest.raises(SparkSetupError, match=r"a broadcast\(\) or partition_custom\(\) before"):
        refuse(program)


def test_copies_for_functions_and_sinks_are_there():
    """Also of what is behind a shuffle."""
    refuse(lambda stream: stream.broadcast())
    refuse(lambda stream: keyed(keyed(stream).broadcast().map(lambda n: n)))
    refuse(lambda stream: keyed(stream.partition_custom(lambda key, n: 0, lambda n: n)))
