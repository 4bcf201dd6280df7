# SPDX-License-Identifier: Apache-2.0
"""The work of the methods of upsert state, in numbers that add up exactly.

The sum of all `values_diff` is the number of records, the sum of all `tombstones_diff` the number
of tombstones, and the sum of all `size_diff` the bytes that both are charged for.  None of them is
negative for a complete collection.  They are Materialize's statistics; two of the same kind add
with `+=`.
"""

from __future__ import annotations

from typing import TypeVar

import attrs

from pyflinklike.upsert.index.values import ValueMetadata

__all__ = ["GetStats", "MergeStats", "PutStats", "SnapshotStats"]

S = TypeVar("S", bound="_Statistics")


@attrs.define
class _Statistics:
    """Numbers that add field by field."""

    def __iadd__(self: S, other: S) -> S:
        """Add another of the same kind to this one."""
        if type(other) is not type(self):
            return NotImplemented
        for field in attrs.fields(type(self)):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


@attrs.define
class GetStats(_Statistics):
    """Numbers of gets: keys asked for, bytes of the states found, and how many were found."""

    processed_gets: int = 0
    processed_gets_size: int = 0
    returned_gets: int = 0


@attrs.define
class PutStats(_Statistics):
    """Numbers of puts.

    Args:
        processed_puts: How many puts there were.
        values_diff: By how much the number of records changed.
        tombstones_diff: By how much the number of tombstones changed.
        size_diff: By how many bytes the size changed.
        inserts: Records put where there was none.
        updates: Records put where there was one.
        deletes: Records that were removed.
    """

    processed_puts: int = 0
    values_diff: int = 0
    tombstones_diff: int = 0
    size_diff: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    def adjust(self, new: ValueMetadata | None, old: ValueMetadata | None) -> None:
        """Count one put.

        Args:
            new: The metadata of the new state; None where the state is removed.
            old: The metadata of the former state; None where there was none.
        """
        self.size_diff += (0 if new is None else new.size) - (0 if old is None else old.size)
        is_live = new is not None and not new.is_tombstone
        was_live = old is not None and not old.is_tombstone
        is_gone = new is not None and new.is_tombstone
        was_gone = old is not None and old.is_tombstone
        self.values_diff += is_live - was_live
        self.tombstones_diff += is_gone - was_gone
        self.inserts += is_live and not was_live
        self.updates += is_live and was_live
        self.deletes += was_live and not is_live


@attrs.define
class MergeStats(_Statistics):
    """Numbers of merges: operands, their bytes as written, and the change of the size in bytes."""

    written_merge_operands: int = 0
    size_written: int = 0
    size_diff: int = 0


@attrs.define
class SnapshotStats(_Statistics):
    """Numbers of chunks of a collection.

    Args:
        updates: How many differences came.
        values_diff: The sum of their diffs, which is the change in the number of records.
        size_diff: By how many bytes the size changed.
        inserts: The sum of the positive diffs.
        deletes: The sum of the negative diffs, as a positive number.
    """

    updates: int = 0
    values_diff: int = 0
    size_diff: int = 0
    inserts: int = 0
    deletes: int = 0
