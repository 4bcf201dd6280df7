# SPDX-License-Identifier: Apache-2.0
"""The cast of a state's values to another type, and the values that do not fit it."""

from __future__ import annotations

import attrs
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.spark.reading.common_types import as_type
from pyflinklike.spark.reading.jobs import spark_schema
from pyflinklike.spark.wire.names import quoted
from pyflinklike.spark.writing.edits import rows_of, with_said
from pyflinklike.spark.writing.misfits import Misfits
from pyflinklike.spark.writing.saving import Frames
from pyflinklike.types import TypeInformation
from pyflinklike.types.nested import require_type
from pyflinklike.types.signature import type_of

__all__ = ["cast_values"]


def cast_values(
    frames: Frames, name: str, type_info: TypeInformation, *, lossy: bool
) -> tuple[Frames, Misfits]:
    """Cast the values of a state of an operator to another type.

    Args:
        frames: The operator.
        name: The name of the state.
        type_info: The new type of a value; of a list's elements or a map's values.
        lossy: Whether values may lose digits, and rows fields.

    Returns:
        The changed operator, and the values that cannot be cast.

    Raises:
        UnknownStateError: There is no such state.
        DeclarationTypeError: The state has no values, one of the types is pickled, or Spark has no
            such cast.
    """
    require_type(type_info, "type_info")
    rows, what = rows_of(frames.record, name), f"state {name!r}"
    stored = type_of(rows.declaration.value) if rows.declaration.value else None
    if stored is None or stored.is_pickled or type_info.is_pickled:
        msg = f"{what}: cast_state takes values of types that are not pickled, got {stored!r}"
        raise DeclarationTypeError(f"{msg} to {type_info!r}; move them in the function")
    said = {**frames.record.states[name], "value": type_info.signature}
    record = with_said(frames.record, {**frames.record.states, name: said})
    wanted = spark_schema(rows_of(record, name).schema)["value"].dataType
    frame, kind = frames.states[name], frames.states[name].schema["value"].dataType
    value = F.col("value")
    try:
        cast = frame.withColumn("value", as_type(value, kind, wanted))
        unfit = frame.where(_misfits(value, kind, wanted, lossy=lossy))
    except AnalysisException as error:
        msg = f"{what}: cast_state takes what Spark can cast, got {stored!r} to {type_info!r}"
        raise DeclarationTypeError(f"{msg}; use transform_state() and with_state()") from error
    states = {**frames.states, name: _same_columns(cast, frame)}
    rule = f"{what}: values must be {'in the range' if lossy else 'values'} of {type_info!r}"
    remedy = (
        "use transform_state() first" if lossy else "use transform_state() first, or lossy=True"
    )
    keys = [F.col(quoted(each)) for each in rows.entry_names]
    return attrs.evolve(frames, record=record, states=states), Misfits(
        unfit.select(*keys, "value"), rule, remedy
    )


def _same_columns(frame: DataFrame, like: DataFrame) -> DataFrame:
    return frame.select(*map(quoted, like.columns))


def _misfits(column: Column, kind: st.DataType, wanted: st.DataType, *, lossy: bool) -> Column:
    """Return whether a value or a part of it changes in another type, or does not fit it."""
    if isinstance(kind, st.StructType) and isinstance(wanted, st.StructType):
        theirs = {field.name: field.dataType for field in wanted.fields}
        found = F.lit(False)
        for field in kind.fields:
            part = column[field.name]
            if field.name in theirs:
                other = theirs[field.name]
                found = found | _misfits(part, field.dataType, other, lossy=lossy)
            elif not lossy:
                found = found | part.isNotNull()
        return F.coalesce(found, F.lit(False))
    if isinstance(kind, st.ArrayType) and isinstance(wanted, st.ArrayType):
        inner, outer = kind.elementType, wanted.elementType
        some = F.exists(column, lambda each: _misfits(each, inner, outer, lossy=lossy))
        return F.coalesce(some, F.lit(False))
    if isinstance(kind, st.MapType) and isinstance(wanted, st.MapType):
        held, needed = kind.valueType, wanted.valueType
        each_value = F.map_values(column)
        some = F.exists(each_value, lambda each: _misfits(each, held, needed, lossy=lossy))
        return F.coalesce(some, F.lit(False))
    if kind == wanted:
        return F.lit(False)
    cast = column.try_cast(wanted)
    back = cast if lossy else cast.try_cast(kind)
    differs = back.isNull() if lossy else ~back.eqNullSafe(column)
    return column.isNotNull() & differs
