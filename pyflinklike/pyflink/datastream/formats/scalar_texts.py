# SPDX-License-Identifier: Apache-2.0
"""Values of types without parts as text and back, as Flink's formats write them."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

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
from pyflinklike.types.nested_types import ByteArrayTypeInfo
from pyflinklike.types.time_types import DateTypeInfo, TimestampTypeInfo, TimeTypeInfo

__all__ = ["is_quoted", "parser_of", "texter_of", "type_refusal"]


def _boolean(text: str) -> bool:
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        msg = f"{text!r} is neither true nor false"
        raise ValueError(msg)
    return found


def _as_python_reads(text: str) -> str:
    """Return a time in UTC as Python 3.10 reads it: without the letter Z, in whole microseconds."""
    plain, _, fraction = text.strip().rstrip("Zz").partition(".")
    return f"{plain}.{fraction:0<6.6}" if fraction else plain


def _time(text: str) -> dt.time:
    return dt.time.fromisoformat(_as_python_reads(text))


def _timestamp(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(_as_python_reads(text))


def _time_text(value: dt.time, *, is_utc: bool) -> str:
    return f"{value.isoformat()}Z" if is_utc else value.isoformat()


def _timestamp_text(value: dt.datetime, *, is_utc: bool) -> str:
    return f"{value.isoformat()}Z" if is_utc else value.isoformat(sep=" ")


def _number(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the function that reads numbers as Java does: Python takes 1_000 as well."""

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
    TimeTypeInfo: _time,
    TimestampTypeInfo: _timestamp,
    ByteArrayTypeInfo: partial(base64.b64decode, validate=True),
}
_QUOTED = (StringTypeInfo, DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, ByteArrayTypeInfo)


def parser_of(type_info: TypeInformation) -> Callable[[str], Any] | None:
    """Return the function that makes a value of a text; None for a type with parts."""
    return next((parse for kind, parse in _PARSERS.items() if isinstance(type_info, kind)), None)


def texter_of(type_info: TypeInformation, *, is_utc: bool) -> Callable[[Any], str] | None:
    """Return the function that makes a text of a value, as Java writes it; None for a type with parts.

    Args:
        type_info: The type of the value.
        is_utc: True marks times as UTC, as in JSON.
    """
    if isinstance(type_info, ByteArrayTypeInfo):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(type_info, TimeTypeInfo):
        return partial(_time_text, is_utc=is_utc)
    if isinstance(type_info, TimestampTypeInfo):
        return partial(_timestamp_text, is_utc=is_utc)
    if parser_of(type_info) is None:
        return None
    if isinstance(type_info, (StringTypeInfo, IntegralTypeInfo)):
        return str  # as `java_text`, which finds out for each value what it is
    return lambda value: java_text(value, type_info)


def is_quoted(type_info: TypeInformation) -> bool:
    """Return whether values of a type are strings in JSON."""
    return isinstance(type_info, _QUOTED)


def type_refusal(type_info: TypeInformation, what: str) -> DeclarationTypeError:
    """Return the error for a type that a format does not have."""
    return DeclarationTypeError(
        f"{what} has rows, basic types, times, bytes, arrays and maps by text, got {type_info!r}; map "
        "elements to rows of these"
    )
