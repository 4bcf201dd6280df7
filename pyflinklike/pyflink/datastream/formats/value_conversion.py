# SPDX-License-Identifier: Apache-2.0
"""Conversions that the formats share.

`parser_of` and `texter_of` convert values without parts to texts and back, as Flink's formats write them.  A
`PartConverter` converts rows, lists and maps part by part; each format has a subclass for its own values.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.pyflink._graph.sinks import java_text
from pyflinklike.types import TypeInformation
from pyflinklike.types.basic_types import (
    BigDecTypeInfo,
    BigIntTypeInfo,
    BooleanTypeInfo,
    DoubleTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
)
from pyflinklike.types.nested_types import ByteArrayTypeInfo, ListTypeInfo, MapTypeInfo
from pyflinklike.types.row_types import RowTypeInfo, TupleTypeInfo
from pyflinklike.types.time_types import DateTypeInfo, TimestampTypeInfo, TimeTypeInfo

__all__ = [
    "Convert",
    "PartConverter",
    "check_kind",
    "check_row_type",
    "is_quoted",
    "none_or",
    "parser_of",
    "same",
    "texter_of",
    "type_refusal",
]

Convert = Callable[[Any], Any]
"""A function that converts a value to another form."""


def _boolean(text: str) -> bool:
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        msg = f"{text!r} is neither true nor false"
        raise ValueError(msg)
    return found


def _as_python_reads(text: str) -> str:
    """Return a time in UTC as Python 3.10 reads it: without the letter Z, with six digits of a fraction."""
    plain, _, fraction = text.strip().rstrip("Zz").partition(".")
    return f"{plain}.{fraction:0<6.6}" if fraction else plain


def _number(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the function that reads numbers as Java does, which refuses 1_000."""

    def parse_number(text: str) -> Any:
        if "_" in text:
            msg = f"{text!r} is no number"
            raise ValueError(msg)
        return parse(text)

    return parse_number


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number) and "inf" not in text.lower():
        msg = f"{text!r} is beyond the range of a DOUBLE"
        raise ValueError(msg)
    return number


_PARSERS: dict[type, Callable[[str], Any]] = {
    StringTypeInfo: str,
    BooleanTypeInfo: _boolean,
    IntegralTypeInfo: _number(int),
    BigIntTypeInfo: _number(int),
    DoubleTypeInfo: _number(_float),
    BigDecTypeInfo: _number(Decimal),
    DateTypeInfo: dt.date.fromisoformat,
    TimeTypeInfo: lambda text: dt.time.fromisoformat(_as_python_reads(text)),
    TimestampTypeInfo: lambda text: dt.datetime.fromisoformat(_as_python_reads(text)),
    ByteArrayTypeInfo: partial(base64.b64decode, validate=True),
}
_QUOTED = (StringTypeInfo, DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, ByteArrayTypeInfo)


def parser_of(type_info: TypeInformation) -> Callable[[str], Any] | None:
    """Return the function that makes a value from a text; None for a type with parts."""
    return next((parse for kind, parse in _PARSERS.items() if isinstance(type_info, kind)), None)


def texter_of(type_info: TypeInformation, *, is_utc: bool) -> Callable[[Any], str] | None:
    """Return the function that makes a text from a value, as Java writes it; None for a type with parts.

    Args:
        type_info: The type of the value.
        is_utc: True adds the mark of UTC to times, as in JSON.
    """
    if isinstance(type_info, ByteArrayTypeInfo):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(type_info, (TimeTypeInfo, TimestampTypeInfo)):
        return (lambda value: f"{value.isoformat()}Z") if is_utc else str
    if parser_of(type_info) is None:
        return None
    if isinstance(type_info, (StringTypeInfo, IntegralTypeInfo)):
        return str  # the same as `java_text`, but faster
    return lambda value: java_text(value, type_info)


def is_quoted(type_info: TypeInformation) -> bool:
    """Return whether values of a type are strings in JSON."""
    return isinstance(type_info, _QUOTED)


def check_row_type(type_info: Any) -> RowTypeInfo:
    """Return the user's argument if it is a type of rows.

    Raises:
        DeclarationTypeError: It is something else.
    """
    if not isinstance(type_info, RowTypeInfo):
        msg = f"type_info is the type of rows, got {short_repr(type_info)}; give for example Types.ROW([Types.INT()])"
        raise DeclarationTypeError(msg)
    return type_info


def type_refusal(type_info: TypeInformation, what: str) -> DeclarationTypeError:
    """Return the error for a type that a format does not have."""
    return DeclarationTypeError(
        f"{what} has rows, basic types, times, bytes, arrays and maps with text keys, got {type_info!r}; map "
        "elements to rows of these types"
    )


# Values with parts


def same(value: Any) -> Any:
    """Return the value itself."""
    return value


class PartConverter(ABC):
    """Makes functions that convert values part by part; a subclass makes the functions for its format."""

    rows: ClassVar[type[TupleTypeInfo[Any]]] = RowTypeInfo
    """The class of types with fields that the format takes."""

    def function_of(self, kind: TypeInformation, field: pa.Field) -> Convert:
        """Return the function that converts values of a type; None stays None.

        Args:
            kind: The type of the values.
            field: The column of the values; it declares which parts may be None.

        Raises:
            DeclarationTypeError: The format does not have the type.
        """
        return none_or(self._convert(kind, field.type), is_nullable=field.nullable)

    def _convert(self, kind: TypeInformation, column: pa.DataType) -> Convert:
        if isinstance(kind, self.rows):
            fields = [column.field(at) for at in range(len(kind.field_types))]
            parts = [self.function_of(*each) for each in zip(kind.field_types, fields)]
            return self.row(getattr(kind, "field_names", ()), parts)
        if isinstance(kind, ListTypeInfo):
            one = self.function_of(kind.elem_type, column.value_field)
            return lambda value: [one(each) for each in check_kind(value, list)]
        if isinstance(kind, MapTypeInfo):
            key = self.function_of(kind._key_type_info, column.key_field)
            item = self.function_of(kind._value_type_info, column.item_field)
            return self.map(kind, key, item)
        return self.leaf(kind, column)

    @abstractmethod
    def row(self, names: Sequence[str], parts: Sequence[Convert]) -> Convert:
        """Return the function for rows, given the function for each field."""

    @abstractmethod
    def leaf(self, kind: TypeInformation, column: pa.DataType) -> Convert:
        """Return the function for values without parts."""

    def map(self, kind: TypeInformation, key: Convert, item: Convert) -> Convert:  # noqa: ARG002
        """Return the function for maps, given the functions for keys and values."""
        return lambda value: {key(k): item(v) for k, v in check_kind(value, dict).items()}


def check_kind(value: Any, kind: type) -> Any:
    """Return the value itself if it is a list or dict, as declared.

    Raises:
        ValueError: The value has another class.
    """
    if not isinstance(value, kind):
        wanted = "an array" if kind is list else "an object"
        msg = f"{wanted} was expected, got {short_repr(value)}"
        raise ValueError(msg)  # noqa: TRY004  the text is wrong, not the call
    return value


def none_or(convert: Convert, *, is_nullable: bool) -> Convert:
    """Return a function that leaves None as it is, and converts other values.

    Args:
        convert: The function for other values.
        is_nullable: Whether a value may be None; if not, the function raises a ValueError for it.
    """

    def convert_or_none(value: Any) -> Any:
        if value is not None:
            return convert(value)
        if not is_nullable:
            msg = "a null where none is declared"
            raise ValueError(msg)
        return None

    return convert_or_none
