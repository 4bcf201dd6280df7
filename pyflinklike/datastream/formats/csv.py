# SPDX-License-Identifier: Apache-2.0
"""Rows as lines of CSV, under PyFlink's path; fields are in quotes where Jackson puts them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.datastream.formats.scalar_texts import (
    is_quoted,
    parser_of,
    texter_of,
    type_refusal,
)
from pyflinklike.engine.graph.serialization import (
    DeserializationSchema,
    SerializationSchema,
    value_of,
)
from pyflinklike.engine.shown import shown
from pyflinklike.engine.types import RowTypeInfo, TypeInformation
from pyflinklike.engine.types.nested_types import ListTypeInfo
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, OutputError

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]


B = TypeVar("B", bound="_Builder")


class _Builder:
    """The settings of lines, which both builders have.

    Args:
        type_info: The type of the rows.

    Raises:
        DeclarationTypeError: It is no type of rows.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        if not isinstance(type_info, RowTypeInfo):
            msg = f"type_info must be one of rows, got {shown(type_info)}; give for example Types.ROW([Types.INT()])"
            raise DeclarationTypeError(msg)
        self._type_info = type_info
        self._dialect = Dialect()

    def set_field_delimiter(self: B, delimiter: str) -> B:
        """Set the text between fields.

        Args:
            delimiter: One character; by default a comma.
        """
        return self._with(field=_letter(delimiter))

    def set_array_element_delimiter(self: B, delimiter: str) -> B:
        """Set the text between the elements of an array.

        Args:
            delimiter: Any text; by default a semicolon.
        """
        return self._with(array=delimiter)

    def set_quote_character(self: B, c: str) -> B:
        """Set the character around a field that needs quotes.

        Args:
            c: One character; by default a double quote.
        """
        return self._with(quote=_letter(c))

    def set_escape_character(self: B, c: str) -> B:
        """Set the character before a quote in a field; by default such a quote is doubled.

        Args:
            c: One character.
        """
        return self._with(escape=_letter(c))

    def set_null_literal(self: B, null_literal: str) -> B:
        """Set the text that stands for None.

        Args:
            null_literal: By default None is written as an empty field, and no text is read as None.
        """
        return self._with(null=null_literal)

    def _with(self: B, **changes: Any) -> B:
        self._dialect = attrs.evolve(self._dialect, **changes)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """Rows of lines of CSV, as PyFlink's; its `Builder` makes it.

    Args:
        type_info: The type of the rows.
        dialect: The form of lines.
        ignore_parse_errors: True skips a line that cannot be read, False raises an error.
    """

    def __init__(
        self, type_info: RowTypeInfo, dialect: Dialect, *, ignore_parse_errors: bool
    ) -> None:
        self._type_info, self._dialect, self._is_lenient = type_info, dialect, ignore_parse_errors
        self._parts = [_reader_of(each, dialect) for each in type_info.field_types]

    def deserialize(self, message: bytes | None) -> Any:
        """Return the row of a line; None for a comment.

        Args:
            message: The line as UTF-8.

        Raises:
            ValueError: It is no line, or a field does not fit.
        """
        try:
            fields = self._dialect.fields(value_of(message).decode())
            return None if fields is None else self._row(fields)
        except (ValueError, TypeError, ArithmeticError):
            if self._is_lenient:
                return None
            raise

    def _row(self, fields: list[str]) -> Any:
        if len(fields) != len(self._parts):
            msg = f"Row length mismatch. {len(self._parts)} fields expected but was {len(fields)}."
            raise ValueError(msg)
        null, parts = self._dialect.null, zip(self._parts, fields)
        values = [None if text == null else read(text) for read, text in parts]
        return self._type_info.converted(tuple(values))

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._type_info, self._dialect, self._is_lenient)

    class Builder(_Builder):
        """Sets the form of lines that a `CsvRowDeserializationSchema` reads, and `build`s it."""

        _is_lenient = False

        def set_allow_comments(
            self, allow_comments: bool = True
        ) -> CsvRowDeserializationSchema.Builder:
            """Set whether lines may be comments.

            Args:
                allow_comments: True skips lines that begin with #.
            """
            return self._with(has_comments=allow_comments)

        def set_ignore_parse_errors(
            self, ignore_parse_errors: bool
        ) -> CsvRowDeserializationSchema.Builder:
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
            return _restored(self._type_info, self._dialect, self._is_lenient)


class CsvRowSerializationSchema(SerializationSchema):
    """Rows as lines of CSV, as PyFlink's; its `Builder` makes it.

    Args:
        type_info: The type of the rows.
        dialect: The form of lines.
    """

    def __init__(self, type_info: RowTypeInfo, dialect: Dialect) -> None:
        self._type_info, self._dialect = type_info, dialect
        self._parts = [_writer_of(each, dialect) for each in type_info.field_types]

    def serialize(self, element: Any) -> bytes:
        """Return the line of a row, with its end.

        Args:
            element: The row.

        Raises:
            OutputError: The element does not fit the type.
        """
        try:
            values = self._type_info.freeze(element)
        except TypeError as error:
            msg = f"CsvRowSerializationSchema writes {self._type_info!r}, got {shown(element)}: {error}"
            raise OutputError(msg) from error
        null = self._dialect.null or ""
        fields = [null if value is None else one(value) for one, value in zip(self._parts, values)]
        return f"{self._dialect.field.join(fields)}{self._dialect.line}".encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvRowSerializationSchema, (self._type_info, self._dialect)

    class Builder(_Builder):
        """Sets the form of lines that a `CsvRowSerializationSchema` writes, and `build`s it."""

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the text between fields.

            Args:
                c: One character; by default a comma.
            """
            return super().set_field_delimiter(c)

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that stands for None.

            Args:
                s: By default None is written as an empty field.
            """
            return super().set_null_literal(s)

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the end of a line.

            Args:
                delimiter: A line feed, which is the default, a return, both or nothing.

            Raises:
                DeclarationValueError: It is something else.
            """
            if delimiter not in ("\n", "\r", "\r\n", ""):
                msg = f"Unsupported new line delimiter, got {shown(delimiter)}; give \\n, \\r, \\r\\n or nothing"
                raise DeclarationValueError(msg)
            return self._with(line=delimiter)

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Write fields without quotes, whatever is in them."""
            return self._with(quote=None)

        def build(self) -> CsvRowSerializationSchema:
            """Make the schema.

            Raises:
                DeclarationTypeError: CSV does not have the type of a field.
            """
            return CsvRowSerializationSchema(self._type_info, self._dialect)


def _restored(
    type_info: RowTypeInfo, dialect: Dialect, is_lenient: bool
) -> CsvRowDeserializationSchema:
    return CsvRowDeserializationSchema(type_info, dialect, ignore_parse_errors=is_lenient)


def _letter(text: Any) -> str:
    if not isinstance(text, str) or len(text) != 1:
        msg = f"it takes one character, got {shown(text)}; give for example ','"
        raise DeclarationValueError(msg)
    return text


def _reader_of(type_info: TypeInformation, dialect: Dialect) -> Callable[[str], Any]:
    if isinstance(type_info, ListTypeInfo):
        one = _reader_of(type_info.elem_type, dialect)
        return lambda text: [one(each) for each in text.split(dialect.array)] if text else []
    parse = parser_of(type_info)
    if parse is None:
        raise type_refusal(type_info, "CSV")
    return parse


def _writer_of(type_info: TypeInformation, dialect: Dialect) -> Callable[[Any], str]:
    if isinstance(type_info, ListTypeInfo):
        one = texter_of(type_info.elem_type, is_utc=False)
        if one is not None:
            return lambda value: dialect.text(dialect.array.join(map(one, value)))
    text_of = texter_of(type_info, is_utc=False)
    if text_of is None:
        raise type_refusal(type_info, "CSV")
    if is_quoted(type_info):
        return lambda value: dialect.text(text_of(value))
    return lambda value: dialect.number(text_of(value))


__getattr__ = of_pyflink(__name__)

_LONG = 24
"""The length in characters above which texts are in quotes, as Jackson has it."""


@attrs.frozen
class Dialect:
    """The form of lines.

    Args:
        field: The character between fields.
        line: The end of a line.
        array: The text between the elements of an array.
        quote: The character around a field; None for no quotes.
        escape: The character before a quote in a field; None doubles the quote.
        null: The text of None; None writes an empty field, and reads no field as None.
        has_comments: Whether lines that begin with # are skipped.
    """

    field: str = ","
    line: str = "\n"
    array: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    has_comments: bool = False

    def fields(self, text: str) -> list[str] | None:
        """Return the fields of a line; None for a comment.

        Raises:
            ValueError: It is not one line.
        """
        if self.has_comments and text.startswith("#"):
            return None
        lines = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.field,
            quotechar=self.quote,
            quoting=csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
            doublequote=self.escape is None,
            escapechar=self.escape,
            strict=True,
        )
        try:
            found = list(lines)
        except csv.Error as error:
            raise ValueError(str(error)) from error
        if len(found) != 1:
            msg = f"one line is wanted, got {len(found)}"
            raise ValueError(msg)
        return found[0]

    def text(self, field: str) -> str:
        """Return a field, with quotes where it needs them."""
        if self.quote is None or not self._needs_quotes(field):
            return field
        escape = self.escape or self.quote
        for special in dict.fromkeys((escape, self.quote)):
            field = field.replace(special, f"{escape}{special}")
        return f"{self.quote}{field}{self.quote}"

    def number(self, field: str) -> str:
        """Return a number or boolean, with quotes only if it has the delimiter of fields in it."""
        return self.text(field) if self.field in field else field

    def _needs_quotes(self, field: str) -> bool:
        unsafe = max(self.field, self.quote or "", self.escape or "", *(self.line or [""]))
        return len(field) > _LONG or any(letter <= unsafe for letter in field)
