# SPDX-License-Identifier: Apache-2.0
"""`UpsertFunction` in the harness."""

import datetime as dt
import importlib.util
import tempfile
from collections import Counter
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    Instant,
    OutputTag,
    Row,
    Types,
)
from pyflinklike.errors import (
    DeclarationValueError,
    NullKeyError,
    OrderKeyError,
    UpsertError,
    ValueDecodeError,
)
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types.order_keys import checked_order, is_newer
from pyflinklike.upsert import UpsertFunction

DAY = 86_400_000
TAG = OutputTag("errors", UpsertFunction.error_type(Types.STRING()))
PERSON = Types.ROW_NAMED(["name", "photo"], [Types.STRING(), Types.STRING()])


def harness(*, key_type=None, restore=None, backend=None, **arguments):
    """A harness over elements with `key`, `value` and, if it is ordered, `order`."""
    arguments = {"value": "value", "value_type": Types.STRING(), **arguments}
    return KeyedProcessHarness(
        UpsertFunction(**arguments),
        key_selector=lambda e: e.key if hasattr(e, "key") else e["key"],
        key_type=key_type,
        restore=restore,
        state_backend=backend,
    )


def ordered(**arguments):
    """The same with order keys."""
    return harness(**{"order_key": "order", **arguments})


def element(value, order=None, key="k", **fields):
    """An element."""
    return Row(key=key, value=value, order=order, **fields)


def changes(rows):
    """Rows without key and error."""
    return [(row.op, row.value, row.diff) for row in rows]


def errors(rows):
    """Rows with their error instead of the value."""
    return [(row.op, row.diff, row.error and row.error.partition(":")[0]) for row in rows]


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


def test_a_deletion_is_remembered():
    """Also that of a key that was never there."""
    h = ordered()

    assert [] == h.process_element(element(None, 5))
    assert [] == h.process_element(element("late", 4))
    assert [("insert", "new", 1)] == changes(h.process_element(element("new", 6)))
    assert 0 == h.num_keyed_state_entries("upsert-tombstone")


def test_a_stale_deletion_deletes_nothing():
    """It is older than what is there."""
    h = ordered()
    h.process_element(element("a", 2))

    assert [] == h.process_element(element(None, 1))
    assert [] == h.process_element(element(None, 2))


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
    kept = [checked_order(order) for order in orders]

    for i, lower in enumerate(kept):
        assert [j > i for j in range(len(kept))] == [is_newer(each, lower) for each in kept]
    h = ordered()
    for order in orders:
        assert "v" == h.process_element(element("v", order))[-1].value


# Errors


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


# Against a dict


_DIRECTORY = tempfile.TemporaryDirectory()
BACKENDS = [HashMapStateBackend()]
if importlib.util.find_spec("rocksdict") is not None:
    BACKENDS.append(EmbeddedRocksDBStateBackend())
    BACKENDS[1].set_db_storage_paths(_DIRECTORY.name)

UPSERTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from(["x", "y", "", 7])),
    max_size=14,
)


def accumulated(rows):
    """The sum of the diffs of each record; each is 0 or 1 after every row, and a key has one."""
    sums, keys = Counter(), Counter()
    for row in rows:
        record = (row.key, row.value, row.error)
        sums[record] += row.diff
        keys[row.key] += row.diff
        assert sums[record] in (0, 1)
        assert keys[row.key] in (0, 1)
        assert (row.diff == 1) == (row.op in ("insert", "update_after"))
        assert row.op in ("update_before", "delete") or row.diff == 1
    return {key: error or value for (key, value, error), n in sums.items() if n}


def is_error(value):
    """Whether a value of `UPSERTS` does not fit."""
    return value == 7


def expected_of(upserts):
    """The value of each key with the highest order key."""
    last = {}
    for order, (key, value) in upserts:
        if key not in last or order > last[key][0]:
            last[key] = (order, value)
    return {key: value for key, (_, value) in last.items() if value is not None}


def matches(expected, actual):
    """Whether records are those; any error for the value that does not fit."""
    shown = {k: 7 if str(v).startswith("ValueDecodeError") else v for k, v in actual.items()}
    return expected == shown


@given(UPSERTS, st.randoms(use_true_random=False), st.data())
def test_the_changes_add_up_to_a_dict(upserts, random, data):
    """In any order of arrival, restarted at any moment and on any backend."""
    numbered = list(enumerate(upserts))
    arriving = random.sample(numbered, len(numbered)) + random.sample(numbered, len(numbered) // 2)
    h, rows = ordered(backend=BACKENDS[0]), []
    for order, (key, value) in arriving:
        rows += h.process_element(element(value, (order // 3, order % 3), key=key))
        if data.draw(st.integers(0, 3)) == 0:
            blob = h.snapshot()
            h.close()
            h = ordered(backend=random.choice(BACKENDS), restore=blob)
        accumulated(rows)
    h.close()

    assert matches(expected_of(numbered), accumulated(rows))


@given(UPSERTS)
def test_without_order_keys_the_changes_add_up_to_the_last(upserts):
    """The later arrival wins."""
    h = harness()
    for key, value in upserts:
        h.process_element(element(value, key=key))

    assert matches(expected_of(list(enumerate(upserts))), accumulated(h.output))


@given(UPSERTS, st.randoms(use_true_random=False))
def test_dropped_errors_are_as_if_they_had_not_come(upserts, random):
    """Whatever order they come in."""
    numbered = list(enumerate(upserts))
    h = ordered(on_error="drop")
    for order, (key, value) in random.sample(numbered, len(numbered)):
        h.process_element(element(value, order, key=key))
    good = [each for each in numbered if not is_error(each[1][1])]
    rows = [Row(**row.as_dict(), error=None) for row in h.output]

    assert expected_of(good) == accumulated(rows)


def test_upsert_errors_are_ours():
    """So that `except UpsertError` catches all of them."""
    assert issubclass(OrderKeyError, UpsertError)
