# SPDX-License-Identifier: Apache-2.0
"""The records of a batch by key, as vectors: what a loop over a dict computes, without one.

A batch has one group for each distinct key, numbered in the order in which the keys first come.
*Per key* means one value for each group in that order; *per record*, one value for each record.
`spread` goes from the first to the second.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.columns.given import numbers_of
from pyflinklike.columns.running import accumulated, checked_sum
from pyflinklike.errors import StateValueError

__all__ = ["Groups"]

_SHORT = 1 << 16


class Groups:
    """The groups of a batch's records.  The runtime makes them.

    Args:
        codes: The group of each record, a NumPy array of int64.
        first: The number of the first record of each group, a NumPy array of int64.
    """

    def __init__(self, codes: Any, first: Any) -> None:
        self._codes = codes
        self._first = first

    def __len__(self) -> int:
        """Return the number of distinct keys in the batch."""
        return len(self._first)

    def __repr__(self) -> str:
        return f"<Groups of {len(self._codes)} records: {len(self)} keys>"

    @property
    def codes(self) -> Any:
        """Per record: the number of its group, from 0, as a NumPy array of int64."""
        return self._codes

    @cached_property
    def counts(self) -> Any:
        """Per key: the number of its records, as a NumPy array of int64."""
        return np.bincount(self._codes, minlength=len(self))

    def latest(self, timestamps: Any) -> Any:
        """Return per key the greatest timestamp of its records in ms, else `MIN_WATERMARK`."""
        latest = np.full(len(self), MIN_WATERMARK, np.int64)
        if timestamps is not None:
            np.maximum.at(latest, self._codes, timestamps)
        return latest

    @cached_property
    def _starts(self) -> Any:
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def _order(self) -> Any:
        """The records sorted by group; within a group they keep their order."""
        codes = self._codes
        # NumPy sorts 16 bits by radix, which takes a tenth of the time.
        order = np.argsort((codes & (_SHORT - 1)).astype(np.uint16), kind="stable")
        if len(self) > _SHORT:
            high = (codes >> 16).astype(np.uint16 if len(self) < 1 << 32 else np.int64)
            order = order[np.argsort(high[order], kind="stable")]
        return order

    def rank(self) -> Any:
        """Return per record how many records of its key come before it in the batch, from 0."""
        ranks = np.empty(len(self._codes), np.int64)
        starts = np.repeat(self._starts, self.counts)
        ranks[self._order] = np.arange(len(ranks)) - starts
        return ranks

    def spread(self, per_key: Any) -> Any:
        """Return per record the value of its key.

        Args:
            per_key: One value for each group, as a NumPy or Arrow array.

        Raises:
            StateValueError: There are not as many values as groups.
        """
        if isinstance(per_key, (pa.Array, pa.ChunkedArray)):
            self._check(per_key, len(self), "spread", "key")
            return per_key.take(pa.array(self._codes))
        values = np.asarray(per_key)
        self._check(values, len(self), "spread", "key")
        return values[self._codes]

    def first(self, values: Any) -> Any:
        """Return per key the value of its first record; NumPy or Arrow, as the values are."""
        return self._at(values, self._first, "first")

    def last(self, values: Any) -> Any:
        """Return per key the value of its last record; NumPy or Arrow, as the values are."""
        # Of several assignments to one place NumPy keeps the last, which is the last record's.
        last = np.empty(len(self), np.int64)
        last[self._codes] = np.arange(len(self._codes))
        return self._at(values, last, "last")

    def sum(self, values: Any) -> Any:
        """Return per key the sum of its records' values, added in their order from 0.

        Args:
            values: One number for each record.  Bools count as 0 and 1.

        Returns:
            A NumPy array: int64 or uint64 of ints, else float64.

        Raises:
            StateValueError: A value is no number or null, or a sum does not fit in 64 bits.
        """
        found = self._numbers(values, "sum")
        # bincount adds in the order of the records, as a loop does: floats depend on it.
        if found.dtype.kind == "f":
            return np.bincount(self._codes, found, len(self))
        return checked_sum(found, self._codes, self.counts)

    def min(self, values: Any) -> Any:
        """Return per key the least value of its records; NaN where one is NaN, as in NumPy."""
        return self._reduced(np.minimum, values, "min")

    def max(self, values: Any) -> Any:
        """Return per key the greatest value of its records; NaN where one is NaN, as in NumPy."""
        return self._reduced(np.maximum, values, "max")

    def running(self, ufunc: np.ufunc, values: Any, start: Any) -> Any:
        """Return per record the value of its key after this record.

        It is what this loop over the records computes:

            value = start[key]
            for each record of the key, in order:
                value = ufunc(value, values[record])

        The result is bit-equal to that of the loop, also where the order of operations matters
        (floats).  Store `groups.last(...)` of it in the state.

        Args:
            ufunc: One of two arguments, such as `np.add` or `np.maximum`.
            values: One number for each record.
            start: One number for each group, or one for all: the value before the first record.

        Returns:
            A NumPy array of the type that NumPy gives `start` and `values` together.

        Raises:
            StateValueError: A value is no number or null, there are too few or too many of them, or
                a sum, difference or product of ints does not fit in its type.
        """
        found = self._numbers(values, "running")
        begin = numbers_of(start, "running: start")
        if begin.ndim:
            self._check(begin, len(self), "running", "key")
        return accumulated(ufunc, found, begin, self._order, self._starts, self.counts)

    def _reduced(self, ufunc: np.ufunc, values: Any, what: str) -> Any:
        found = self._numbers(values, what)
        if not len(found):
            return found
        return ufunc.reduceat(found[self._order], self._starts)

    def _numbers(self, values: Any, what: str) -> Any:
        found = numbers_of(values, what)
        self._check(found, len(self._codes), what, "record")
        return found

    def _at(self, values: Any, records: Any, what: str) -> Any:
        self._check(values, len(self._codes), what, "record")
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            return values.take(pa.array(records))
        return np.asarray(values)[records]

    def _check(self, values: Any, count: int, what: str, each: str) -> None:
        got = len(values) if np.ndim(values) or hasattr(values, "type") else None
        if got != count:
            msg = (
                f"{what} takes one value for each {each}, that is {count} here, got "
                f"{'a single value' if got is None else got}; spread() makes values per record "
                "of values per key"
            )
            raise StateValueError(msg)
