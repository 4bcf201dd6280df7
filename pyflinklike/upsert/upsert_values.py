# SPDX-License-Identifier: Apache-2.0
"""The state of a key as Materialize's `StateValue`, its bytes, and statistics.

There are two modes.  While a collection is read back from its differences, in any order, a key has
a `Consolidating`: a sum that can be read only when the collection is complete.  After that a key
has a value:

* `FinalizedValue(value, order)`: the record, and the order key it came with.
* `Tombstone(order)`: the record is deleted; the order key remains, so that an older update that
  comes late does not bring it back.
* `ProvisionalValue`: the settled value, and a value that was emitted at a timestamp that may have
  more.  A provisional part of another timestamp is ignored.

The order key None is below all others.

A collection that is read back comes as (key, value, diff), and the `+1` of a new value may come
before the `-1` of the old one.  `Consolidating` does not hold both until they meet.  It has the xor
of the values' bytes, and the sums of diffs, of lengths times diff, and of checksums times diff.  A
value that is added and removed leaves no trace in these.  So when the collection is complete, the
sketch has the bytes, length and checksum of the one value that is left, or nothing.  Three things
follow:

* The bytes of a value must be deterministic; `encode_value` makes them so.
* A sketch must not be read before the collection is complete; `ensure_decoded` checks length and
  checksum.
* Merging is associative and commutative, so chunks may be added up in any order.  Sums wrap around
  at 64 bits; the xor grows, padded with zeros, and never shrinks.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeVar

import attrs

from pyflinklike._checks import is_int64
from pyflinklike._messages import short_repr
from pyflinklike.errors import CorruptStateError, StateValueError, UpsertStateError
from pyflinklike.upsert.value_codec import decode_from, decode_value, encode_value


class StateValue:
    """The state of one key; all kinds but `Consolidating` are immutable."""

    __slots__ = ()

    order: Any
    """The order key; two kinds have other fields in its place."""

    @property
    def is_tombstone(self) -> bool:
        """Whether the key has no settled record."""
        return self._settle() is None

    def ensure_decoded(self) -> StateValue:
        """Return the state as a value.

        Raises:
            UpsertStateError: It is the sum of a collection that is not complete.
        """
        return self

    def _settle(self) -> tuple[Any, Any] | None:
        """Return the settled value and its order key, or None."""
        raise NotImplementedError

    def provisional_order(self, ts: Any) -> Any:  # noqa: ARG002  what is settled is at any time
        """Return the order key in force at `ts`: the provisional part's if it is of `ts`."""
        return self.order

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

    def _settle(self) -> tuple[Any, Any]:
        return self.value, self.order


@attrs.frozen
class Tombstone(StateValue):
    """The mark of a deleted record.

    Args:
        order: The order key of the deletion; None is below all others.
    """

    order: Any = None

    def _settle(self) -> None:
        return None


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

    def _settle(self) -> tuple[Any, Any] | None:
        return self.finalized

    def provisional_order(self, ts: Any) -> Any:
        """Return the provisional part's order key if it is of `ts`, else the settled one."""
        if self.provisional[1] == ts:
            return self.provisional[2]
        return None if self.finalized is None else self.finalized[1]

    def provisional_value_ref(self, ts: Any) -> Any:
        """Return the provisional value if it is of `ts`, else the settled one or None."""
        if self.provisional[1] == ts:
            return self.provisional[0]
        return StateValue.provisional_value_ref(self, ts)


# The sum of the differences of one key


_WRAP: Final = 1 << 64
_SIGN: Final = 1 << 63
_ZERO: Final = b"\0"


def _checksum(data: bytes) -> int:
    """Return a checksum of 64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def check_diff(diff: Any) -> int:
    """Return a diff that can be added.

    Raises:
        StateValueError: The diff is not an int of 64 bits.
    """
    if not is_int64(diff):
        msg = f"a diff must be an int of 64 bits, got {short_repr(diff)}; give +1 or -1"
        raise StateValueError(msg)
    return diff


def _wrap(number: int) -> int:
    return (number + _SIGN) % _WRAP - _SIGN


def _xor(one: bytes, other: bytes) -> bytes:
    size = max(len(one), len(other))
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).to_bytes(
        size, "little"
    )


@attrs.define
class Consolidating(StateValue):
    """The sketch of a key; empty by default.

    Args:
        value_xor: The xor of the bytes of all values seen with an odd diff.
        len_sum: The sum of the values' lengths times their diffs, 64 bits.
        checksum_sum: The sum of the values' checksums times their diffs, 64 bits.
        diff_sum: The sum of the diffs, 64 bits.
    """

    value_xor: bytes = b""
    len_sum: int = 0
    checksum_sum: int = 0
    diff_sum: int = 0

    @property
    def is_tombstone(self) -> bool:
        """False: a sketch does not know whether a record was deleted."""
        return False

    @property
    def is_cancelled(self) -> bool:
        """Whether every added value was removed, so that the key can be dropped."""
        # The xor never shrinks, so zeros may be left when all values are gone.
        return not (
            self.diff_sum or self.checksum_sum or self.len_sum or self.value_xor.strip(_ZERO)
        )

    def merge_update(self, value: Any, diff: int) -> bool:
        """Add one difference.

        Args:
            value: The value of the record, never None.
            diff: How often the value is added; negative to remove it.

        Returns:
            True if the differences so far cancel each other, so that the key can be dropped.

        Raises:
            StateValueError: The value cannot be encoded, or the diff is not an int of 64 bits.
        """
        if value is None:
            msg = "a record of a collection has a value, got None; a deletion is the old value, -1"
            raise StateValueError(msg)
        self.merge_encoded(encode_value(value), check_diff(diff))
        return self.is_cancelled

    def merge_encoded(self, data: bytes, diff: int) -> None:
        """Add a difference whose value is encoded."""
        self.diff_sum = _wrap(self.diff_sum + diff)
        self.len_sum = _wrap(self.len_sum + len(data) * diff)
        self.checksum_sum = _wrap(self.checksum_sum + _checksum(data) * diff)
        # An even number of equal values cancels out in an xor.
        if diff % 2:
            self.value_xor = _xor(self.value_xor, data)

    def merge_state(self, other: StateValue) -> bool:
        """Add the settled value of another state; return whether the key can be dropped."""
        if isinstance(other, Consolidating):
            self.diff_sum = _wrap(self.diff_sum + other.diff_sum)
            self.len_sum = _wrap(self.len_sum + other.len_sum)
            self.checksum_sum = _wrap(self.checksum_sum + other.checksum_sum)
            self.value_xor = _xor(self.value_xor, other.value_xor)
        elif (settled := other.into_finalized_value()) is not None:
            self.merge_encoded(encode_value(settled.value), 1)
        return self.is_cancelled

    def ensure_decoded(self) -> FinalizedValue | Tombstone:
        """Return the record, or a tombstone if there is none; both with the order key None.

        Raises:
            UpsertStateError: The differences do not add up to one record or none: some are missing
                yet, or they are not the differences of a collection.
        """
        if self.diff_sum == 1:
            return FinalizedValue(decode_value(self._check_bytes()), None)
        if self.diff_sum != 0:
            raise self._invalid(f"non 0/1 diff_sum: {self.diff_sum}")
        if self.len_sum != 0:
            raise self._invalid(f"len_sum is non-0: {self.len_sum}")
        if self.checksum_sum != 0:
            raise self._invalid(f"checksum_sum is non-0: {self.checksum_sum}")
        if self.value_xor.strip(_ZERO):
            raise self._invalid("value_xor not all 0s")
        return Tombstone(None)

    def _check_bytes(self) -> bytes:
        if not 0 <= self.len_sum <= len(self.value_xor):
            raise self._invalid(
                f"value_xor is not the same length ({len(self.value_xor)}) as len ({self.len_sum})"
            )
        # The xor is as long as the longest value that was ever added; the rest must be zeros.
        data = self.value_xor[: self.len_sum]
        if _wrap(_checksum(data)) != self.checksum_sum or self.value_xor[self.len_sum :].strip(
            _ZERO
        ):
            raise self._invalid("checksum_sum does not match")
        return data

    def _invalid(self, what: str) -> UpsertStateError:
        return UpsertStateError(
            f"invalid upsert state: {what}; read a key after all differences of a timestamp came, "
            "and check that each key has at most one record"
        )

    def _settle(self) -> tuple[Any, Any] | None:
        decoded = self.ensure_decoded()
        return None if isinstance(decoded, Tombstone) else (decoded.value, decoded.order)

    def provisional_order(self, ts: Any) -> Any:  # noqa: ARG002  sketches have no order
        """Return None: a sketch has no order key."""
        return None


def consolidating_merge_function(
    key: Any,  # noqa: ARG001  the signature of a merge operator
    updates: Iterable[StateValue],
) -> StateValue:
    """Return the sum of the states of one key, as a log-structured store's merge operator does.

    Args:
        key: The key that the states belong to; it is not used.
        updates: Sketches, and values, which count as one record each.

    Returns:
        A sketch.  Neither the order of the updates nor an earlier merge of some of them matters.
    """
    merged = Consolidating()
    for update in updates:
        merged.merge_state(update)
    return merged


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


# Statistics of upsert state
#
# The sum of all `values_diff` is the number of records, the sum of all `tombstones_diff` the number
# of tombstones, and the sum of all `size_diff` the bytes that both are charged for.  For a complete
# collection each of these sums is zero or more.  The names are Materialize's; two statistics of one
# class add with `+=`.


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
        inserts: How many records were put for keys that had no record.
        updates: How many records replaced the record of their key.
        deletes: How many records were removed.
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
            new: The metadata of the new state; None if the state is removed.
            old: The metadata of the former state; None if the key had no state.
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


# States as bytes: a letter that says the kind, then the parts of the state
#
#     F  value                       a FinalizedValue without an order key
#     f  order, value                one with
#     T                              a Tombstone without an order key
#     t  order                       one with
#     P  (finalized, provisional)    a ProvisionalValue
#     C  len, checksum, diff, xor    a Consolidating


_SUMS = struct.Struct(">qqq")
_VALUE, _ORDERED, _GONE, _GONE_ORDERED = b"F", b"f", b"T", b"t"
_PROVISIONAL, _CONSOLIDATING = b"P", b"C"


def encode_state(state: StateValue) -> bytes:
    """Return the bytes of a state.

    Raises:
        StateValueError: It is not a state, or a value or order key in it cannot be encoded.
    """
    if isinstance(state, FinalizedValue):
        value = encode_value(state.value)
        return (
            _VALUE + value if state.order is None else _ORDERED + encode_value(state.order) + value
        )
    if isinstance(state, Tombstone):
        return _GONE if state.order is None else _GONE_ORDERED + encode_value(state.order)
    if isinstance(state, Consolidating):
        sums = _SUMS.pack(state.len_sum, state.checksum_sum, state.diff_sum)
        return _CONSOLIDATING + sums + state.value_xor
    if isinstance(state, ProvisionalValue):
        return _PROVISIONAL + encode_value((state.finalized, state.provisional))
    msg = (
        "a state is a FinalizedValue, Tombstone, ProvisionalValue or Consolidating, "
        f"got {short_repr(state)}; wrap a value in FinalizedValue(value, order)"
    )
    raise StateValueError(msg)


def decode_state(data: bytes) -> StateValue:
    """Return the state that `encode_state` encoded to these bytes.

    Raises:
        CorruptStateError: The bytes are not a state.
    """
    kind = data[:1]
    if kind == _VALUE:
        return FinalizedValue(decode_value(data[1:]), None)
    if kind == _ORDERED:
        order, end = decode_from(data, 1)
        return FinalizedValue(decode_value(data[end:]), order)
    if kind == _GONE:
        return Tombstone(None)
    if kind == _GONE_ORDERED:
        return Tombstone(decode_value(data[1:]))
    if kind == _CONSOLIDATING and len(data) > _SUMS.size:
        length, checksum, diff = _SUMS.unpack_from(data, 1)
        return Consolidating(data[1 + _SUMS.size :], length, checksum, diff)
    if kind == _PROVISIONAL:
        return ProvisionalValue(*decode_value(data[1:]))
    msg = f"a stored state must be one that encode_state wrote, got {short_repr(data)}"
    raise CorruptStateError(msg)


def size_of(data: bytes) -> int:
    """Return how many bytes an encoded state is charged for.

    A state is charged for its bytes.  Only a sketch is charged for the value it will become: (length
    + 1) times its diff.  So sizes are added up without a look at the state before, and stay the same
    when a collection is complete and its sketches become values.
    """
    if data[:1] == _CONSOLIDATING:
        length, _, diff = _SUMS.unpack_from(data, 1)
        return int(length + diff)
    return len(data)
