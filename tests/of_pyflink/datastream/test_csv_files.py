# SPDX-License-Identifier: Apache-2.0
"""Files of CSV: what Flink reads and writes, and what is not as declared is refused."""

from __future__ import annotations

import gzip
from decimal import Decimal

import pytest
from file_support import read_files, source_of, write_files
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    RefusedNameError,
    SparkSetupError,
)
from pyflinklike.pyflink.common import Row, Types
from pyflinklike.pyflink.common.data_types import DataTypes
from pyflinklike.pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema

D = DataTypes
NUMBERS = {
    "tinyint": D.TINYINT(),
    "smallint": D.SMALLINT(),
    "int": D.INT(),
    "bigint": D.BIGINT(),
    "float": D.FLOAT(),
    "double": D.DOUBLE(),
    "decimal": D.DECIMAL(2, 0),
}


def read(tmp_path, builder, text):
    """The rows of a file."""
    path = tmp_path / "given.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_files(CsvReaderFormat.for_schema(builder.build()), path)


def write(tmp_path, builder, *rows):
    """The text of the file that a job writes."""
    files = write_files(tmp_path / "out", CsvBulkWriters.for_schema(builder.build()), list(rows))
    return "".join(path.read_bytes().decode() for path in files)


def numbers():
    """A column of each type without parts."""
    builder = CsvSchema.builder()
    for name, kind in NUMBERS.items():
        builder.add_number_column(name, kind)
    return builder.add_boolean_column("boolean").add_string_column("string")


def test_columns_of_each_type_are_read_and_written_as_by_flink(tmp_path):
    """The values are those of PyFlink's own tests, but for a decimal that Flink rounds."""
    text = "127,-32767,2147483647,-9223372036854775808,3e38,2e-308,2.0,true,string\n"
    (row,) = read(tmp_path, numbers(), text)

    assert (127, -32767, 2147483647, -9223372036854775808) == tuple(row[:4])
    assert (2e-308, Decimal(2), True, "string") == tuple(row[5:])
    assert row.float == pytest.approx(3e38)
    assert ("127,-32767,2147483647,-9223372036854775808,3.0E38,2.0E-308,2,true,string\n") == write(
        tmp_path, numbers(), row
    )


def test_each_column_of_lists_has_a_separator(tmp_path):
    """An empty field is an empty list."""
    builder = CsvSchema.builder().add_array_column("n", ";", D.INT())
    builder.add_array_column("yes", ":", D.BOOLEAN()).add_array_column("text", ",")
    builder.set_column_separator("|").disable_quote_char()
    rows = [Row(n=[1, 2, 3], yes=[True, False], text=["a", "b"]), Row(n=[], yes=[True], text=[])]

    assert rows == read(tmp_path, builder, "1;2;3|true:false|a,b\n|true|\n")
    assert "1;2;3|true:false|a,b\n|true|\n" == write(tmp_path, builder, *rows)
    builder.remove_array_element_separator(2)
    assert ["a,b"] == read(tmp_path, builder, "1|true|a,b")[0].text


def test_comments_headers_and_first_rows_are_left_out(tmp_path):
    """A line of a field in quotes is no comment."""
    builder = CsvSchema.builder().add_string_column("s").set_allow_comments()
    assert ["a", "b\n# c", "d"] == [r.s for r in read(tmp_path, builder, 'a\n# x\n"b\n# c"\nd\n')]

    builder.set_use_header().set_skip_first_data_row()
    assert ["b"] == [row.s for row in read(tmp_path, builder, "name\n# x\na\nb\n")]
    assert [] == read(tmp_path, builder, "")


def test_a_header_has_the_names_of_the_columns_in_their_order(tmp_path):
    """Other names are taken unless it is strict, as by Flink; an other order never is."""
    builder = CsvSchema.builder().add_string_column("a").add_number_column("b").set_use_header()

    assert [Row(a="x", b=1)] == read(tmp_path, builder, "h1,h2\nx,1\n")
    with pytest.raises(SparkSetupError, match=r"the header \['b', 'a'\] is not \['a', 'b'\]"):
        read(tmp_path, builder, "b,a\n1,2\n")
    builder.set_strict_headers()
    assert [Row(a="x", b=1)] == read(tmp_path, builder, b"\xef\xbb\xbfa, b\r\nx,1\r\n")
    with pytest.raises(SparkSetupError, match=r"the header \['h1', 'h2'\]"):
        read(tmp_path, builder, "h1,h2\nx,1\n")
    assert "a,b\nx,1\n" == write(tmp_path, builder, Row(a="x", b=1))


def test_quotes_and_escapes_are_those_of_jackson(tmp_path):
    """What is written has its quotes doubled, also where there is an escape character."""
    builder = CsvSchema.builder().add_string_column("a").add_string_column("b")
    row = Row(a="string,", b='"string2"')

    assert '"string,","""string2"""\n' == write(tmp_path / "1", builder, row)
    assert [row] == read(tmp_path, builder, '"string,","""string2"""\n')
    builder.set_escape_char("\\")
    assert [row] == read(tmp_path, builder, '"string,","\\"string2\\""\n')
    assert '"string,","""string2"""\n' == write(tmp_path / "2", builder, row)
    builder.set_quote_char("`").set_column_separator("|")
    assert [Row(a="s", b="t")] == read(tmp_path, builder, "`s`|`t`\n")


@settings(max_examples=max(settings().max_examples // 5, 5))
@given(
    st.lists(
        st.tuples(
            st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.lists(st.integers(-9, 9), min_size=1, max_size=3),
        ),
        max_size=4,
    ),
    st.sampled_from(",;|\t"),
    st.none() | st.just("\\"),
    st.sampled_from(["\n", "\r", "\r\n"]),
)
def test_rows_come_back(tmp_path_factory, rows, separator, escape, line):
    """With a text for None; only what is that text cannot be told from it."""
    folder = tmp_path_factory.mktemp("rows")
    builder = CsvSchema.builder().add_string_column("s").add_number_column("n")
    builder.add_array_column("l", ":", D.INT()).set_column_separator(separator)
    builder.set_null_value("\\N").set_line_separator(line).set_use_header()
    if escape is not None:
        builder.set_escape_char(escape).set_null_value("NULL")
    schema = builder.build()
    rows = [schema.get_type_info().converted(row) for row in rows if row[0] not in ("\\N", "NULL")]

    write_files(folder, CsvBulkWriters.for_schema(schema), rows)

    assert rows == read_files(CsvReaderFormat.for_schema(schema), folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,a\n2\n", "line 2 of .* 2 fields expected but was 1"),
        ("1,a\n\n", "line 2 of .* 2 fields expected but was 1"),
        ("1,a,b\n", "2 fields expected but was 3"),
        ("x,a\n", "line 1 of .*invalid literal for int"),
        ("1_0,a\n", "'1_0' is no number"),
        ("2147483648,a\n", "takes an int in"),
        (",a\n", "invalid literal"),
        ('1,"a\n', "line 1 of .*unexpected end of data"),
        ('1,"a"b\n', "expected after"),
        (b"1,\xff\n", "can't decode byte 0xff"),
    ],
)
def test_a_file_that_is_not_as_declared_is_refused(tmp_path, text, told):
    """With the file and the line: no field becomes another value, and none is lost."""
    builder = CsvSchema.builder().add_number_column("n", Types.INT()).add_string_column("s")

    with pytest.raises(SparkSetupError, match=told):
        read(tmp_path, builder, text)


def test_a_decimal_that_does_not_fit_is_refused(tmp_path):
    """Flink makes None of it, in silence."""
    builder = CsvSchema.builder().add_number_column("n", D.DECIMAL(2, 0))

    assert [Row(n=Decimal(99))] == read(tmp_path, builder, "99.0\n")
    for text in ("9.5\n", "100\n", "NaN\n", "Infinity\n", "1e9\n", "1e999999999\n", "1e-9\n"):
        with pytest.raises(SparkSetupError, match="line 1"):
            read(tmp_path, builder, text)


def test_a_decimal_in_a_list_has_the_digits_that_are_declared(tmp_path):
    """When it is read, and when it is written."""
    builder = CsvSchema.builder().add_array_column("n", ";", D.DECIMAL(5, 2))

    assert [[Decimal("1.50"), Decimal(2)]] == [row.n for row in read(tmp_path, builder, "1.5;2\n")]
    with pytest.raises(SparkSetupError, match=r"line 1.*1\.555"):
        read(tmp_path, builder, "1;1.555\n")
    assert "1.50;2.00\n" == write(tmp_path, builder, Row(n=[Decimal("1.5"), Decimal(2)]))
    with pytest.raises(OutputError, match=r"DECIMAL\(5, 2\), got 1\.555"):
        write(tmp_path / "fine", builder, Row(n=[Decimal("1.555")]))


@pytest.mark.parametrize("kind", [D.DOUBLE(), D.FLOAT()])
def test_a_number_beyond_its_column_is_not_read_as_infinity(tmp_path, kind):
    """Infinity itself is."""
    builder = CsvSchema.builder().add_number_column("n", kind)

    assert [float("-inf")] == [row.n for row in read(tmp_path, builder, "-Infinity\n")]
    for text in ("1e400\n", "-1e400\n"):
        with pytest.raises(SparkSetupError, match="line 1"):
            read(tmp_path, builder, text)


@pytest.mark.parametrize("kind", [D.CHAR(2), D.VARCHAR(2)])
def test_a_text_longer_than_its_column_is_refused(tmp_path, kind):
    """When it is read, and when it is written."""
    builder = CsvSchema.builder().add_array_column("s", ";", kind)

    assert [["ab", "a"]] == [row.s for row in read(tmp_path, builder, "ab;a\n")]
    with pytest.raises(SparkSetupError, match=r"line 1.*2 characters at most, got 'abc'"):
        read(tmp_path, builder, "abc\n")
    with pytest.raises(OutputError, match="2 characters at most, got 'abc'"):
        write(tmp_path / "long", builder, Row(s=["abc"]))


def test_a_decimal_is_written_with_the_digits_of_its_scale(tmp_path):
    """Or not at all: none is cut off."""
    builder = CsvSchema.builder().add_number_column("n", D.DECIMAL(4, 2))

    assert "1.50\n-99.99\n" == write(
        tmp_path, builder, Row(n=Decimal("1.5")), Row(n=Decimal("-99.99"))
    )
    for number in ("1.234", "100"):
        with pytest.raises(OutputError, match=r"a value does not fit a column of DECIMAL\(4, 2\)"):
            write(tmp_path / number, builder, Row(n=Decimal(number)))


def test_a_compressed_file_is_read_by_the_ending_of_its_name(tmp_path):
    """One that is cut off is refused."""
    schema = CsvSchema.builder().add_number_column("n").build()
    path = tmp_path / "numbers.csv.gz"
    path.write_bytes(gzip.compress(b"1\n2\n" * 1000))

    assert 2000 == len(read_files(CsvReaderFormat.for_schema(schema), path))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(SparkSetupError, match="correct the file or the schema"):
        read_files(CsvReaderFormat.for_schema(schema), path)


def test_a_long_field_is_read(tmp_path):
    """Python's own limit is 131,072 characters."""
    builder = CsvSchema.builder().add_string_column("s")

    assert [1_000_000] == [len(row.s) for row in read(tmp_path, builder, "x" * 1_000_000)]


def test_a_value_that_is_none_of_its_column_fails_the_job(tmp_path):
    """And no file is there."""
    builder = CsvSchema.builder().add_number_column("n")

    with pytest.raises(OutputError, match="a row does not fit the schema of its file"):
        write(tmp_path, builder, Row(n=1), Row(n="x"))
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_schema_is_built_and_copied(tmp_path):
    """As PyFlink's."""
    first = numbers().build()
    builder = CsvSchema.builder().add_columns_from(first)

    assert 9 == len(first) == first.size() == len(builder) == builder.size()
    assert first == builder.build()
    assert 0 == len(builder.clear_columns())
    assert "files of" in source_of(CsvReaderFormat.for_schema(first), tmp_path).identity
    assert source_of(CsvReaderFormat.for_schema(first), tmp_path).identity.endswith(" as CSV")


def test_what_is_declared_wrongly_is_refused_with_the_remedy():
    """When it is declared."""
    with pytest.raises(DeclarationValueError, match="a CsvSchema needs columns, got none"):
        CsvSchema.builder().build()
    with pytest.raises(DeclarationValueError, match="one character, got ';;'"):
        CsvSchema.builder().set_column_separator(";;")
    with pytest.raises(DeclarationValueError, match="a line ends with"):
        CsvSchema.builder().set_line_separator("x")
    with pytest.raises(DeclarationValueError, match="field names of a row must differ"):
        CsvSchema.builder().add_string_column("a").add_string_column("a").build()
    with pytest.raises(DeclarationTypeError, match="CSV has rows, basic types"):
        CsvSchema.builder().add_number_column("a", D.MAP(D.INT(), D.INT())).build()
    with pytest.raises(DeclarationValueError, match="position of a column is from 0 to -1"):
        CsvSchema.builder().remove_array_element_separator(0)
    with pytest.raises(SparkSetupError, match="declare them all"):
        CsvSchema.builder().set_any_property_name("rest")
    with pytest.raises(RefusedNameError):
        CsvSchema.builder().add_number_column("a", D.INTERVAL())
