# SPDX-License-Identifier: Apache-2.0
"""Records packed into the cells of their key groups, without a JVM."""

from __future__ import annotations

import pyarrow as pa
import pytest
from arrow_support import ZONE, rows_of, schemas
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from pyflinklike.errors import StateValueError
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids, groups_in
from pyflinklike.spark._wire.output_layout import OutputEncoder
from pyflinklike.spark._wire.payloads import pack, payload_to_batch, refuse_null_keys, to_payload
from pyflinklike.spark._wire.system_columns import BATCH_TIME, KEY_GROUP

GROUPS = 6
IDS = group_ids(GROUPS)
MEGABYTE = 1 << 20


def encoded(schema, rows):
    """Rows as a record batch."""
    return OutputEncoder(from_arrow_schema(schema, True), ZONE, "", repr).encode(
        rows, [None] * len(rows)
    )


@given(st.data())
def test_what_is_packed_is_unpacked(data):
    """Batches of every schema, also empty ones and parts of larger ones, with their metadata."""
    schema = data.draw(schemas())
    batch = encoded(schema, data.draw(rows_of(schema)))
    start, length = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))
    batch = batch.slice(start, length).replace_schema_metadata({"who": "a test"})

    found = payload_to_batch(to_payload(batch))

    assert batch.equals(found, check_metadata=True)
    assert batch.num_rows == found.num_rows


def records(numbers_and_groups):
    """A task's records: a number each, in a key group."""
    numbers, groups = zip(*numbers_and_groups) if numbers_and_groups else ((), ())
    columns = {KEY_GROUP: pa.array(groups, pa.int32()), "n": pa.array(numbers, pa.int64())}
    return pa.RecordBatch.from_pydict(columns)


def packed(batches):
    """What a task makes of batches: its payloads as (id, origin, batch), and its registry."""
    rows = [row for batch in pack(("n",), IDS)(batches) for row in batch.to_pylist()]
    payloads = [row for row in rows if row[KEY_GROUP] != REGISTRY_KEY]
    called = [row["payload"] for row in rows if row[KEY_GROUP] == REGISTRY_KEY]
    found = [(r[KEY_GROUP], r["origin"], payload_to_batch(r["payload"])) for r in payloads]
    return found, called


@given(st.lists(st.lists(st.integers(0, GROUPS - 1), max_size=5), max_size=4))
def test_each_key_group_has_its_records_in_the_order_they_arrived(groups):
    """Whatever batches they come in; and the registry has these groups and no others."""
    flat = [group for batch in groups for group in batch]
    numbers = iter(range(len(flat)))
    batches = [records([(next(numbers), group) for group in batch]) for batch in groups]

    found, called = packed(batches)

    expected = {group: [n for n, each in enumerate(flat) if each == group] for group in flat}
    by_id = {}
    for group_id, _, batch in sorted(found, key=lambda each: each[1]):
        assert ["n"] == batch.schema.names
        by_id.setdefault(group_id, []).extend(batch.column("n").to_pylist())
    assert {IDS[group]: mine for group, mine in expected.items()} == by_id
    assert len(called) == 1
    assert set(flat) == groups_in(called)


def test_small_batches_are_joined():
    """A task that reads many small batches sends one payload for a key group, not one for each."""
    found, _ = packed([records([(n, n % 2)]) for n in range(10)])

    assert [5, 5] == [batch.num_rows for _, _, batch in found]


def test_a_large_input_is_cut_and_keeps_its_order():
    """70 MB of records of one key group: several payloads, whose origins tell their order."""
    schema = pa.schema([(KEY_GROUP, pa.int32()), ("n", pa.int64()), ("data", pa.binary())])
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array([3], pa.int32()), pa.array([n]), pa.array([bytes([n]) * (7 * MEGABYTE)])],
            schema=schema,
        )
        for n in range(10)
    ]

    found, called = packed(batches)

    origins = [origin for _, origin, _ in found]
    assert 1 < len(found) < len(batches)
    assert sorted(set(origins)) == origins
    rows = [row for _, _, batch in found for row in batch.to_pylist()]
    assert list(range(10)) == [row["n"] for row in rows]
    assert all(row["data"] == bytes([row["n"]]) * (7 * MEGABYTE) for row in rows)
    assert {3} == groups_in(called)


def test_a_batch_without_records_still_calls_the_roll():
    """The first task of a micro-batch does, so that the operator's record is found."""
    assert ([], [b""]) == packed([])
    assert ([], [b""]) == packed([records([])])


def test_a_null_key_is_refused_and_its_record_told():
    """Without the columns of the runtime's own."""
    batch = pa.RecordBatch.from_pydict(
        {KEY_GROUP: [1, 2], BATCH_TIME: [5, 5], "user": ["ann", None], "n": [1, 2]}
    )

    with pytest.raises(StateValueError) as error:
        refuse_null_keys(batch, ("user",))

    assert "column 'user' of {'user': None, 'n': 2}" in str(error.value)


def test_a_null_in_a_key_of_several_columns_is_a_value():
    """As in Spark's groupBy."""
    batch = pa.RecordBatch.from_pydict({"user": ["ann", None], "n": [1, None]})

    refuse_null_keys(batch, ("user", "n"))


def test_a_null_key_is_refused_while_it_is_packed():
    """Before the shuffle, in the task that read it."""
    with pytest.raises(StateValueError, match="every record needs a key"):
        packed([records([(1, 0), (None, 1)])])
