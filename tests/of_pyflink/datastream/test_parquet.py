# SPDX-License-Identifier: Apache-2.0
"""Files of Parquet: what is written comes back, and what is not as declared is refused."""

from __future__ import annotations

import datetime as dt
import os
import time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_support import flips_of, read_files, source_of, write_files
from hypothesis import given, settings
from hypothesis import strategies as st
from local_support import local

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    RefusedNameError,
    SparkSetupError,
)
from pyflinklike.pyflink.common import Instant, Row, Types, WatermarkStrategy
from pyflinklike.pyflink.common.data_types import DataTypes
from pyflinklike.pyflink.datastream.connectors import FileSource, RollingPolicy, StreamFormat
from pyflinklike.pyflink.datastream.formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

D = DataTypes
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
FIELDS = {
    "yes": D.BOOLEAN(),
    "byte": D.TINYINT(),
    "short": D.SMALLINT(),
    "whole": D.INT(),
    "long": D.BIGINT(),
    "single": D.FLOAT(),
    "real": D.DOUBLE(),
    "exact": D.DECIMAL(10, 3),
    "char": D.CHAR(3),
    "varchar": D.VARCHAR(3),
    "text": D.STRING(),
    "binary": D.BINARY(3),
    "varbinary": D.VARBINARY(3),
    "raw": D.BYTES(),
    "day": D.DATE(),
    "at": D.TIME(),
    "moment": D.TIMESTAMP(),
    "instant": D.TIMESTAMP_LTZ(9),
    "list": D.ARRAY(D.INT()),
    "map": D.MAP(D.STRING(), D.DOUBLE()),
    "row": D.ROW([D.FIELD("n", D.INT()), D.FIELD("list", D.ARRAY(D.TIMESTAMP_LTZ(3)))]),
    "rows": D.ARRAY(D.ROW([D.FIELD("exact", D.DECIMAL(3, 1))])),
}
VALUES = st.tuples(
    *(
        st.none() | each
        for each in (
            st.booleans(),
            st.integers(-(2**7), 2**7 - 1),
            st.integers(-(2**15), 2**15 - 1),
            st.integers(-(2**31), 2**31 - 1),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(width=32, allow_nan=False),
            st.floats(allow_nan=False),
            st.decimals(-9_999_999, 9_999_999, places=3),
            *[st.text(st.characters(codec="utf-8"), max_size=3)] * 2,
            st.text(st.characters(codec="utf-8")),
            *[st.binary(max_size=3)] * 2,
            st.binary(),
            st.dates(),
            st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
            st.datetimes(),
            st.builds(Instant, st.integers(-(2**33), 2**33), st.integers(0, 999_999_999)),
            st.lists(st.none() | st.integers(-9, 9), max_size=3),
            st.dictionaries(st.text(max_size=2), st.floats(allow_nan=False), max_size=3),
            st.tuples(
                st.none() | st.integers(0, 9),
                st.none()
                | st.lists(st.none() | st.builds(Instant, st.integers(-9, 9), st.just(0))),
            ),
            st.lists(st.none() | st.tuples(st.none() | st.decimals(-99, 99, places=1)), max_size=3),
        )
    )
)
EVERY = D.ROW([D.FIELD(name, kind) for name, kind in FIELDS.items()])


def format_of(row_type, *, is_utc=True, is_case_sensitive=True):
    """What reads rows of a type, two at a time."""
    return ParquetColumnarRowInputFormat(row_type, None, 2, is_utc, is_case_sensitive)


def row_type_of(**fields):
    """A type of rows."""
    return D.ROW([D.FIELD(name, kind) for name, kind in fields.items()])


def file_of(tmp_path, **columns):
    """A file with these columns."""
    path = tmp_path / "given.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@settings(max_examples=max(settings().max_examples // 5, 5))
@given(st.lists(VALUES, max_size=5))
def test_rows_come_back(tmp_path_factory, rows):
    """Of all types, None included, also within lists, maps and rows."""
    folder = tmp_path_factory.mktemp("rows")
    rows = [EVERY.type_info.converted(row) for row in rows]

    files = write_files(folder, ParquetBulkWriters.for_row_type(EVERY), rows)

    assert bool(rows) == bool(files)
    assert rows == read_files(format_of(EVERY), folder)


def test_a_type_of_a_job_and_a_schema_of_arrow_declare_rows_as_well(tmp_path):
    """All three read what one of them wrote."""
    of_job = Types.ROW_NAMED(["n", "at"], [Types.INT(), Types.SQL_TIMESTAMP()])
    of_arrow = pa.schema([("n", pa.int32()), ("at", pa.timestamp("us"))])
    rows = [Row(n=1, at=dt.datetime(2020, 1, 2)), Row(n=None, at=None)]
    write_files(tmp_path, ParquetBulkWriters.for_row_type(of_job), rows)

    for kind in (of_job, of_arrow, row_type_of(n=D.INT(), at=D.TIMESTAMP())):
        assert rows == read_files(format_of(kind), tmp_path)


def test_columns_are_found_by_their_names(tmp_path):
    """In any order, beside others, and if wanted whatever the case of their letters."""
    path = file_of(tmp_path, Other=[0], B=["x"], a=pa.array([1], pa.int32()))

    assert [Row(a=1, B="x")] == read_files(format_of(row_type_of(a=D.INT(), B=D.STRING())), path)
    lower = row_type_of(A=D.INT(), b=D.STRING())
    assert [Row(A=1, b="x")] == read_files(format_of(lower, is_case_sensitive=False), path)
    with pytest.raises(SparkSetupError, match=r"got no column 'A' among \['Other', 'B', 'a'\]"):
        read_files(format_of(lower), path)


def test_narrower_columns_are_read(tmp_path):
    """Whatever they hold is a value of the declared type."""
    path = file_of(
        tmp_path,
        long=pa.array([1], pa.int16()),
        exact=pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
        real=pa.array([0.5], pa.float32()),
        at=pa.array([1500], pa.time32("ms")),
        text=pa.array(["x"]).dictionary_encode(),
        none=pa.nulls(1),
    )
    kinds = {"long": D.BIGINT(), "exact": D.DECIMAL(5, 2), "real": D.DOUBLE(), "at": D.TIME(6)}
    kinds |= {"text": D.STRING(), "none": D.INT()}

    assert [
        Row(
            long=1,
            exact=Decimal("1.5"),
            real=0.5,
            at=dt.time(0, 0, 1, 500_000),
            text="x",
            none=None,
        )
    ] == read_files(format_of(row_type_of(**kinds)), path)


STRUCT = pa.struct([("n", pa.int32())])


@pytest.mark.parametrize(
    ("found", "declared", "told"),
    [
        (pa.array([1], pa.int64()), D.INT(), "got int64 in column 'x', not Integer"),
        (pa.array([1], pa.uint32()), D.INT(), "got uint32"),
        (pa.array([1]), D.STRING(), "got int64"),
        (pa.array([1]), D.DOUBLE(), "got int64"),
        (pa.array(["1"]), D.INT(), "got string"),
        (pa.array([b"1"]), D.STRING(), "got binary"),
        (pa.array([0.1]), D.FLOAT(), "got double"),
        (pa.array([Decimal("1.25")]), D.DECIMAL(9, 1), r"got decimal128\(3, 2\)"),
        (pa.array([1]), D.TIMESTAMP(), "got int64"),
        (pa.array([1]).cast(pa.timestamp("us")), D.TIMESTAMP_LTZ(), r"got timestamp\[us\]"),
        (pa.array([1]).cast(pa.timestamp("ns")), D.TIMESTAMP(), "would lose data"),
        (pa.array([1]).cast(pa.time64("ns")), D.TIME(), "would lose data"),
        (pa.array([[1]]), D.INT(), "got list"),
        (pa.array([["a"]]), D.ARRAY(D.INT()), r"string in column 'x \(element\)'"),
        (pa.array([{"n": 1}], STRUCT), D.ROW([D.FIELD("m", D.INT())]), "no field 'm' of 'x'"),
        (pa.array([{"n": 1}], STRUCT), row_type_of(n=D.TINYINT()), r"int32 in column 'x\.n'"),
        (pa.array([None], pa.int32()), D.INT(nullable=False), "a null where none is declared"),
    ],
)
def test_a_file_with_another_schema_is_refused(tmp_path, found, declared, told):
    """With the column, its type in the file, and the file: no value is changed in silence."""
    path = file_of(tmp_path, x=found)

    with pytest.raises(SparkSetupError, match=told) as raised:
        read_files(format_of(row_type_of(x=declared)), path)
    assert str(path) in str(raised.value)


def test_a_text_longer_than_its_column_is_not_read(tmp_path):
    """Nor are bytes; within lists, too."""
    path = file_of(tmp_path, s=pa.array(["abc"]), b=pa.array([b"abc"]), l=pa.array([["abc"]]))

    for name, kind in (("s", D.CHAR(2)), ("b", D.VARBINARY(2)), ("l", D.ARRAY(D.VARCHAR(2)))):
        with pytest.raises(SparkSetupError, match=f"2 (characters|bytes) at most.*column {name!r}"):
            read_files(format_of(row_type_of(**{name: kind})), path)
    assert [Row(s="abc")] == read_files(format_of(row_type_of(s=D.CHAR(3))), path)


def test_instants_are_shown_in_utc_or_in_the_zone_of_the_machine(tmp_path, monkeypatch):
    """Where a time without a zone is declared; timestamps of 96 bits are instants, too."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        at = pa.array([0, None], pa.timestamp("us", "UTC"))
        path = tmp_path / "old.parquet"
        pq.write_table(pa.table({"x": at}), path, use_deprecated_int96_timestamps=True)
        other = file_of(tmp_path, x=at)
        kind, clock = row_type_of(x=D.TIMESTAMP()), dt.datetime(1970, 1, 1, 8)

        for each in (path, other):
            assert [Row(x=dt.datetime(1970, 1, 1)), Row(x=None)] == read_files(
                format_of(kind), each
            )
            assert [Row(x=clock), Row(x=None)] == read_files(format_of(kind, is_utc=False), each)
            instants = read_files(format_of(row_type_of(x=D.TIMESTAMP_LTZ())), each)
            assert [Row(x=Instant(0, 0)), Row(x=None)] == instants
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (
            D.DECIMAL(3, 1),
            Decimal("1.25"),
            r"column 'x' of a file is decimal128\(3, 1\), got .*1\.25",
        ),
        (D.DECIMAL(3, 1), Decimal(100), "declare the column wider"),
        (D.TIMESTAMP(3), dt.datetime(2020, 1, 1, 0, 0, 0, 1), "would lose data"),
        (D.TIMESTAMP(9), dt.datetime(2500, 1, 1), "column 'x'"),
        (D.TIMESTAMP_LTZ(6), Instant(0, 1), "finer than the unit us"),
        (D.TIME(3), dt.time(0, 0, 0, 1), "would lose data"),
        (D.INT(nullable=False), None, "and never None, got None"),
        (D.CHAR(2), "abc", "2 characters at most"),
        (D.VARCHAR(2), "abc", "2 characters at most"),
        (D.ARRAY(D.VARCHAR(2)), ["ab", "abc"], "2 characters at most"),
        (D.BINARY(2), b"abc", "2 bytes at most"),
        (D.VARBINARY(2), b"abc", "2 bytes at most"),
        (D.INT(), 2**31, "takes an int in"),
        (D.INT(), "1", "a row does not fit the type of its file"),
    ],
)
def test_a_value_that_does_not_fit_its_column_fails_the_job(tmp_path, kind, value, told):
    """And no file is there."""
    rows = [Row(x=None if kind.is_nullable else 0), Row(x=value)]
    with pytest.raises(OutputError, match=told):
        write_files(tmp_path, ParquetBulkWriters.for_row_type(row_type_of(x=kind)), rows)
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_file_with_another_bit_gives_its_rows_or_an_error(tmp_path):
    """Whichever bit it is: a seal is a checksum of all of the file."""
    kind = row_type_of(n=D.INT(), s=D.STRING())
    rows = [Row(n=n, s=f"text {n}") for n in range(20)]
    (path,) = write_files(tmp_path / "out", ParquetBulkWriters.for_row_type(kind), rows)

    last = 8 * path.stat().st_size

    found = flips_of(format_of(kind), path, range(0, last - 8 * 1_100, 7))
    found |= flips_of(format_of(kind), path, range(last - 8 * 1_100, last))

    assert {str(rows), None} == found


def test_a_file_of_another_program_with_another_bit_gives_its_rows_or_an_error(tmp_path):
    """It has as many rows as it says, and its pages have checksums if that program writes them."""
    kind = row_type_of(n=D.INT(), s=D.STRING())
    rows = [Row(n=n, s=f"text {n}") for n in range(20)]
    path = tmp_path / "given.parquet"
    columns = {"n": pa.array(range(20), pa.int32()), "s": [each.s for each in rows]}
    pq.write_table(pa.table(columns), path, row_group_size=11, write_page_checksum=True)
    last = 8 * path.stat().st_size

    found = flips_of(format_of(kind), path, range(last - 8 * 1_100, last, 1 if THOROUGH else 5))

    assert {str(rows), None} == found


@pytest.mark.parametrize("length", [0, 3, 100, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path, length):
    """One that is still written is, too: its end is missing."""
    kind = row_type_of(n=D.INT())
    (path,) = write_files(tmp_path, ParquetBulkWriters.for_row_type(kind), [Row(n=1)])
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(
        SparkSetupError, match=r"cannot be read, got .*write it again, or remove it"
    ):
        read_files(format_of(kind), path)


def test_a_file_without_rows_gives_none(tmp_path):
    """It has a schema, which must fit, too."""
    path = file_of(tmp_path, n=pa.array([], pa.int32()))

    assert [] == read_files(format_of(row_type_of(n=D.INT())), path)
    with pytest.raises(SparkSetupError, match="got int32"):
        read_files(format_of(row_type_of(n=D.STRING())), path)


@pytest.mark.thorough
def test_a_million_rows_come_back_in_order(tmp_path):
    """In row groups."""
    kind = row_type_of(n=D.BIGINT(), s=D.STRING())
    rows = [Row(n=n, s="x" * 200) for n in range(1_000_000)]
    (path,) = write_files(tmp_path, ParquetBulkWriters.for_row_type(kind), rows)

    assert pq.ParquetFile(path).num_row_groups > 1
    numbers = (row.n for row in format_of(kind).read(path))
    assert all(found == at for found, at in zip(numbers, range(1_000_000), strict=True))


def test_a_file_that_is_written_anew_before_it_is_read_is_read_as_it_is(tmp_path):
    """It was found before: what counts is what is in it when a task reads it."""
    kind = row_type_of(n=D.INT())
    path = file_of(tmp_path, n=pa.array([1], pa.int32()))
    source = source_of(format_of(kind), path)
    (split,) = source.splits()
    pq.write_table(pa.table({"n": pa.array([2, 3], pa.int32())}), path)

    assert [Row(n=2), Row(n=3)] == [element for element, _ in source.read_split(split)]


def test_a_job_that_goes_on_has_the_format_that_it_began_with(tmp_path):
    """It is a part of the name by which the folder of a job knows its source."""
    kind = row_type_of(n=D.INT())
    text = source_of(StreamFormat.text_line_format(), tmp_path)

    assert f"the files of {tmp_path}" == text.identity
    assert f"the files of {tmp_path} as Parquet" == source_of(format_of(kind), tmp_path).identity


def test_what_is_declared_wrongly_is_refused_with_the_remedy(tmp_path):
    """When it is declared."""
    with pytest.raises(DeclarationTypeError, match=r"give DataTypes\.ROW"):
        ParquetBulkWriters.for_row_type(D.INT())
    with pytest.raises(DeclarationTypeError, match="takes no pickled objects"):
        ParquetBulkWriters.for_row_type(Types.ROW([Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(DeclarationTypeError, match="takes rows with fields, got none"):
        ParquetBulkWriters.for_row_type(D.ROW([]))
    with pytest.raises(DeclarationTypeError, match="no values for a column of type duration"):
        ParquetBulkWriters.for_row_type(pa.schema([("x", pa.duration("s"))]))
    with pytest.raises(DeclarationValueError, match="precision of a DECIMAL is from 1 to 38"):
        D.DECIMAL(39, 0)
    with pytest.raises(DeclarationValueError, match="batch_size"):
        ParquetColumnarRowInputFormat(row_type_of(n=D.INT()), None, 0)
    with pytest.raises(
        DeclarationTypeError, match="this is a BulkFormat: call for_bulk_file_format"
    ):
        FileSource.for_record_stream_format(format_of(row_type_of(n=D.INT())), "x")
    with pytest.raises(DeclarationTypeError, match="call for_record_stream_format"):
        FileSource.for_bulk_file_format(StreamFormat.text_line_format(), "x")
    with pytest.raises(RefusedNameError, match="files have no column of this type"):
        D.INTERVAL(1)
    from pyflinklike.pyflink.datastream.connectors import FileSink

    builder = FileSink.for_bulk_format("x", ParquetBulkWriters.for_row_type(row_type_of(n=D.INT())))
    with pytest.raises(DeclarationTypeError, match="must be OnCheckpointRollingPolicy"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())


def test_the_names_are_where_pyflink_has_them():
    """`DataTypes` of `pyflink.table`, too; what else is there is refused."""
    from pyflinklike.run import install, uninstall

    install()
    try:
        from pyflink.table import DataTypes as of_table
        from pyflink.table.types import DataTypes as of_types
        from pyflink.table.types import RowType

        assert DataTypes is of_table is of_types
        with pytest.raises(RefusedNameError, match=r"DataTypes\.ROW"):
            RowType([])
    finally:
        uninstall()


def test_a_source_of_files_gives_rows_to_functions(tmp_path):
    """The type of the stream is that of the rows."""
    path = file_of(tmp_path, n=pa.array([1, 2], pa.int32()))
    source = FileSource.for_bulk_file_format(format_of(row_type_of(n=D.INT())), str(path)).build()
    stream = local().from_source(source, WatermarkStrategy.no_watermarks(), "rows")

    assert Types.ROW_NAMED(["n"], [Types.INT()]) == stream.get_type()
    assert [2, 4] == list(stream.map(lambda row: row["n"] * 2).execute_and_collect())
