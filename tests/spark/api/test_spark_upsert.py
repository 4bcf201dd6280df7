# SPDX-License-Identifier: Apache-2.0
"""Upserts on a stream and on a batch are those of the harness."""

from __future__ import annotations

import json
import random

from spark_support import Feed, pickle_by_value

from pyflinklike import OutputTag, Types
from pyflinklike.spark import get_side_output, key_by, main_output
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.upsert import UpsertFunction

pickle_by_value(__name__)

SCHEMA = "key long, json string, order_key array<long>"
PERSON = Types.ROW_NAMED(
    ["name", "tags", "n"], [Types.STRING(), Types.LIST(Types.STRING()), Types.INT()]
)
TAG = OutputTag("errors", UpsertFunction.error_type(Types.LONG()))


def decoded(element):
    """The value of an element; None deletes, and what is no JSON fails."""
    return None if element.json is None else json.loads(element.json)


def function(**arguments):
    """The function of all tests."""
    return UpsertFunction(value=decoded, order_key="order_key", value_type=PERSON, **arguments)


def batches_of(seed, count, size):
    """Upserts in any order, delivered twice, deletions and errors among them."""
    choice = random.Random(seed)
    rows = []
    for number in range(count * size):
        value = {"name": choice.choice("xyz"), "tags": ["a"] * choice.randrange(3), "n": number}
        text = choice.choice([json.dumps(value)] * 4 + [None, "{", '{"name": 5}'])
        rows.append((choice.randrange(6), text, [number // 7, number % 7]))
    rows = choice.sample(rows, len(rows)) + choice.sample(rows, size)
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def test_upserts_of_a_batch_are_those_of_a_stream(spark, tmp_path):
    """Added up; here errors go to the side output."""
    feed = Feed(spark, tmp_path / "in", SCHEMA)
    feed.add(*batches_of(2, 2, 60))
    arguments = {"on_error": "side_output", "error_tag": TAG}
    upserts = key_by(feed.bounded(), "key").process(
        function(**arguments), function(**arguments).output_type(Types.LONG()), side_outputs=[TAG]
    )
    harness = KeyedProcessHarness(function(**arguments), key_selector=lambda row: row.key)
    harness.process_elements((row, None) for batch in feed.elements() for row in batch)

    def added_up(rows):
        sums = {}
        for key, _, value, diff in (plain_four(row) for row in rows):
            sums[key, value] = sums.get((key, value), 0) + diff
        return {record for record, diff in sums.items() if diff}

    assert added_up(harness.output) == added_up(main_output(upserts).collect())
    assert sorted((row.key, row.error) for row in harness.side_output(TAG)) == sorted(
        (row.key, row.error) for row in get_side_output(upserts, TAG).collect()
    )


def plain_four(row):
    """The same of a row without an error."""
    return (
        row.key,
        row.op,
        row.value and (row.value.name, tuple(row.value.tags), row.value.n),
        row.diff,
    )
