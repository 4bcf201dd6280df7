# SPDX-License-Identifier: Apache-2.0
"""Rows as JSON objects and back, at PyFlink's path; msgspec reads and writes the text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

import msgspec
import pyarrow as pa

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationValueError, OutputError, SparkSetupError
from pyflinklike.pyflink._graph.serialization import (
    DeserializationSchema,
    SerializationSchema,
    value_of,
)
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.formats.value_conversion import (
    Convert,
    PartConverter,
    check_kind,
    check_row_type,
    is_quoted,
    parser_of,
    same,
    texter_of,
    type_refusal,
)
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.basic_types import (
    BigIntTypeInfo,
    BooleanTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
)
from pyflinklike.types.nested_types import MapTypeInfo

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

__getattr__ = of_pyflink(__name__)


class JsonRowDeserializationSchema(DeserializationSchema):
    """Makes rows from JSON objects, as in PyFlink; `builder()` makes it.

    A field that is missing or null becomes None.  Times are texts in UTC by RFC 3339, and bytes are texts in
    base 64.  A number that does not fit the type of its field is an error.

    Args:
        type_info: The type of the rows.
        fail_on_missing_field: True raises an error for a missing field, False makes it None.
        ignore_parse_errors: True skips an object that cannot be read, False raises an error.
    """

    def __init__(
        self, type_info: RowTypeInfo, *, fail_on_missing_field: bool, ignore_parse_errors: bool
    ) -> None:
        self._type_info, self._is_lenient = type_info, ignore_parse_errors
        self._is_strict = fail_on_missing_field
        column = pa.field("", type_info.arrow_type)
        self._read = _ObjectReader(fail_on_missing_field).function_of(type_info, column)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Make a builder of the schema."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes | None) -> Any:
        """Return the row for an object.

        Args:
            message: The object, in UTF-8 or in another encoding of Unicode.

        Raises:
            ValueError: The message is no object, or a field does not fit its type.
        """
        try:
            data = value_of(message)
            # Flink takes all encodings of Unicode; msgspec only takes UTF-8 without a byte order mark.
            node = _DECODER.decode(data.decode(json.detect_encoding(data)))
            return self._type_info.converted(self._read(node))
        except (ValueError, TypeError, ArithmeticError):
            if self._is_lenient:
                return None
            raise

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {
            "fail_on_missing_field": self._is_strict,
            "ignore_parse_errors": self._is_lenient,
        }
        return partial(JsonRowDeserializationSchema, self._type_info, **settings), ()

    class Builder:
        """Sets the type and the strictness of a `JsonRowDeserializationSchema`, and `build`s it."""

        def __init__(self) -> None:
            self._type_info: Any = None
            self._is_strict = self._is_lenient = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows.

            Args:
                type_info: A type of rows; the names of its fields are the names in the objects.
            """
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> NoReturn:  # noqa: ARG002
            """Refuse a JSON schema: give type_info(Types.ROW_NAMED(...)).

            Args:
                json_schema: A JSON schema, which is refused.

            Raises:
                SparkSetupError: Always.
            """
            msg = "a JSON schema cannot give the type of rows, got json_schema; give type_info(Types.ROW_NAMED(...))"
            raise SparkSetupError(msg)

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Raise an error for a missing field."""
            self._is_strict = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Skip objects that cannot be read; `build` refuses it beside `fail_on_missing_field`."""
            self._is_lenient = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Make the schema.

            Raises:
                DeclarationTypeError: `type_info` is no type of rows, or JSON does not have it.
                DeclarationValueError: Both `fail_on_missing_field` and `ignore_parse_errors` were called.
            """
            if self._is_strict and self._is_lenient:
                msg = (
                    "JSON format doesn't support failOnMissingField and ignoreParseErrors are both "
                    "enabled, got both; leave one out"
                )
                raise DeclarationValueError(msg)
            return JsonRowDeserializationSchema(
                check_row_type(self._type_info),
                fail_on_missing_field=self._is_strict,
                ignore_parse_errors=self._is_lenient,
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Makes JSON objects from rows, as in PyFlink; `builder()` makes it.

    Args:
        type_info: The type of the rows; the names of its fields are the names in the objects.
    """

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info = type_info
        self._write = _ObjectWriter().function_of(type_info, pa.field("", type_info.arrow_type))

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Make a builder of the schema."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Return the object for a row, as UTF-8.

        Args:
            element: A row of the declared type.

        Raises:
            OutputError: The element does not fit the type.
        """
        try:
            return msgspec.json.encode(self._write(self._type_info.converted(element)))
        except TypeError as error:
            msg = f"JsonRowSerializationSchema writes {self._type_info!r}, got {short_repr(element)}: {error}"
            raise OutputError(msg) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonRowSerializationSchema, (self._type_info,)

    class Builder:
        """Sets the type of a `JsonRowSerializationSchema`, and `build`s it."""

        def __init__(self) -> None:
            self._type_info: Any = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows.

            Args:
                type_info: A type of rows; the names of its fields are the names in the objects.
            """
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Make the schema.

            Raises:
                DeclarationTypeError: `type_info` is no type of rows, or JSON does not have it.
            """
            return JsonRowSerializationSchema(check_row_type(self._type_info))


# `Decimal` keeps a number as it is written, so a field of BIG_DEC gets all its digits.
_DECODER = msgspec.json.Decoder(float_hook=Decimal)


class _JsonConverter(PartConverter):
    def map(self, kind: TypeInformation, key: Convert, item: Convert) -> Convert:
        assert isinstance(kind, MapTypeInfo)
        if not isinstance(kind._key_type_info, StringTypeInfo):
            raise type_refusal(kind, "JSON")
        return super().map(kind, key, item)


class _ObjectReader(_JsonConverter):
    """Makes values from the nodes that msgspec decodes.

    Args:
        is_strict: True raises an error for a missing field.
    """

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict

    def row(self, names: Sequence[str], parts: Sequence[Convert]) -> Convert:
        is_strict = self._is_strict

        def read(node: Any) -> tuple[Any, ...]:
            fields = check_kind(node, dict)
            if is_strict and (missing := [name for name in names if name not in fields]):
                msg = f"Could not find field with name {missing[0]!r}."
                raise ValueError(msg)
            return tuple([part(fields.get(name)) for name, part in zip(names, parts)])

        return read

    def leaf(self, kind: TypeInformation, column: pa.DataType) -> Convert:  # noqa: ARG002
        parse = parser_of(kind)
        if parse is None:
            raise type_refusal(kind, "JSON")
        is_text = isinstance(kind, StringTypeInfo)
        is_whole = isinstance(kind, (IntegralTypeInfo, BigIntTypeInfo))

        def read(node: Any) -> Any:
            if isinstance(node, str):
                return parse(node)
            # Jackson takes 1.0 for an int.
            if is_whole and isinstance(node, Decimal) and node == node.to_integral_value():
                return int(node)
            if isinstance(node, (list, dict)) and not is_text:
                msg = f"a value without parts was expected, got {short_repr(node)}"
                raise ValueError(msg)
            return parse(_text_of(node))

        return read


def _text_of(node: Any) -> str:
    """Return a number, boolean, array or object as JSON text."""
    if isinstance(node, Decimal):
        return str(node)
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False, default=float)


class _ObjectWriter(_JsonConverter):
    """Makes the objects that msgspec encodes from values."""

    def row(self, names: Sequence[str], parts: Sequence[Convert]) -> Convert:
        return lambda row: {name: part(each) for name, part, each in zip(names, parts, row)}

    def leaf(self, kind: TypeInformation, column: pa.DataType) -> Convert:  # noqa: ARG002
        if isinstance(kind, (StringTypeInfo, IntegralTypeInfo, BigIntTypeInfo, BooleanTypeInfo)):
            return same
        text_of = texter_of(kind, is_utc=True)
        if text_of is None:
            raise type_refusal(kind, "JSON")
        return text_of if is_quoted(kind) else lambda value: _number(text_of(value))


def _number(text: str) -> Any:
    """Return a number in Java's form; NaN and infinities are strings, as Jackson writes them."""
    return text if text.endswith(("NaN", "Infinity")) else msgspec.Raw(text.encode())
