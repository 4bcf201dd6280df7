# SPDX-License-Identifier: Apache-2.0
"""Splits the result of a function with side outputs into one DataFrame for each output.

One query computes the main and the side outputs from one state, so the result is one DataFrame.  A
batch result is split with `main_output` and `get_side_output`.  A stream is written with
`foreach_batch_output`, which splits each micro-batch and hands each output to a writer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.spark._host.spark_failures import without_foreign_finders
from pyflinklike.spark._plan.operator_chain import keep_phases_of_part, phase_columns
from pyflinklike.spark._wire.system_columns import OUTPUT_TAG, quote

__all__ = ["foreach_batch_output", "get_side_output", "main_output"]

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
            with without_foreign_finders():
                if main is not None:
                    main(main_output(df), batch_id)
                for tag, writer in writers.items():
                    writer(get_side_output(df, tag), batch_id)
        finally:
            df.unpersist()

    return write
