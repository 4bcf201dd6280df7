# SPDX-License-Identifier: Apache-2.0
"""The keys of Debezium records, and columns that were not logged."""

from __future__ import annotations

import base64
import json

import pytest
from debezium_support import NEW, OLD, PLACEHOLDER, decoded, envelope, record

from pyflinklike.cdc import decode_debezium
from pyflinklike.errors import KeyDecodeError, NullKeyError, ValueDecodeError

# Keys


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"id": 1}, 1),
        ({"id": "1"}, "1"),
        ({"b": 2, "a": "x"}, (2, "x")),
        (5, 5),
        ("text", "text"),
        ([1, "x"], (1, "x")),
        ({"a": 1, "b": None}, (1, None)),
    ],
)
def test_the_key_is_that_of_the_record(own, expected):
    """One column is its value, several a tuple in the key's order; plain JSON is taken as well."""
    assert expected == decode_debezium(record(envelope("c", None, NEW), own)).key


def test_the_key_is_taken_from_columns_of_the_row():
    """For a table without a primary key, whose records have none."""
    row = {"a": 1, "b": "x", "c": None}
    create = {**record(envelope("c", None, row)), "key": None}
    delete = {**record(envelope("d", row)), "key": None}

    assert ("x", 1) == decode_debezium(create, key=["b", "a"]).key
    assert ("x", 1) == decode_debezium(delete, key=["b", "a"]).key
    assert 1 == decode_debezium(create, key="a").key


@pytest.mark.parametrize("own", [None, {}, {"id": None}])
def test_a_record_without_a_key_is_an_error(own):
    """There is no row it could be about."""
    with pytest.raises(NullKeyError, match="name the key's columns with key="):
        decode_debezium({**record(envelope("c", None, {"n": 1})), "key": json.dumps(own)})


def test_a_key_that_is_no_json_is_an_error():
    """As StringConverter writes it."""
    with pytest.raises(KeyDecodeError, match=r"a key must be JSON, got 'Struct\{id=1\}'"):
        decode_debezium({**record(envelope("c", None, NEW)), "key": "Struct{id=1}"})


def test_a_key_column_that_is_nowhere_is_an_error():
    """The message tells which there are."""
    with pytest.raises(KeyDecodeError, match=r"'nr' must be in .* got \['id', 'name'\]"):
        decode_debezium(record(envelope("c", None, NEW)), key="nr")


def test_a_changed_primary_key_is_a_delete_and_a_create():
    """Debezium writes three records of two keys."""
    moved = {"id": 2, "name": "Anne"}
    events = [
        decode_debezium(record(envelope("d", OLD), {"id": 1})),
        decode_debezium(record(None, {"id": 1})),
        decode_debezium(record(envelope("c", None, moved), {"id": 2})),
    ]

    assert [("d", 1, None), ("d", 1, None), ("c", 2, moved)] == [
        (each.op, each.key, each.after) for each in events
    ]


def test_an_update_that_changes_its_key_is_an_error():
    """Taken for one key it would leave the row of the other one behind."""
    with pytest.raises(KeyDecodeError, match="an update must keep its key"):
        decoded("u", OLD, NEW, key="name")


# Columns that were not logged


FORMS = [
    PLACEHOLDER,
    base64.b64encode(PLACEHOLDER.encode()).decode(),
    PLACEHOLDER.encode().hex(),
    [PLACEHOLDER],
    list(PLACEHOLDER.encode()),
    {PLACEHOLDER: PLACEHOLDER},
    json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")),
    ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form)[:20])
def test_a_column_that_was_not_logged_is_missing_and_named(form):
    """In each form that the placeholder takes with the column's type."""
    event = decoded("u", None, {"id": 1, "n": 2, "body": form})

    assert ({"id": 1, "n": 2}, ("body",)) == (event.after, event.unavailable)


def test_a_column_that_was_not_logged_is_that_of_the_row_before():
    """REPLICA IDENTITY FULL logs it there."""
    event = decoded("u", {"id": 1, "body": "long"}, {"id": 1, "body": PLACEHOLDER})

    assert ({"id": 1, "body": "long"}, ()) == (event.after, event.unavailable)


@pytest.mark.parametrize("before", [None, PLACEHOLDER])
def test_a_row_before_that_does_not_know_the_column_either_does_not_fill_it(before):
    """A row before with nothing but the key has nulls for the rest."""
    event = decoded("u", {"id": 1, "body": before}, {"id": 1, "body": PLACEHOLDER})

    assert ({"id": 1}, ("body",)) == (event.after, event.unavailable)


def test_a_column_that_was_not_logged_can_be_null_or_an_error():
    """For programs that have no state to take it from."""
    after = {"id": 1, "body": PLACEHOLDER}

    assert {"id": 1, "body": None} == decoded("u", None, after, unavailable="null").after
    with pytest.raises(ValueDecodeError, match=r"\['body'\] were not logged"):
        decoded("u", None, after, unavailable="error")


def test_the_placeholder_is_the_one_the_connector_was_given():
    """And the default one is a text like any other then."""
    after = {"id": 1, "a": "n/a", "b": PLACEHOLDER}

    event = decoded("u", None, after, placeholder="n/a")

    assert ({"id": 1, "b": PLACEHOLDER}, ("a",)) == (event.after, event.unavailable)
