# SPDX-License-Identifier: Apache-2.0
"""Types, under the path that PyFlink has for them.

`RowTypeInfo` is that of jobs, which `Types.ROW` of this room makes: it takes and gives their `Row`.
"""

from pyflinklike.common.types import AssignableRowTypeInfo as RowTypeInfo
from pyflinklike.common.types import Types
from pyflinklike.engine.types import TypeInformation
from pyflinklike.engine.types.nested_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from pyflinklike.engine.types.pickled_type import PickledByteArrayTypeInfo
from pyflinklike.engine.types.row_types import TupleTypeInfo

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
