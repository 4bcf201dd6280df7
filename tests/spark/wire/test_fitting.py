# SPDX-License-Identifier: Apache-2.0
"""Every value of Python against every type of a column: what it becomes, or that it is refused.

One table (`fitting_table`) for outputs, for states that hold elements, for states that `Types`
declares, for typed side outputs of a harness and for columns; on Spark `test_spark_fitting` has it.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from fitting_table import CELLS, FITS, OF_TYPES, SPARK_TYPES, VALUES, ZONE, as_read
from pyspark.sql import types as st

from pyflinklike import KeyedProcessFunction, OutputTag, Row
from pyflinklike._runtime.outputs import Outputs
from pyflinklike.aggregations._element_types import element_type
from pyflinklike.columns.columnar_layout import ColumnLayout
from pyflinklike.errors import OutputError, StateValueError
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.schema import arrow_type
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.conversions import cast_column, to_column

REFUSED = "refused"
KINDS = list(FITS)


def expected_of(kind):
    """The row of the table: what becomes of each value."""
    fits = FITS[kind]
    return {name: as_read(fits[name]) if name in fits else REFUSED for name in VALUES}


def found_of(make, error):
    """What becomes of each value by some way through the code."""
    found = {}
    for name, value in VALUES.items():
        try:
            found[name] = as_read(make(value))
        except error as refused:
            is_told = re.search(" takes .*, got .*; ", str(refused))
            found[name] = REFUSED if is_told else str(refused)
    return found


def columns_of(kind):
    """The output type with one column."""
    return st.StructType([st.StructField("c", SPARK_TYPES[kind])])


def test_the_table_has_a_cell_for_each_value_and_type():
    """So many; each value that fits is one of the table's."""
    assert len(KINDS) * len(VALUES) == len(CELLS)
    assert KINDS == list(SPARK_TYPES)
    assert set() == {name for fits in FITS.values() for name in fits} - set(VALUES)


@pytest.mark.parametrize("output", ["main", "side"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_output_becomes_a_column_or_is_refused(kind, output):
    """Of the main output and of a side output, in a row by itself."""
    tag = "late"
    sides = {} if output == "main" else {tag: columns_of(kind)}
    encode = OutputLayout(columns_of(kind), sides, ZONE, "op").encoder(repr)

    def encoded(value):
        rows = [(value,)]
        outputs = Outputs(rows, ["k"]) if output == "main" else Outputs(side={tag: (["k"], rows)})
        ((_, batch),) = encode(outputs)
        return to_python(batch.column(0), "UTC")[0]

    assert expected_of(kind) == found_of(encoded, OutputError)


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_fit_become_a_column_together(kind):
    """With None among them: what each becomes does not depend on its neighbours."""
    names = [name for name in VALUES if name in FITS[kind]]
    values = [each for name in names for each in (VALUES[name], None)]

    column = to_column(values, arrow_type(SPARK_TYPES[kind]), ZONE)

    expected = [each for name in names for each in (as_read(FITS[kind][name]), "None")]
    assert expected == [as_read(each) for each in to_python(column, "UTC")]


@pytest.mark.parametrize("kind", KINDS)
def test_one_value_among_many_is_refused(kind):
    """Each one that does not fit, between those that do."""
    good = [VALUES[name] for name in VALUES if name in FITS[kind]]
    passed = []
    for name, value in VALUES.items():
        if name not in FITS[kind]:
            try:
                to_column([*good, value, *good], arrow_type(SPARK_TYPES[kind]), ZONE)
            except StateValueError:
                continue
            passed.append(name)
    assert [] == passed


@pytest.mark.parametrize("kind", KINDS)
def test_state_of_elements_takes_the_same_values(kind):
    """As folds, windows and joins of DataFrames keep them: what the log gives back is the same."""
    element = element_type(columns_of(kind), ZONE)

    def kept(value):
        return to_python(element.to_arrow([element.freeze((value,))]), "UTC")[0][0]

    assert expected_of(kind) == found_of(kept, StateValueError)


@pytest.mark.parametrize("kind", OF_TYPES)
def test_declared_state_takes_the_same_values(kind):
    """The type of `Types` that has the values of such a column."""
    declared = OF_TYPES[kind]

    assert expected_of(kind) == found_of(declared.converted, StateValueError)


class ToTheSide(KeyedProcessFunction):
    """Puts the value of each element out to a side output."""

    def __init__(self, tag):
        self.tag = tag

    def process_element(self, value, ctx):
        yield self.tag, value[0]


@pytest.mark.parametrize("kind", OF_TYPES)
def test_a_harness_takes_the_same_values_for_a_typed_side_output(kind):
    """By the type of its tag; what it hands out is what the function yielded."""
    tag = OutputTag("side", OF_TYPES[kind])
    with KeyedProcessHarness(ToTheSide(tag), key_selector=lambda _: "k") as driver:

        def yielded(value):
            driver.process_element((value,))
            return OF_TYPES[kind].converted(driver.side_output(tag)[-1])

        assert expected_of(kind) == found_of(yielded, OutputError)


# Columns of a columnar function


TYPED = {
    "ints": pa.array([1, 300, None], pa.int64()),
    "small": pa.array([1, None], pa.int8()),
    "unsigned": pa.array([1, 2**63], pa.uint64()),
    "whole": pa.array([1.0, 2.0]),
    "floats": pa.array([1.5, None]),
    "large floats": pa.array([1e39]),
    "halves": pa.array([1.5], pa.float32()),
    "bools": pa.array([True, None]),
    "texts": pa.array(["x", None]),
    "large texts": pa.array(["x"], pa.large_string()),
    "coded": pa.array(["x", "x"]).dictionary_encode(),
    "bytes": pa.array([b"x"]),
    "large bytes": pa.array([b"x"], pa.large_binary()),
    "decimals": pa.array([1, None], pa.decimal128(7, 3)),
    "days": pa.array([19_905], pa.date32()),
    "wall times": pa.array([0, None], pa.timestamp("ms")),
    "nanos": pa.array([1], pa.timestamp("ns")),
    "instants": pa.array([0], pa.timestamp("ms", tz="Europe/Berlin")),
    "lengths": pa.array([1, None], pa.duration("ms")),
    "lists": pa.array([[1, None], None], pa.large_list(pa.int32())),
    "lists of floats": pa.array([[1.0]]),
    "maps": pa.array([[("a", 1)]], pa.map_(pa.large_string(), pa.int32())),
    "rows": pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int8()), ("b", pa.string())])),
    "rows turned": pa.array([{"b": "x", "a": 1}]),
    "rows of other names": pa.array([{"a": 1, "c": "x"}]),
    "nulls": pa.nulls(2),
    "none": pa.array([], pa.float64()),
}
COLUMNS_THAT_FIT = {
    "boolean": ["bools"],
    "tinyint": ["small"],
    "smallint": ["ints", "small"],
    "int": ["ints", "small"],
    "bigint": ["ints", "small"],
    "float": ["ints", "small", "unsigned", "whole", "floats", "halves"],
    "double": ["ints", "small", "unsigned", "whole", "floats", "large floats", "halves"],
    "decimal(5,2)": ["ints", "small", "decimals"],
    "decimal(38,0)": ["ints", "small", "unsigned", "decimals"],
    "string": ["texts", "large texts", "coded"],
    "binary": ["bytes", "large bytes"],
    "date": ["days"],
    "timestamp": ["wall times", "instants"],
    "timestamp_ntz": ["wall times"],
    "interval day to second": ["lengths"],
    "array<bigint>": ["lists"],
    "map<string,bigint>": ["maps"],
    "struct<a:bigint,b:string>": ["rows", "rows turned", "lists"],
}


def cells(column, kind):
    """What a column becomes as one of another type, or that it is refused."""
    layout = ColumnLayout(columns_of(kind), {}, ZONE, "op")
    batch = pa.RecordBatch.from_arrays([column], ["c"])
    try:
        ((_, fitted),) = layout.encoder(repr)(Outputs([batch], [None]))
    except OutputError:
        return REFUSED
    assert arrow_type(SPARK_TYPES[kind]) == fitted.column(0).type
    return to_python(fitted.column(0), "UTC")


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_is_cast_by_the_rules_for_its_values(kind):
    """Within ints, within texts, and so on; no column becomes one of another kind, or of less."""
    fitting = [*COLUMNS_THAT_FIT[kind], "nulls", "none"]
    found = {name for name in TYPED if cells(TYPED[name], kind) != REFUSED}

    assert set(fitting) == found
    for name in fitting:
        column = TYPED[name]
        values = column.to_pylist(maps_as_pydicts="strict")
        by_value = to_column(values, arrow_type(SPARK_TYPES[kind]), ZONE)
        assert [*map(as_read, to_python(by_value, "UTC"))] == [*map(as_read, cells(column, kind))]


def test_a_column_of_local_times_that_no_clock_shows_is_refused():
    """As a datetime is, by the zone's name."""
    gap = pa.array([1_710_037_800], pa.timestamp("s"))

    with pytest.raises(StateValueError, match="America/New_York never shows that time"):
        cast_column(gap, pa.timestamp("us", tz="UTC"), ZONE)


# Where null is no value

LONG = st.LongType()
STRICT = {
    "a column": (LONG, 1, None),
    "an element": (st.ArrayType(LONG, False), [1], [1, None]),
    "a value of a map": (st.MapType(st.StringType(), LONG, False), {"a": 1}, {"a": None}),
    "a field": (
        st.StructType([st.StructField("x", LONG, False), st.StructField("y", LONG)]),
        (1, None),
        (None, 1),
    ),
    "a field within a list": (
        st.ArrayType(st.StructType([st.StructField("x", LONG, False)])),
        [(1,), None],
        [(1,), (None,)],
    ),
}


@pytest.mark.parametrize("as_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("part", STRICT)
def test_none_is_refused_where_the_type_has_no_null(part, as_columns):
    """Spark would read it as 0; elsewhere None is null, also beside it."""
    kind, good, bad = STRICT[part]
    is_column = part == "a column"
    columns = st.StructType([st.StructField("c", kind, not is_column)])
    layout = (ColumnLayout if as_columns else OutputLayout)(columns, {}, ZONE, "op")

    def encode(values):
        rows = [(value,) for value in values]
        if as_columns:
            arrays = [to_column(values, arrow_type(kind), ZONE)]
            rows = [pa.RecordBatch.from_arrays(arrays, ["c"])]
        ((_, batch),) = layout.encoder(repr)(Outputs(rows, ["k"] * len(rows)))
        return batch.num_rows

    others = [good] if is_column else [good, None]
    assert len(others) == encode(others)
    with pytest.raises(OutputError, match=r"column 'c' is .* declared without null, got None"):
        encode([*others, bad])


def test_the_message_of_an_output_has_column_type_key_value_and_remedy():
    """An int for a timestamp is told how ms become one."""
    encode = OutputLayout(columns_of("timestamp"), {}, ZONE, "op").encoder(repr)

    with pytest.raises(OutputError) as refused:
        encode(Outputs([(5,)], ["ann"]))

    assert (
        "op output: column 'c' is timestamp, for key \"'ann'\": type timestamp takes a "
        "datetime.datetime with a time zone, or one that clocks in America/New_York show, got 5 "
        "(int); for ms since 1970 use datetime.fromtimestamp(ms / 1000, timezone.utc)"
    ) == str(refused.value)


def test_a_row_goes_by_its_names_whatever_its_neighbours():
    """Rows of several classes and orders in one batch."""
    columns = st.StructType().add("user", st.StringType()).add("country", st.StringType())
    encode = OutputLayout(columns, {}, ZONE, "op").encoder(repr)
    rows = [
        Row(country="CH", user="ann"),
        ("bob", "FR"),
        {"country": "IT", "user": "cas"},
        Row(user="dan", country="DE"),
    ]

    ((_, batch),) = encode(Outputs(rows, ["k"] * 4))

    assert {"user": ["ann", "bob", "cas", "dan"], "country": ["CH", "FR", "IT", "DE"]} == (
        batch.to_pydict()
    )
