# SPDX-License-Identifier: Apache-2.0
"""From record batches to keys, elements and times, without a JVM."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from arrow_support import INSTANT, ZONE, rows_of, schemas
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from pyflinklike import Row, Types
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.spark._wire.output_layout import OutputEncoder
from pyflinklike.spark._wire.record_readers import RecordReader
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, take_apart
from pyflinklike.types.key_codec import AnyKeyTypeInfo

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = dt.timedelta(microseconds=1)


def reader(*key_columns, event_time=None, key_type=None, **options):
    """A reader; keys are texts where nothing else is said."""
    return RecordReader(key_columns, event_time, key_type or Types.STRING(), ZONE, **options)


def events(micros):
    """Records at these times, numbered in the order of their arrival."""
    times = pa.array([each and EPOCH + each * MICROSECOND for each in micros], INSTANT)
    numbers = pa.array(range(len(micros)), pa.int64())
    users = pa.array([f"u{n % 3}" for n in range(len(micros))])
    return pa.RecordBatch.from_arrays([users, times, numbers], names=["user", "at", "n"])


@given(st.data())
def test_an_element_is_a_row_of_all_columns(data):
    """Of every type, by name, in the order of arrival; its key is one of its columns."""
    schema = data.draw(schemas())
    rows = data.draw(rows_of(schema))
    batch = OutputEncoder(from_arrow_schema(schema, True), ZONE, "", repr).encode(
        rows, [None] * len(rows)
    )
    batch = batch.append_column("user", pa.array([f"u{n}" for n in range(len(rows))], pa.string()))

    keys, elements, times = reader("user").read(batch)

    expected = [Row(**dict(zip(schema.names, row)), user=f"u{n}") for n, row in enumerate(rows)]
    assert expected == elements
    assert [row.user for row in expected] == keys
    assert [None] * len(rows) == times


@given(st.lists(st.none() | st.integers(-5_000, 5_000), max_size=12))
def test_records_come_in_the_order_of_their_ms(micros):
    """By event time in whole ms, before 1970 as after; equal ones as they arrived, null first."""
    ms = [None if each is None else each // 1_000 for each in micros]
    order = sorted(range(len(ms)), key=lambda n: (ms[n] is not None, ms[n] or 0, n))

    keys, elements, times = reader("user", event_time="at").read(events(micros))

    assert [ms[n] for n in order] == times
    assert order == [element.n for element in elements]
    assert [f"u{n % 3}" for n in order] == keys


def test_a_batch_that_is_in_order_is_left_in_it():
    """Spark has sorted it: what arrived first within a ms is first, whatever the microseconds."""
    _, elements, times = reader("user", event_time="at").read(
        events([1_900, 1_100, None, 500]), in_order=True
    )

    assert [0, 1, 2, 3] == [element.n for element in elements]
    assert [1, 1, None, 0] == times


def test_records_stay_as_they_arrived_where_that_is_asked_for():
    """Although they have times; how many are late is told all the same."""
    records = reader("user", event_time="at", arrival_order=True).read(
        events([1_900, 500, None, 2_100, 1_000])
    )

    assert [1, 0, None, 2, 1] == records.timestamps
    assert [0, 1, 2, 3, 4] == [element.n for element in records.values]
    late = []
    for watermark in (-1, 0, 1, 2):
        metrics = OperatorMetrics()
        records.count_into(metrics, watermark)
        late.append(metrics.late_records)
    assert [0, 1, 3, 4] == late


def test_an_element_shows_its_time_in_the_sessions_zone():
    """As PySpark's rows do: the local time, with its microseconds."""
    _, (element,), (time,) = reader("user", event_time="at").read(events([1_234_567]))

    assert dt.datetime(1969, 12, 31, 19, 0, 1, 234_567) == element.at
    assert time == 1_234


def test_a_key_of_several_columns_is_a_tuple():
    """In the order in which the columns were named, not in that of the record."""
    key_type = Types.TUPLE([Types.LONG(), Types.STRING()])

    keys, _, _ = reader("n", "user", key_type=key_type).read(events([1, 2]))

    assert [(0, "u0"), (1, "u1")] == keys


def test_a_key_of_any_type_is_in_its_stored_form():
    """Keys that no plain type writes are encoded; equal values have equal forms."""
    days = [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
    batch = pa.RecordBatch.from_pydict({"day": days})
    key_type = AnyKeyTypeInfo()

    keys, _, _ = reader("day", key_type=key_type).read(batch)

    assert [key_type.freeze_key(day) for day in days] == keys
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("event_time", [None, "at"])
def test_no_records_are_none(event_time):
    """An empty batch has no keys, elements and times."""
    assert ([], [], []) == reader("user", event_time=event_time).read(events([]))


# What comes before the watermark


def _records(column, phases):
    return pa.record_batch({"n": range(len(phases)), column: pa.array(phases, pa.bool_())})


@pytest.mark.parametrize(
    ("column", "fields"),
    [("early", ["n", "early"]), (BEFORE_WATERMARK, ["n"])],
    ids=["of the user", "our own"],
)
def test_records_before_the_watermark_are_taken_apart(column, fields):
    """Each part in its order; null is not before it. Our own column is not the element's, one of the user's is."""
    early, others = take_apart(_records(column, [True, None, False, True]), column)

    assert ([0, 3], [1, 2]) == (early["n"].to_pylist(), others["n"].to_pylist())
    assert fields == early.schema.names == others.schema.names
