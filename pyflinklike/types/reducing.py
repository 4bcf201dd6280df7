# SPDX-License-Identifier: Apache-2.0
"""Pickles of types: the call of `Types` that makes the type.

So the pickle of a descriptor says `Types.LIST(Types.LONG())`, as a program does, and names none of
the classes that check and copy values, which are not public.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from functools import partial
from typing import Any

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
from pyflinklike.types.catalog import Types
from pyflinklike.types.field_defaults import default_of
from pyflinklike.types.nested import (
    BasicArrayTypeInfo,
    ByteArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from pyflinklike.types.pickled import PickledByteArrayTypeInfo
from pyflinklike.types.rows import RowTypeInfo, TupleTypeInfo
from pyflinklike.types.times import (
    DateTypeInfo,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

__all__ = ["register_reducers"]

_MADE_BY: dict[type, tuple[Callable[..., TypeInformation], tuple[str, ...]]] = {
    BasicArrayTypeInfo: (Types.BASIC_ARRAY, ("elem_type",)),
    BigDecTypeInfo: (Types.BIG_DEC, ()),
    BigIntTypeInfo: (Types.BIG_INT, ()),
    BooleanTypeInfo: (Types.BOOLEAN, ()),
    CharTypeInfo: (Types.CHAR, ()),
    DateTypeInfo: (Types.SQL_DATE, ()),
    DoubleTypeInfo: (Types.DOUBLE, ()),
    FloatTypeInfo: (Types.FLOAT, ()),
    InstantTypeInfo: (Types.INSTANT, ()),
    ListTypeInfo: (Types.LIST, ("elem_type",)),
    MapTypeInfo: (Types.MAP, ("_key_type_info", "_value_type_info")),
    ObjectArrayTypeInfo: (Types.OBJECT_ARRAY, ("elem_type",)),
    PickledByteArrayTypeInfo: (Types.PICKLED_BYTE_ARRAY, ()),
    PrimitiveArrayTypeInfo: (Types.PRIMITIVE_ARRAY, ("elem_type",)),
    StringTypeInfo: (Types.STRING, ()),
    TimestampTypeInfo: (Types.SQL_TIMESTAMP, ()),
    TimeTypeInfo: (Types.SQL_TIME, ()),
    TupleTypeInfo: (Types.TUPLE, ("field_types",)),
}
_INTEGRAL = {8: Types.BYTE, 16: Types.SHORT, 32: Types.INT, 64: Types.LONG}


def register_reducers() -> None:
    """Teach pickle and copy how each type is made."""
    for kind in _MADE_BY:
        copyreg.pickle(kind, _reduced)
    copyreg.pickle(IntegralTypeInfo, _reduced_integral)
    copyreg.pickle(ByteArrayTypeInfo, _reduced_bytes)
    copyreg.pickle(RowTypeInfo, _reduced_row)


# The result is Any, since copyreg's stubs want a maker of that very class.
def _reduced_integral(each: IntegralTypeInfo) -> Any:
    return _INTEGRAL[each.bits], ()


def _reduced_bytes(_: ByteArrayTypeInfo) -> Any:
    return Types.PRIMITIVE_ARRAY, (Types.BYTE(),)


def _reduced_row(each: RowTypeInfo) -> Any:
    defaults = {name: default_of(each.defaults, name) for name, _ in each.defaults}
    # Without defaults the call stays the one that earlier pickles say.
    maker = partial(Types.ROW_NAMED, defaults=defaults) if defaults else Types.ROW_NAMED
    return maker, (each.field_names, each.field_types)


def _reduced(each: TypeInformation) -> Any:
    maker, arguments = _MADE_BY[type(each)]
    return maker, tuple(getattr(each, name) for name in arguments)
