"""Debezium records for tests: envelopes of each connector, and strategies for them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from pyflinklike.cdc import decode_debezium

PLACEHOLDER = "__debezium_unavailable_value"
OLD, NEW = {"id": 1, "name": "Anne"}, {"id": 1, "name": "Ann"}
"""A row before and after a change."""


def source(**fields: Any) -> dict[str, Any]:
    """A source block of PostgreSQL, with these fields changed."""
    lsn = fields.get("lsn", 24_023_128)
    common = {
        "version": "2.5.0.Final",
        "connector": "postgresql",
        "name": "server",
        "ts_ms": 1_559_033_904_863,
        "snapshot": "false",
        "db": "shop",
        "sequence": json.dumps([None, None if lsn is None else str(lsn)]),
        "schema": "public",
        "table": "customers",
        "txId": 555,
        "lsn": lsn,
        "xmin": None,
    }
    return {**common, **fields}


def envelope(op: str = "c", before: Any = None, after: Any = None, **fields: Any) -> dict[str, Any]:
    """A bare envelope as a dict."""
    common = {
        "before": before,
        "after": after,
        "source": source(),
        "op": op,
        "ts_ms": 1_559_033_904_999,
        "transaction": None,
    }
    return {**common, **fields}


def record(value: Any, key: Any = None, *, partition: int = 0, offset: int = 0) -> dict[str, Any]:
    """A record of Kafka with JSON in it; the key is that of the row unless it is given."""
    if key is None and isinstance(value, dict):
        row = value.get("after") or value.get("before") or {}
        key = {"id": row["id"]} if isinstance(row, dict) and "id" in row else None
    return {
        "key": None if key is None else json.dumps(key),
        "value": None if value is None else json.dumps(value),
        "partition": partition,
        "offset": offset,
    }


def decoded(op: str, before: Any = None, after: Any = None, **options: Any) -> Any:
    """The event of an envelope."""
    return decode_debezium(record(envelope(op, before, after)), **options)


def wrapped(payload: Any, schema: Any = None) -> dict[str, Any]:
    """As the converter writes it with schemas enabled."""
    return {"schema": schema or {"type": "struct", "optional": False}, "payload": payload}


# Strategies

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
rows = st.dictionaries(texts.filter(lambda name: name != "id"), values, max_size=4)
keys = st.integers(-(2**63), 2**63 - 1) | texts
lsns = st.integers(0, 2**63 - 1)
hex_lsns = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)
).map(lambda parts: "{:08x}:{:08x}:{:04x}".format(*parts))
positions = st.one_of(
    st.fixed_dictionaries({"lsn": lsns}),
    st.fixed_dictionaries({"commit_lsn": hex_lsns, "change_lsn": st.none() | hex_lsns}),
    st.fixed_dictionaries({"scn": lsns.map(str), "commit_scn": st.none() | lsns.map(str)}),
    st.fixed_dictionaries(
        {
            "file": st.integers(0, 2_000_000).map("mysql-bin.{:06}".format),
            "pos": st.integers(0, 2**40),
            "row": st.integers(0, 100),
        }
    ),
    st.fixed_dictionaries({"ord": st.integers(0, 1000)}),
    st.fixed_dictionaries({"vgtid": texts}),
)


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """Records that can be decoded, of all connectors and operations, wrapped and bare."""
    key = draw(keys)
    place = {"partition": draw(st.integers(0, 8)), "offset": draw(lsns)}
    op = draw(st.sampled_from("cudrUD0"))
    if op == "0":
        return record(None, {"id": key}, **place)
    before, after = ({"id": key, **draw(rows)} for _ in range(2))
    block = {
        **draw(positions),
        "snapshot": draw(st.sampled_from(["true", "false", "last", "incremental"])),
        "ts_ms": draw(st.integers(0, 2**53)),
    }
    value = envelope(
        op,
        before if op in "dD" or (op in "uU" and draw(st.booleans())) else None,
        None if op in "dD" else after,
        source=block,
        ts_ms=draw(st.integers(1, 2**53)),
    )
    if draw(st.booleans()):
        return record(wrapped(value), wrapped({"id": key}), **place)
    return record(value, {"id": key}, **place)
