# SPDX-License-Identifier: Apache-2.0
"""What a call puts out: main outputs, and values that go to a side output by their tag."""

import pytest
from probe import harness

from pyflinklike import KeyedProcessFunction, OutputTag, Row, Types
from pyflinklike._runtime.outputs import Outputs
from pyflinklike.errors import OutputError

LATE, ODD = OutputTag("late", Types.LONG()), OutputTag("odd")


class Emit(KeyedProcessFunction):
    """Puts out what an element (key, outputs) says: at once, and again when its timer at 10 fires."""

    def open(self, runtime_context):
        self.outputs = None

    def process_element(self, value, ctx):
        self.outputs = value[1]
        ctx.timer_service().register_event_time_timer(10)
        return value[1]

    def on_timer(self, timestamp, ctx):
        return self.outputs


def emitted(outputs):
    """A harness in which an element put this out; its main outputs."""
    h = harness(Emit())
    return h, h.process_element(("k", outputs))


def test_a_tagged_pair_goes_to_its_side_output():
    """And to no other, and not to the main output; from a timer as from an element."""
    h, main = emitted([1, (LATE, 2), (ODD, 3), 4, (LATE, 5)])
    assert ([1, 4], [1, 4]) == (main, h.output)
    assert ([2, 5], [3]) == (h.side_output(LATE), h.side_output(ODD))
    assert ([1, 4], [2, 5, 2, 5]) == (h.process_watermark(10), h.side_output(LATE))


def test_a_tag_is_known_by_its_id():
    """Another object of the same id is the same side output; one that nobody fed is empty."""
    h, _ = emitted([(OutputTag("late"), 1)])
    same = OutputTag("late", Types.STRING())
    assert ([1], []) == (h.side_output(same), h.side_output(ODD))


def test_a_value_that_does_not_fit_the_type_of_its_tag_is_refused():
    """With the tag, as Spark refuses it for the columns of the tag's type; None is null there."""
    h, _ = emitted([(LATE, None)])
    assert [None] == h.side_output(LATE)
    with pytest.raises(OutputError, match=r"side output 'late': type Long takes an int .*got 3\.7"):
        emitted([(LATE, 3.7)])


def test_a_side_output_without_a_type_takes_any_value():
    """None and tuples too."""
    h, _ = emitted([(ODD, None), (ODD, (1, 2)), (ODD, Row(a=1))])
    assert [None, (1, 2), Row(a=1)] == h.side_output(ODD)


def test_an_empty_tuple_is_a_main_output():
    """PyFlink raises an IndexError; so is a tuple with a tag elsewhere than in front."""
    assert [(), (1, LATE)] == emitted([(), (1, LATE)])[1]


@pytest.mark.parametrize("wrong", [(LATE,), (LATE, 1, 2)], ids=["alone", "three"])
def test_a_tag_comes_with_one_value(wrong):
    """Anything else is a mistake that is told."""
    with pytest.raises(OutputError, match="a side output is `yield tag, value`"):
        emitted([wrong])


def test_outputs_before_a_failure_are_kept():
    """Main outputs and side outputs."""

    def outputs():
        yield LATE, 1
        yield 2
        raise ValueError

    h = harness(Emit())
    with pytest.raises(Exception, match="ValueError"):
        h.process_element(("k", outputs()))
    assert ([1], [2]) == (h.side_output(LATE), h.output)


@pytest.mark.parametrize("outputs", [None, [], (), iter(())], ids=lambda some: type(some).__name__)
def test_no_outputs(outputs):
    """None and every empty iterable mean none."""
    _, main = emitted(outputs)
    assert [] == main


class Indexed:
    """A sequence of the old kind."""

    def __getitem__(self, index: int) -> int:
        return [1, 2][index]


@pytest.mark.parametrize(
    "outputs",
    [[1, 2], (1, 2), iter([1, 2]), range(1, 3), {1: 7, 2: 8}.keys(), Indexed()],
    ids=lambda some: type(some).__name__,
)
def test_any_iterable_gives_outputs(outputs):
    """A tuple that is returned is many outputs."""
    _, main = emitted(outputs)
    assert [1, 2] == main


@pytest.mark.parametrize("single", ["ab", b"ab", Row(a=1), {"a": 1}], ids=repr)
def test_a_single_output_that_is_returned_is_told(single):
    """It would be taken apart: yield is the remedy."""
    with pytest.raises(OutputError, match="yield it instead of returning it"):
        emitted(single)


# What a host takes


def gathered():
    """Outputs before and after the watermark."""
    outputs = Outputs()
    outputs.emit([1, (LATE, 2)], "k")
    outputs.watermark_passes()
    outputs.emit([3, (LATE, 4), (ODD, 5)], "l")
    return outputs


def test_outputs_that_a_host_moved_are_gone():
    """They are in its own lists, and those of the next call are not mixed with them."""
    outputs, main, side = Outputs(), [0], {"late": [1]}
    outputs.emit([1, (LATE, 2)], "k")
    assert [1] == outputs.move_to(main, side)
    assert ([0, 1], {"late": [1, 2]}, Outputs()) == (main, side, outputs)


def test_outputs_that_a_host_took_are_gone():
    """It has them with their keys, those before the watermark first or apart."""
    before = Outputs([1], ["k"], {"late": (["k"], [2])})
    after = Outputs([3], ["l"], {"late": (["l"], [4]), ODD.tag_id: (["l"], [5])})
    sides = {"late": (["k", "l"], [2, 4]), ODD.tag_id: (["l"], [5])}
    apart, together = gathered(), gathered()
    assert (before, after) == apart.take_apart()
    assert Outputs([1, 3], ["k", "l"], sides) == together.take()
    assert ((Outputs(), Outputs()), Outputs()) == (apart.take_apart(), together.take())


class Again(KeyedProcessFunction):
    """Fills one row after the other into what it is given, and puts that out each time."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        self.row = value[1]
        yield from self.rows(3)

    def on_timer(self, timestamp, ctx):
        yield from self.rows(9)

    def rows(self, start):
        for number in (start, start + 1):
            self.row[0] = number
            yield self.row
            yield ODD, self.row


@pytest.mark.parametrize(
    ("row", "expected"), [([0], [[3], [4], [9], [10]]), ({}, [{0: 3}, {0: 4}, {0: 9}, {0: 10}])]
)
def test_a_row_that_is_filled_anew_and_given_again_was_as_it_was(row, expected):
    """As in PyFlink, which writes it at once."""
    h = harness(Again())
    h.process_elements([(("k", row), None)])
    h.process_watermark(5)

    assert (expected, expected) == (h.output, h.side_output(ODD))
