# SPDX-License-Identifier: Apache-2.0
"""Compares two of Spark's types, or converts a column to another type, part by part.

Fields of structs are matched by name.  The keys of maps are not converted.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

_WIDER: tuple[tuple[type[st.DataType], ...], ...] = (
    (st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.StringType),
    (st.FloatType, st.DoubleType),
)
"""Chains of types in which each type has all values of the one before; text shows any integer."""


def _fields(kind: st.StructType) -> dict[str, st.DataType]:
    return {field.name: field.dataType for field in kind.fields}


def has_map(kind: st.DataType) -> bool:
    """Return whether a type is a map or has one inside: Spark cannot compare such values."""
    if isinstance(kind, st.ArrayType):
        return has_map(kind.elementType)
    if isinstance(kind, st.StructType):
        return any(map(has_map, _fields(kind).values()))
    return isinstance(kind, st.MapType)


def is_wider(wanted: st.DataType, given: st.DataType) -> bool:
    """Return whether Spark's cast to a type keeps every value of another one.

    Spark casts the fields of a struct by position, whatever their names; so the names must agree.
    """
    match wanted, given:
        case _, st.NullType():
            return True
        case st.ArrayType(), st.ArrayType():
            return is_wider(wanted.elementType, given.elementType)
        case st.MapType(), st.MapType():
            keys = is_wider(wanted.keyType, given.keyType)
            return keys and is_wider(wanted.valueType, given.valueType)
        case st.StructType(), st.StructType():
            pairs = zip(_fields(wanted).values(), _fields(given).values())
            return wanted.names == given.names and all(is_wider(*pair) for pair in pairs)
        case st.DecimalType(), st.DecimalType():
            whole = wanted.precision - wanted.scale >= given.precision - given.scale
            return whole and wanted.scale >= given.scale
        case st.StringType(), _:
            return wanted == given
    return common_type(given, wanted) == wanted


def common_type(one: st.DataType, other: st.DataType) -> st.DataType:
    """Return the type that has all values of both: the wider number, the fields of both structs.

    If the types have nothing in common, the first one is returned.
    """
    match one, other:
        case st.StructType(), st.StructType():
            mine, theirs = _fields(one), _fields(other)
            both = {name: common_type(kind, theirs.get(name, kind)) for name, kind in mine.items()}
            fields = {**theirs, **both}.items()
            return st.StructType([st.StructField(name, kind) for name, kind in fields])
        case st.ArrayType(), st.ArrayType():
            return st.ArrayType(common_type(one.elementType, other.elementType))
        case st.MapType(), st.MapType():
            return st.MapType(one.keyType, common_type(one.valueType, other.valueType))
    for chain in _WIDER:
        if type(one) in chain and type(other) in chain:
            return max(one, other, key=lambda kind: chain.index(type(kind)))
    return one


def as_type(column: Column, kind: st.DataType, wanted: st.DataType) -> Column:
    """Convert a column to another type; a missing field becomes null.

    Args:
        column: The column to convert.
        kind: The type of `column`.
        wanted: The type of the result.
    """
    if isinstance(kind, st.StructType) and isinstance(wanted, st.StructType):
        mine = _fields(kind)
        parts = {
            name: as_type(column[name], mine[name], each)
            if name in mine
            else F.lit(None).cast(each)
            for name, each in _fields(wanted).items()
        }
        fields = [part.alias(name) for name, part in parts.items()]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, st.ArrayType) and isinstance(wanted, st.ArrayType):
        inner, outer = kind.elementType, wanted.elementType
        return F.transform(column, lambda each: as_type(each, inner, outer))
    if isinstance(kind, st.MapType) and isinstance(wanted, st.MapType):
        held, needed = kind.valueType, wanted.valueType
        return F.transform_values(column, lambda _, each: as_type(each, held, needed))
    return column.try_cast(wanted)


def differs_as(column: Column, kind: st.DataType, wanted: st.DataType, *, lossy: bool) -> Column:
    """Return whether a value or a part of it changes in another type, or does not fit it.

    Args:
        column: The values to compare with their own conversion.
        kind: The type of `column`.
        wanted: The type to which the values are converted.
        lossy: Whether digits and fields may be lost.
    """
    if isinstance(kind, st.StructType) and isinstance(wanted, st.StructType):
        theirs = _fields(wanted)
        found = [
            differs_as(column[name], each, theirs[name], lossy=lossy)
            if name in theirs
            else column[name].isNotNull()
            for name, each in _fields(kind).items()
            if name in theirs or not lossy
        ]
        return F.coalesce(reduce(or_, found, F.lit(False)), F.lit(False))
    if isinstance(kind, st.MapType) and isinstance(wanted, st.MapType):
        lists = st.ArrayType(kind.valueType), st.ArrayType(wanted.valueType)
        return differs_as(F.map_values(column), *lists, lossy=lossy)
    if isinstance(kind, st.ArrayType) and isinstance(wanted, st.ArrayType):
        inner, outer = kind.elementType, wanted.elementType
        some = F.exists(column, lambda each: differs_as(each, inner, outer, lossy=lossy))
        return F.coalesce(some, F.lit(False))
    if kind == wanted:
        return F.lit(False)
    cast = column.try_cast(wanted)
    changes = cast.isNull() if lossy else ~cast.try_cast(kind).eqNullSafe(column)
    return column.isNotNull() & changes
