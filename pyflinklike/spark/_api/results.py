# SPDX-License-Identifier: Apache-2.0
"""The result of an operator: one DataFrame for each output, and what an operator behind it needs.

One query computes the main and the side outputs from one state, so the result is one DataFrame.  A
batch result is split with `main_output` and `get_side_output`.  A stream is written with
`foreach_batch_output`, which splits each micro-batch and hands each output to a writer of its own.

An operator behind another one must know which records came before the watermark.

In Flink a watermark passes on only when the timers that it made due have fired.  So whatever an
operator emits while the watermark moves reaches the next operator before that watermark, and is not
late there.  On Spark both operators see the watermark of a micro-batch at once, so each record must
say on which side of the watermark it was emitted: its *phase*.

A result has no column for phases.  We remember a frame with such a column beside the result, and
read that one if the user gives the result itself to `key_by`.  DataFrame code in between makes a
frame that we know nothing about; then the user asks for a column and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.spark._host.spark_failures import raise_own_error
from pyflinklike.spark._plan.process_options import check_column
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, OUTPUT_TAG, PHASE_MARK, quote

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


# One DataFrame for each output


Writer = Callable[[DataFrame, int], Any]


def main_output(df: DataFrame) -> DataFrame:
    """Return the main output of a result; without side outputs, the result itself.

    Args:
        df: The result of `process`, or a micro-batch of it.
    """
    if OUTPUT_TAG not in df.columns:
        return df
    main = df.columns[: df.columns.index(OUTPUT_TAG)]
    part = df.where(F.col(OUTPUT_TAG).isNull()).select([quote(name) for name in main])
    return keep_phases_of_part(df, part, main_output)


def get_side_output(df: DataFrame, output_tag: OutputTag) -> DataFrame:
    """Return one side output of a result, with the columns of its type.

    Each output computes the whole result when it is used, so persist a batch result before you
    split it.  On a stream each output would be a query with its own state, so use
    `foreach_batch_output` there.

    Args:
        df: The result of `process`, or a micro-batch of it.
        output_tag: A tag that you gave to `process(side_outputs=...)`.

    Raises:
        DeclarationValueError: The result has no such side output.
    """
    if OUTPUT_TAG not in df.columns or output_tag.tag_id not in df.columns:
        msg = (
            f"a side output must be declared with process(side_outputs=[tag]), got "
            f"{output_tag.tag_id!r} for a result with the columns {df.columns}"
        )
        raise DeclarationValueError(msg)
    tagged = df.where(F.col(OUTPUT_TAG) == output_tag.tag_id)
    phases = [quote(name) for name in phase_columns(df)]
    part = tagged.select(f"{quote(output_tag.tag_id)}.*", *phases)
    return keep_phases_of_part(df, part, lambda phased: get_side_output(phased, output_tag))


def foreach_batch_output(
    main: Writer | None = None, side_outputs: Mapping[OutputTag, Writer] | None = None
) -> Writer:
    """Make a function for `writeStream.foreachBatch` that writes each output separately.

    Each micro-batch is computed once and persisted while its outputs are written.
    As with any `foreachBatch`, Spark may repeat a micro-batch after a failure.  For exactly-once
    results, write idempotently by `batch_id`.

    Example:
        ```python
        def write_late(frame, batch_id):
            frame.write.mode("overwrite").parquet(f"/data/late/batch={batch_id}")

        result.writeStream.foreachBatch(foreach_batch_output(write_main, {late: write_late}))
        ```

    Args:
        main: Called with (DataFrame, batch id) for the main output; None to write none.
        side_outputs: The same kind of function for each side output, by tag.

    Raises:
        DeclarationTypeError: A writer is not callable.
    """
    writers = dict(side_outputs or {})
    for writer in [main, *writers.values()]:
        if writer is not None and not callable(writer):
            msg = f"a writer must be a function of (DataFrame, batch_id), got {short_repr(writer)}"
            raise DeclarationTypeError(msg)

    def write(df: DataFrame, batch_id: int) -> None:
        df.persist()
        try:
            with raise_own_error():
                if main is not None:
                    main(main_output(df), batch_id)
                for tag, writer in writers.items():
                    writer(get_side_output(df, tag), batch_id)
        finally:
            df.unpersist()

    return write
