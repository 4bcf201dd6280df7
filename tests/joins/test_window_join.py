# SPDX-License-Identifier: Apache-2.0
"""Joins within windows in the harness: tagged elements in the windows of any stream."""

from __future__ import annotations

import pytest

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend, OutputTag, Row, Types
from pyflinklike.errors import OutputError
from pyflinklike.joins import (
    CoGroupFunction,
    CoGrouping,
    FlatJoinFunction,
    JoinedGroups,
    JoinFunction,
    TaggedTypeInfo,
)
from pyflinklike.joins.window_joiner import LateByInput
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import EventTimeSessionWindows, TumblingEventTimeWindows, window

LEFT = Types.ROW_NAMED(["k", "name"], [Types.STRING(), Types.STRING()])
RIGHT = Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG())])
ELEMENTS = [
    (1, Row(k="a", name="x"), 1),
    (2, ("a", [7]), 9),
    (1, Row(k="a", name="y"), 5),
    (2, ("a", [8]), 12),
    (1, Row(k="b", name="z"), 13),
]


class Noted:
    """Notes that it is opened and closed."""

    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append("open")

    def close(self):
        self.calls.append("close")


class Both(Noted, JoinFunction):
    """One output of a pair."""

    def join(self, first, second):
        return first and first.name, second and second[1]


class Each(FlatJoinFunction):
    """An output for every number of the right element; None where there is no left one."""

    def join(self, first, second):
        if first is not None:
            return [(first.name, number) for number in second[1]]
        return None


class Sizes(Noted, CoGroupFunction):
    """How large both groups are."""

    def co_group(self, first, second):
        yield len(first), len(second)


class Single(CoGroupFunction):
    """Returns one row, where it should give rows."""

    def co_group(self, first, second):
        return Row(len(first), len(second))


def harness(function, assigner=None, backend=HashMapStateBackend, restore=None):
    """Windows over tagged elements; a right one is a pair, a left one a row."""
    assigner = assigner or TumblingEventTimeWindows.of(10)
    operator = window(assigner, TaggedTypeInfo(LEFT, RIGHT)).process(CoGrouping(function))
    return KeyedProcessHarness(
        operator, lambda tagged: tagged[1][0], state_backend=backend(), restore=restore
    )


def outputs(function, **options):
    """What comes of the elements by the end of the input."""
    with harness(function, **options) as joining:
        joining.process_elements([((number, each), at) for number, each, at in ELEMENTS])
        joining.end_of_input()
        return sorted(joining.output, key=repr)


@pytest.mark.parametrize(
    ("join", "alone"),
    [
        ("inner", []),
        ("left_outer", [("z", None)]),
        ("right_outer", [(None, [8])]),
        ("full_outer", [("z", None), (None, [8])]),
    ],
)
def test_every_element_meets_every_one_of_the_other_input_in_its_window(join, alone):
    """An outer join gives out a window's elements where the other input has none there."""
    expected = [("x", [7]), ("y", [7]), *alone]

    assert sorted(expected, key=repr) == outputs(JoinedGroups(Both(), join))


def test_a_join_function_is_opened_and_closed():
    """Once for all windows, as each function."""
    function = Both()
    outputs(JoinedGroups(function, "inner"))

    assert ["open", "close"] == function.calls


def test_a_callable_is_a_join_function():
    """It gives one output of a pair, None included."""
    assert [None, None] == outputs(JoinedGroups(lambda _, __: None, "inner"))


def test_a_flat_join_function_gives_any_number():
    """None is none."""
    assert [("x", 7), ("y", 7)] == outputs(JoinedGroups(Each(), "right_outer"))


def test_a_co_group_function_gets_both_groups():
    """One of them may be empty; it is opened and closed."""
    function = Sizes()

    assert [(0, 1), (1, 0), (2, 1)] == outputs(function)
    assert ["open", "close"] == function.calls


def test_sessions_of_both_inputs_are_one():
    """An element of one input bridges two of the other."""
    assert [(1, 0), (2, 2)] == outputs(Sizes(), assigner=EventTimeSessionWindows.with_gap(4))


def test_a_single_output_is_refused():
    """Its fields would become outputs."""
    with pytest.raises(OutputError, match=r"^calls of .*\.(join|co_group) give .*yield it"):
        outputs(Single())


def test_tagged_elements_come_back_from_a_column():
    """With None for one that was deleted, as the log writes it."""
    kind = TaggedTypeInfo(LEFT, RIGHT)
    stored = [
        kind.freeze(pair) for pair in ((1, Row(k="a", name=None)), (2, ("a", [7])), (1, ("b", "x")))
    ]

    for values in (stored, [*stored, None], [None], []):
        column = kind.to_arrow(values)
        assert (values, kind.arrow_type) == (kind.from_arrow(column), column.type)


@pytest.mark.parametrize("backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend])
def test_elements_of_both_types_outlive_a_restart(backend):
    """Each comes back as its input's type, and nobody's list is shared."""
    with harness(JoinedGroups(Both(), "full_outer"), backend=backend) as joining:
        joining.process_elements([((number, each), at) for number, each, at in ELEMENTS])
        snapshot = joining.snapshot()
    with harness(JoinedGroups(Both(), "full_outer"), backend=backend, restore=snapshot) as joining:
        joining.end_of_input()

        expected = [("x", [7]), ("y", [7]), ("z", None), (None, [8])]
        assert sorted(expected, key=repr) == sorted(joining.output, key=repr)


@pytest.mark.parametrize("tagged", [(1,), (2,), (1, 2), ()])
def test_late_elements_go_to_the_side_of_their_input_or_are_counted(tagged):
    """As they came, without the number of their input."""
    tags = {number: OutputTag(f"late {number}") for number in tagged}
    late = LateByInput((tags.get(1), tags.get(2)))
    windows = window(TumblingEventTimeWindows.of(10), TaggedTypeInfo(LEFT, RIGHT))
    operator = windows.process(CoGrouping(Sizes())).giving_late(late)
    with KeyedProcessHarness(operator, lambda pair: pair[1][0]) as joining:
        joining.process_watermark(100)
        for number, each in ((1, Row(k="a", name="x")), (2, ("a", [7]))):
            joining.process_element((number, each), timestamp=5)
        given = [joining.side_output(tag) for tag in tags.values()]

        assert [[(Row(k="a", name="x"), ("a", [7]))[number - 1]] for number in tagged] == given
        assert 2 - len(tagged) == joining.metrics()["numLateRecordsDropped"]
