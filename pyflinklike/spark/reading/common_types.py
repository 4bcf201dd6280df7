# SPDX-License-Identifier: Apache-2.0
"""The common Spark type of a state's columns before and after its type has grown."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

__all__ = ["as_type", "common_type"]

_WIDER: tuple[tuple[type[st.DataType], ...], ...] = (
    (st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.StringType),
    (st.FloatType, st.DoubleType),
)
"""Chains of types in which each type has all values of the one before; text shows any integer."""


def common_type(one: st.DataType, other: st.DataType) -> st.DataType:
    """Return the type that has all values of both: the wider number, the fields of both structs.

    If the types have nothing in common, the first one is returned.
    """
    if isinstance(one, st.StructType) and isinstance(other, st.StructType):
        mine = {field.name: field.dataType for field in one.fields}
        theirs = {field.name: field.dataType for field in other.fields}
        both = {
            name: common_type(kind, theirs.get(name, kind))
            for name, kind in {**theirs, **mine}.items()
        }
        return st.StructType([st.StructField(name, kind) for name, kind in both.items()])
    if isinstance(one, st.ArrayType) and isinstance(other, st.ArrayType):
        return st.ArrayType(common_type(one.elementType, other.elementType))
    if isinstance(one, st.MapType) and isinstance(other, st.MapType):
        return st.MapType(one.keyType, common_type(one.valueType, other.valueType))
    for chain in _WIDER:
        if type(one) in chain and type(other) in chain:
            return max(one, other, key=lambda kind: chain.index(type(kind)))
    return one


def as_type(column: Column, kind: st.DataType, wanted: st.DataType) -> Column:
    """Convert a column to another type: fields go by name, and a missing field becomes null.

    Args:
        column: The column to convert.
        kind: The type of `column`.
        wanted: The type of the result.
    """
    if isinstance(kind, st.StructType) and isinstance(wanted, st.StructType):
        mine = {field.name: field.dataType for field in kind.fields}
        fields = [
            as_type(column[name], mine[name], each).alias(name)
            if name in mine
            else F.lit(None).cast(each).alias(name)
            for name, each in ((field.name, field.dataType) for field in wanted.fields)
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, st.ArrayType) and isinstance(wanted, st.ArrayType):
        inner, outer = kind.elementType, wanted.elementType
        return F.transform(column, lambda each: as_type(each, inner, outer))
    if isinstance(kind, st.MapType) and isinstance(wanted, st.MapType):
        held, needed = kind.valueType, wanted.valueType
        return F.transform_values(column, lambda _, each: as_type(each, held, needed))
    return column.try_cast(wanted)
