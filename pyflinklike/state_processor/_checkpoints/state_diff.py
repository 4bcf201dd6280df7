# SPDX-License-Identifier: Apache-2.0
"""Compares two readings of one state, also if its schema evolved between them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.errors import DeclarationValueError
from pyflinklike.spark._wire.system_columns import quote
from pyflinklike.state_processor._checkpoints.spark_types import as_type, common_type, has_map

_SAID = frozenset(
    (
        *("value", "stamp", "expires_at", "alive", "key_group", "timestamp", "last_use"),
        *("valid_to", "stream_time", "time", "due"),
    )
)
"""Columns that describe an entry but do not identify it."""
STATE_COLUMN = "pyflinklike.state"
"""The metadata that `read_keyed_state` gives to its columns of states."""
_STAMPS = ("stamp", "timestamp", "last_use")


def diff_state(
    before: DataFrame,
    after: DataFrame,
    *,
    on: Sequence[str] | None = None,
    stamps: bool = False,
) -> DataFrame:
    """Compare two DataFrames of one state, of two batches, checkpoints or savepoints.

    DataFrames of `read_timers` are compared as well: a timer is there or not.  If both come from
    `read_keyed_state`, `before` and `after` are structs of all states of a key.

        diff_state(read_state(spark, path, "count", batch_id=4), read_state(spark, path, "count"))

    Args:
        before: A DataFrame of `read_state`, `read_timers` or `read_keyed_state`.
        after: A DataFrame of the same reader.
        on: The columns that identify an entry; by default the key columns and the columns that
            the kind of state adds, such as `user_key` or `position`.
        stamps: Whether an entry that was only written again counts as changed: then `before` and
            `after` are structs of the value and its stamp.

    Returns:
        `change` ("insert", "update" or "delete"), the columns `on`, and the values `before` and
        `after`, null if there is no entry.  Equal entries are left out.  If the state has migrated
        in between, both values have a type that holds the values of both.

    Raises:
        DeclarationValueError: The DataFrames differ in their columns, or `on` names a column that
            is not there or that Spark cannot compare.
    """
    states = _states(before)
    names = _columns_to_identify(before, states) if on is None else list(on)
    _check_columns(before, after, names)
    said = [name for name in ("value", *(_STAMPS if stamps else ())) if name in before.columns]
    said = [name for name in states or said if name not in names]
    for name in said:
        before, after = _alike(before, after, name)
    one, other = _side(before, names, said, "before"), _side(after, names, said, "after")
    by = [
        F.col(f"before.on.{quote(each)}").eqNullSafe(F.col(f"after.on.{quote(each)}"))
        for each in names
    ]
    # `eqNullSafe`: a null in a key column equals a null, as in the grouping of a stream.
    condition = by[0]
    for each in by[1:]:
        condition = condition & each
    joined = one.join(other, condition, "full_outer")
    before_there, after_there = F.col("before").isNotNull(), F.col("after").isNotNull()
    change = F.when(~before_there, "insert").when(~after_there, "delete").otherwise("update")
    is_same = (
        before_there & after_there & F.col("before.compared").eqNullSafe(F.col("after.compared"))
    )
    whose = [
        F.coalesce(f"before.on.{quote(each)}", f"after.on.{quote(each)}").alias(each)
        for each in names
    ]
    values = [F.col(f"{side}.said").alias(side) for side in ("before", "after")]
    return joined.where(~is_same).select(change.alias("change"), *whose, *values)


def _check_columns(before: DataFrame, after: DataFrame, names: Sequence[str]) -> None:
    unlike = set(before.columns) ^ set(after.columns)
    missing = [name for name in names if name not in before.columns]
    if missing or unlike or not names:
        msg = f"diff_state compares DataFrames of one state by {names or 'some columns'}, got "
        got = f"columns {before.columns} and {after.columns}"
        raise DeclarationValueError(f"{msg}{got}; read both with read_state(), or give on=[...]")
    maps = [name for name in names if has_map(before.schema[name].dataType)]
    if maps:
        msg = (
            f"diff_state identifies entries by columns that Spark can compare, got {maps} with maps"
        )
        raise DeclarationValueError(f"{msg}; give the key columns as on=[...]")


def _states(frame: DataFrame) -> list[str]:
    """Return the columns of a DataFrame of `read_keyed_state` that are states."""
    return [each.name for each in frame.schema.fields if STATE_COLUMN in each.metadata]


def _columns_to_identify(frame: DataFrame, states: Sequence[str]) -> list[str]:
    """Return the columns that identify an entry or a timer."""
    if states:
        return [each for each in frame.columns if each not in (*states, "key_group")]
    # Only timers have a domain, and their time identifies them.
    said = _SAID - {"timestamp"} if "domain" in frame.columns else _SAID
    return [each for each in frame.columns if each not in said]


def _alike(before: DataFrame, after: DataFrame, name: str) -> tuple[DataFrame, DataFrame]:
    """Give a column of both DataFrames their common type, if the state has migrated."""
    one, other = before.schema[name].dataType, after.schema[name].dataType
    if one == other:
        return before, after
    kind = common_type(other, one)
    column = F.col(quote(name))
    return (
        before.withColumn(name, as_type(column, one, kind)),
        after.withColumn(name, as_type(column, other, kind)),
    )


def _side(frame: DataFrame, names: Sequence[str], said: Sequence[str], side: str) -> DataFrame:
    whose = F.struct(*(F.col(quote(each)) for each in names)).alias("on")
    columns = [F.col(quote(each)) for each in said]
    value: Column = F.lit(None)
    if columns:
        value = columns[0] if len(columns) == 1 else F.struct(*columns)
    compared = [_comparable(frame, each).alias(f"c{at}") for at, each in enumerate(said)]
    held = F.struct(*compared) if compared else F.lit(0)
    return frame.select(F.struct(whose, value.alias("said"), held.alias("compared")).alias(side))


def _comparable(frame: DataFrame, name: str) -> Column:
    """Return the column, or its text if it holds a map, which Spark cannot compare."""
    column = F.col(quote(name))
    return column.cast("string") if has_map(frame.schema[name].dataType) else column
