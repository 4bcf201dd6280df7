# SPDX-License-Identifier: Apache-2.0
"""Debezium records decoded one by one: envelopes, tombstones, truncation, order, arguments."""

from __future__ import annotations

import json

import pytest
from debezium_support import NEW, OLD, decoded, envelope, record, source, wrapped

from pyflinklike.cdc import CdcEvent, decode_debezium
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, ValueDecodeError

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


MESSAGE = {"op": "m", "ts_ms": 1, "source": source(), "message": {"prefix": "p", "content": ""}}


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (record(MESSAGE, {"prefix": "p"}), {}),
        (record(None, {"id": 1}), {"key": "name"}),
        (record(None, {"id": 1}), {"order": lambda each: each["offset"]}),
    ],
    ids=["a message in the log", "a tombstone without the key", "a tombstone without an order"],
)
def test_what_changes_no_row_is_nothing_to_apply(given, options):
    """`pg_logical_emit_message` writes messages; a tombstone follows a delete that was applied."""
    assert decode_debezium(given, **options) is None


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


def test_a_tombstone_without_an_offset_is_below_everything():
    """It still has an order, which an upsert asks for."""
    tombstone = decode_debezium({"key": "1", "value": None})

    assert tombstone.order_key < decode_debezium(record(None, 1, offset=0)).order_key


# Truncation


def test_a_truncation_is_an_error_unless_something_else_is_asked_for():
    """A table must not stay full silently."""
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
    with pytest.raises(
        ValueDecodeError, match="order must return the order of a record, got KeyErr"
    ):
        decoded("c", None, NEW, order=lambda each: each["nothing"])


# Arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "lsn"}, "order must be one of"),
        ({"truncate": "maybe"}, "truncate must be one of"),
        ({"unavailable": "drop"}, "unavailable must be one of"),
        ({"on_error": "log"}, "on_error must be one of"),
        ({"on_error": "side_output"}, "only operators have side outputs"),
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
