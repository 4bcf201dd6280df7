# SPDX-License-Identifier: Apache-2.0
"""Running results of each key, in the order of its records: bit-equal to a loop, without one.

The records of a key depend on one another; those of different keys do not.  So results are
computed in *waves*: the first record of every key, then the second of every key that has two, and
so on.  A key with many records would cause as many small waves; `ufunc.accumulate` computes it by
itself, record by record.  Sums of ints do not depend on the order: they are differences of one
running sum over all records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyflinklike.errors import StateValueError

__all__ = ["accumulated", "checked_sum"]

_LONG_RUN = 64
"""Keys with more records are computed each by itself."""


def accumulated(
    ufunc: np.ufunc, values: Any, start: Any, order: Any, starts: Any, counts: Any
) -> Any:
    """Return the running result per record.

    Args:
        ufunc: One of two arguments.
        values: One number per record.
        start: One number per key, or one for all.
        order: The records sorted by key.
        starts: Where the records of each key begin in `order`.
        counts: The number of records of each key.

    Raises:
        StateValueError: An int does not fit in its type.
    """
    kind = np.result_type(start.dtype, values.dtype)
    # NumPy adds bools by `or`; a loop over Python's bools counts them.
    if kind.kind == "b" and ufunc in _ARITHMETIC:
        kind = np.dtype(np.int64)
    begin = np.broadcast_to(start, counts.shape).astype(kind)
    sorted_values = values.astype(kind, copy=False)[order]
    if ufunc is np.add and kind.kind in "iu":
        found = _int_sums(sorted_values, begin, starts, counts)
    else:
        found = _waves(ufunc, sorted_values, begin, starts, counts)
    results = np.empty_like(found)
    results[order] = found
    return results


def _int_sums(values: Any, begin: Any, starts: Any, counts: Any) -> Any:
    if not len(values):
        return values
    sums = np.cumsum(values, dtype=values.dtype)  # it wraps around, and so do the differences
    before = sums[starts] - values[starts] - begin
    sums -= np.repeat(before, counts)
    former = sums - values
    if _wrapped_sum(former, values, sums).any():
        _refuse(np.add, values.dtype)
    return sums


def _waves(ufunc: np.ufunc, values: Any, begin: Any, starts: Any, counts: Any) -> Any:
    results = np.empty_like(values)
    wrapped = _ARITHMETIC.get(ufunc) if values.dtype.kind in "iu" else None
    state = begin.copy()
    by_length = np.argsort(-counts, kind="stable")
    longest = np.searchsorted(-counts[by_length], -_LONG_RUN)
    for key in by_length[:longest].tolist():
        run = slice(starts[key], starts[key] + counts[key])
        chain = np.concatenate([begin[key : key + 1], values[run]])
        # Ints that overflow are refused below, and a NaN is a result like any other.
        with np.errstate(all="ignore"):
            results[run] = ufunc.accumulate(chain, dtype=values.dtype)[1:]
        if wrapped is not None:
            former = np.concatenate([begin[key : key + 1], results[run][:-1]])
            _check(wrapped, ufunc, former, values[run], results[run])
    waiting = by_length[longest:]
    lengths = counts[waiting]
    for wave in range(int(lengths[0]) if len(lengths) else 0):
        waiting = waiting[: np.searchsorted(-lengths[: len(waiting)], -wave)]
        at = starts[waiting] + wave
        former, here = state[waiting], values[at]
        with np.errstate(all="ignore"):
            now = ufunc(former, here).astype(values.dtype, copy=False)
        if wrapped is not None:
            _check(wrapped, ufunc, former, here, now)
        state[waiting] = results[at] = now
    return results


def checked_sum(values: Any, codes: Any, counts: Any) -> Any:
    """Return the sum of ints per key.

    Raises:
        StateValueError: One does not fit in 64 bits.
    """
    kind = np.uint64 if values.dtype.kind == "u" else np.int64
    values = values.astype(kind, copy=False)
    sums = np.zeros(len(counts), kind)
    if not len(values):
        return sums
    greatest = max(abs(int(values.min())), abs(int(values.max())))
    if greatest * int(counts.max()) <= np.iinfo(kind).max:
        np.add.at(sums, codes, values)
        return sums
    # The halves of 32 bits cannot overflow; Python puts them together exactly.
    high, low = np.zeros_like(sums), np.zeros_like(sums)
    np.add.at(high, codes, values >> kind(32))
    np.add.at(low, codes, values & kind(0xFFFFFFFF))
    exact = [int(h) * (1 << 32) + int(at) for h, at in zip(high, low)]
    info = np.iinfo(kind)
    if any(not info.min <= each <= info.max for each in exact):
        _refuse(np.add, np.dtype(kind))
    return np.array(exact, kind)


def _wrapped_sum(former: Any, value: Any, now: Any) -> Any:
    if now.dtype.kind == "u":
        return now < former
    return ((former ^ now) & (value ^ now)) < 0


def _wrapped_difference(former: Any, value: Any, now: Any) -> Any:
    if now.dtype.kind == "u":
        return value > former
    return ((former ^ value) & (former ^ now)) < 0


def _wrapped_product(former: Any, value: Any, now: Any) -> Any:
    # A float64 has 53 bits: too few to tell a product just above the bound from one below.
    exact = former.astype(np.longdouble) * value.astype(np.longdouble)
    info = np.iinfo(now.dtype)
    return (exact < info.min) | (exact > info.max)


_ARITHMETIC: dict[np.ufunc, Callable[[Any, Any, Any], Any]] = {
    np.add: _wrapped_sum,
    np.subtract: _wrapped_difference,
    np.multiply: _wrapped_product,
}


def _check(
    wrapped: Callable[[Any, Any, Any], Any], ufunc: np.ufunc, former: Any, value: Any, now: Any
) -> None:
    if wrapped(former, value, now).any():
        _refuse(ufunc, now.dtype)


def _refuse(ufunc: np.ufunc, kind: Any) -> None:
    msg = (
        f"{ufunc.__name__}: a result must fit in {kind}, got one that does not; "
        "convert the values to a larger type, or to float64"
    )
    raise StateValueError(msg)
