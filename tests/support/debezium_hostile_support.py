# SPDX-License-Identifier: Apache-2.0
"""Debezium records that no connector writes: nested too deep, or with bytes and fields of any kind."""

from __future__ import annotations

import json
from typing import Any

from debezium_support import NEW, envelope, record, records, values
from hypothesis import strategies as st


def nested(depth: int, mark: str = "[") -> str:
    """JSON of so many arrays, or objects, within one another."""
    begin, end = ("[", "]") if mark == "[" else ('{"a":', "}")
    return begin * depth + "1" + end * depth


def deep_records(depth: int) -> dict[str, dict[str, Any]]:
    """A record for each place that can be nested."""
    whole = record(envelope("u", NEW, NEW))
    places = {
        "the value": {**whole, "value": nested(depth)},
        "the key": {**whole, "key": nested(depth, "{")},
        "a document as text": record(envelope("c", None, nested(depth, "{")), {"id": 1}),
    }
    for name in ("before", "after", "source", "more"):
        for mark in "[{":
            deep = json.dumps({**envelope("u", NEW, NEW), name: {**NEW, "x": "HERE"}})
            value = deep.replace('"HERE"', nested(depth, mark))
            places[f"{name} {mark}"] = {**whole, "value": value}
            places[f"{name} {mark}, wrapped"] = {**whole, "value": f'{{"payload":{value}}}'}
            schema = f'{{"schema":{nested(depth, mark)},"payload":{json.dumps(envelope("c", None, NEW))}}}'
            places[f"schema {mark}"] = {**whole, "value": schema}
    return places


def flipped(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    """Bytes with some of them replaced."""
    changed = bytearray(data)
    for at, byte in flips:
        changed[at % len(changed)] = byte
    return bytes(changed)


flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8)
fields_of_envelopes = st.sampled_from(
    ["op", "before", "after", "source", "ts_ms", "payload", "schema"]
)
positions = st.sampled_from(
    [
        "lsn",
        "sequence",
        "commit_lsn",
        "change_lsn",
        "event_serial_no",
        "scn",
        "commit_scn",
        "rs_id",
        "ssn",
        "lcr_position",
        "file",
        "pos",
        "row",
        "ord",
        "ts_ms",
        "snapshot",
    ]
)


@st.composite
def hostile_records(draw: st.DrawFn) -> dict[str, Any]:
    """Envelopes with fields of any value, and bytes that are none."""
    base = draw(records())
    value = base["value"]
    kind = draw(st.sampled_from(["bytes", "fields", "position", "flips"]))
    if kind == "bytes" or value is None:
        value = draw(st.binary() | st.text())
    elif kind == "flips":
        value = flipped(value.encode(), draw(flips))
    else:
        fields = json.loads(value)
        if kind == "fields":
            fields |= draw(st.dictionaries(fields_of_envelopes, values))
        else:
            fields["source"] = draw(st.dictionaries(positions, values))
        value = json.dumps(fields)
    key = draw(st.none() | st.binary() | st.text() | values.map(json.dumps))
    return {**base, "value": value, "key": draw(st.sampled_from([base["key"], key]))}
