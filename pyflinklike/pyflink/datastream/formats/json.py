# SPDX-License-Identifier: Apache-2.0
"""Rows as JSON objects and back, by their types, under PyFlink's path."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NoReturn

from pyflinklike._messages import shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, HostError, OutputError
from pyflinklike.pyflink._graph.serialization import (
    DeserializationSchema,
    SerializationSchema,
    value_of,
)
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.formats.scalar_texts import (
    is_quoted,
    parser_of,
    texter_of,
    type_refusal,
)
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.basic_types import BigIntTypeInfo, IntegralTypeInfo, StringTypeInfo
from pyflinklike.types.nested_types import ListTypeInfo, MapTypeInfo

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

__getattr__ = of_pyflink(__name__)


class JsonRowDeserializationSchema(DeserializationSchema):
    """Rows of JSON objects, as PyFlink's; `builder()` makes it.

    A field that is missing or null is None.  Times are those of RFC 3339 in UTC, bytes are in base 64.
    A number that does not fit the type of its field is an error.

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
        self._read = reader_of(type_info, is_strict=fail_on_missing_field)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Make a builder of the schema."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes | None) -> Any:
        """Return the row of an object.

        Args:
            message: The object as UTF-8.

        Raises:
            ValueError: It is no object, or a field does not fit.
        """
        try:
            node = json.loads(value_of(message), parse_float=Decimal)
            return self._type_info.converted(self._read(node))
        except (ValueError, TypeError, ArithmeticError):
            if self._is_lenient:
                return None
            raise

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._type_info, self._is_strict, self._is_lenient)

    class Builder:
        """Sets what a `JsonRowDeserializationSchema` reads, and `build`s it."""

        def __init__(self) -> None:
            self._type_info: Any = None
            self._is_strict = self._is_lenient = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows.

            Args:
                type_info: A type of rows, whose field names are those of the objects.
            """
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> NoReturn:  # noqa: ARG002
            """Refuse a JSON schema.

            Args:
                json_schema: Any text.

            Raises:
                HostError: Always.
            """
            msg = "the type of rows is not made of a JSON schema, got json_schema; give type_info(Types.ROW_NAMED(...))"
            raise HostError(msg)

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
                DeclarationTypeError: The type is no type of rows, or JSON does not have it.
                DeclarationValueError: Missing fields are errors, and errors are to be skipped.
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
        type_info: The type of the rows, whose field names are those of the objects.
    """

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info, self._write = type_info, writer_of(type_info)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Make a builder of the schema."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Return the object of a row, as UTF-8.

        Args:
            element: The row.

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
        """Sets what a `JsonRowSerializationSchema` writes, and `build`s it."""

        def __init__(self) -> None:
            self._type_info: Any = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows.

            Args:
                type_info: A type of rows, whose field names are those of the objects.
            """
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Make the schema.

            Raises:
                DeclarationTypeError: The type is no type of rows, or JSON does not have it.
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


_Reader = Callable[[Any], Any]
_Writer = Callable[[Any], str]


def reader_of(type_info: TypeInformation, *, is_strict: bool) -> _Reader:
    """Return the function that makes a value of a JSON node; null is None for each type.

    Args:
        type_info: The type of the value.
        is_strict: Whether a missing field is an error.

    Raises:
        DeclarationTypeError: JSON does not have the type.
    """
    if isinstance(type_info, RowTypeInfo):
        parts = [reader_of(each, is_strict=is_strict) for each in type_info.field_types]
        return _nullable(_row_reader(type_info.field_names, parts, is_strict=is_strict))
    if isinstance(type_info, ListTypeInfo):
        one = reader_of(type_info.elem_type, is_strict=is_strict)
        return _nullable(lambda node: [one(each) for each in _check(node, list)])
    if isinstance(type_info, MapTypeInfo) and isinstance(type_info._key_type_info, StringTypeInfo):
        value = reader_of(type_info._value_type_info, is_strict=is_strict)
        return _nullable(
            lambda node: {key: value(each) for key, each in _check(node, dict).items()}
        )
    parse = parser_of(type_info)
    if parse is None:
        raise type_refusal(type_info, "JSON")
    return _nullable(_scalar_reader(type_info, parse))


def _nullable(read: _Reader) -> _Reader:
    return lambda node: None if node is None else read(node)


def _row_reader(names: Sequence[str], parts: list[_Reader], *, is_strict: bool) -> _Reader:
    def read(node: Any) -> tuple[Any, ...]:
        fields = _check(node, dict)
        if is_strict and (missing := [name for name in names if name not in fields]):
            msg = f"Could not find field with name {missing[0]!r}."
            raise ValueError(msg)
        return tuple([part(fields.get(name)) for name, part in zip(names, parts)])

    return read


def _check(node: Any, kind: type) -> Any:
    if not isinstance(node, kind):
        wanted = "an array" if kind is list else "an object"
        msg = f"{wanted} is wanted, got {shown(node)}"
        raise ValueError(msg)  # noqa: TRY004  it is what was written that is wrong
    return node


def _scalar_reader(type_info: TypeInformation, parse: Callable[[str], Any]) -> _Reader:
    is_text = isinstance(type_info, StringTypeInfo)
    is_whole = isinstance(type_info, (IntegralTypeInfo, BigIntTypeInfo))

    def read(node: Any) -> Any:
        if isinstance(node, str):
            return parse(node)
        if is_whole and isinstance(node, Decimal) and node == node.to_integral_value():
            return int(node)
        if isinstance(node, (list, dict)) and not is_text:
            msg = f"one value is wanted, got {shown(node)}"
            raise ValueError(msg)
        return parse(_text_of(node))

    return read


def _text_of(node: Any) -> str:
    """Return a number, boolean, array or object as JSON writes it."""
    if isinstance(node, Decimal):
        return str(node)
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False, default=float)


def writer_of(type_info: TypeInformation) -> _Writer:
    """Return the function that writes a frozen value.

    Raises:
        DeclarationTypeError: JSON does not have the type.
    """
    if isinstance(type_info, RowTypeInfo):
        keys = [f"{json.dumps(name, ensure_ascii=False)}:" for name in type_info.field_names]
        return _row_writer(keys, [writer_of(each) for each in type_info.field_types])
    if isinstance(type_info, ListTypeInfo):
        one = _nulls_too(writer_of(type_info.elem_type))
        return lambda value: f"[{','.join(map(one, value))}]"
    if isinstance(type_info, MapTypeInfo) and isinstance(type_info._key_type_info, StringTypeInfo):
        item = _nulls_too(writer_of(type_info._value_type_info))
        return lambda value: f"{{{','.join(f'{_quote(key)}:{item(each)}' for key, each in value)}}}"
    text_of = texter_of(type_info, is_utc=True)
    if text_of is None:
        raise type_refusal(type_info, "JSON")
    if is_quoted(type_info):
        return lambda value: _quote(text_of(value))
    return lambda value: _number(text_of(value))


def _row_writer(keys: list[str], parts: list[_Writer]) -> _Writer:
    writers = [_nulls_too(each) for each in parts]

    def write(value: Any) -> str:
        fields = [f"{key}{one(each)}" for key, one, each in zip(keys, writers, value)]
        return f"{{{','.join(fields)}}}"

    return write


def _nulls_too(write: _Writer) -> _Writer:
    return lambda value: "null" if value is None else write(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(text: str) -> str:
    """Return a number or boolean; NaN and infinities are strings, as Jackson writes them."""
    return _quote(text) if text in ("NaN", "Infinity", "-Infinity") else text
