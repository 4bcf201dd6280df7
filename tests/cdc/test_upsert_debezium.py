# SPDX-License-Identifier: Apache-2.0
"""Debezium records decoded one by one."""

from __future__ import annotations

import base64
import json

import pytest
from debezium_support import PLACEHOLDER, envelope, record, records, source, wrapped
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.cdc import CdcEvent, decode_debezium
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    KeyDecodeError,
    NullKeyError,
    ValueDecodeError,
)

OLD, NEW = {"id": 1, "name": "Anne"}, {"id": 1, "name": "Ann"}


def decoded(op, before=None, after=None, **options):
    """The event of an envelope."""
    return decode_debezium(record(envelope(op, before, after)), **options)


# What the envelope says


def test_a_create_is_an_event_with_all_its_fields():
    """Everything an upsert and a view may ask for."""
    expected = CdcEvent(
        op="c",
        key=1,
        before=None,
        after=NEW,
        order_key=(1, 24_023_128, 1, 24_023_128),
        event_time=1_559_033_904_863,
        snapshot=False,
        source=source(),
        error=None,
        unavailable=(),
    )

    assert expected == decoded("c", None, NEW)


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [("c", None, NEW), ("u", OLD, NEW), ("u", None, NEW), ("d", OLD, None), ("r", None, NEW)],
)
def test_an_operation_on_a_row_keeps_both_its_sides(op, before, after):
    """The row before may be missing: the database need not log it."""
    event = decode_debezium(record(envelope(op, before, after), {"id": 1}))

    assert (op, 1, before, after) == (event.op, event.key, event.before, event.after)


def test_an_operation_is_known_in_either_case():
    """As Debezium's `Operation.forCode`."""
    assert "u" == decoded("U", None, NEW).op


@pytest.mark.parametrize("encode", [str, str.encode, lambda text: bytearray(text.encode())])
def test_json_is_taken_as_text_and_as_bytes(encode):
    """Spark gives bytes, many clients text."""
    plain = record(envelope("c", None, NEW))
    encoded = {**plain, "key": encode(plain["key"]), "value": encode(plain["value"])}

    assert decode_debezium(plain) == decode_debezium(encoded)


def test_an_envelope_wrapped_in_its_schema_is_the_same_event():
    """The converter wraps value and key, together or one of them."""
    value = envelope("u", OLD, NEW)
    plain = decode_debezium(record(value))

    assert plain == decode_debezium(record(wrapped(value), wrapped({"id": 1})))
    assert plain == decode_debezium(record(wrapped(value), {"id": 1}))
    assert plain == decode_debezium(record(value, wrapped({"id": 1})))


def test_a_column_called_payload_is_a_column():
    """Only an object of exactly schema and payload wraps a key."""
    row = {"id": 1, "payload": 3}
    event = decode_debezium(record(envelope("c", None, row), row))

    assert (1, 3) == event.key


def test_a_document_of_mongodb_is_parsed_from_its_text():
    """Its `before` and `after` are JSON in a string."""
    value = envelope("c", None, json.dumps({"_id": 4, "n": [1]}), source={"ord": 1, "ts_ms": 9})

    assert {"_id": 4, "n": [1]} == decode_debezium(record(value, {"id": "4"})).after


@pytest.mark.parametrize(
    ("committed", "processed", "expected"), [(5, 9, 5), (0, 9, 9), (None, 9, 9), (None, None, None)]
)
def test_the_event_time_is_that_of_the_commit(committed, processed, expected):
    """And the connector's own only where a snapshot has no other."""
    value = envelope("c", None, NEW, source=source(ts_ms=committed), ts_ms=processed)

    assert expected == decode_debezium(record(value)).event_time


def test_a_message_in_the_log_is_nothing_to_apply():
    """`pg_logical_emit_message` writes them, with the prefix as key."""
    value = {"op": "m", "ts_ms": 1, "source": source(), "message": {"prefix": "p", "content": ""}}

    assert decode_debezium(record(value, {"prefix": "p"})) is None


# Tombstones


@pytest.mark.parametrize("value", [None, "null", b"null", '{"schema": {}, "payload": null}'])
def test_a_tombstone_is_a_delete(value):
    """Without a value, or with what converters make of none."""
    event = decode_debezium({**record(None, {"id": 1}, offset=7), "value": value})

    assert CdcEvent("d", 1, None, None, (0, 0, 7)) == event


def test_an_empty_value_is_no_tombstone():
    """It is a damaged record."""
    with pytest.raises(ValueDecodeError, match="must be the JSON of a Debezium envelope"):
        decode_debezium({**record(None, {"id": 1}), "value": ""})


def test_a_tombstone_is_below_the_delete_it_follows_and_below_the_next_life():
    """Late or repeated, it deletes nothing that is there."""
    tombstone = decode_debezium(record(None, {"id": 1}, offset=8))

    assert tombstone.order_key < decoded("d", OLD).order_key
    assert tombstone.order_key < decoded("c", None, NEW).order_key


def test_a_tombstone_without_the_columns_asked_for_is_nothing_to_apply():
    """The delete before it had the row, and so the key."""
    assert decode_debezium(record(None, {"id": 1}), key="name") is None


def test_a_tombstone_without_an_offset_is_below_everything():
    """It still has an order, which an upsert asks for."""
    tombstone = decode_debezium({"key": "1", "value": None})

    assert tombstone.order_key < decode_debezium(record(None, 1, offset=0)).order_key


def test_a_tombstone_is_nothing_to_a_function_that_orders():
    """There is no envelope that it could read, and the delete was applied."""
    assert decode_debezium(record(None, {"id": 1}), order=lambda each: each["offset"]) is None


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
    """For who has no state to take it from."""
    after = {"id": 1, "body": PLACEHOLDER}

    assert {"id": 1, "body": None} == decoded("u", None, after, unavailable="null").after
    with pytest.raises(ValueDecodeError, match=r"\['body'\] were not logged"):
        decoded("u", None, after, unavailable="error")


def test_the_placeholder_is_the_one_the_connector_was_given():
    """And the default one is a text like any other then."""
    after = {"id": 1, "a": "n/a", "b": PLACEHOLDER}

    event = decoded("u", None, after, placeholder="n/a")

    assert ({"id": 1, "b": PLACEHOLDER}, ("a",)) == (event.after, event.unavailable)


# Truncation


def test_a_truncation_is_an_error_unless_something_else_is_asked_for():
    """Nobody's table should stay full without a word."""
    record_ = {**record(envelope("t")), "key": None}

    with pytest.raises(ValueDecodeError, match="truncate='ignore' or truncate='apply'"):
        decode_debezium(record_)
    assert decode_debezium(record_, truncate="ignore") is None
    event = decode_debezium(record_, truncate="apply")
    assert ("t", None, None, None) == (event.op, event.key, event.before, event.after)
    assert event.order_key > decode_debezium(record(None, {"id": 1})).order_key


# The order


def test_the_order_is_the_offset_where_that_is_asked_for():
    """Within Kafka's partition it is that of the connector."""
    place = {"partition": 3, "offset": 12}

    assert (3, 12) == decode_debezium(
        record(envelope("c", None, NEW), **place), order="offset"
    ).order_key
    assert (3, 12) == decode_debezium(record(None, {"id": 1}, **place), order="offset").order_key


def test_an_order_by_offset_needs_one():
    """Without it no order would be right."""
    with pytest.raises(ValueDecodeError, match="order='offset' needs a partition and an offset"):
        decode_debezium(record(envelope("c", None, NEW), offset=None), order="offset")


def test_a_function_orders_by_the_record_and_the_envelope():
    """It sees both, parsed."""
    seen = []
    value = envelope("c", None, NEW)

    def order(each):
        seen.append(each)
        return each["source"]["lsn"], each["offset"]

    event = decode_debezium(record(wrapped(value), wrapped({"id": 1}), offset=5), order=order)

    assert (24_023_128, 5) == event.order_key
    assert [{**value, "key": {"id": 1}, "value": value, "partition": 0, "offset": 5}] == seen


def test_a_function_that_raises_is_an_error_of_the_record():
    """Which is named, and follows `on_error`."""
    with pytest.raises(ValueDecodeError, match="order must tell the order of a record, got KeyErr"):
        decoded("c", None, NEW, order=lambda each: each["nothing"])


# Errors

BROKEN = [
    ("{", "must be the JSON"),
    ("[]", "must be the JSON"),
    ('"text"', "must be the JSON"),
    ("NaN", "must be the JSON"),
    (b"\xff", "must be the JSON"),
    (17, "must be the JSON"),
    ('{"op": 5}', "must be the JSON"),
    ('{"op": "c", "after": {"id": 1}, "source": []}', "must be the JSON"),
    ('{"id": 1, "name": "flat"}', "ExtractNewRecordState"),
    ('{"op": "x", "after": {"id": 1}}', "got 'x'"),
    ('{"op": "u", "after": null}', "must come with the row after it"),
    ('{"op": "c"}', "must come with the row after it"),
    ('{"op": "c", "after": [1]}', "'after' must be an object"),
    ('{"op": "c", "after": "{"}', "'after' as text must be the JSON of a document"),
]


@pytest.mark.parametrize(("value", "message"), BROKEN)
def test_a_value_that_is_no_envelope_is_raised_where_it_is(value, message):
    """The message names partition and offset; the class is also a ValueError."""
    broken = {"key": '{"id": 1}', "value": value, "partition": 2, "offset": 40}

    with pytest.raises(ValueDecodeError, match=message) as raised:
        decode_debezium(broken)
    assert "(record at partition 2, offset 40)" in str(raised.value)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(("value", "message"), BROKEN)
def test_a_value_that_is_no_envelope_is_an_event_with_an_error_inline(value, message):
    """Of its key, so that it takes the row's place."""
    event = decode_debezium({"key": '{"id": 1}', "value": value}, on_error="inline")

    assert (1, None, None) == (event.key, event.before, event.after)
    assert event.error.startswith("ValueDecodeError: ")
    assert message in event.error
    assert decode_debezium({"key": '{"id": 1}', "value": value}, on_error="drop") is None


def test_an_error_inline_keeps_its_place_in_the_order():
    """The position was readable: an upsert must not take the error for an old one."""
    event = decoded("u", None, None, on_error="inline")
    event_of_key = decode_debezium(record(envelope("u", None, None), {"id": 1}), on_error="inline")

    assert decoded("c", None, NEW).order_key == event.order_key == event_of_key.order_key
    assert (1, 1_559_033_904_863) == (event_of_key.key, event_of_key.event_time)


def test_an_error_whose_place_is_not_known_has_none():
    """An offset would be below the row it is about, and the error lost as stale."""
    place = {"key": "1", "partition": 1, "offset": 6}

    for value in ("{", '{"id": 1, "name": "flat"}', '{"op": "c", "source": {"lsn": "x"}}'):
        broken = {**place, "value": value}
        assert decode_debezium(broken, on_error="inline").order_key is None
        assert (1, 6) == decode_debezium(broken, on_error="inline", order="offset").order_key


def test_an_error_of_the_key_is_inline_as_well():
    """The event has none then."""
    event = decode_debezium({"key": "{", "value": None}, on_error="inline")

    assert (None, True) == (event.key, event.error.startswith("KeyDecodeError: "))


@given(st.none() | st.text(max_size=30) | st.binary(max_size=30), st.none() | st.text(max_size=9))
def test_any_record_is_an_event_or_an_error(value, key):
    """Nothing but the errors of an upsert is raised, and inline nothing is lost."""
    broken = {"key": key, "value": value, "partition": 0, "offset": 0}
    event = decode_debezium(broken, on_error="inline")

    if event.error is None:
        assert event == decode_debezium(broken)
    else:
        with pytest.raises((KeyDecodeError, NullKeyError, ValueDecodeError)) as raised:
            decode_debezium(broken)
        assert f"{raised.type.__name__}: {raised.value}" == event.error


@given(records())
def test_decoding_does_not_depend_on_what_to_do_with_errors(each):
    """A good record is the same event three times."""
    event = decode_debezium(each)

    assert event == decode_debezium(each, on_error="inline")
    assert event == decode_debezium(each, on_error="drop")


# Arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "lsn"}, "order must be one of"),
        ({"truncate": "maybe"}, "truncate must be one of"),
        ({"unavailable": "drop"}, "unavailable must be one of"),
        ({"on_error": "log"}, "on_error must be one of"),
        ({"on_error": "side_output"}, "side outputs are an operator's"),
    ],
)
def test_an_argument_out_of_its_range_is_refused(options, message):
    """Before anything is decoded."""
    with pytest.raises(DeclarationValueError, match=message):
        decoded("c", None, NEW, **options)


@pytest.mark.parametrize("options", [{"key": ()}, {"key": [1]}, {"placeholder": ""}])
def test_an_argument_of_the_wrong_kind_is_refused(options):
    """With a TypeError."""
    with pytest.raises(DeclarationTypeError):
        decoded("c", None, NEW, **options)


def test_what_is_neither_record_nor_dataframe_is_refused():
    """A Row has to be made a dict; the other door is named."""
    with pytest.raises(DeclarationTypeError, match=r"row\.asDict\(\).*spark\.decode_debezium"):
        decode_debezium(("key", "value"))
