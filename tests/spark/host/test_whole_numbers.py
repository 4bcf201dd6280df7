# SPDX-License-Identifier: Apache-2.0
"""What PySpark 3.5 reads of the rows that Spark sends for `applyInPandasWithState`."""

from __future__ import annotations

import io
import json

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.streaming.state import GroupStateTimeout

from pyflinklike.spark._host.group_state_host import read_whole_numbers
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE

STATE = pa.struct(
    [
        ("properties", pa.string()),
        ("keyRowAsUnsafe", pa.binary()),
        ("object", pa.binary()),
        ("startOffset", pa.int32()),
        ("numRows", pa.int32()),
        ("isLastChunk", pa.bool_()),
    ]
)
PROPERTIES = json.dumps(
    {
        "batchProcessingTimeMs": 1,
        "eventTimeWatermarkMs": -1,
        "timeoutConf": GroupStateTimeout.NoTimeout,
        "hasTimedOut": False,
        "watermarkPresent": False,
        "defined": False,
        "updated": False,
        "removed": False,
        "timeoutTimestamp": -1,
    }
)


def chunk(key, start, count, is_last=True):
    """What says which rows of an Arrow batch are those of a key group."""
    return PROPERTIES, key, None, start, count, is_last


def sent(values, *chunks):
    """An Arrow batch as Spark 3.5 sends it: where there are fewer chunks than rows, all is null."""
    rows = [*chunks, *[(None,) * len(STATE)] * (len(values) - len(chunks))]
    fields = [pa.array(column, field.type) for column, field in zip(zip(*rows), STATE)]
    nulls = pa.array([row[0] is None for row in rows])
    state = pa.StructArray.from_arrays(fields, fields=list(STATE), mask=nulls)
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64()), state], ["origin", "state"])


def reader():
    """A class that reads columns as PySpark 3.5 does, and can be changed."""

    class Reader:
        def arrow_to_pandas(self, column):
            return column.to_pandas()

    return Reader


def test_offsets_are_integers_beside_nulls():
    """As PyArrow slices by integers only."""
    kind = reader()
    read_whole_numbers(kind)
    state = kind().arrow_to_pandas(sent([7, 8, 9], chunk(b"a", 0, 2), chunk(b"b", 2, 1)).column(1))
    found = [each and [each["startOffset"], each["numRows"]] for each in state]
    assert "[[0, 2], [2, 1], None]" == repr(found)


def test_other_columns_are_read_as_ever():
    """Also structs, and columns with nulls."""
    kind = reader()
    read_whole_numbers(kind)
    columns = [pa.array([1, None]), pa.array([{"numRows": 1, "n": None}, None])]
    for column in columns:
        pd.testing.assert_series_equal(column.to_pandas(), kind().arrow_to_pandas(column))


def test_a_worker_is_changed_once():
    """It serves one task after the other."""
    kind = reader()
    read_whole_numbers(kind)
    changed = kind.arrow_to_pandas
    read_whole_numbers(kind)
    assert changed is kind.arrow_to_pandas


@pytest.mark.skipif(HAS_TRANSFORM_WITH_STATE, reason="of PySpark 3.5 only")
def test_pyspark_reads_groups_of_several_rows_and_batches():
    """Of one row, of more, and of rows in two Arrow batches."""
    from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer

    class Serializer(ApplyInPandasWithStateSerializer):
        """One that can be changed without changing PySpark's."""

    read_whole_numbers(Serializer)
    stream = io.BytesIO()
    batches = [
        sent([1, 2, 3, 4], chunk(b"a", 0, 2), chunk(b"b", 2, 2, False)),
        sent([5, 6], chunk(b"b", 0, 1), chunk(b"c", 1, 1)),
    ]
    with pa.ipc.new_stream(stream, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream.seek(0)
    serializer = Serializer("UTC", True, True, st.StructType(), 10)
    found = [
        (state._keyAsUnsafe, [series.tolist() for (series,), _ in frames])
        for frames, state in serializer.load_stream(stream)
    ]
    assert [(b"a", [[1, 2]]), (b"b", [[3, 4], [5]]), (b"c", [[6]])] == found
