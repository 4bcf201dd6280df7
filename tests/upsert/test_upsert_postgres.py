# SPDX-License-Identifier: Apache-2.0
"""The changes of a real PostgreSQL, decoded and upserted, are its table; without Spark."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path

import pytest

from pyflinklike import Types
from pyflinklike.cdc import decode_debezium
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.upsert import UpsertFunction

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ITEM = Types.ROW_NAMED(
    ["id", "name", "price", "in_stock", "body", "changed"],
    [Types.LONG(), *[Types.STRING()] * 2, Types.BOOLEAN(), *[Types.STRING()] * 2],
)


@pytest.fixture
def postgres(monkeypatch):
    """The parts of the example: the server, what it holds, and what captures it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    server = importlib.import_module("postgres_server")
    if server.binaries() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    return server, *map(importlib.import_module, ("postgres_items", "postgres_capture"))


def upserted(directory):
    """The rows that the captured records leave, and the records' events."""
    function = UpsertFunction(value="after", order_key="order_key", value_type=ITEM)
    harness = KeyedProcessHarness(function, key_selector=lambda event: event.key)
    events, rows = [], {}
    for file in sorted(directory.glob("*.json")):
        for line in file.read_text().splitlines():
            events.append(decode_debezium(json.loads(line)))
            for change in harness.process_element(events[-1]):
                assert change.error is None
                if change.diff < 0:
                    del rows[change.key]
                else:
                    rows[change.key] = change.value.as_dict()
    return rows, events


def in_json(row):
    """A row of the table as the connector writes it."""
    fraction = f"{row['changed']:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0").rstrip(".")
    price = None if row["price"] is None else str(row["price"])
    return {**row, "price": price, "changed": f"{fraction}Z"}


@pytest.mark.parametrize("full", [False, True])
def test_the_captured_changes_of_a_table_are_the_table(postgres, tmp_path, full):
    """Whether or not the database logs whole rows; with transactions that overlap."""
    server, items, capture_module = postgres
    with server.Server() as database, database.session() as one, database.session() as other:
        items.fill(one, rows=30, full=full)
        captured = tmp_path / "captured"
        with capture_module.Capture(database.session(), "items", ["id"], captured) as capture:
            capture.snapshot()
            for seed in range(3):
                items.work(one, other, random.Random(seed), transactions=25, full=full)
                capture.changes()
        table = items.table(one)

    rows, events = upserted(captured)

    assert {key: in_json(row) for key, row in table.items()} == rows
    assert full == all(not event.unavailable for event in events)
    assert {"r", "c", "u", "d"} == {event.op for event in events}
