# SPDX-License-Identifier: Apache-2.0
"""DataFrames for commands: answered with our errors, sorted, compared and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pyflinklike.cli.asking import order_of
from pyflinklike.cli.files import cells_of, lines_of
from pyflinklike.errors import HostError
from pyflinklike.replay.differences import entry_columns
from pyflinklike.spark import diff_state, error_of
from pyflinklike.spark.reading.jobs import Batches, mapped
from pyflinklike.spark.wire.names import quoted

__all__ = ["answered", "compared", "first_rows", "write_frame"]

T = TypeVar("T")


def write_frame(frame: DataFrame, folder: str, kind: str) -> None:
    """Write rows in Spark's tasks.

    Args:
        frame: The rows to write.
        folder: Path or address of the folder to make.
        kind: One of `FORMATS`.
    """
    if kind == "parquet":
        answered(lambda: frame.write.parquet(folder))
    elif kind == "csv":
        cells = mapped(frame, _cells, ", ".join(f"{quoted(n)} string" for n in frame.columns))
        answered(lambda: cells.write.option("header", value=True).csv(folder))
    else:
        lines = mapped(frame, _lines, "value string")
        answered(lambda: lines.write.text(folder))


def _cells(batches: Batches) -> Iterator[pa.RecordBatch]:
    return map(cells_of, batches)


def _lines(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array(lines_of(batch), pa.string())], ["value"])


def first_rows(frame: DataFrame, first: list[str], keys: list[str], limit: int | None) -> pa.Table:
    """Return the first rows, sorted.

    Args:
        frame: The rows to sort.
        first: The columns that come before all others in the order.
        keys: The names of the key columns.
        limit: The most rows; None for all.
    """
    types = [(field.name, _arrow_kind(field)) for field in frame.schema.fields]
    order = [*first, *(quoted(each) for each in order_of(types, keys) if each not in first)]
    ordered = frame.orderBy(*order) if order else frame
    return answered((ordered if limit is None else ordered.limit(limit)).toArrow)


def _arrow_kind(field: Any) -> Any:
    """Return an Arrow type that tells `order_of` whether the column is nested."""
    nested = field.dataType.typeName() in ("struct", "array", "map")
    return pa.list_(pa.null()) if nested else pa.null()


def answered(ask: Callable[[], T]) -> T:
    """Ask Spark, and return its answer.

    Raises:
        PyflinklikeError: A task of ours raised it.
        HostError: Spark refused.
    """
    try:
        return ask()
    except Exception as error:
        ours = error_of(error)
        if ours is not None:
            raise ours from error
        if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j"):
            first = next(iter(str(error).splitlines()), repr(error))
            msg = f"Spark must be able to read the checkpoint, got {first[:500]}"
            raise HostError(f"{msg}; --traceback shows all") from error
        raise


def compared(
    before: DataFrame | None, after: DataFrame | None, keys: list[str], limit: int | None
) -> tuple[dict[str, int], pa.Table]:
    """Compare two states: return the number of differences by change, and the first of them.

    Args:
        before: Entries of a state; None for none.
        after: Entries likewise; only one of the two may be None.
        keys: The names of the key columns.
        limit: The most entries to return; None for all.
    """
    one = before if before is not None else after
    assert one is not None
    nothing = one.limit(0)
    on = entry_columns(one.columns, keys)
    # Cached, since both the count and the rows read it.
    found = diff_state(
        nothing if before is None else before, nothing if after is None else after, on=on
    ).cache()
    try:
        counted = answered(found.groupBy("change").count().orderBy("change").toArrow).to_pylist()
        rows = first_rows(found, [], keys, limit)
    finally:
        found.unpersist()
    return {row["change"]: row["count"] for row in counted}, rows
