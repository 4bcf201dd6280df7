# SPDX-License-Identifier: Apache-2.0
"""The sum of the differences of one key, in whatever order they come.

A collection that is read back from its differences comes as (key, value, diff), and the `+1` of a
new value may come before the `-1` of the old one.  Instead of holding both until they meet, each
key has a sketch of all it has seen: the xor of the values' bytes, and the sums of diffs, of lengths
times diff, and of checksums times diff.  A value that is added and removed leaves no trace in
these.  So when the collection is complete, the sketch has the bytes, length and checksum of the one
value that is left, or nothing.

Three things follow (the algorithm is that of Materialize's `Consolidating`):

* The bytes of a value must be deterministic: `encode_value` sees to that.
* A sketch must not be read before the collection is complete; `ensure_decoded` checks length and
  checksum.
* Merging is associative and commutative, so chunks, backends and processes may be added up in any
  order.  Sums wrap around at 64 bits; the xor grows, padded with zeros, and never shrinks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import attrs

from pyflinklike._checks import is_int64
from pyflinklike._messages import shown
from pyflinklike.errors import StateValueError, UpsertStateError
from pyflinklike.upsert.index.upsert_values import FinalizedValue, StateValue, Tombstone
from pyflinklike.upsert.index.value_codec import decode_value, encode_value

__all__ = [
    "Consolidating",
    "Difference",
    "check_diff",
    "checksum",
    "consolidating_merge_function",
]

_WRAP: Final = 1 << 64
_SIGN: Final = 1 << 63
_ZERO: Final = b"\0"


def checksum(data: bytes) -> int:
    """Return a checksum of 64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def check_diff(diff: Any) -> int:
    """Return a diff that can be added.

    Raises:
        StateValueError: The diff is not an int of 64 bits.
    """
    if not is_int64(diff):
        msg = f"a diff must be an int of 64 bits, got {shown(diff)}; give +1 or -1"
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

    @classmethod
    def of(cls, state: StateValue) -> Consolidating:
        """Make a sketch of the settled value of a state; of a sketch, a copy."""
        if isinstance(state, Consolidating):
            return cls(state.value_xor, state.len_sum, state.checksum_sum, state.diff_sum)
        sketch = cls()
        settled = state.into_finalized_value()
        if settled is not None:
            sketch.merge_update(settled.value, 1)
        return sketch

    @property
    def is_tombstone(self) -> bool:
        """False: a sketch does not know whether a record was deleted."""
        return False

    @property
    def is_cancelled(self) -> bool:
        """True where every added value was removed, so that the key can be dropped."""
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
        self.checksum_sum = _wrap(self.checksum_sum + checksum(data) * diff)
        if diff % 2:
            self.value_xor = _xor(self.value_xor, data)

    def merge_state(self, other: StateValue) -> bool:
        """Add the settled value of another state; return whether the key can be dropped."""
        sketch = other if isinstance(other, Consolidating) else Consolidating.of(other)
        self.diff_sum = _wrap(self.diff_sum + sketch.diff_sum)
        self.len_sum = _wrap(self.len_sum + sketch.len_sum)
        self.checksum_sum = _wrap(self.checksum_sum + sketch.checksum_sum)
        self.value_xor = _xor(self.value_xor, sketch.value_xor)
        return self.is_cancelled

    def ensure_decoded(self) -> FinalizedValue | Tombstone:
        """Return the record, or a tombstone if there is none; both with the order key None.

        Raises:
            UpsertStateError: The differences do not add up to one record or none: some are still
                missing, or are not those of a collection.
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
        if _wrap(checksum(data)) != self.checksum_sum or self.value_xor[self.len_sum :].strip(
            _ZERO
        ):
            raise self._invalid("checksum_sum does not match")
        return data

    def _invalid(self, what: str) -> UpsertStateError:
        return UpsertStateError(
            f"invalid upsert state: {what}; read a key when all differences of a timestamp are in, "
            "and see that they are those of one record per key"
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


class Difference(NamedTuple):
    """A difference with its key and value encoded."""

    key: bytes
    value: bytes
    diff: int
