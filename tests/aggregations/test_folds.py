# SPDX-License-Identifier: Apache-2.0
"""Folds in the harness: what each gives out, of which elements, and when."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from typing import Any

import pytest

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    ReduceFunction,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.aggregations import Fold, Max, MaxBy, Min, MinBy, Sum
from pyflinklike.errors import (
    DeclarationTypeError,
    IncompatibleStateError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.testing import KeyedProcessHarness

ROW = Types.ROW_NAMED(["k", "n", "at"], [Types.STRING(), Types.LONG(), Types.INT()])
ROWS = [Row(k="a", n=5, at=0), Row(k="a", n=3, at=1), Row(k="a", n=3, at=2), Row(k="a", n=8, at=3)]


def folded(function: Any, elements: Any, **options: Any) -> list[Any]:
    """What a fold gives out for elements of one key."""
    with KeyedProcessHarness(Fold(function, **options), key_selector=lambda _: "a") as harness:
        for element in elements:
            harness.process_element(element)
        harness.end_of_input()
        return harness.output


class Joining(ReduceFunction):
    """Joins texts, and counts in state of its own how often it did."""

    def open(self, runtime_context):
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.LONG()))
        self.closed = []

    def reduce(self, value1, value2):
        self.calls.update((self.calls.value() or 0) + 1)
        return f"{value1}{value2}{self.calls.value()}"

    def close(self):
        self.closed.append(True)


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        (Sum, [(5, 0), (8, 0), (11, 0), (19, 0)]),
        (Min, [(5, 0), (3, 0), (3, 0), (3, 0)]),
        (Max, [(5, 0), (5, 0), (5, 0), (8, 0)]),
        (MinBy, [(5, 0), (3, 1), (3, 1), (3, 1)]),
        (MaxBy, [(5, 0), (5, 0), (5, 0), (8, 3)]),
    ],
)
@pytest.mark.parametrize("position", ["n", 1, -2])
def test_a_fold_gives_out_the_fold_so_far_for_every_element(fold, expected, position):
    """Sum, min and max keep the first element's other fields; min_by and max_by the whole element, the earlier on a tie."""
    rows = folded(fold(position), ROWS, type_info=ROW)

    assert expected == [(row.n, row.at) for row in rows]


@pytest.mark.parametrize("fold", [MinBy, MaxBy])
def test_the_earlier_of_equal_elements_stays(fold):
    """A tie does not replace what is there."""
    assert [(1, "first")] * 2 == folded(fold(0), [(1, "first"), (1, "second")])


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([(1, "a"), (2, "b")], [(1, "a"), (3, "a")]),
        ([[1, "a"], [2, "b"]], [[1, "a"], [3, "a"]]),
        ([Row(1, "a"), Row(2, "b")], [Row(1, "a"), Row(3, "a")]),
        ([1, 2], [1, 3]),
        ([1.5, 2], [1.5, 3.5]),
    ],
)
def test_elements_are_tuples_lists_rows_and_plain_values(elements, expected):
    """Each fold is of the kind of its elements."""
    outputs = folded(Sum(), elements)

    assert (expected, type(elements[0])) == (outputs, type(outputs[0]))


def test_a_list_that_is_an_element_is_left_as_it_was():
    """PyFlink folds in place; here nobody's list changes."""
    first = [1, "a"]
    folded(Sum(), [first, [2, "b"]])

    assert [1, "a"] == first


@pytest.mark.parametrize(
    ("position", "elements", "words"),
    [
        (1, [1, 2], r"sum\(1\): 1 is a basic type, which only has the 0th field"),
        ("n", [1, 2], "basic type"),
        (2, [(1, 2), (1, 2)], r"sum\(2\): \(1, 2\) has no such field"),
        ("m", [Row(n=1), Row(n=2)], "has no such field"),
        ("n", [(1,), (2,)], "has no such field"),
    ],
)
def test_an_element_without_the_field_is_refused(position, elements, words):
    """The message names the fold, the element and the remedy."""
    with pytest.raises(StateValueError, match=words):
        folded(Sum(position), elements)


@pytest.mark.parametrize("position", [1.0, None, True, ("n",)])
def test_a_position_is_an_int_or_a_str(position):
    """As in PyFlink, with its words."""
    with pytest.raises(DeclarationTypeError, match="must be of int or str type"):
        MinBy(position)


def test_a_fold_that_is_not_running_gives_out_one_element_per_key_at_the_end():
    """Nothing before the watermark is at its maximum, as in Flink's batch mode; then nothing is left."""
    fold = Fold(Sum("n"), ROW, running=False)
    with KeyedProcessHarness(fold, key_selector=lambda row: row.k) as harness:
        harness.process_elements([(each, None) for each in [*ROWS, Row(k="b", n=1, at=9)]])
        before = harness.process_watermark(10**15)
        after = sorted(harness.end_of_input())
        left = harness.num_keyed_state_entries("_reduce_state"), harness.num_event_time_timers()

    assert ([], [Row(k="a", n=19, at=0), Row(k="b", n=1, at=9)], (0, 0)) == (before, after, left)


def test_a_reduce_function_is_opened_closed_and_has_state_of_its_own():
    """Its state is that of the current key."""
    function = Joining()
    with KeyedProcessHarness(Fold(function), key_selector=lambda text: text[0]) as harness:
        outputs = harness.process_elements([("a", None), ("b", None), ("ax", None), ("ay", None)])

    assert (["a", "b", "aax1", "aax1ay2"], [True]) == (outputs, function.closed)


def test_a_callable_folds():
    """As a `ReduceFunction` does."""
    assert ["a", "ab", "abc"] == folded(lambda a, b: a + b, "abc")


def test_what_is_neither_is_refused():
    """With PyFlink's words."""
    with pytest.raises(DeclarationTypeError, match="must be a ReduceFunction or a callable"):
        Fold("sum")


@pytest.mark.parametrize("elements", [[None], [1, 2]])
def test_none_is_refused_as_element_and_as_fold(elements):
    """It would read as no fold at all, and the next element as the first."""
    with pytest.raises(StateValueError, match="are never None, got None for key 'a'"):
        folded(lambda _, __: None, elements)


def test_a_field_that_is_none_raises():
    """As in Flink: a sum does not make up its mind what None counts for."""
    with pytest.raises(UserFunctionError, match="unsupported operand"):
        folded(Sum("n"), [Row(k="a", n=None, at=0), *ROWS], type_info=ROW)


@pytest.mark.parametrize("backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend])
def test_folds_go_on_after_a_restart(backend):
    """The state has a name that does not change from run to run, as PyFlink's has."""

    def harness(restore=None):
        fold = Fold(MaxBy("n"), ROW)
        return KeyedProcessHarness(
            fold, lambda row: row.k, state_backend=backend(), restore=restore
        )

    with harness() as first:
        first.process_elements([(each, None) for each in ROWS])
        snapshot = first.snapshot()
    with harness(snapshot) as second:
        assert [ROWS[3]] == second.process_element(Row(k="a", n=8, at=9))


@pytest.mark.parametrize("other", [Max("n"), Sum("at"), lambda a, _: a])
def test_the_state_of_one_fold_is_refused_to_another(other):
    """A sum would become a maximum without an error."""
    with KeyedProcessHarness(Fold(Sum("n"), ROW), key_selector=lambda row: row.k) as harness:
        harness.process_element(ROWS[0])
        snapshot = harness.snapshot()

    with pytest.raises(IncompatibleStateError, match=r"sum\('n'\)"):
        KeyedProcessHarness(Fold(other, ROW), key_selector=lambda row: row.k, restore=snapshot)


@pytest.mark.parametrize("backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend])
@pytest.mark.parametrize("before", [True, False], ids=["running", "final"])
def test_whether_a_fold_runs_may_not_change(backend, before):
    """A key that was known gives its fold at the end only if it was to, and then not twice."""
    with KeyedProcessHarness(Fold(Sum(1), running=before), lambda each: each[0]) as harness:
        harness.process_element(("a", 1))
        stored = harness.snapshot()
    now = Fold(Sum(1), running=not before)
    expected = f"keeps when a key gives out its fold, .*pass running={before}"
    with pytest.raises(IncompatibleStateError, match=expected):
        KeyedProcessHarness(now, lambda each: each[0], state_backend=backend(), restore=stored)


# Many elements at once


FIELDS = {
    Types.LONG(): [None, 1, -3, 2**63 - 1, -(2**63)],
    Types.INT(): [None, 1, -3, 2**31 - 1, -(2**31)],
    Types.DOUBLE(): [0.0, -0.0, 0.1, 1e16, -1e16, 1.0, math.inf, -math.inf],
    Types.FLOAT(): [0.5, 0.25, 1e8],
    Types.STRING(): [None, "", "a", "\u00e9"],
    Types.SQL_DATE(): [None, dt.date(2000, 1, 1), dt.date(1999, 1, 1)],
}
"""Types of fields, and values that show what is done to them."""


def elements_of(shape: str, kind: Any, values: Any) -> tuple[Any, list[Any]]:
    """A type, and elements of it with these values, which differ in the other field, too."""
    if shape == "value":
        return kind, list(values)
    fields = list(zip("abc", values))
    if shape == "tuple":
        return Types.TUPLE([Types.STRING(), kind]), fields
    row_type = Types.ROW_NAMED(["k", "n"], [Types.STRING(), kind])
    return row_type, [Row(k=k, n=n) for k, n in fields]


def made(fold: Any, *given: Any) -> Any:
    """What a fold makes, or that it raises."""
    try:
        return repr(fold(*given))
    except (StateValueError, TypeError):
        return "raises"


def one_by_one(function: Any, type_info: Any, elements: Any) -> Any:
    """The fold of elements, stored after each of them."""
    stored = type_info.freeze(elements[0])
    for element in elements[1:]:
        stored = type_info.freeze(function.reduce(type_info.thaw(stored), element))
    return stored


def many_at_once(at_once: Any, type_info: Any, elements: Any) -> Any:
    """The fold of elements, stored after the last of them."""
    return type_info.freeze(at_once(elements))


@pytest.mark.parametrize("fold", [Sum, Min, Max, MinBy, MaxBy])
@pytest.mark.parametrize(("shape", "position"), [("row", "n"), ("tuple", -1), ("value", 0)])
def test_many_elements_at_once_are_folded_as_one_by_one(fold, shape, position):
    """To the very same result, and refused where one by one they are: three of any kinds."""
    function, kinds, refused = fold(position), set(), 0
    for kind, known in FIELDS.items():
        for values in itertools.product(known, repeat=3):
            type_info, elements = elements_of(shape, kind, values)
            at_once = function.make_stored_fold(type_info)
            if at_once is None or not type_info.are_stored(elements):
                continue
            expected = made(one_by_one, function, type_info, elements)
            assert expected == made(many_at_once, at_once, type_info, elements), elements
            kinds.add(kind)
            refused += expected == "raises"
    assert {Types.LONG(), Types.INT(), Types.DOUBLE()} <= kinds
    assert shape == "value" or refused


class OwnSum(Sum):
    """A fold that a user has derived from ours."""


@pytest.mark.parametrize(
    ("expected", "function", "type_info"),
    [
        (True, Sum("n"), ROW),
        (True, MinBy("k"), ROW),
        (True, Max(0), Types.DOUBLE()),
        (True, Sum(-1), Types.TUPLE([Types.STRING(), Types.LONG()])),
        (False, OwnSum("n"), ROW),
        (False, Sum("k"), ROW),
        (False, Sum("none"), ROW),
        (False, Sum(1), Types.LONG()),
        (False, Sum(0), Types.FLOAT()),
        (False, Max(0), Types.PICKLED_BYTE_ARRAY()),
        (False, Max(0), Types.TUPLE([Types.LONG(), Types.LIST(Types.LONG())])),
    ],
)
def test_which_folds_take_many_elements_at_once(expected, function, type_info):
    """Ours, of types that store values as they are, by a field that there is."""
    assert expected == (function.make_stored_fold(type_info) is not None)
