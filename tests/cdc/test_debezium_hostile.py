# SPDX-License-Identifier: Apache-2.0
"""Records that no connector writes: each is an error of its own, and stops nothing."""

from __future__ import annotations

import json

import pytest
from debezium_hostile_support import deep_records, hostile_records
from debezium_support import envelope, record, source
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.cdc import CdcEvent, decode_debezium
from pyflinklike.cdc.envelope import MOST_DEPTH
from pyflinklike.errors import UpsertError, ValueDecodeError

NEW = {"id": 1, "name": "Ann"}
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


@pytest.mark.parametrize(
    "value",
    [
        b"\xff\xfe",
        b'{"op":"c","after":{"id":NaN}}',
        b'{"op":"c","after":{"id":1e999}}',
        b'{"op":"c","after":{"id":"\\ud800"}}',
        '{"op":"c","after":{"id":"\ud800"}}',
        b'{"op":"c","after":{"id":' + b"9" * 5_000 + b"}}",
        b'{"op":"c","op":"u","after":[]}',
        json.dumps(envelope("c", None, NEW, source={"scn": "1", "lcr_position": ["ab"]})),
        json.dumps(envelope("c", None, NEW, source=source(lsn="x"))),
        7,
    ],
    ids=repr,
)
def test_what_is_no_envelope_is_an_error(value):
    """Bytes that are no text, numbers that are none, and positions of no connector's form."""
    broken = {**record(None, {"id": 1}), "value": value}
    with pytest.raises(ValueDecodeError):
        decode_debezium(broken)

    assert decode_debezium(broken, on_error="inline").error is not None
    assert decode_debezium(broken, on_error="drop") is None


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
            with pytest.raises(UpsertError):
                decode_debezium(hostile, **options)
    else:
        assert inline == dropped == decode_debezium(hostile, **options)
