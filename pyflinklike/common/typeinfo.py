# SPDX-License-Identifier: Apache-2.0
"""Types, under the path that PyFlink has for them."""

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
from pyflinklike.types.rows import RowTypeInfo, TupleTypeInfo

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
