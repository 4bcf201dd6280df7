# SPDX-License-Identifier: Apache-2.0
"""`Savepoint.merge`: two operators of the same key columns as one."""

from __future__ import annotations

from pyflinklike.errors import DeclarationValueError
from pyflinklike.shown import shown
from pyflinklike.spark.writing.edits import fitted, rows_of, with_said
from pyflinklike.spark.writing.saving import Frames

__all__ = ["merged"]


def merged(mine: Frames, theirs: Frames, on_conflict: str) -> Frames:
    """The entries and timers of both.

    Args:
        mine: The left one.
        theirs: The right one.
        on_conflict: Of an entry that both have "left" or "right" stays; with "error" both do, and
            are refused later.

    Raises:
        DeclarationValueError: The key columns or a state of both differ, or `on_conflict` is none
            of these.
    """
    if on_conflict not in ("error", "left", "right"):
        msg = f'on_conflict is "error", "left" or "right", got {shown(on_conflict)}'
        raise DeclarationValueError(f"{msg}; choose one")
    one, two = mine.record, theirs.record
    both = one.states.keys() & two.states.keys()
    unlike = [name for name in both if one.states[name] != two.states[name]]
    if one.identity.key_columns != two.identity.key_columns or unlike:
        msg = f"merge takes savepoints whose keys and states are declared alike, got {unlike}"
        keys = f"{one.identity.key_columns} and {two.identity.key_columns}"
        raise DeclarationValueError(f"{msg} and keys {keys}; rename_state() or remove_state()")
    record = with_said(one, {**one.states, **two.states})
    states = {**mine.states, **theirs.states}
    for name in mine.states.keys() & theirs.states.keys():
        left, right = mine.states[name], fitted(record, name, theirs.states[name])
        by = rows_of(record, name).entry_names
        if on_conflict == "left":
            right = right.join(left.select(*by), by, "left_anti").select(*right.columns)
        elif on_conflict == "right":
            left = left.join(right.select(*by), by, "left_anti").select(*left.columns)
        states[name] = left.unionByName(right)
    timers = mine.timers.unionByName(theirs.timers).distinct()
    return Frames(record, states, timers)
