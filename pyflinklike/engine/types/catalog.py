# SPDX-License-Identifier: Apache-2.0
"""The types by the names that PyFlink gives them."""

# ruff: noqa: N802 - the names are PyFlink's

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import shown
from pyflinklike.types.base import TypeInformation
from pyflinklike.types.basic import (
    BigDecTypeInfo,
    BigIntTypeInfo,
    BooleanTypeInfo,
    CharTypeInfo,
    DoubleTypeInfo,
    FloatTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
)
from pyflinklike.types.nested import (
    BasicArrayTypeInfo,
    ByteArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    require_type,
)
from pyflinklike.types.pickled import PickledByteArrayTypeInfo
from pyflinklike.types.rows import RowTypeInfo, TupleTypeInfo
from pyflinklike.types.times import (
    DateTypeInfo,
    Instant,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

__all__ = ["Types"]

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

_STRING = StringTypeInfo()
_CHAR = CharTypeInfo()
_BOOLEAN = BooleanTypeInfo()
_BYTE = IntegralTypeInfo("Byte", 8, pa.int8())
_SHORT = IntegralTypeInfo("Short", 16, pa.int16())
_INT = IntegralTypeInfo("Integer", 32, pa.int32())
_LONG = IntegralTypeInfo("Long", 64, pa.int64())
_FLOAT = FloatTypeInfo()
_DOUBLE = DoubleTypeInfo()
_BIG_INT = BigIntTypeInfo()
_BIG_DEC = BigDecTypeInfo()
_INSTANT = InstantTypeInfo()
_SQL_DATE = DateTypeInfo()
_SQL_TIME = TimeTypeInfo()
_SQL_TIMESTAMP = TimestampTypeInfo()
_PICKLED = PickledByteArrayTypeInfo()
_BYTE_ARRAY = ByteArrayTypeInfo()

_PRIMITIVE = (_BOOLEAN, _BYTE, _SHORT, _INT, _LONG, _FLOAT, _DOUBLE, _CHAR)


def _element(
    element_type: TypeInformation, allowed: tuple[TypeInformation, ...], kind: str
) -> None:
    if require_type(element_type, "element_type") not in allowed:
        msg = f"a {kind} array has elements of {list(allowed)}, got {shown(element_type)}; use OBJECT_ARRAY or LIST"
        raise DeclarationTypeError(msg)


class Types:
    """The types of keys and state, as `pyflink.common.Types`."""

    @staticmethod
    def STRING() -> TypeInformation[str]:
        """Give the type of a str, or None."""
        return _STRING

    @staticmethod
    def BYTE() -> TypeInformation[int]:
        """Give the type of an int of 8 bits."""
        return _BYTE

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:
        """Give the type of True and False."""
        return _BOOLEAN

    @staticmethod
    def SHORT() -> TypeInformation[int]:
        """Give the type of an int of 16 bits."""
        return _SHORT

    @staticmethod
    def INT() -> TypeInformation[int]:
        """Give the type of an int of 32 bits."""
        return _INT

    @staticmethod
    def LONG() -> TypeInformation[int]:
        """Give the type of an int of 64 bits."""
        return _LONG

    @staticmethod
    def FLOAT() -> TypeInformation[float]:
        """Give the type of a float that is rounded to 32 bits."""
        return _FLOAT

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:
        """Give the type of a float."""
        return _DOUBLE

    @staticmethod
    def CHAR() -> TypeInformation[str]:
        """Give the type of a str of one character."""
        return _CHAR

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:
        """Give the type of an int of any size, or None."""
        return _BIG_INT

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:
        """Give the type of a finite `decimal.Decimal`, or None."""
        return _BIG_DEC

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:
        """Give the type of an `Instant`, or None."""
        return _INSTANT

    @staticmethod
    def SQL_DATE() -> TypeInformation[dt.date]:
        """Give the type of a `datetime.date`, or None."""
        return _SQL_DATE

    @staticmethod
    def SQL_TIME() -> TypeInformation[dt.time]:
        """Give the type of a `datetime.time` without a time zone, or None."""
        return _SQL_TIME

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[dt.datetime]:
        """Give the type of a `datetime.datetime` without a time zone, or None."""
        return _SQL_TIMESTAMP

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:
        """Give the type of anything that pickle takes."""
        return _PICKLED

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Give the type of a `Row` with the fields f0, f1, and so on.

        Args:
            field_types: The type of each field.
        """
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> RowTypeInfo:
        """Give the type of a `Row` with these fields.

        Args:
            field_names: The name of each field, no name twice.
            field_types: The type of each field, in the order of the names.
            defaults: By name, the value of a field in rows that were stored before it was declared:
                None (as without a default), a bool, a finite number, a str or bytes.  PyFlink has
                no such thing.
        """
        return RowTypeInfo(field_types, field_names, defaults or {})

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo[tuple[Any, ...]]:
        """Give the type of a tuple of these fields."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Give the type of a list of numbers, bools or characters, none None; of bytes for BYTE."""
        _element(element_type, _PRIMITIVE, "primitive")
        return _BYTE_ARRAY if element_type == _BYTE else PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[T]) -> BasicArrayTypeInfo[T]:
        """Give the type of a list of numbers, bools, characters or strings, any of them None."""
        _element(element_type, (*_PRIMITIVE, _STRING), "basic")
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[T]) -> ObjectArrayTypeInfo[T]:
        """Give the type of a list of anything, any of them None."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(
        key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]
    ) -> MapTypeInfo[K, V]:
        """Give the type of a dict."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type: TypeInformation[T]) -> ListTypeInfo[T]:
        """Give the type of a list."""
        return ListTypeInfo(element_type)
