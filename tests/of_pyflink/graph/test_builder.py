# SPDX-License-Identifier: Apache-2.0
"""Graphs of jobs: what a host is given of what a program declared."""

from __future__ import annotations

import pickle

import pytest
from local_support import Endless

from pyflinklike.aggregations.fold import Sum
from pyflinklike.errors import DeclarationValueError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.pyflink._graph.job import GraphBuilder
from pyflinklike.pyflink._graph.nodes import FromSource, KeyBy, KeyedFold, SideOutput, ToSink, Union
from pyflinklike.pyflink._graph.sinks import CollectSink, PrintSink
from pyflinklike.pyflink._graph.sources import CollectionSource, NumberSequenceSource
from pyflinklike.types import Types

ANY = Types.PICKLED_BYTE_ARRAY()
LATE = OutputTag("late")


def identity(value):
    """A key selector."""
    return value


@pytest.fixture
def builder():
    """With a source (1) read by a union that reads it twice (2), a fold (4), and two sinks (6, 7)."""
    made = GraphBuilder()
    source = CollectionSource((1, 2))
    made.add(FromSource, name="Collection Source", type_info=ANY, source=source)
    made.add(Union, name="Union", inputs=(1, 1), type_info=ANY)
    made.add(KeyBy, name="KeyBy", inputs=(2,), type_info=ANY, selector=identity, key_type=ANY)
    made.add(KeyedFold, name="Sum", inputs=(3,), type_info=ANY, function=Sum())
    made.add(SideOutput, name="Side output", inputs=(4,), type_info=ANY, tag=LATE)
    made.add(ToSink, name="Print", inputs=(5,), type_info=ANY, sink=PrintSink())
    made.add(ToSink, name="Collect", inputs=(4,), type_info=ANY, sink=CollectSink())
    return made


def test_a_graph_has_what_its_sinks_need_and_nothing_else(builder):
    """In the order in which it was declared, whatever the order of the sinks."""
    assert [1, 2, 3, 4, 7] == list(builder.graph([7]).nodes)
    assert [1, 2, 3, 4, 5, 6, 7] == list(builder.graph([7, 6]).nodes)


def test_an_input_that_is_read_twice_has_its_reader_twice(builder):
    """Once for each of the reader's inputs."""
    graph = builder.graph([6, 7])

    assert [(2, 0), (2, 1)] == [(node.id, at) for node, at in graph.consumers[1]]


def test_side_outputs_are_told_from_the_main_output(builder):
    """Who reads one does not get the other."""
    graph = builder.graph([6, 7])
    fold = graph.nodes[4]

    assert [7] == [node.id for node, _ in graph.main_consumers(fold)]
    assert [LATE] == [each.tag for each in graph.side_outputs(fold)]


def test_a_setting_that_changes_later_is_seen_by_whoever_read_the_node_before(builder):
    """Settings change a node's value and not its number."""
    builder.change(4, uid="totals")

    graph = builder.graph([7])

    assert "totals" == graph.nodes[4].uid
    assert {4: "totals"} == dict(graph.state_names)


def test_the_name_of_a_state_is_its_position_where_it_has_no_uid(builder):
    """Nodes without state do not count, so a map more changes no name."""
    assert {4: "KeyedFold-1"} == dict(builder.graph([7]).state_names)


def test_a_graph_is_bounded_if_all_its_sources_are(builder):
    """One that never ends makes it unbounded."""
    assert builder.graph([7]).is_bounded
    source = builder.add(FromSource, name="Endless", type_info=ANY, source=Endless())
    sink = builder.add(ToSink, name="Print", inputs=(source.id,), type_info=ANY, sink=PrintSink())
    assert not builder.graph([7, sink.id]).is_bounded


def test_nodes_can_be_pickled(builder):
    """A host may send them to its workers."""
    node = builder[4]

    assert node == pickle.loads(pickle.dumps(node))


def test_a_sequence_is_shared_without_gap_or_overlap():
    """Each instance has a range; more instances than numbers leave some without any."""
    source = NumberSequenceSource(-3, 4)

    for parallelism in (1, 3, 11):
        parts = [source.part(index, parallelism) for index in range(parallelism)]
        assert [-3, -2, -1, 0, 1, 2, 3, 4] == [number for part in parts for number in part]


@pytest.mark.parametrize(("start", "end"), [(2, 1), (0, 2**63), (True, 3), (0.0, 1)])
def test_a_sequence_that_is_none_is_refused(start, end):
    """Backwards, beyond 64 bits, or not of ints."""
    with pytest.raises(DeclarationValueError, match="a sequence goes from"):
        NumberSequenceSource(start, end)


@pytest.mark.parametrize(
    ("sink", "parallelism", "prefix"),
    [
        (PrintSink(), 1, ""),
        (PrintSink(), 4, "3> "),
        (PrintSink("totals"), 1, "totals> "),
        (PrintSink("totals"), 4, "totals:3> "),
    ],
)
def test_the_prefix_of_a_print_names_sink_and_instance(sink, parallelism, prefix):
    """Each only where there is something to tell apart, as in Flink."""
    assert prefix == sink.prefix(2, parallelism)
