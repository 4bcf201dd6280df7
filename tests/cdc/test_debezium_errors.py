# SPDX-License-Identifier: Apache-2.0
"""Debezium records that cannot be decoded, by whomever written: raised, or inline as events."""

from __future__ import annotations

import json

import pytest
from debezium_hostile_support import deep_records, hostile_records
from debezium_support import NEW, decoded, envelope, record, source
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.cdc import CdcEvent, decode_debezium
from pyflinklike.cdc.envelope import MOST_DEPTH
from pyflinklike.errors import UpsertError, ValueDecodeError

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
    (b'{"op":"c","after":{"id":NaN}}', "must "),
    (b'{"op":"c","after":{"id":1e999}}', "must "),
    (b'{"op":"c","after":{"id":"\\ud800"}}', "must "),
    ('{"op":"c","after":{"id":"\ud800"}}', "must "),
    (b'{"op":"c","after":{"id":' + b"9" * 5_000 + b"}}", "must "),
    (b'{"op":"c","op":"u","after":[]}', "must "),
    (json.dumps(envelope("c", None, NEW, source={"scn": "1", "lcr_position": ["ab"]})), "must "),
    (json.dumps(envelope("c", None, NEW, source=source(lsn="x"))), "must "),
]
"""Bytes that are no text, numbers that are none, and positions of no connector's form, too."""


@pytest.mark.parametrize(("value", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_value_that_is_no_envelope_is_raised_where_it_is(value, message):
    """The message names partition and offset; the class is also a ValueError."""
    broken = {"key": '{"id": 1}', "value": value, "partition": 2, "offset": 40}

    with pytest.raises(ValueDecodeError, match=message) as raised:
        decode_debezium(broken)
    assert "(record at partition 2, offset 40)" in str(raised.value)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(("value", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_value_that_is_no_envelope_is_an_event_with_an_error_inline(value, message):
    """Of its key, so that it takes the row's place."""
    event = decode_debezium({"key": '{"id": 1}', "value": value}, on_error="inline")

    assert (1, None, None) == (event.key, event.before, event.after)
    assert event.error.startswith("ValueDecodeError: ")
    assert message in event.error
    assert "record at" not in event.error  # it is of a file
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


# Records that no connector writes

ORDERS = ["source", "offset", lambda fields: fields["offset"]]


@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 1_000, 100_000])
@pytest.mark.parametrize("place", deep_records(1))
def test_deep_nesting_stops_nothing(place, depth):
    """Wherever it is, in a value, a key or a field that is read or stepped over."""
    deep = deep_records(depth)[place]
    for order in ("source", lambda fields: fields["offset"]):
        event = decode_debezium(deep, order=order, on_error="inline")
        dropped = decode_debezium(deep, order=order, on_error="drop")

        assert (dropped is None) == (event.error is not None)
        assert event.error is None or len(event.error) < 5_000


@pytest.mark.parametrize("place", ["the value", "the key", "a document as text", "after {"])
@pytest.mark.parametrize("is_deep", [False, True], ids=["deep as allowed", "one deeper"])
def test_the_depth_is_the_same_for_all_parts(place, is_deep):
    """So that no later step runs out of stack where another one did not."""
    within = {"the value": 0, "after {": 1}.get(place, 0)  # levels that stand around it
    deep = deep_records(MOST_DEPTH + is_deep - within)[place]
    event = decode_debezium(deep, on_error="inline")

    assert (is_deep or place == "the value") == (event.error is not None)
    if is_deep and place != "the value":
        assert f"more than {MOST_DEPTH} deep" in event.error


def test_a_message_of_a_large_record_is_short():
    """Otherwise every log on the way would get 100 MB."""
    for value in (b"x" * 100_000_000, json.dumps(envelope("c", None, ["y" * 100_000_000]))):
        event = decode_debezium({**record(None, {"id": 1}), "value": value}, on_error="inline")

        assert event.error.startswith("ValueDecodeError")
        assert len(event.error) < 5_000


@given(hostile_records(), st.sampled_from(ORDERS), st.sampled_from([None, "id", ("id", "b")]))
def test_nothing_but_errors_of_ours_whatever_the_bytes(hostile, order, key):
    """And with `on_error="inline"` and `"drop"` none at all."""
    options = {"order": order, "key": key, "truncate": "apply"}
    inline = decode_debezium(hostile, on_error="inline", **options)
    dropped = decode_debezium(hostile, on_error="drop", **options)

    assert isinstance(inline, CdcEvent | None)
    if inline is None or inline.error is not None:
        assert dropped is None
        if inline is not None:
            with pytest.raises(UpsertError) as raised:
                decode_debezium(hostile, **options)
            assert f"{raised.type.__name__}: {raised.value}" == inline.error
    else:
        assert inline == dropped == decode_debezium(hostile, **options)
