# SPDX-License-Identifier: Apache-2.0
"""Debezium records that cannot be decoded: raised, or inline as events."""

from __future__ import annotations

import pytest
from debezium_support import NEW, decoded, envelope, record, records
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.cdc import decode_debezium
from pyflinklike.errors import KeyDecodeError, NullKeyError, ValueDecodeError

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
