# SPDX-License-Identifier: Apache-2.0
"""`UpsertFunction` in the harness: changes, order, columns left alone, declarations."""

import datetime as dt
from decimal import Decimal
from types import SimpleNamespace

import pytest
from upsert_support import changes, element, harness, ordered

from pyflinklike import Instant, Row, Types
from pyflinklike.errors import DeclarationValueError
from pyflinklike.upsert import UpsertFunction
from pyflinklike.views.order_keys import check_order, is_newer

DAY = 86_400_000


PERSON = Types.ROW_NAMED(["name", "photo"], [Types.STRING(), Types.STRING()])


# Changes


def test_a_value_is_inserted_updated_and_deleted():
    """The old value is retracted by the function."""
    h = harness()

    assert [Row(key="k", op="insert", value="a", diff=1, error=None)] == h.process_element(
        element("a")
    )
    assert [("update_before", "a", -1), ("update_after", "b", 1)] == changes(
        h.process_element(element("b"))
    )
    assert [("delete", "b", -1)] == changes(h.process_element(element(None)))
    assert [] == h.process_element(element(None))


def test_a_repeated_value_is_an_update():
    """It consolidates to nothing; as Materialize."""
    h = harness()
    h.process_element(element("a"))

    assert [("update_before", "a", -1), ("update_after", "a", 1)] == changes(
        h.process_element(element("a"))
    )


def test_rows_have_an_error_only_where_errors_are_inline():
    """As `output_type` says."""
    inline = UpsertFunction(value="v", value_type=Types.LONG())
    drop = UpsertFunction(value="v", value_type=Types.LONG(), on_error="drop")

    assert ["key", "op", "value", "diff", "error"] == inline.output_type(
        Types.STRING()
    ).get_field_names()
    assert ["key", "op", "value", "diff"] == drop.output_type(Types.STRING()).get_field_names()
    assert [("k", "insert", "a", 1)] == harness(on_error="drop").process_element(element("a"))


@pytest.mark.parametrize(
    "make",
    [
        lambda v: Row(key="k", value=v, order=1),
        lambda v: {"key": "k", "value": v, "order": 1},
        lambda v: SimpleNamespace(key="k", value=v, order=1),
    ],
    ids=["row", "dict", "object"],
)
def test_an_element_may_be_a_row_a_dict_or_an_object(make):
    """Fields are looked up accordingly."""
    assert [("insert", "a", 1)] == changes(ordered().process_element(make("a")))


def test_value_and_order_may_be_functions_of_the_element():
    """They are given the element."""
    h = harness(value=lambda e: e.value and e.value.upper(), order_key=lambda e: -e.order)

    assert [("insert", "A", 1)] == changes(h.process_element(element("a", 5)))
    assert [] == h.process_element(element("b", 6))
    assert [("delete", "A", -1)] == changes(h.process_element(element(None, 4)))


def test_what_is_retracted_is_what_was_yielded():
    """Though the state rounds a value, or makes a row of a dict."""
    h = harness(value_type=Types.FLOAT())
    [inserted] = h.process_element(element(0.1))
    [deleted] = h.process_element(element(None))
    rows = harness(value_type=PERSON)
    [inserted_row] = rows.process_element(element({"photo": None, "name": "n"}))
    [deleted_row] = rows.process_element(element(None))

    assert inserted.value == deleted.value != 0.1
    assert Row(name="n", photo=None) == inserted_row.value == deleted_row.value


def test_a_field_that_is_not_there_is_a_mistake_of_the_program():
    """Not an error of every record."""
    with pytest.raises(DeclarationValueError, match="must have the field 'valeu'"):
        harness(value="valeu").process_element(element("a"))


# Order


def test_the_highest_order_key_wins():
    """What is older, or came before, is dropped and counted."""
    h = ordered()
    h.process_element(element("b", 2))

    assert [] == h.process_element(element("a", 1))
    assert [] == h.process_element(element("again", 2))
    assert [("update_before", "b", -1), ("update_after", "c", 1)] == changes(
        h.process_element(element("c", 3))
    )
    assert 2 == h.metrics()["stale_upserts"]


def test_a_tombstone_expires():
    """Seven days after the deletion what is older is taken for new."""
    h = ordered()
    h.process_element(element(None, 5))
    h.set_processing_time(7 * DAY - 1)
    assert [] == h.process_element(element("late", 4))

    h.set_processing_time(7 * DAY)
    assert [("insert", "later", 1)] == changes(h.process_element(element("later", 4)))


def test_a_tombstone_may_stay_for_ever():
    """With a TTL of None."""
    h = ordered(tombstone_ttl=None)
    h.process_element(element(None, 5))
    h.set_processing_time(10**6 * DAY)

    assert [] == h.process_element(element("late", 4))


def test_a_record_does_not_expire():
    """Only tombstones do."""
    h = ordered(tombstone_ttl=dt.timedelta(milliseconds=1))
    h.process_element(element("a", 5))
    h.set_processing_time(10**6 * DAY)

    assert [] == h.process_element(element("late", 4))


def test_arrival_needs_no_tombstones():
    """Nothing is left of what was deleted."""
    h = harness()
    h.process_element(element("a"))
    h.process_element(element(None))

    assert (0, 0) == (
        h.num_keyed_state_entries("upsert"),
        h.num_keyed_state_entries("upsert-tombstone"),
    )


@pytest.mark.parametrize(
    "orders",
    [
        [-(2**70), -1, 0, 0.5, Decimal("0.75"), 1, 2**70],
        ["", "B", "a", "aa", "\U0001f600"],
        [b"", b"\x00", b"\xff"],
        [(), (None,), (None, 1), (0,), (0, -5), [0, 1], Row(a=1, b=(1, None)), (1, (1, 0))],
        [dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1)],
        [dt.date(1, 1, 1), dt.date(2024, 1, 1)],
        [Instant(-1, 5), Instant(0, 0), Instant(0, 1)],
        [False, True],
    ],
    ids=lambda orders: type(orders[-1]).__name__,
)
def test_whatever_compares_is_an_order_key(orders):
    """In Python's order, and Spark's: None first, a prefix before what it begins."""
    kept = [check_order(order) for order in orders]

    for i, lower in enumerate(kept):
        assert [j > i for j in range(len(kept))] == [is_newer(each, lower) for each in kept]
    h = ordered()
    for order in orders:
        assert "v" == h.process_element(element("v", order))[-1].value


# Columns that a change leaves alone


def test_an_unavailable_column_is_that_of_the_row_before():
    """As Debezium has it of PostgreSQL's out-of-line values."""
    h = ordered(value_type=PERSON)
    h.process_element(element(Row(name="n", photo="large"), 1, unavailable=()))
    rows = h.process_element(element({"name": "m"}, 2, unavailable=("photo",)))
    rows += h.process_element(element(Row(name="o", photo=None), 3, unavailable=["photo"]))

    assert ["large"] * 4 == [row.value.photo for row in rows]
    assert ["n", "m", "m", "o"] == [row.value.name for row in rows]


@pytest.mark.parametrize("before", [[], [element(None, 1)], [element(5, 1)]])
def test_an_unavailable_column_that_nobody_knows_is_an_error(before):
    """Not a null that was never there."""
    h = ordered(value_type=PERSON)
    h.process_elements((each, None) for each in before)
    row = h.process_element(element({"name": "m"}, 2, unavailable=("photo",)))[-1]

    assert row.error.startswith("ValueDecodeError: columns that a change leaves alone")


def test_a_field_unavailable_that_is_no_list_is_the_users_own():
    """A flag, for example."""
    h = ordered()

    assert [("insert", "a", 1)] == changes(h.process_element(element("a", 1, unavailable=True)))


# Declarations


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"on_error": "ignore"}, ValueError),
        ({"on_error": None}, ValueError),
        ({"on_error": "side_output"}, ValueError),
        ({"error_tag": "errors"}, TypeError),
        ({"value": None}, TypeError),
        ({"value": ""}, TypeError),
        ({"order_key": 5}, TypeError),
        ({"value_type": str}, TypeError),
        ({"tombstone_ttl": "a week"}, TypeError),
        ({"tombstone_ttl": dt.timedelta(0)}, ValueError),
    ],
)
def test_arguments_are_checked_when_it_is_made(arguments, error):
    """With an error of the kind that Python has."""
    with pytest.raises(error):
        UpsertFunction(**{"value": "v", "value_type": Types.STRING(), **arguments})
