# SPDX-License-Identifier: Apache-2.0
"""Edits the keys of a savepoint: two operators become one, or an operator gets other key columns.

Two entries may then have the same key.  The caller says which of them stays, or how their values
become one.  If the caller says neither, such entries are refused when the savepoint is used.  Null
equals null in these joins, as in keys of several columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st
from pyspark.sql.window import Window

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._wire.schema import ddl_type, key_type_of
from pyflinklike.spark._wire.system_columns import quote
from pyflinklike.state.fold_functions import AggregateFunction, ReduceFunction
from pyflinklike.state_processor._checkpoints.savepoint_frames import Frames
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._spark.state_edits import (
    Folding,
    Misfits,
    entry_of,
    fit_rows,
    fit_timers,
    fold_rows,
    make_merging,
    rows_of,
)
from pyflinklike.types.catalog import type_of

MERGES = ("sum", "min", "max", "newest", "oldest", "concat")
"""The names of merges of values: `concat` for lists, the others for other state."""
Merge = str | AggregateFunction | ReduceFunction | Callable[[Any, Any], Any]
"""One of `MERGES`, or a function that makes one value from two, in the order of the old keys."""
_TIMES = ("stamp", "timestamp")
"""The columns that show which entry was written later."""
_NUMBERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_NEW = "__rekeyed_"
_FORMER = "__former_key"
_PLACES = (_FORMER, "key_group")


def rekey(
    frames: Frames, key: str, mapping: DataFrame, merge: Mapping[str, Merge], *, drop: bool
) -> tuple[Frames, list[Misfits]]:
    """Move an operator to other key columns.

    Args:
        frames: The operator whose keys change.
        key: The new key columns as DDL.
        mapping: A DataFrame of the old and the new key columns.
        merge: How the values of several old keys become one, by the name of the state.
        drop: Whether to drop keys without a new key, instead of refusing them.

    Returns:
        The changed operator, and the rows that do not fit.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """
    after = _identity_of(mapping, frames.record, key)
    work = _Rekeying(frames.record, after, _check_mapping(frames.record, after, mapping))
    _check_merge(frames, merge)
    misfits = [_several(work)]
    states = {}
    for name, frame in frames.states.items():
        rows = rows_of(frames.record, name)
        if rows.declaration.is_replicated:
            states[name] = frame
            continue
        if rows.declaration.per_group:
            msg = f'rekey moves state by key, got the store {name!r} of scope "partition"'
            raise DeclarationValueError(f"{msg}, which has no keys; remove_state() it first")
        if not drop:
            misfits.append(_find_unmapped(work, frame, f"state {name!r}"))
        moved, more = _merge_rows(work, name, work.move(frame), merge.get(name))
        misfits += more
        if rows.info.kind == "list" and name not in merge:
            misfits.append(_find_mixed_lists(work, name, frame))
        states[name] = fit_rows(after, name, moved)
    if not drop:
        misfits.append(_find_unmapped(work, frames.timers, "timers"))
    # Timers of several old keys may be due at the same time for the new key.
    timers = fit_timers(after, work.move(frames.timers)).distinct()
    return Frames(after, states, timers), misfits


def _identity_of(frame: DataFrame, record: OperatorRecord, key: str) -> OperatorRecord:
    """Return the record of an operator with other key columns.

    Args:
        frame: Any DataFrame of the session that parses the DDL.
        record: The record of the operator.
        key: The new key columns as DDL.

    Raises:
        DeclarationTypeError, DeclarationValueError: A column cannot be a key.
    """
    fields = ddl_type(frame, key, "key").fields  # type: ignore[attr-defined]
    kind = key_type_of([each.dataType for each in fields], record.time_zone)
    columns = tuple((each.name, each.dataType.simpleString()) for each in fields)
    identity = attrs.evolve(record.identity, key_columns=columns, key=kind.signature)
    return attrs.evolve(record, identity=identity)


@attrs.frozen(eq=False)
class _Rekeying:
    """The change from old key columns to new ones.

    Args:
        before: The record with the old key columns.
        after: The record with the new key columns.
        mapping: The old key columns under their names, and the new ones under a prefix.
    """

    before: OperatorRecord
    after: OperatorRecord
    mapping: DataFrame

    @property
    def old(self) -> tuple[str, ...]:
        return KeyColumns.of(self.before).names

    @property
    def new(self) -> tuple[str, ...]:
        return KeyColumns.of(self.after).names

    def move(self, frame: DataFrame) -> DataFrame:
        """Replace the old key columns by the new ones; rows of keys without a new key are dropped.

        The column `_FORMER` holds the old key.
        """
        rest = [F.col(quote(each)) for each in frame.columns if each not in self.old]
        new = [F.col(_NEW + each).alias(each) for each in self.new]
        former = F.struct(*map(quote, self.old)).alias(_FORMER)
        return _join(frame, self.mapping, self.old).select(*new, *rest, former)

    def find_unmapped(self, frame: DataFrame) -> DataFrame:
        """Return the keys that have no new key."""
        return _without(frame.select(*map(quote, self.old)), self.mapping, self.old)


def _check_mapping(before: OperatorRecord, after: OperatorRecord, mapping: DataFrame) -> DataFrame:
    old, new = KeyColumns.of(before).names, KeyColumns.of(after).names
    columns = after.identity.key_columns
    if not {*old, *(name for name, _ in columns)} <= {*mapping.columns}:
        msg = f"rekey takes a DataFrame of the old key columns {list(old)} and the new ones"
        got = f"{[name for name, _ in columns]}, got {mapping.columns}"
        raise DeclarationValueError(f"{msg} {got}; select() them")
    added = [
        F.col(quote(name)).cast(kind).alias(_NEW + each) for each, (name, kind) in zip(new, columns)
    ]
    return mapping.select(*map(quote, old), *added).distinct()


def _check_merge(frames: Frames, merge: Mapping[str, Merge]) -> None:
    for name, how in merge.items():
        rows = rows_of(frames.record, name)
        is_list = rows.info.kind == "list"
        if not is_list and not isinstance(how, str):
            _make_folding(rows, how)
            continue
        if how not in MERGES or is_list is not (how == "concat"):
            msg = f"merge of state {name!r}: lists are merged by 'concat', others by a function or "
            raise DeclarationValueError(f"{msg}one of {MERGES[:-1]}, got {short_repr(how)}")
        timed = any(each in frames.states[name].columns for each in _TIMES)
        if how in ("newest", "oldest") and not timed:
            msg = (
                f"merge of state {name!r}: {how!r} needs the times of entries, got a state without"
            )
            raise DeclarationValueError(f"{msg} a TTL; use 'sum', 'min' or 'max'")
        kind = frames.states[name].schema["value"].dataType
        if how == "sum" and not isinstance(kind, (*_NUMBERS, st.FloatType, st.DoubleType)):
            msg = f"merge of state {name!r}: 'sum' needs numbers, got {kind.simpleString()}"
            raise DeclarationTypeError(f"{msg}; use transform_state(), or another merge")


def _make_folding(rows: StateRows, function: Any) -> Folding:
    """Return the folding by which a user's function makes one value from several.

    Raises:
        DeclarationTypeError: `function` cannot merge values, or the state's values are pickled.
    """
    kind = type_of(rows.declaration.value) if rows.declaration.value else None
    if kind is None or kind.is_pickled:
        msg = f"merge of state {rows.info.name!r}: a function merges values that are not pickled"
        raise DeclarationTypeError(f"{msg}, got {kind!r}; use another merge")
    return make_merging(rows.info.name, kind, function)


def _several(work: _Rekeying) -> Misfits:
    """Find old keys that have several new keys."""
    counted = work.mapping.groupBy(*map(quote, work.old)).count().where("count > 1")
    return Misfits(counted, "mapping: an old key must have one new key", "choose one of them")


def _find_unmapped(work: _Rekeying, frame: DataFrame, what: str) -> Misfits:
    rule = f"{what}: every key must have a new key in the mapping"
    return Misfits(work.find_unmapped(frame), rule, "add it, or pass drop=True")


def _find_mixed_lists(work: _Rekeying, name: str, frame: DataFrame) -> Misfits:
    old = F.struct(*map(quote, work.old))
    keys = _join(frame.select(*map(quote, work.old)), work.mapping, work.old)
    counted = keys.groupBy(*(F.col(_NEW + each).alias(each) for each in work.new))
    mixed = counted.agg(F.count_distinct(old).alias("lists")).where("lists > 1")
    return Misfits(
        mixed, f"state {name!r}: a key must have one list", f"pass merge={{{name!r}: 'concat'}}"
    )


def _merge_rows(
    work: _Rekeying, name: str, frame: DataFrame, how: Merge | None
) -> tuple[DataFrame, list[Misfits]]:
    """Merge the rows of each entry of a state; without a merge, leave them for a later check."""
    if how is None:
        return frame, []
    if how == "concat":
        by = Window.partitionBy(*map(quote, work.new)).orderBy(_FORMER, "position")
        return frame.withColumn("position", F.row_number().over(by).cast("long")), []
    rows = rows_of(work.after, name)
    names = rows.entry_names
    others = [each for each in frame.columns if each not in (*names, "value", *_PLACES)]
    if not isinstance(how, str):
        one = Window.partitionBy(*map(quote, names))
        latest = {each: F.max(quote(each)).over(one) for each in others}
        moved = frame.withColumns(latest) if latest else frame
        return fold_rows(moved, names, [F.col(_FORMER)], _make_folding(rows, how)), []
    grouped = frame.groupBy(*map(quote, names))
    if how in ("newest", "oldest"):
        pick = F.max_by if how == "newest" else F.min_by
        time = next(each for each in _TIMES if each in frame.columns)
        row = F.struct("value", *map(quote, others))
        chosen = grouped.agg(pick(row, F.coalesce(time, F.lit(0))).alias("row"))
        return chosen.select(*map(quote, names), "row.*"), []
    kind = frame.schema["value"].dataType
    kept = [F.max(quote(each)).alias(each) for each in others]
    if how != "sum" or not isinstance(kind, _NUMBERS):
        value = {"sum": F.sum, "min": F.min, "max": F.max}[how]("value").cast(kind)
        return grouped.agg(value.alias("value"), *kept), []
    # A sum of decimals does not overflow, so sums that are too large for the type can be found.
    summed = grouped.agg(F.sum(F.col("value").cast("decimal(38,0)")).alias("value"), *kept)
    too_large = summed.where(F.col("value").try_cast(kind).isNull())
    misfits = Misfits(
        too_large, f"state {name!r}: sums must be {kind.simpleString()}", "cast_state() it first"
    )
    return summed.withColumn("value", F.col("value").try_cast(kind)), [misfits]


def merge_operators(mine: Frames, theirs: Frames, on_conflict: str) -> tuple[Frames, list[Misfits]]:
    """Merge the entries and timers of two operators.

    Args:
        mine: The left operator, whose uid the result has.
        theirs: The right operator, with the same key columns.
        on_conflict: Which entry stays if both have it: "left" or "right"; with "error" both stay
            and are refused later.

    Returns:
        The merged operator, and the keys for which both have a list.

    Raises:
        DeclarationValueError: The key columns or the declarations of a state differ, or
            `on_conflict` is another word.
    """
    if on_conflict not in ("error", "left", "right"):
        msg = f'on_conflict is "error", "left" or "right", got {short_repr(on_conflict)}'
        raise DeclarationValueError(f"{msg}; choose one")
    _check_alike(mine, theirs)
    record = attrs.evolve(mine.record, states={**mine.record.states, **theirs.record.states})
    states, misfits = dict(mine.states), []
    for name, frame in theirs.states.items():
        other = fit_rows(record, name, frame)
        if name not in mine.states:
            states[name] = other
            continue
        rows = rows_of(record, name)
        if rows.info.kind == "list" and on_conflict == "error":
            misfits.append(_two_lists(rows, states[name], other))
        states[name] = _both(rows, states[name], other, on_conflict)
        if rows.info.kind == "lru":
            states[name] = fit_rows(record, name, states[name])
    timers = mine.timers.unionByName(fit_timers(record, theirs.timers))
    names = [each for each in timers.columns if each != "key_group"]
    return Frames(record, states, timers.dropDuplicates(names)), misfits


def _check_alike(mine: Frames, theirs: Frames) -> None:
    one, two = mine.record, theirs.record
    both = one.states.keys() & two.states.keys()
    unlike = sorted(name for name in both if one.states[name] != two.states[name])
    if one.identity.key_columns != two.identity.key_columns or unlike:
        msg = f"merge needs the same keys and declarations of states, got different states {unlike}"
        keys = f"{one.identity.key_columns} and {two.identity.key_columns}"
        raise DeclarationValueError(f"{msg} and keys {keys}; rename_state() or remove_state()")
    groups = one.identity.max_parallelism, two.identity.max_parallelism
    for frames in (mine, theirs):
        for name in frames.states:
            if groups[0] != groups[1] and "key_group" in entry_of(rows_of(frames.record, name)):
                msg = f'the store {name!r} of scope "partition" stays in its key group, so both '
                raise DeclarationValueError(
                    f"{msg}have one max_parallelism, got {groups[0]} and {groups[1]}; "
                    "remove_state() it first"
                )


def _unit(rows: StateRows) -> list[str]:
    """Return the columns that identify the unit that only one side may have: an entry or a list.

    The positions of two lists do not relate to each other, so merged elements would have no order.
    """
    return [each for each in entry_of(rows) if each != "position"]


def _two_lists(rows: StateRows, left: DataFrame, right: DataFrame) -> Misfits:
    by = _unit(rows)
    found = _join(left.select(*map(quote, by)), right.select(*map(quote, by)).distinct(), by)
    remedy = 'pass on_conflict="left" or "right"'
    rule = f"state {rows.info.name!r}: only one side may have a list for a key"
    return Misfits(found, rule, remedy)


def _both(rows: StateRows, left: DataFrame, right: DataFrame, on_conflict: str) -> DataFrame:
    if on_conflict == "left":
        right = _without(right, left, _unit(rows))
    elif on_conflict == "right":
        left = _without(left, right, _unit(rows))
    return left.unionByName(right)


_OTHER = "__other_"


def _join(frame: DataFrame, other: DataFrame, by: Sequence[str], how: str = "inner") -> DataFrame:
    """Join two DataFrames by equal columns.

    Args:
        frame: The left side of the join.
        other: The right side; it shares only the columns `by` with the left side.
        by: The columns that must be equal.
        how: The type of Spark's join, such as "inner" or "left_anti".
    """
    # Both sides may come from one DataFrame, and Spark could not tell their columns apart.
    names = {name: f"{_OTHER}{at}" for at, name in enumerate(by)}
    renamed = other.select(
        *(F.col(quote(name)).alias(names.get(name, name)) for name in other.columns)
    )
    equal = [F.col(quote(name)).eqNullSafe(F.col(names[name])) for name in by]
    return frame.join(renamed, reduce(and_, equal), how).drop(*names.values())


def _without(frame: DataFrame, other: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return the rows of `frame` for which `other` has no row that is equal in the columns `by`."""
    return _join(frame, other.select(*map(quote, by)), by, "left_anti")
