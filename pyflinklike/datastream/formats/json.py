# SPDX-License-Identifier: Apache-2.0
"""Rows as JSON objects, under the path that PyFlink has for it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

from pyflinklike.datastream.formats.json_nodes import reader_of, writer_of
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, HostError, OutputError
from pyflinklike.graph.serialization import (
    DeserializationSchema,
    SerializationSchema,
    value_of,
)
from pyflinklike.shown import shown
from pyflinklike.types import RowTypeInfo, TypeInformation

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonRowDeserializationSchema(DeserializationSchema):
    """Rows of JSON objects, as PyFlink's; `builder()` makes it.

    A field that is missing or null is None.  Times are those of RFC 3339 in UTC, bytes are in base 64.
    A number that does not fit the type of its field is an error.

    Args:
        type_info: Of the rows.
        fail_on_missing_field: Whether a missing field is an error.
        ignore_parse_errors: Whether what cannot be read is no element, and no error.
    """

    def __init__(
        self, type_info: RowTypeInfo, *, fail_on_missing_field: bool, ignore_parse_errors: bool
    ) -> None:
        self._type_info, self._is_lenient = type_info, ignore_parse_errors
        self._is_strict = fail_on_missing_field
        self._read = reader_of(type_info, is_strict=fail_on_missing_field)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Says what is read, and `build`s the schema."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes | None) -> Any:
        """The row of an object.

        Raises:
            ValueError: It is none, or a field does not fit.
        """
        try:
            node = json.loads(value_of(message), parse_float=Decimal)
            return self._type_info.converted(self._read(node))
        except (ValueError, TypeError, ArithmeticError):
            if self._is_lenient:
                return None
            raise

    def get_produced_type(self) -> TypeInformation:
        """Of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._type_info, self._is_strict, self._is_lenient)

    class Builder:
        """Says what a `JsonRowDeserializationSchema` reads, and `build`s it."""

        def __init__(self) -> None:
            self._type_info: Any = None
            self._is_strict = self._is_lenient = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """The type of the rows, whose names are those of fields."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> NoReturn:  # noqa: ARG002
            """Refuse it.

            Raises:
                HostError: Always.
            """
            msg = "the type of rows is not made of a JSON schema, got json_schema; give type_info(Types.ROW_NAMED(...))"
            raise HostError(msg)

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """A field that is missing is an error."""
            self._is_strict = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """What cannot be read is no element, and no error.

            Raises:
                DeclarationValueError: Where a missing field is one.
            """
            self._is_lenient = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """The schema.

            Raises:
                DeclarationTypeError: The type is none of rows, or JSON has it not.
                DeclarationValueError: A missing field is an error, and errors are not to be told.
            """
            if self._is_strict and self._is_lenient:
                msg = (
                    "JSON format doesn't support failOnMissingField and ignoreParseErrors are both "
                    "enabled, got both; leave one out"
                )
                raise DeclarationValueError(msg)
            return JsonRowDeserializationSchema(
                _row_type(self._type_info),
                fail_on_missing_field=self._is_strict,
                ignore_parse_errors=self._is_lenient,
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Rows as JSON objects, as PyFlink's; `builder()` makes it.

    Args:
        type_info: Of the rows, whose names are those of fields.
    """

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info, self._write = type_info, writer_of(type_info)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Says what is written, and `build`s the schema."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """The object of a row.

        Raises:
            OutputError: The element does not fit the type.
        """
        try:
            return self._write(self._type_info.freeze(element)).encode()
        except TypeError as error:
            msg = f"JsonRowSerializationSchema writes {self._type_info!r}, got {shown(element)}: {error}"
            raise OutputError(msg) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonRowSerializationSchema, (self._type_info,)

    class Builder:
        """Says what a `JsonRowSerializationSchema` writes, and `build`s it."""

        def __init__(self) -> None:
            self._type_info: Any = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """The type of the rows."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """The schema.

            Raises:
                DeclarationTypeError: The type is none of rows, or JSON has it not.
            """
            return JsonRowSerializationSchema(_row_type(self._type_info))


def _restored(
    type_info: RowTypeInfo, is_strict: bool, is_lenient: bool
) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema(
        type_info, fail_on_missing_field=is_strict, ignore_parse_errors=is_lenient
    )


def _row_type(type_info: Any) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        msg = f"Typeinfo should be set to one of rows, got {shown(type_info)}; give for example Types.ROW_NAMED(['id'], [Types.INT()])"
        raise DeclarationTypeError(msg)
    return type_info
