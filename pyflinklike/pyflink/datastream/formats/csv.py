# SPDX-License-Identifier: Apache-2.0
"""Rows as lines and as files of CSV, at PyFlink's path.

The standard library reads records.  Lines are written here, because Flink writes them with Jackson, whose rule
for quotes no `csv.writer` has: a text is in quotes if it is longer than 24 characters, or contains a character
up to the greatest of the delimiter, the quote, the escape character and the line's end.

    schema = CsvSchema.builder().add_string_column("page").add_number_column("views").build()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "views.csv").build()
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, NoReturn, TypeVar

import attrs
import pyarrow as pa

from pyflinklike._messages import instance_of, short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    SparkSetupError,
    StateValueError,
)
from pyflinklike.pyflink._graph.files import (
    BulkWriter,
    BulkWriterFactory,
    StreamFormat,
    open_to_read,
)
from pyflinklike.pyflink._graph.serialization import (
    DeserializationSchema,
    SerializationSchema,
    value_of,
)
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.data_types import DataType, DataTypes, as_data_type
from pyflinklike.pyflink.common.types import Types
from pyflinklike.pyflink.datastream.formats.value_conversion import (
    check_row_type,
    is_quoted,
    parser_of,
    texter_of,
    type_refusal,
)
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.basic_types import DecimalTypeInfo
from pyflinklike.types.nested_types import ListTypeInfo

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

__getattr__ = of_pyflink(__name__)

B = TypeVar("B", bound="_CsvBuilder")
R = TypeVar("R", bound="_RowBuilder")

_MOST: Final = 2**31 - 1
"""The greatest length of a field in characters, as in Java."""
_LONG = 24
"""The length in characters above which Jackson puts a text into quotes."""


@attrs.frozen
class CsvSchema:
    """The columns and the form of lines of CSV, as in PyFlink; `builder()` makes it.

    Args:
        columns: The columns, in order.
        delimiter: The character between fields.
        line: The end of a line.
        quote: The character around a field; None for no quotes.
        escape: The character that makes the next one plain; None for no such character.  The writer
            doubles quotes in any case, as Jackson does.
        null: The text that stands for None.  If it is None, None is written as an empty field, and no
            field is read as None.
        has_comments: Whether lines that begin with # are skipped.
        has_header: Whether the first line of a file has names of columns.
        is_strict: Whether these names must equal the names of the columns.
        skips_first: Whether the reader skips the first row of a file.
    """

    columns: tuple[Any, ...] = ()
    delimiter: str = ","
    line: str = "\n"
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    has_comments: bool = False
    has_header: bool = False
    is_strict: bool = False
    skips_first: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Make a builder of the schema."""
        return CsvSchemaBuilder()

    def get_type_info(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return Types.ROW_NAMED(self.names, [each.kind for each in self.columns])

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [each.name for each in self.columns]

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    __len__ = size

    def _records(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yield the fields of each record.

        Args:
            lines: Lines with their ends; a record may extend over several lines.

        Raises:
            ValueError: A record is not well formed.
        """
        # The limit counts for the whole process, so it is only raised.
        csv.field_size_limit(max(csv.field_size_limit(), _MOST))
        try:
            yield from csv.reader(
                lines,
                delimiter=self.delimiter,
                quotechar=self.quote,
                quoting=csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
                doublequote=True,
                escapechar=self.escape,
                strict=True,
            )
        except csv.Error as error:
            raise ValueError(str(error)) from error

    def _one_record(self, text: str) -> list[str]:
        found = list(self._records(io.StringIO(text, newline="")))
        if len(found) != 1:
            msg = f"one line was expected, got {len(found)}"
            raise ValueError(msg)
        return found[0]

    def _line_of(self, fields: Iterable[str | None]) -> bytes:
        """Return the line for fields that already have their quotes; a field that is None gets the text for None."""
        null = self.null or ""
        texts = [null if each is None else each for each in fields]
        return f"{self.delimiter.join(texts)}{self.line}".encode()

    def _text(self, field: str) -> str:
        """Return a field, in quotes if it needs them."""
        if self.quote is None or not self._needs_quotes(field):
            return field
        for special in dict.fromkeys((self.escape or self.quote, self.quote)):
            field = field.replace(special, special * 2)
        return f"{self.quote}{field}{self.quote}"

    def _number(self, field: str) -> str:
        """Return a number or boolean, in quotes only if it contains the delimiter of fields."""
        return self._text(field) if self.delimiter in field else field

    def _needs_quotes(self, field: str) -> bool:
        # Jackson compares code points: any character up to the greatest special one needs quotes.
        unsafe = max(self.delimiter, self.quote or "", self.escape or "", *(self.line or [""]))
        return len(field) > _LONG or _up_to(unsafe).search(field) is not None


@cache
def _up_to(last: str) -> re.Pattern[str]:
    """Return a pattern for all characters up to the last one."""
    return re.compile(f"[\0-{re.escape(last)}]")


@attrs.frozen
class _Column:
    """A column of the lines.

    Args:
        name: The name of the column.
        kind: The type of its values.
        separator: The text between the elements of a list.
        decimals: The type of its decimals; None if their digits are not declared.
    """

    name: str
    kind: TypeInformation
    separator: str = ";"
    decimals: DecimalTypeInfo | None = None

    def reader(self) -> Callable[[str], Any]:
        """Return the function that makes a value from a text, or raises a ValueError.

        Raises:
            DeclarationTypeError: CSV does not have the type.
        """
        parse, decimals, separator = parser_of(self._scalar()), self.decimals, self.separator
        if parse is None:
            raise type_refusal(self.kind, "CSV")
        one = parse if decimals is None else lambda text: decimals.freeze(parse(text))
        if not self._is_list():
            return one
        if not separator:
            return lambda text: [one(text)]
        return lambda text: [one(each) for each in text.split(separator)] if text else []

    def writer(self, schema: CsvSchema) -> Callable[[Any], str]:
        """Return the function that makes a field from a stored value.

        Raises:
            DeclarationTypeError: CSV does not have the type.
        """
        text_of = texter_of(self._scalar(), is_utc=False)
        if text_of is None:
            raise type_refusal(self.kind, "CSV")
        one = text_of if self.decimals is None else self._decimal_text
        if self._is_list():
            return lambda value: schema._text(
                self.separator.join("null" if each is None else one(each) for each in value)
            )
        quote = schema._text if is_quoted(self.kind) else schema._number
        return lambda value: quote(one(value))

    def _is_list(self) -> bool:
        return isinstance(self.kind, ListTypeInfo)

    def _scalar(self) -> TypeInformation:
        return self.kind.elem_type if isinstance(self.kind, ListTypeInfo) else self.kind

    def _decimal_text(self, stored: str) -> str:
        """Return the text of a stored DECIMAL, with all digits of its scale."""
        kind = self.decimals
        assert kind is not None
        try:
            return f"{kind.freeze(Decimal(stored)):f}"
        except StateValueError as error:
            column = f"DECIMAL({kind.precision}, {kind.scale})"
            msg = f"a value does not fit a column of {column}, got {stored}; declare it wider, or round the value"
            raise OutputError(msg) from error


class _Lines:
    """Converts the fields of lines to rows, and rows to lines.

    Args:
        kind: The type of the rows.
        schema: The columns, in the order of the fields of the rows, and the form of lines.

    Raises:
        DeclarationTypeError: CSV does not have the type of a column.
    """

    def __init__(self, kind: RowTypeInfo, schema: CsvSchema) -> None:
        self._kind, self._schema = kind, schema
        self._parts = [(each.reader(), each.writer(schema)) for each in schema.columns]

    def row(self, fields: list[str]) -> Any:
        """Return the row for the fields of a line.

        Raises:
            ValueError, TypeError, ArithmeticError: A field is missing, or does not fit its column.
        """
        if len(fields) != len(self._parts):
            msg = f"Row length mismatch. {len(self._parts)} fields expected but was {len(fields)}."
            raise ValueError(msg)
        null, pairs = self._schema.null, zip(fields, self._parts)
        values = [None if field == null else read(field) for field, (read, _) in pairs]
        return self._kind.converted(tuple(values))

    def line(self, row: Any) -> bytes:
        """Return the line for a row.

        Raises:
            StateValueError: The value is no row of the type.
        """
        pairs = zip(self._kind.freeze(row), self._parts)
        return self._schema._line_of(None if v is None else write(v) for v, (_, write) in pairs)


class _CsvBuilder:
    """The base of all builders, which collects a schema."""

    def __init__(self) -> None:
        self._schema = CsvSchema()

    def _with(self: B, **changes: Any) -> B:
        self._schema = attrs.evolve(self._schema, **changes)
        return self

    def _letter(self: B, **letters: Any) -> B:
        """Set parts of the form that must be one character."""
        for text in letters.values():
            if not isinstance(text, str) or len(text) != 1:
                msg = f"this part of a line is one character, got {short_repr(text)}; give for example ','"
                raise DeclarationValueError(msg)
        return self._with(**letters)


# Lines


class _RowBuilder(_CsvBuilder):
    """The base of both builders of schemas for lines.

    Args:
        type_info: The type of the rows.

    Raises:
        DeclarationTypeError: `type_info` is no type of rows.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__()
        self._type_info = check_row_type(type_info)
        self._separator, self._is_lenient = ";", False

    def set_field_delimiter(self: R, delimiter: str) -> R:
        """Set the text between fields.

        Args:
            delimiter: One character, by default a comma.
        """
        return self._letter(delimiter=delimiter)

    def set_array_element_delimiter(self: R, delimiter: str) -> R:
        """Set the text between the elements of an array.

        Args:
            delimiter: Any text, by default a semicolon.
        """
        self._separator = delimiter
        return self

    def set_quote_character(self: R, c: str) -> R:
        """Set the character around a field that needs quotes.

        Args:
            c: One character, by default a double quote.
        """
        return self._letter(quote=c)

    def set_escape_character(self: R, c: str) -> R:
        """Set the character that makes the next one plain.

        Args:
            c: One character; without a call there is no such character.
        """
        return self._letter(escape=c)

    def set_null_literal(self: R, null_literal: str) -> R:
        """Set the text that stands for None.

        Args:
            null_literal: The text.  Without a call None is written as an empty field, and no field is
                read as None.
        """
        return self._with(null=null_literal)

    def _arguments(self) -> tuple[RowTypeInfo, CsvSchema, bool]:
        """Return the arguments of the schema: a row's field is a column."""
        kind = self._type_info
        pairs = zip(kind.field_names, kind.field_types)
        columns = tuple([_Column(*each, self._separator) for each in pairs])
        return kind, attrs.evolve(self._schema, columns=columns), self._is_lenient


class _CsvRowSchema:
    """The base of both schemas for lines.

    Args:
        type_info: The type of the rows.
        schema: The columns and the form of lines.
        is_lenient: Whether lines that cannot be read are skipped.

    Raises:
        DeclarationTypeError: CSV does not have the type of a field.
    """

    def __init__(self, type_info: RowTypeInfo, schema: CsvSchema, is_lenient: bool) -> None:
        self._type_info, self._schema, self._is_lenient = type_info, schema, is_lenient
        self._lines = _Lines(type_info, schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info, self._schema, self._is_lenient)


class CsvRowDeserializationSchema(_CsvRowSchema, DeserializationSchema):
    """Makes rows from lines of CSV, as in PyFlink; its `Builder` makes it."""

    def deserialize(self, message: bytes | None) -> Any:
        """Return the row for a line; None for a comment.

        Args:
            message: The line as UTF-8.

        Raises:
            ValueError: It is not exactly one line, or a field does not fit its column.
        """
        try:
            text = value_of(message).decode()
            if self._schema.has_comments and text.startswith("#"):
                return None
            return self._lines.row(self._schema._one_record(text))
        except (ValueError, TypeError, ArithmeticError):
            if self._is_lenient:
                return None
            raise

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    class Builder(_RowBuilder):
        """Sets the form of lines that a `CsvRowDeserializationSchema` reads, and `build`s it."""

        def set_allow_comments(self: R, allow_comments: bool = True) -> R:
            """Set whether lines that begin with # are comments.

            Args:
                allow_comments: True skips these lines.
            """
            return self._with(has_comments=allow_comments)

        def set_ignore_parse_errors(self: R, ignore_parse_errors: bool) -> R:
            """Set whether lines that cannot be read are skipped.

            Args:
                ignore_parse_errors: True skips them, False raises an error.
            """
            self._is_lenient = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Make the schema.

            Raises:
                DeclarationTypeError: CSV does not have the type of a field.
            """
            return CsvRowDeserializationSchema(*self._arguments())


class CsvRowSerializationSchema(_CsvRowSchema, SerializationSchema):
    """Makes lines of CSV from rows, as in PyFlink; its `Builder` makes it."""

    def serialize(self, element: Any) -> bytes:
        """Return the line for a row, with its end.

        Args:
            element: A row of the declared type.

        Raises:
            OutputError: The element does not fit the type.
        """
        try:
            return self._lines.line(element)
        except TypeError as error:
            msg = f"CsvRowSerializationSchema writes {self._type_info!r}, got {short_repr(element)}: {error}"
            raise OutputError(msg) from error

    class Builder(_RowBuilder):
        """Sets the form of lines that a `CsvRowSerializationSchema` writes, and `build`s it."""

        def set_field_delimiter(self: R, c: str) -> R:
            """Set the text between fields.

            Args:
                c: One character, by default a comma.
            """
            return self._letter(delimiter=c)

        def set_null_literal(self: R, s: str) -> R:
            """Set the text that stands for None.

            Args:
                s: The text; without a call None is written as an empty field.
            """
            return self._with(null=s)

        def set_line_delimiter(self: R, delimiter: str) -> R:
            """Set the end of a line.

            Args:
                delimiter: A line feed (the default), a return, both or nothing.

            Raises:
                DeclarationValueError: The delimiter is something else.
            """
            if delimiter not in ("\n", "\r", "\r\n", ""):
                msg = f"Unsupported new line delimiter, got {short_repr(delimiter)}; give \\n, \\r, \\r\\n or nothing"
                raise DeclarationValueError(msg)
            return self._with(line=delimiter)

        def disable_quote_character(self: R) -> R:
            """Write all fields without quotes, even if a field contains a delimiter."""
            return self._with(quote=None)

        def build(self) -> CsvRowSerializationSchema:
            """Make the schema.

            Raises:
                DeclarationTypeError: CSV does not have the type of a field.
            """
            return CsvRowSerializationSchema(*self._arguments())


# Files


class CsvSchemaBuilder(_CsvBuilder):
    """Sets the columns and the form of files, as in PyFlink, and `build`s the schema."""

    def build(self) -> CsvSchema:
        """Make the schema.

        Raises:
            DeclarationTypeError: CSV does not have the type of a column.
            DeclarationValueError: There is no column, or two columns have the same name.
        """
        if not self._schema.columns:
            msg = "a CsvSchema needs columns, got none; call for example add_string_column(name)"
            raise DeclarationValueError(msg)
        # It checks names and types now, rather than in a worker.
        _lines_of(self._schema)
        return self._schema

    def add_array_column(
        self, name: str, separator: str = ";", element_type: DataType | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists.

        Args:
            name: The name of the column.
            separator: The text between elements.
            element_type: The type of the elements; None for texts.
        """
        return self._add(name, element_type or DataTypes.STRING(), separator)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of booleans.

        Args:
            name: The name of the column.
        """
        return self._add(name, DataTypes.BOOLEAN())

    def add_number_column(self, name: str, number_type: DataType | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers.

        Args:
            name: The name of the column.
            number_type: The type of the numbers, of `DataTypes` or `Types`; None for BIGINT.
        """
        return self._add(name, number_type or DataTypes.BIGINT())

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of texts.

        Args:
            name: The name of the column.
        """
        return self._add(name, DataTypes.STRING())

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema.

        Args:
            schema: The schema with the columns, in order.
        """
        return self._with(columns=(*self._schema.columns, *schema.columns))

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns that were added so far."""
        return self._with(columns=())

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Set whether lines that begin with # are comments.

        Args:
            allow: True skips these lines.
        """
        return self._with(has_comments=allow)

    def set_any_property_name(self, name: str) -> NoReturn:
        """Refuse columns that are not declared: declare them all.

        Args:
            name: A name, which is refused.

        Raises:
            SparkSetupError: Always.
        """
        msg = f"a file of CSV has the columns of its schema, got set_any_property_name({name!r}); declare them all"
        raise SparkSetupError(msg)

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Read and write each list as one element, the whole field."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Read and write the lists of a column as one element, the whole field.

        Args:
            index: The position of the column, from 0.

        Raises:
            DeclarationValueError: There is no column at this position.
        """
        if type(index) is not int or not 0 <= index < len(self):
            msg = f"the position of a column is from 0 to {len(self) - 1}, got {short_repr(index)}; give one of them"
            raise DeclarationValueError(msg)
        return self._separate("", self._schema.columns[index])

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the text between the elements of lists, for all columns so far.

        Args:
            separator: Any text, by default a semicolon.
        """
        return self._separate(separator, *self._schema.columns)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the text between fields.

        Args:
            char: One character, by default a comma.
        """
        return self._letter(delimiter=char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Use no escape character; this is the default."""
        return self._with(escape=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that makes the next one plain.

        Args:
            char: One character; without a call there is no such character.
        """
        return self._letter(escape=char)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the end of written lines; a reader takes any of these ends.

        Args:
            separator: A line feed (the default), a return, or both.

        Raises:
            DeclarationValueError: The separator is something else.
        """
        if separator not in ("\n", "\r", "\r\n"):
            msg = f"a line ends with \\n, \\r or \\r\\n, got {short_repr(separator)}; give one of them"
            raise DeclarationValueError(msg)
        return self._with(line=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for None.

        Args:
            null_value: The text.  Without a call None is written as an empty field, and no field is
                read as None.
        """
        return self._with(null=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Read and write all fields without quotes, even if a field contains a separator."""
        return self._with(quote=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character around a field that needs quotes.

        Args:
            char: One character, by default a double quote.
        """
        return self._letter(quote=char)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Set whether a reader skips the first row of a file.

        Args:
            skip: True skips the first row.
        """
        return self._with(skips_first=skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Set whether the names in the first line must equal the names of the columns.

        Args:
            strict: True refuses a file with other names.
        """
        return self._with(is_strict=strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Set whether the first line of a file has the names of its columns.

        Args:
            use: True reads and writes such a line.
        """
        return self._with(has_header=use)

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._schema.columns)

    __len__ = size

    def _separate(self, separator: str, *columns: _Column) -> CsvSchemaBuilder:
        """Set the text between the elements of some columns."""
        new = {each.name: attrs.evolve(each, separator=separator) for each in columns}
        return self._with(
            columns=tuple([new.get(each.name, each) for each in self._schema.columns])
        )

    def _add(self, name: str, data_type: Any, separator: str | None = None) -> CsvSchemaBuilder:
        """Add a column of values, or of lists of them if there is a separator."""
        if not isinstance(name, str):
            msg = f"the name of a column is text, got {short_repr(name)}; give a str"
            raise DeclarationTypeError(msg)
        found = as_data_type(data_type)
        kind, column = found.type_info, found.column
        # A column of BIG_DEC has digits in Arrow's type only, so it takes any decimals.
        has_digits = pa.types.is_decimal(column) and found.name.startswith("DECIMAL(")
        decimals = DecimalTypeInfo(column.precision, column.scale) if has_digits else None
        if separator is not None:
            kind = Types.LIST(kind)
        return self._with(
            columns=(*self._schema.columns, _Column(name, kind, separator or ";", decimals))
        )


@attrs.frozen
class CsvReaderFormat(StreamFormat):
    """Reads rows from files of CSV, as in PyFlink, for `FileSource.for_record_stream_format`.

    Files are UTF-8.  The ending of a file's name gives its compression, such as `.gz`.  A line must have a
    field for each column, and each field must fit its column.  An error names the file and the line.

    Args:
        schema: The columns and the form of files.
    """

    schema: CsvSchema

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Make the format of a schema.

        Args:
            schema: The schema, made by `CsvSchema.builder()`.

        Raises:
            DeclarationTypeError: `schema` is no `CsvSchema`.
        """
        return CsvReaderFormat(_check_csv_schema(schema))

    @property
    def type_info(self) -> TypeInformation:
        """The type of the rows."""
        return self.schema.get_type_info()

    @property
    def name(self) -> str:
        """The name of the format."""
        return "CSV"

    def read(self, path: Path) -> Iterator[Any]:
        """Yield the rows of a file.

        Raises:
            SparkSetupError: The file does not fit the schema.
        """
        # `-sig`: programs on Windows put a byte order mark at the beginning.
        with io.TextIOWrapper(open_to_read(path), encoding="utf-8-sig", newline="") as text:
            yield from _Records(self.schema, text, path)


class _Records:
    """Reads the rows of a file.

    Args:
        schema: The columns and the form of the file.
        text: The lines of the file, with their ends.
        path: The path of the file, for messages.
    """

    def __init__(self, schema: CsvSchema, text: Iterable[str], path: Path) -> None:
        self._schema, self._text, self._path = schema, text, path
        self._number, self._is_start = 0, True

    def __iter__(self) -> Iterator[Any]:
        schema, lines = self._schema, _lines_of(self._schema)
        records = schema._records(self._lines())
        try:
            if schema.has_header:
                self._check_header(self._next(records))
            if schema.skips_first:
                self._next(records)
            while (fields := self._next(records)) is not None:
                # For `csv` an empty line has no fields, for Jackson one empty field.
                yield lines.row(fields or [""])
        except (ValueError, TypeError, ArithmeticError, EOFError, OSError) as error:
            msg = (
                f"a file of CSV does not fit its schema, got line {self._number} of "
                f"{str(self._path)!r}: {shown_error(error)}; correct the file or the schema"
            )
            raise SparkSetupError(msg) from error

    def _next(self, records: Iterator[list[str]]) -> list[str] | None:
        self._is_start = True
        return next(records, None)

    def _lines(self) -> Iterator[str]:
        has_comments = self._schema.has_comments
        for line in self._text:
            self._number += 1
            # A # at the beginning of a line is plain text within a field in quotes.
            if has_comments and self._is_start and line.startswith("#"):
                continue
            self._is_start = False
            yield line

    def _check_header(self, header: list[str] | None) -> None:
        if header is None:
            return
        names = self._schema.names
        found = [each.strip() for each in header]
        # Flink takes columns by position.  The same names in another order would give wrong values.
        is_shuffled = found != names and sorted(found) == sorted(names)
        if is_shuffled or (self._schema.is_strict and found != names):
            msg = f"the header {found} is not {names}"
            raise ValueError(msg)


def _lines_of(schema: CsvSchema) -> _Lines:
    return _Lines(schema.get_type_info(), schema)


class CsvBulkWriters:
    """Makes writers of rows to files of CSV, as in PyFlink, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """Return the factory of writers for rows of a schema.

        Args:
            schema: The schema, made by `CsvSchema.builder()`.

        Raises:
            DeclarationTypeError: `schema` is no `CsvSchema`.
        """
        return _CsvWriters(_check_csv_schema(schema))


def _check_csv_schema(schema: Any) -> CsvSchema:
    if not isinstance(schema, CsvSchema):
        remedy = instance_of(CsvSchema, schema, "make it by CsvSchema.builder()")
        msg = f"files of CSV need a CsvSchema, got {short_repr(schema)}; {remedy}"
        raise DeclarationTypeError(msg)
    return schema


@attrs.frozen
class _CsvWriters(BulkWriterFactory):
    schema: CsvSchema

    def open(self, file: IO[bytes], type_info: TypeInformation) -> BulkWriter:  # noqa: ARG002
        return _CsvFileWriter(self.schema, file)


class _CsvFileWriter:
    """Writes a header if the schema has one, and a line for each row."""

    def __init__(self, schema: CsvSchema, file: IO[bytes]) -> None:
        self._file, self._lines = file, _lines_of(schema)
        if schema.has_header:
            file.write(schema._line_of(map(schema._text, schema.names)))

    def add(self, value: Any) -> int:
        try:
            return self._file.write(self._lines.line(value))
        except StateValueError as error:
            msg = f"a row does not fit the schema of its file, got {short_repr(value)}: {error}"
            raise OutputError(msg) from error

    def finish(self) -> None:
        """Do nothing: every line is written."""

    abandon = finish
