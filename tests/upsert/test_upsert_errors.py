# SPDX-License-Identifier: Apache-2.0
"""Errors of `UpsertFunction`: as values, on the side, or raised."""

import pytest
from upsert_support import changes, element, ordered

from pyflinklike import OutputTag, Types
from pyflinklike.errors import NullKeyError, OrderKeyError, UpsertError, ValueDecodeError
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.upsert import UpsertFunction

TAG = OutputTag("errors", UpsertFunction.error_type(Types.STRING()))


def errors(rows):
    """Rows with their error instead of the value."""
    return [(row.op, row.diff, row.error and row.error.partition(":")[0]) for row in rows]


@pytest.mark.parametrize("order", [None, float("nan"), {"a": 1}, (1, {}), object()])
def test_an_order_key_without_an_order_is_an_error(order):
    """Of the data, as a value."""
    [row] = ordered().process_element(element("a", order))

    assert ("insert", None, 1) == (row.op, row.value, row.diff)
    assert row.error.startswith("OrderKeyError: ")


def test_order_keys_of_two_kinds_are_an_error():
    """It takes the place of the record, and its order key."""
    h = ordered()
    h.process_element(element("a", 5))

    assert [("update_before", -1, None), ("update_after", 1, "OrderKeyError")] == errors(
        h.process_element(element("b", "5"))
    )
    assert [] == h.process_element(element("c", 5))
    assert [("update_before", -1, "OrderKeyError"), ("update_after", 1, None)] == errors(
        h.process_element(element("d", 6))
    )


def fail(_):
    """A decoder that fails."""
    raise ValueError("no JSON")


@pytest.mark.parametrize(
    ("arguments", "bad", "name"),
    [
        ({}, element(5, 2), "ValueDecodeError"),
        (
            {"value": lambda e: e.value if e.order == 1 else fail(e)},
            element("x", 2),
            "ValueDecodeError",
        ),
        (
            {"value": lambda e: e.value if e.order == 1 else NullKeyError("x")},
            element(1, 2),
            "NullKeyError",
        ),
        ({}, element(None, 2, error="KeyDecodeError: bad bytes"), "KeyDecodeError"),
        ({}, element(None, 2, error="any text"), "ValueDecodeError"),
        (
            {"order_key": lambda e: e.order if e.order == 1 else fail(e)},
            element(1, 2),
            "OrderKeyError",
        ),
    ],
)
def test_an_error_is_a_value(arguments, bad, name):
    """It replaces the record, and is replaced or deleted by what comes next."""
    h = ordered(**arguments)
    h.process_element(element("a", 1))

    replaced = [("update_before", -1, None), ("update_after", 1, name)]
    assert replaced == errors(h.process_element(bad))
    assert 1 == h.metrics()["upsert_errors"]
    function = UpsertFunction(value="value", order_key="order", value_type=Types.STRING())
    later = KeyedProcessHarness(function, key_selector=lambda e: e.key, restore=h.snapshot())
    [deleted] = later.process_element(element(None, 9))
    assert ("delete", None, -1, name) == (*deleted[1:4], deleted.error.partition(":")[0])


def test_the_same_text_comes_and_goes():
    """A consumer that adds up diffs has nothing left."""
    h = ordered()
    [came] = h.process_element(element(5, 1))
    [went] = h.process_element(element(None, 2))

    assert came.error == went.error
    assert "STRING" in came.error.upper()


def test_a_stale_error_is_dropped():
    """It is older than what is there."""
    h = ordered()
    h.process_element(element("a", 5))

    assert [] == h.process_element(element(5, 4))


def test_a_field_error_beside_a_value_is_the_users_own():
    """Only without a value it tells why there is none."""
    h = ordered()

    assert [("insert", "a", 1)] == changes(h.process_element(element("a", 1, error="their own")))


@pytest.mark.parametrize(("on_error", "sent"), [("side_output", 1), ("drop", 0)])
def test_a_diverted_error_leaves_the_record(on_error, sent):
    """It goes to the side output, or is counted only."""
    h = ordered(on_error=on_error, error_tag=TAG)
    h.process_element(element("a", 1))

    assert [] == h.process_element(element(5, 3))
    assert [("update_before", "a", -1), ("update_after", "b", 1)] == changes(
        h.process_element(element("b", 2))
    )
    assert 1 == h.metrics()["upsert_errors"]
    side = h.side_output(TAG)
    assert sent == len(side)
    assert all(
        ("k", "ValueDecodeError", True) == (row.key, row.error[:16], "value=5" in row.element)
        for row in side
    )


@pytest.mark.parametrize(
    ("bad", "error"),
    [(element(5, 2), ValueDecodeError), (element("a", None), OrderKeyError)],
)
def test_an_error_may_be_raised(bad, error):
    """As what it is; the record stays as it was."""
    h = ordered(on_error="raise")
    h.process_element(element("a", 1))

    with pytest.raises(error):
        h.process_element(bad)
    assert [("delete", "a", -1)] == changes(h.process_element(element(None, 2)))


def test_all_null_keys_share_one_error():
    """It is retracted by a deletion under them, as Materialize says."""
    h = ordered(key_type=Types.TUPLE([Types.STRING(), Types.STRING()]))
    [row] = h.process_element(element("a", 1, key=(None, None)))

    assert row.error.startswith("NullKeyError: record with NULL key in UPSERT source")
    assert [("insert", "a", 1)] == changes(h.process_element(element("a", 1, key=("x", None))))
    assert [("delete", -1, "NullKeyError")] == errors(
        h.process_element(element(None, 2, key=(None, None)))
    )


def test_upsert_errors_are_ours():
    """So that `except UpsertError` catches all of them."""
    assert issubclass(OrderKeyError, UpsertError)
