# SPDX-License-Identifier: Apache-2.0
"""From what a function yielded to the rows of the result, without a JVM."""

from __future__ import annotations

import pyarrow as pa
import pytest
from arrow_support import ZONE
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark_types

from pyflinklike._runtime.outputs import Outputs
from pyflinklike.errors import OutputError
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.payloads import to_payload
from pyflinklike.spark._wire.system_columns import OUTPUT_TAG, PHASE_MARK

TEXT, LONG, INT = spark_types.StringType(), spark_types.LongType(), spark_types.IntegerType()
CODE = spark_types.StructType().add("code", INT).add("text", TEXT)
MAIN = spark_types.StructType().add("user", TEXT).add("n", LONG)
LATE = spark_types.StructType().add("n", LONG).add("tags", spark_types.ArrayType(TEXT))
BAD = spark_types.StructType().add("what", CODE)
SIDES = {"late": LATE, "bad": BAD}

NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(max_size=4)
MAIN_ROWS = st.lists(st.tuples(TEXTS, NUMBERS), max_size=4)
LATE_ROWS = st.lists(st.tuples(NUMBERS, st.none() | st.lists(TEXTS, max_size=2)), max_size=4)
BAD_ROWS = st.lists(
    st.tuples(st.none() | st.tuples(st.none() | st.integers(0, 9), TEXTS)), max_size=4
)


def outputs(main=(), **side):
    """What a call yielded."""
    return Outputs(
        list(main),
        ["key"] * len(main),
        {tag_id: (["key"] * len(rows), list(rows)) for tag_id, rows in side.items() if rows},
    )


def laid_out(layout, *calls):
    """The rows of the result, through payloads as Spark carries them."""
    encode = layout.encoder(lambda key: key)
    cells = [(number, to_payload(batch)) for call in calls for number, batch in encode(call)]
    numbers, payloads = zip(*cells) if cells else ((), ())
    arrays = [pa.array(numbers, pa.int32()), pa.array(payloads, pa.binary())]
    batch = pa.RecordBatch.from_arrays(arrays, names=["output", "payload"])
    found = list(layout.unpacker()([batch]))
    assert all(each.num_rows for each in found)
    return [row for each in found for row in each.to_pylist()]


def structs(value, names):
    """A tuple as Arrow shows a struct."""
    return None if value is None else dict(zip(names, value))


@given(st.lists(MAIN_ROWS, max_size=3))
def test_without_side_outputs_the_rows_are_those_of_the_main_output(calls):
    """All of them, in the order in which they were yielded."""
    layout = OutputLayout(MAIN, {}, ZONE, "op")

    rows = laid_out(layout, *(outputs(main) for main in calls))

    expected = [{"user": user, "n": n} for main in calls for user, n in main]
    assert expected == rows
    assert MAIN == layout.result_type()


@given(st.lists(st.tuples(MAIN_ROWS, LATE_ROWS, BAD_ROWS), max_size=3))
def test_with_side_outputs_a_row_is_of_one_output(calls):
    """The main columns with a null tag, or the tag and the column of its name, with all values."""
    layout = OutputLayout(MAIN, SIDES, ZONE, "op")
    nothing = {"user": None, "n": None, OUTPUT_TAG: None, "late": None, "bad": None}

    rows = laid_out(layout, *(outputs(main, late=late, bad=bad) for main, late, bad in calls))

    expected = []
    for main, late, bad in calls:
        expected += [{**nothing, "user": user, "n": n} for user, n in main]
        expected += [
            {**nothing, OUTPUT_TAG: "late", "late": {"n": n, "tags": tags}} for n, tags in late
        ]
        expected += [
            {**nothing, OUTPUT_TAG: "bad", "bad": {"what": structs(what, ["code", "text"])}}
            for (what,) in bad
        ]
    assert expected == rows


@pytest.mark.parametrize("sides", [{}, SIDES], ids=["main alone", "sides"])
def test_a_column_says_which_outputs_came_before_the_watermark(sides):
    """Behind the columns of the main output; their payloads have the complement of their number."""
    layout = OutputLayout(MAIN, sides, ZONE, "op", "early")
    encode = layout.encoder(repr)
    numbered = encode(outputs([("a", 1)], late=[(2, [])]))
    cells = [*((~number, batch) for number, batch in numbered), *encode(outputs([("b", 3)]))]
    numbers, batches = zip(*cells)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int32()), pa.array(map(to_payload, batches), pa.binary())],
        names=["output", "payload"],
    )

    (found,) = layout.unpacker()([batch])

    early = [True, True, False] if sides else [True, False]
    assert early == found.column("early").to_pylist()
    assert ["user", "n", "early"] == layout.result_type().names[:3]
    assert PHASE_MARK in layout.result_type()["early"].metadata
    assert ["a", *([None] if sides else []), "b"] == found.column("user").to_pylist()


def test_the_result_has_the_main_columns_the_tag_and_a_struct_for_each_side_output():
    """In this order; main columns are nullable, and keep their metadata."""
    marked = spark_types.StructType([spark_types.StructField("n", LONG, False, {"mark": 1})])

    result = OutputLayout(marked, SIDES, ZONE, "op").result_type()

    assert ["n", OUTPUT_TAG, "late", "bad"] == result.names
    assert result["n"].nullable
    assert {"mark": 1} == result["n"].metadata
    assert [LATE, BAD] == [result["late"].dataType, result["bad"].dataType]


def test_a_side_output_that_nobody_declared_is_dropped():
    """As in Flink; those that were declared are there."""
    layout = OutputLayout(MAIN, {"late": LATE}, ZONE, "op")

    rows = laid_out(layout, outputs([("a", 1)], late=[(2, [])], other=[("anything",)]))

    assert [None, "late"] == [row[OUTPUT_TAG] for row in rows]


def test_a_call_that_yields_nothing_makes_no_batch():
    """Neither of main nor of side outputs."""
    assert [] == OutputLayout(MAIN, SIDES, ZONE, "op").encoder(repr)(outputs())
    assert [] == laid_out(OutputLayout(MAIN, SIDES, ZONE, "op"))


@pytest.mark.parametrize(
    ("yielded", "told"),
    [
        (outputs([("a", "no number")]), "op output: column 'n'"),
        (outputs(late=[("no number", [])]), "op side output 'late': column 'n'"),
    ],
)
def test_an_output_that_does_not_fit_is_told_with_operator_output_and_key(yielded, told):
    """So that it is found among several operators and outputs."""
    encode = OutputLayout(MAIN, SIDES, ZONE, "op").encoder(lambda key: f"<{key}>")

    with pytest.raises(OutputError) as error:
        encode(yielded)

    assert told in str(error.value)
    assert "'<key>'" in str(error.value)


def test_many_rows_are_laid_out():
    """100,000 of each output in one batch."""
    layout = OutputLayout(MAIN, {"late": LATE}, ZONE, "op")
    numbers = range(100_000)

    rows = laid_out(layout, outputs([("a", n) for n in numbers], late=[(n, None) for n in numbers]))

    assert list(numbers) == [row["n"] for row in rows if row[OUTPUT_TAG] is None]
    assert list(numbers) == [row["late"]["n"] for row in rows if row[OUTPUT_TAG] == "late"]
