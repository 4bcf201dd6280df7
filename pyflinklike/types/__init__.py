# SPDX-License-Identifier: Apache-2.0
"""`Types`: how a program declares what its state holds, as `pyflink.common.Types`.

A type checks values, keeps users' objects apart from stored ones, and knows its Arrow column.
`TypeInformation` states that contract.  Each type takes these values of Python:

    BOOLEAN                     bool
    BYTE SHORT INT LONG         int within 8, 16, 32, 64 bits
    FLOAT DOUBLE                float (an int becomes one); FLOAT rounds to 32 bits
    STRING CHAR                 str; CHAR of one character
    BIG_INT BIG_DEC             int, decimal.Decimal
    INSTANT                     Instant
    SQL_DATE TIME TIMESTAMP     datetime.date, time, datetime, without a time zone
    PICKLED_BYTE_ARRAY          anything that pickle takes
    LIST, arrays                list; PRIMITIVE_ARRAY(BYTE()) bytes
    MAP                         dict
    ROW ROW_NAMED TUPLE         Row, Row, tuple

None is a value of STRING, BIG_INT, BIG_DEC, INSTANT, the SQL types and PICKLED_BYTE_ARRAY, and
of every field of a row or tuple.  No type but PICKLED_BYTE_ARRAY ever unpickles anything.
"""

from __future__ import annotations

from pyflinklike.types.catalog import Types, register_reducers
from pyflinklike.types.nested_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from pyflinklike.types.pickled_type import Pickled, PickledByteArrayTypeInfo
from pyflinklike.types.row_types import RowTypeInfo, TupleTypeInfo
from pyflinklike.types.time_types import Instant
from pyflinklike.types.type_information import TypeInformation

__all__ = [
    "BasicArrayTypeInfo",
    "Instant",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "Pickled",
    "PickledByteArrayTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]

register_reducers()
