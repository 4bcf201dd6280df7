# SPDX-License-Identifier: Apache-2.0
"""The merge of two operators with the same key columns into one."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyflinklike.errors import DeclarationValueError
from pyflinklike.replay.rows import StateRows
from pyflinklike.shown import shown
from pyflinklike.spark.wire.names import quoted
from pyflinklike.spark.writing.edits import entry_of, fitted, fitted_timers, rows_of, with_said
from pyflinklike.spark.writing.joining import joined, without
from pyflinklike.spark.writing.misfits import Misfits
from pyflinklike.spark.writing.saving import Frames

__all__ = ["merged"]


def merged(mine: Frames, theirs: Frames, on_conflict: str) -> tuple[Frames, list[Misfits]]:
    """Merge the entries and timers of two operators.

    Args:
        mine: The left operator.
        theirs: The right operator.
        on_conflict: Which entry stays if both have it: "left" or "right"; with "error" both stay
            and are refused later.

    Returns:
        The merged operator, and the keys for which both have a list.

    Raises:
        DeclarationValueError: The key columns or the declarations of a state differ, or
            `on_conflict` is none of these.
    """
    if on_conflict not in ("error", "left", "right"):
        msg = f'on_conflict is "error", "left" or "right", got {shown(on_conflict)}'
        raise DeclarationValueError(f"{msg}; choose one")
    _check_alike(mine, theirs)
    record = with_said(mine.record, {**mine.record.states, **theirs.record.states})
    states, misfits = dict(mine.states), []
    for name, frame in theirs.states.items():
        other = fitted(record, name, frame)
        if name not in mine.states:
            states[name] = other
            continue
        rows = rows_of(record, name)
        if rows.info.kind == "list" and on_conflict == "error":
            misfits.append(_two_lists(rows, states[name], other))
        states[name] = _both(rows, states[name], other, on_conflict)
        if rows.info.kind == "lru":
            states[name] = fitted(record, name, states[name])
    timers = mine.timers.unionByName(fitted_timers(record, theirs.timers))
    names = [each for each in timers.columns if each != "key_group"]
    return Frames(record, states, timers.dropDuplicates(names)), misfits


def _check_alike(mine: Frames, theirs: Frames) -> None:
    one, two = mine.record, theirs.record
    both = one.states.keys() & two.states.keys()
    unlike = sorted(name for name in both if one.states[name] != two.states[name])
    if one.identity.key_columns != two.identity.key_columns or unlike:
        msg = f"merge takes savepoints whose keys and states are declared alike, got {unlike}"
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
    """Return the columns that identify what only one side may have: an entry, or a whole list.

    The positions of two lists do not relate to each other, so merged elements would have no order.
    """
    return [each for each in entry_of(rows) if each != "position"]


def _two_lists(rows: StateRows, left: DataFrame, right: DataFrame) -> Misfits:
    by = _unit(rows)
    found = joined(left.select(*map(quoted, by)), right.select(*map(quoted, by)).distinct(), by)
    remedy = 'pass on_conflict="left" or "right"'
    return Misfits(found, f"state {rows.info.name!r}: a key has one list, of one of both", remedy)


def _both(rows: StateRows, left: DataFrame, right: DataFrame, on_conflict: str) -> DataFrame:
    if on_conflict == "left":
        right = without(right, left, _unit(rows))
    elif on_conflict == "right":
        left = without(left, right, _unit(rows))
    return left.unionByName(right)
