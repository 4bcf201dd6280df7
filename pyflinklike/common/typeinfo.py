# SPDX-License-Identifier: Apache-2.0
"""Types, under the path that PyFlink has for them.

`RowTypeInfo` is that of jobs, which `Types.ROW` of this room makes: it takes and gives their `Row`.
"""

from pyflinklike.common.types import AssignableRowTypeInfo as RowTypeInfo
from pyflinklike.common.types import Types
from pyflinklike.types import TypeInformation
from pyflinklike.types.nested import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from pyflinklike.types.pickled import PickledByteArrayTypeInfo
from pyflinklike.types.rows import TupleTypeInfo

__all__ = [
    "BasicArrayTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledByteArrayTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]
