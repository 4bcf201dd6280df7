# SPDX-License-Identifier: Apache-2.0
"""`Types`: the types by the names that PyFlink gives them."""

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
        """A str, or None."""
        return _STRING

    @staticmethod
    def BYTE() -> TypeInformation[int]:
        """An int of 8 bits."""
        return _BYTE

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:
        """True or False."""
        return _BOOLEAN

    @staticmethod
    def SHORT() -> TypeInformation[int]:
        """An int of 16 bits."""
        return _SHORT

    @staticmethod
    def INT() -> TypeInformation[int]:
        """An int of 32 bits."""
        return _INT

    @staticmethod
    def LONG() -> TypeInformation[int]:
        """An int of 64 bits."""
        return _LONG

    @staticmethod
    def FLOAT() -> TypeInformation[float]:
        """A float, rounded to 32 bits."""
        return _FLOAT

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:
        """A float."""
        return _DOUBLE

    @staticmethod
    def CHAR() -> TypeInformation[str]:
        """A str of one character."""
        return _CHAR

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:
        """An int of any size, or None."""
        return _BIG_INT

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:
        """A finite `decimal.Decimal`, or None."""
        return _BIG_DEC

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:
        """An `Instant`, or None."""
        return _INSTANT

    @staticmethod
    def SQL_DATE() -> TypeInformation[dt.date]:
        """A `datetime.date`, or None."""
        return _SQL_DATE

    @staticmethod
    def SQL_TIME() -> TypeInformation[dt.time]:
        """A `datetime.time` without a time zone, or None."""
        return _SQL_TIME

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[dt.datetime]:
        """A `datetime.datetime` without a time zone, or None."""
        return _SQL_TIMESTAMP

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:
        """Anything that pickle takes."""
        return _PICKLED

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A `Row` with the fields f0, f1, and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> RowTypeInfo:
        """A `Row` with these fields.

        Args:
            field_names: Names of the fields.
            field_types: Their types.
            defaults: By name, what a field is in rows that were stored before it was declared:
                None (as without a default), a bool, a finite number, a str or bytes.  PyFlink has
                no such thing.
        """
        return RowTypeInfo(field_types, field_names, defaults or {})

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo[tuple[Any, ...]]:
        """A tuple of these fields."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of numbers, booleans or characters, none of them None; bytes for BYTE."""
        _element(element_type, _PRIMITIVE, "primitive")
        return _BYTE_ARRAY if element_type == _BYTE else PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[T]) -> BasicArrayTypeInfo[T]:
        """A list of numbers, booleans, characters or strings, any of them None."""
        _element(element_type, (*_PRIMITIVE, _STRING), "basic")
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[T]) -> ObjectArrayTypeInfo[T]:
        """A list of anything, any of them None."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(
        key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]
    ) -> MapTypeInfo[K, V]:
        """A dict."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type: TypeInformation[T]) -> ListTypeInfo[T]:
        """A list."""
        return ListTypeInfo(element_type)
