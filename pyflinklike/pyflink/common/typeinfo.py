# SPDX-License-Identifier: Apache-2.0
"""Types, under the path that PyFlink has for them.

`RowTypeInfo` is that of jobs, which `Types.ROW` of this room makes: it takes and gives their `Row`.
"""

from enum import Enum
from typing import Any

from pyflinklike._deprecation import WithoutJava
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.types import AssignableRowTypeInfo as RowTypeInfo
from pyflinklike.pyflink.common.types import Types
from pyflinklike.types import TypeInformation
from pyflinklike.types.nested_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from pyflinklike.types.pickled_type import PickledByteArrayTypeInfo
from pyflinklike.types.row_types import TupleTypeInfo
from pyflinklike.types.time_types import (
    DateTypeInfo,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledByteArrayTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]

__getattr__ = of_pyflink(__name__)


class BasicType(Enum):
    """The types without parts, by the names of Java's classes."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class _OfBasics(type):
    """`BasicTypeInfo` is the class of what `Types` makes for a `BasicType`."""

    def __call__(cls, basic_type: BasicType) -> Any:
        return getattr(Types, basic_type.name)()

    def __instancecheck__(cls, instance: Any) -> bool:
        return any(instance == getattr(Types, each.name)() for each in BasicType)


class BasicTypeInfo(WithoutJava, metaclass=_OfBasics):
    """Types without parts, by the names that `Types` has today."""

    STRING_TYPE_INFO = staticmethod(Types.STRING)
    BYTE_TYPE_INFO = staticmethod(Types.BYTE)
    BOOLEAN_TYPE_INFO = staticmethod(Types.BOOLEAN)
    SHORT_TYPE_INFO = staticmethod(Types.SHORT)
    INT_TYPE_INFO = staticmethod(Types.INT)
    LONG_TYPE_INFO = staticmethod(Types.LONG)
    FLOAT_TYPE_INFO = staticmethod(Types.FLOAT)
    DOUBLE_TYPE_INFO = staticmethod(Types.DOUBLE)
    CHAR_TYPE_INFO = staticmethod(Types.CHAR)
    BIG_INT_TYPE_INFO = staticmethod(Types.BIG_INT)
    BIG_DEC_TYPE_INFO = staticmethod(Types.BIG_DEC)
    INSTANT_TYPE_INFO = staticmethod(Types.INSTANT)


class SqlTimeTypeInfo:
    """Types of dates and times of day, by the names that `Types` has today."""

    DATE = staticmethod(Types.SQL_DATE)
    TIME = staticmethod(Types.SQL_TIME)
    TIMESTAMP = staticmethod(Types.SQL_TIMESTAMP)
