# SPDX-License-Identifier: Apache-2.0
"""Types, at PyFlink's path.

`RowTypeInfo` is the type that `pyflinklike.pyflink.common.Types.ROW` makes, for the `Row` of jobs.
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
    """Types without parts, with the names of their classes in Java as values."""

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
    """Makes `BasicTypeInfo(BasicType.INT)` equal `Types.INT()`, and an instance of `BasicTypeInfo`."""

    def __call__(cls, basic_type: BasicType) -> Any:
        return getattr(Types, basic_type.name)()

    def __instancecheck__(cls, instance: Any) -> bool:
        return any(instance == getattr(Types, each.name)() for each in BasicType)


class BasicTypeInfo(WithoutJava, metaclass=_OfBasics):
    """Makes types without parts, as `INT_TYPE_INFO()` and so on; `Types` has shorter names for them."""


for _each in BasicType:
    setattr(BasicTypeInfo, f"{_each.name}_TYPE_INFO", staticmethod(getattr(Types, _each.name)))


class SqlTimeTypeInfo:
    """Makes types of dates and times of day; `Types` has the same methods under other names."""

    DATE = staticmethod(Types.SQL_DATE)
    TIME = staticmethod(Types.SQL_TIME)
    TIMESTAMP = staticmethod(Types.SQL_TIMESTAMP)
