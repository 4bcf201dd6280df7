# SPDX-License-Identifier: Apache-2.0
"""The records of two inputs, from one DataFrame to payloads and to an operator, without a JVM."""

from __future__ import annotations

import datetime as dt

import attrs
import pyarrow as pa
import pytest
from arrow_support import INSTANT, ZONE
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Row, Types
from pyflinklike._runtime.micro_batch import UnsortedRecords
from pyflinklike.errors import StateValueError
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY
from pyflinklike.spark._wire.payloads import payload_to_batch
from pyflinklike.spark._wire.record_readers import ConnectedReader, RecordReader
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, INPUT, INPUTS, KEY_GROUP

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MILLISECOND = dt.timedelta(milliseconds=1)
FIRST = pa.struct([("user", pa.string()), ("at", INSTANT), ("n", pa.int64())])
SECOND = pa.struct([("name", pa.string()), ("who", pa.string()), ("seen", INSTANT)])
IDS = range(2)


def reader(*, timed):
    """Of both inputs, whose keys are `user` and `who`."""
    return ConnectedReader(
        (
            RecordReader(("user",), "at" if timed else None, Types.STRING(), ZONE),
            RecordReader(("who",), "seen" if timed else None, Types.STRING(), ZONE),
        )
    )


def frame(records):
    """Records `(input, group, key, ms, number)` as the union of both inputs has them."""
    structs = {1: [], 2: []}
    for number, _, key, ms, n in records:
        at = None if ms is None else EPOCH + ms * MILLISECOND
        mine = {"user": key, "at": at, "n": n} if number == 1 else None
        structs[1].append(mine)
        structs[2].append(None if mine else {"name": str(n), "who": key, "seen": at})
    columns = {
        KEY_GROUP: pa.array([group for _, group, *_ in records], pa.int32()),
        INPUT: pa.array([number for number, *_ in records], pa.int8()),
        INPUTS[0]: pa.array(structs[1], FIRST),
        INPUTS[1]: pa.array(structs[2], SECOND),
    }
    return pa.RecordBatch.from_pydict(columns)


def numbered(values):
    """Which records are processed: input and number."""
    return [(number, element.n if number == 1 else int(element.name)) for number, element in values]


def read_of_group(batches, group, *, timed):
    """What an operator is given of the packed records of a key group."""
    connected = reader(timed=timed)
    rows = [row for batch in connected.make_packing(IDS)(batches) for row in batch.to_pylist()]
    payloads = [payload_to_batch(row["payload"]) for row in rows if row[KEY_GROUP] == group]
    return connected.read_payloads(payloads) if payloads else None


RECORDS = st.lists(
    st.tuples(
        st.sampled_from([1, 2]),
        st.integers(0, 1),
        st.sampled_from("ab"),
        st.none() | st.integers(-3, 3),
    ),
    max_size=10,
).map(lambda records: [(*each, n) for n, each in enumerate(records)])


@given(RECORDS, st.integers(0, 10), st.integers(0, 1))
def test_records_of_both_inputs_come_in_the_order_of_their_ms(records, cut, group):
    """Those of the first input first where it is equal, then as they arrived, null first of all."""
    read = read_of_group([frame(records[:cut]), frame(records[cut:])], group, timed=True)
    mine = [each for each in records if each[1] == group]
    mine.sort(key=lambda each: (-(1 << 63) if each[3] is None else each[3], each[0]))

    if read is None:
        assert [] == mine
    else:
        assert [each[2] for each in mine] == read.keys
        assert [(each[0], each[4]) for each in mine] == numbered(read.values)
        assert [each[3] for each in mine] == read.timestamps


@given(RECORDS, st.integers(0, 1))
def test_without_event_time_the_first_input_comes_first(records, group):
    """Each in the order of arrival."""
    read = read_of_group([frame(records)], group, timed=False)
    mine = sorted((each for each in records if each[1] == group), key=lambda each: each[0])

    assert [(each[0], each[4]) for each in mine] == ([] if read is None else numbered(read.values))


@given(RECORDS, st.integers(0, 1))
def test_as_they_arrived_the_first_input_comes_first(records, group):
    """With their event times, which are then in no order."""
    first, second = (attrs.evolve(each, arrival_order=True) for each in reader(timed=True).inputs)
    connected = ConnectedReader((first, second))
    rows = [row for b in connected.make_packing(IDS)([frame(records)]) for row in b.to_pylist()]
    payloads = [payload_to_batch(row["payload"]) for row in rows if row[KEY_GROUP] == group]
    mine = sorted((each for each in records if each[1] == group), key=lambda each: each[0])

    if payloads:
        read = connected.read_payloads(payloads)
        assert [(each[0], each[4]) for each in mine] == numbered(read.values)
        assert [each[3] for each in mine] == read.timestamps
        assert isinstance(read, UnsortedRecords)


@given(RECORDS.filter(bool))
def test_sorted_records_stay_in_their_order(records):
    """Whichever input they are of, with their keys and times."""
    read = reader(timed=True).read_sorted(frame(records).drop_columns([KEY_GROUP]))

    assert [(each[0], each[4]) for each in records] == numbered(read.values)
    assert [each[2] for each in records] == read.keys
    assert [each[3] for each in records] == read.timestamps


def test_an_element_has_the_columns_of_its_input_only():
    """The other input's are not there, rather than None."""
    read = read_of_group([frame([(2, 0, "a", None, 7)])], 0, timed=True)

    assert [(2, Row(name="7", who="a", seen=None))] == read.values


def test_a_payload_has_the_columns_of_its_input_only():
    """The other input's would travel as nulls."""
    rows = [
        row
        for batch in reader(timed=True).make_packing(IDS)([frame([(1, 0, "a", 0, 7)])])
        for row in batch.to_pylist()
        if row[KEY_GROUP] != REGISTRY_KEY
    ]

    assert [["user", "at", "n"]] == [payload_to_batch(row["payload"]).schema.names for row in rows]


def test_records_before_the_watermark_are_read_apart_in_each_input():
    """An input that is behind no operator has none; the others are merged by their times."""
    struct = pa.struct([*FIRST, (BEFORE_WATERMARK, pa.bool_())])
    times = [EPOCH + ms * MILLISECOND for ms in (5, 3, 4)]
    rows = [
        {"user": "u", "at": at, "n": n, BEFORE_WATERMARK: early}
        for n, (at, early) in enumerate(zip(times, (True, False, True)))
    ]
    other = {"name": "9", "who": "u", "seen": EPOCH}
    batch = pa.RecordBatch.from_pydict(
        {
            KEY_GROUP: pa.array([0] * 4, pa.int32()),
            INPUT: pa.array([1, 1, 1, 2], pa.int8()),
            INPUTS[0]: pa.array([*rows, None], struct),
            INPUTS[1]: pa.array([None, None, None, other], SECOND),
        }
    )
    first, second = reader(timed=True).inputs
    connected = ConnectedReader((attrs.evolve(first, before_watermark=BEFORE_WATERMARK), second))
    packed = [row for out in connected.make_packing(IDS)([batch]) for row in out.to_pylist()]
    payloads = [payload_to_batch(row["payload"]) for row in packed if row[KEY_GROUP] == 0]

    early, others = connected.read_apart(payloads)

    assert ([(1, 2), (1, 0)], [(2, 9), (1, 1)]) == (numbered(early.values), numbered(others.values))
    assert BEFORE_WATERMARK == connected.before_watermark
    assert reader(timed=True).before_watermark is None


@pytest.mark.parametrize(("number", "column"), [(1, "user"), (2, "who")])
def test_a_null_key_of_either_input_is_refused(number, column):
    """By the name of its own column."""
    records = frame([(3 - number, 0, "a", 0, 1), (number, 0, None, 0, 2)])

    with pytest.raises(StateValueError, match=f"got null in column {column!r}"):
        list(reader(timed=True).make_packing(IDS)([records]))
    with pytest.raises(StateValueError, match=f"got null in column {column!r}"):
        reader(timed=True).read_sorted(records.drop_columns([KEY_GROUP]))
