# SPDX-License-Identifier: Apache-2.0
"""The state of a key, as Materialize's `StateValue`.

There are two modes.  While a collection is read back from its differences, in any order, a key has
a `Consolidating`: a sum that can be read only when the collection is complete.  After that a key
has a value:

* `FinalizedValue(value, order)`: the record, and the order key it came with.
* `Tombstone(order)`: the record is deleted; the order key remains, so that an older update that
  comes late does not bring it back.
* `ProvisionalValue`: the settled value, and a value that was emitted at a timestamp that may have
  more.  A provisional part of another timestamp is ignored.

The order key None is below all others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import attrs

from pyflinklike.errors import StateValueError

__all__ = [
    "FinalizedValue",
    "GetStats",
    "MergeStats",
    "MergeValue",
    "ProvisionalValue",
    "PutStats",
    "PutValue",
    "SnapshotStats",
    "StateValue",
    "Tombstone",
    "UpsertValueAndSize",
    "ValueMetadata",
]


class StateValue:
    """The state of one key; all kinds but `Consolidating` are immutable."""

    __slots__ = ()

    @property
    def is_tombstone(self) -> bool:
        """True where the key has no settled record."""
        raise NotImplementedError

    def ensure_decoded(self) -> StateValue:
        """Return the state as a value.

        Raises:
            UpsertStateError: It is the sum of a collection that is not complete.
        """
        return self

    def _settle(self) -> tuple[Any, Any] | None:
        """Return the settled value and its order key, or None."""
        raise NotImplementedError

    def provisional_order(self, ts: Any) -> Any:
        """Return the order key in force at `ts`: the provisional part's if it is of `ts`."""
        raise NotImplementedError

    def provisional_value_ref(self, ts: Any) -> Any:  # noqa: ARG002  what is settled is at any time
        """Return the value in force at `ts`, or None: the provisional value if it is of `ts`."""
        settled = self._settle()
        return None if settled is None else settled[0]

    def into_provisional_value(self, value: Any, ts: Any, order: Any) -> ProvisionalValue:
        """Return the same state with `value` emitted at `ts`; the settled part stays."""
        return ProvisionalValue(self._settle(), (value, ts, order))

    def into_provisional_tombstone(self, ts: Any, order: Any) -> ProvisionalValue:
        """Return the same state with a deletion emitted at `ts`; the settled part stays."""
        return ProvisionalValue(self._settle(), (None, ts, order))

    def into_finalized_value(self) -> FinalizedValue | None:
        """Return the settled value, or None."""
        settled = self._settle()
        return None if settled is None else FinalizedValue(*settled)


@attrs.frozen
class FinalizedValue(StateValue):
    """The record of a key.

    Args:
        value: The value of the record, never None.
        order: The order key it came with; None is below all others.

    Raises:
        StateValueError: The value is None, which is a `Tombstone`.
    """

    value: Any = attrs.field()
    order: Any = None

    @value.validator
    def _check_value(self, _: Any, value: Any) -> None:
        if value is None:
            msg = "a FinalizedValue has a value, got None; put a Tombstone, or None to forget"
            raise StateValueError(msg)

    @property
    def is_tombstone(self) -> bool:
        """False."""
        return False

    def _settle(self) -> tuple[Any, Any]:
        return self.value, self.order

    def provisional_order(self, ts: Any) -> Any:  # noqa: ARG002  it is settled at any time
        """Return the order key."""
        return self.order


@attrs.frozen
class Tombstone(StateValue):
    """The mark of a deleted record.

    Args:
        order: The order key of the deletion; None is below all others.
    """

    order: Any = None

    @property
    def is_tombstone(self) -> bool:
        """True."""
        return True

    def _settle(self) -> None:
        return None

    def provisional_order(self, ts: Any) -> Any:  # noqa: ARG002  it is settled at any time
        """Return the order key."""
        return self.order


@attrs.frozen
class ProvisionalValue(StateValue):
    """A value that was emitted at a timestamp that is not over, and the settled one.

    Args:
        finalized: The settled value and its order key, or None.
        provisional: The value emitted (None for a deletion), its timestamp, its order key.
    """

    finalized: tuple[Any, Any] | None
    provisional: tuple[Any, Any, Any]

    @classmethod
    def new(cls, value: Any, ts: Any, order: Any) -> ProvisionalValue:
        """Make the state of a value emitted at `ts` for a key that has no settled one."""
        return cls(None, (value, ts, order))

    @property
    def is_tombstone(self) -> bool:
        """True where nothing is settled."""
        return self.finalized is None

    def _settle(self) -> tuple[Any, Any] | None:
        return self.finalized

    def provisional_order(self, ts: Any) -> Any:
        """Return the provisional part's order key if it is of `ts`, else the settled one."""
        if self.provisional[1] == ts:
            return self.provisional[2]
        return None if self.finalized is None else self.finalized[1]

    def provisional_value_ref(self, ts: Any) -> Any:
        """Return the provisional value if it is of `ts`, else the settled one; None for none."""
        if self.provisional[1] == ts:
            return self.provisional[0]
        return StateValue.provisional_value_ref(self, ts)


class ValueMetadata(NamedTuple):
    """The size of a value in bytes, and whether it is a tombstone, for the statistics.

    A sketch is charged for the value it will become, any other state for its encoded bytes.
    """

    size: int
    is_tombstone: bool


class UpsertValueAndSize(NamedTuple):
    """The result of `multi_get` for a key: both parts are None if the key has no state."""

    value: StateValue | None
    metadata: ValueMetadata | None


class PutValue(NamedTuple):
    """The new state of a key; a `value` of None removes it.

    `previous_value_metadata` is what `multi_get` returned for the key, or None if the key had no
    state: the statistics rely on it.
    """

    value: StateValue | None
    previous_value_metadata: ValueMetadata | None


class MergeValue(NamedTuple):
    """A state to add to a key's without reading it: a sketch, and the sum of its diffs."""

    value: StateValue
    diff: int


# The work of the methods of upsert state, in numbers that add up exactly
#
# The sum of all `values_diff` is the number of records, the sum of all `tombstones_diff` the number
# of tombstones, and the sum of all `size_diff` the bytes that both are charged for.  None of them is
# negative for a complete collection.  They are Materialize's statistics; two of the same kind add
# with `+=`.


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
