# SPDX-License-Identifier: Apache-2.0
"""Operators behind each other: which records came before the watermark.

In Flink a watermark passes on only when the timers that it made due have fired.  So whatever an
operator emits while the watermark moves reaches the next operator before that watermark, and is not
late there.  On Spark both operators see the watermark of a micro-batch at once, so each record must
say on which side of the watermark it was emitted: its *phase*.

A result has no column for phases.  We remember a frame with such a column beside the result, and
read that one if the user gives the result itself to `key_by`.  DataFrame code in between makes a
frame that we know nothing about; then the user asks for a column and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._plan.process_options import check_column
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, PHASE_MARK

__all__ = ["keep_phases", "keep_phases_of_part", "mark_phases", "phase_columns", "without_phases"]

_PHASED: WeakKeyDictionary[DataFrame, DataFrame] = WeakKeyDictionary()
"""The frame with a column of phases that belongs to each result."""


def keep_phases(result: DataFrame, with_phases: DataFrame) -> None:
    """Remember the frame that has the phases of a result."""
    _PHASED[result] = with_phases


def keep_phases_of_part(
    result: DataFrame, part: DataFrame, taken: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Remember the phases of a part of a result, and return the part.

    Args:
        result: The result, with all outputs.
        part: One of its outputs.
        taken: Returns that output of a result.
    """
    if result in _PHASED:
        keep_phases(part, taken(_PHASED[result]))
    return part


def phase_columns(df: DataFrame) -> list[str]:
    """Return the columns of phases."""
    return [field.name for field in df.schema.fields if PHASE_MARK in (field.metadata or {})]


def without_phases(schema: st.StructType) -> st.StructType:
    """Return a schema without the marks of columns of phases."""
    # A program may declare the schema of its input for an output.  The function gives the values of
    # the output, so they are no phases.
    fields = []
    for field in schema.fields:
        marks = field.metadata or {}
        metadata = {name: each for name, each in marks.items() if name != PHASE_MARK}
        fields.append(st.StructField(field.name, field.dataType, field.nullable, metadata))
    return st.StructType(fields)


def mark_phases(
    df: DataFrame, before_watermark: str | None, *, watermarks_pass: bool
) -> tuple[DataFrame, str | None]:
    """Return the frame that an operator reads, and the name of its column of phases.

    Args:
        df: The frame that the user gives.
        before_watermark: The column that the user names, or None.
        watermarks_pass: Whether Spark passes a watermark through any operator.

    Raises:
        DeclarationTypeError, DeclarationValueError: There is no such column, or it is not boolean;
            or the frame has several columns of phases and the user does not choose one.
    """
    if before_watermark is not None:
        _check_phase(df, before_watermark, watermarks_pass=watermarks_pass)
    if not df.isStreaming:
        return df, None
    if before_watermark is None and df in _PHASED:
        return _PHASED[df], BEFORE_WATERMARK
    found = [before_watermark] if before_watermark is not None else phase_columns(df)
    if len(found) > 1:
        msg = (
            f"one column says which records came before the watermark, got {found}; pass "
            'before_watermark="<one of them>"'
        )
        raise DeclarationValueError(msg)
    return df, found[0] if found else None


def _check_phase(df: DataFrame, column: Any, *, watermarks_pass: bool) -> None:
    check_column(df, column, "before_watermark")
    kind = df.schema[column].dataType
    if not isinstance(kind, st.BooleanType):
        msg = (
            f"before_watermark must name a boolean column, got {column!r} of type "
            f"{kind.simpleString()}; name the one that output_before_watermark has made"
        )
        raise DeclarationTypeError(msg)
    if df.isStreaming and not watermarks_pass:
        msg = (
            "before_watermark needs PySpark 4, because on PySpark 3.5 no watermark passes through an "
            f"operator, got {column!r}; make two queries"
        )
        raise DeclarationValueError(msg)
