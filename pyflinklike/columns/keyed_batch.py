# SPDX-License-Identifier: Apache-2.0
"""Records of one key group as columns, the argument of a `KeyedBatchFunction`.

A batch has one group for each distinct key, numbered in the order in which the keys first come.
*Per key* means one value for each group in that order; *per record* means one value for each record.
`spread` turns the former into the latter.  `Groups` computes without a loop what you would compute
with a loop over a dict.

Running results are bit-equal to the results of a loop over the records of a key.  The results of one
key depend on one another, but different keys are independent.  So we compute them in *waves*: the
first record of every key, then the second of every key that has two, and so on.  A key with many
records would cause as many small waves, so `ufunc.accumulate` computes such a key by itself.  Sums of
ints do not depend on the order: they are differences of one running sum over all records.

Arrow finds the distinct keys of records: it numbers the values of a column in the order in which they
first come.  Keys of ints, bools and strings, and tuples of these, stay Arrow columns.  Any other key
(floats, dates, timestamps, decimals, bytes, structs) is encoded as for functions per record, which
costs a call of Python for each *distinct* key of a batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._messages import short_repr
from pyflinklike.columns.value_columns import numbers_of, plain_array
from pyflinklike.errors import RequirementError, StateAccessError, StateValueError
from pyflinklike.types import TupleTypeInfo, TypeInformation
from pyflinklike.types.arrow_rows import to_python


class KeyedBatch:
    """Records as columns, in the order in which a `KeyedProcessFunction` would get them.

    A batch holds all records of one call, with any number of keys.  The host decides how to cut the
    records of a key into batches, and results must not depend on the cuts; `pyflinklike.columns.cuts`
    tests that.

    Args:
        records: The records, in the order in which they came.
        groups: The same records by key.
        timestamps: Event times in ms, `MIN_WATERMARK` for a record without one; None if the host
            has no event time.
    """

    def __init__(self, records: pa.RecordBatch, groups: Groups, timestamps: Any = None) -> None:
        self._records = records
        self.groups = groups
        """The records by key."""
        self.timestamps = timestamps
        """The event time of each record in ms, as a NumPy array of int64; `MIN_WATERMARK` for a
        record without one.  None if the host has no event time."""

    def _part(self, start: int, end: int) -> tuple[KeyedBatch, Any]:
        """Return the records from one number to another, and the groups that these have."""
        found, first, codes = np.unique(
            self.groups.codes[start:end], return_index=True, return_inverse=True
        )
        order = np.argsort(first, kind="stable")  # groups are in the order of their first records
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        groups = Groups(places[codes], first[order])
        times = None if self.timestamps is None else self.timestamps[start:end]
        return KeyedBatch(self._records.slice(start, end - start), groups, times), found[order]

    def _first(self) -> pa.RecordBatch:
        """Return the first record."""
        return self._records.slice(0, 1)

    def _show_first(self) -> str:
        """Return the first record for messages."""
        return short_repr(self._first().to_pylist()[0])

    def __len__(self) -> int:
        """Return the number of records."""
        return int(self._records.num_rows)

    def __repr__(self) -> str:
        return f"<KeyedBatch of {len(self)} records, {len(self.groups)} keys: {self.column_names}>"

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._records.schema.names)

    def __getitem__(self, column: str) -> pa.Array:
        """Return a column as an Arrow array.

        Raises:
            StateAccessError: There is no such column.
        """
        names = self._records.schema.names
        if column not in names:
            msg = f"a batch has the columns of its stream, got {column!r}; choose from {names}"
            raise StateAccessError(msg)
        return self._records.column(names.index(column))

    def numpy(self, column: str) -> np.ndarray[Any, Any]:
        """Return a column without nulls as a NumPy array, if possible a view of Arrow's memory.

        Raises:
            StateAccessError: There is no such column.
            StateValueError: It has nulls, or values that NumPy has no type for.
        """
        array: np.ndarray[Any, Any] = plain_array(self[column], f"column {column!r}")
        return array

    def to_arrow(self) -> pa.RecordBatch:
        """Return all columns as an Arrow record batch."""
        return self._records

    def to_pandas(self) -> Any:
        """Return all columns as a pandas DataFrame.

        Raises:
            RequirementError: pandas is not installed.
        """
        try:
            return self._records.to_pandas()
        except ImportError as error:
            msg = f"to_pandas needs the package pandas, got {error}; pip install pandas"
            raise RequirementError(msg) from error

    def to_polars(self) -> Any:
        """Return all columns as a Polars DataFrame.

        Raises:
            RequirementError: Polars is not installed.
        """
        try:
            polars: Any = importlib.import_module("polars")
        except ImportError as error:
            msg = f"to_polars needs the package polars, got {error}; pip install polars"
            raise RequirementError(msg) from error
        return polars.from_arrow(pa.Table.from_batches([self._records]))


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
        # NumPy sorts numbers of 16 bits by radix, in a tenth of the time.
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
        # If NumPy assigns to one place several times, the last record's number stays.
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
            StateValueError: A value is null or not a number, or a sum does not fit in 64 bits.
        """
        found = self._numbers(values, "sum")
        # bincount adds in the order of the records, as a loop does; sums of floats depend on it.
        if found.dtype.kind == "f":
            return np.bincount(self._codes, found, len(self))
        return _check_sum(found, self._codes, self.counts)

    def min(self, values: Any) -> Any:
        """Return per key the least value of its records; NaN if one is NaN, as in NumPy."""
        return self._reduce(np.minimum, values, "min")

    def max(self, values: Any) -> Any:
        """Return per key the greatest value of its records; NaN if one is NaN, as in NumPy."""
        return self._reduce(np.maximum, values, "max")

    def running(self, ufunc: np.ufunc, values: Any, start: Any) -> Any:
        """Return per record the value of its key after this record.

        It computes the same as this loop over the records:

            value = start[key]
            for each record of the key, in order:
                value = ufunc(value, values[record])

        The result is bit-equal to the loop's, also for floats, although their order of operations
        matters.  Store `groups.last(...)` of it in the state.

        Args:
            ufunc: A NumPy function of two arguments, such as `np.add` or `np.maximum`.
            values: One number for each record.
            start: One number for each group, or one for all: the value before the first record.

        Returns:
            A NumPy array of the type that NumPy gives `start` and `values` together.

        Raises:
            StateValueError: A value is null or not a number, there are too few or too many of them,
                or a sum, difference or product of ints does not fit in its type.
        """
        found = self._numbers(values, "running")
        begin = numbers_of(start, "running: start")
        if begin.ndim:
            self._check(begin, len(self), "running", "key")
        return _accumulate(ufunc, found, begin, self._order, self._starts, self.counts)

    def _reduce(self, ufunc: np.ufunc, values: Any, what: str) -> Any:
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
                f"{'a single value' if got is None else got}; spread() turns values per key into "
                "values per record"
            )
            raise StateValueError(msg)


_SHORT = 1 << 16

# Running results and sums of ints

_LONG_RUN = 64
"""Each key with more records than this is computed by itself."""


def _accumulate(
    ufunc: np.ufunc, values: Any, start: Any, order: Any, starts: Any, counts: Any
) -> Any:
    """Return the running result per record.

    Args:
        ufunc: A NumPy function of two arguments.
        values: One number per record.
        start: One number per key, or one for all.
        order: The records sorted by key.
        starts: The position in `order` at which the records of each key begin.
        counts: The number of records of each key.

    Raises:
        StateValueError: An int does not fit in its type.
    """
    kind = np.result_type(start.dtype, values.dtype)
    # NumPy adds bools by `or`, but a loop over Python's bools counts them.
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
    sums = np.cumsum(values, dtype=values.dtype)  # wraps around, and differences wrap back
    before = sums[starts] - values[starts] - begin
    sums -= np.repeat(before, counts)
    former = sums - values
    if _find_wrapped_sums(former, values, sums).any():
        _refuse(np.add, values.dtype)
    return sums


def _waves(ufunc: np.ufunc, values: Any, begin: Any, starts: Any, counts: Any) -> Any:
    results = np.empty_like(values)
    wrapped = _ARITHMETIC.get(ufunc) if values.dtype.kind in "iu" else None
    state = begin.copy()
    # With the longest keys first, the keys that a wave still needs are a prefix.
    by_length = np.argsort(-counts, kind="stable")
    longest = np.searchsorted(-counts[by_length], -_LONG_RUN)
    for key in by_length[:longest].tolist():
        run = slice(starts[key], starts[key] + counts[key])
        chain = np.concatenate([begin[key : key + 1], values[run]])
        # Overflows of ints are refused below, and a NaN is a result like any other.
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


def _check_sum(values: Any, codes: Any, counts: Any) -> Any:
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
    # Sums of halves of 32 bits cannot overflow, and Python puts them together exactly.
    high, low = np.zeros_like(sums), np.zeros_like(sums)
    np.add.at(high, codes, values >> kind(32))
    np.add.at(low, codes, values & kind(0xFFFFFFFF))
    exact = [int(h) * (1 << 32) + int(at) for h, at in zip(high, low)]
    info = np.iinfo(kind)
    if any(not info.min <= each <= info.max for each in exact):
        _refuse(np.add, np.dtype(kind))
    return np.array(exact, kind)


def _find_wrapped_sums(former: Any, value: Any, now: Any) -> Any:
    if now.dtype.kind == "u":
        return now < former
    return ((former ^ now) & (value ^ now)) < 0


def _find_wrapped_differences(former: Any, value: Any, now: Any) -> Any:
    if now.dtype.kind == "u":
        return value > former
    return ((former ^ value) & (former ^ now)) < 0


def _find_wrapped_products(former: Any, value: Any, now: Any) -> Any:
    # A float64 has 53 bits, too few to distinguish a product just above the bound from one below.
    exact = former.astype(np.longdouble) * value.astype(np.longdouble)
    info = np.iinfo(now.dtype)
    return (exact < info.min) | (exact > info.max)


_ARITHMETIC: dict[np.ufunc, Callable[[Any, Any, Any], Any]] = {
    np.add: _find_wrapped_sums,
    np.subtract: _find_wrapped_differences,
    np.multiply: _find_wrapped_products,
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


# Keys of records

Freeze = Callable[[Sequence[Any]], list[Any]]


@attrs.frozen
class KeyReader:
    """Reads the keys of records.

    Args:
        columns: Names of the columns that make the key.
        key_type: The type that the keys are declared as.
        freeze: Turns key columns into one frozen key for each row, if keys are encoded; None for
            `frozen_keys`.
    """

    columns: tuple[str, ...]
    key_type: TypeInformation
    freeze: Freeze | None = None

    def read(self, records: pa.RecordBatch) -> tuple[Any, Any, Any]:
        """Read the keys of records.

        Returns:
            The distinct keys as an Arrow column of the key type, in the order in which they first
            come; the number of each record's key; and the number of each key's first record.

        Raises:
            StateValueError: A record has no key.
        """
        parts = [records.column(name) for name in self.columns]
        if len(parts) == 1 and parts[0].null_count:
            msg = (
                f"every record needs a key, got null in column {self.columns[0]!r}; filter such "
                "records out, or coalesce the column"
            )
            raise StateValueError(msg)
        kind = self.key_type.arrow_type
        if parts[0].type == kind and not pa.types.is_binary(kind):
            codes, distinct = _encode(parts[0])
            return distinct, codes, _first_of(codes, len(distinct))
        codes, first = number_values(parts)
        chosen = [part.take(pa.array(first)) for part in parts]
        if pa.types.is_binary(kind):
            return self._encode(chosen, codes, first)
        if isinstance(self.key_type, TupleTypeInfo):
            fields = [each.cast(field.type) for each, field in zip(chosen, kind)]
            return pa.StructArray.from_arrays(fields, fields=list(kind)), codes, first
        return chosen[0].cast(kind), codes, first

    def _encode(self, chosen: Sequence[Any], codes: Any, first: Any) -> tuple[Any, Any, Any]:
        """Encode distinct keys; two may become one, such as -0.0 and 0.0."""
        freeze = self.freeze or partial(frozen_keys, self.key_type)
        keys = self.key_type.to_arrow(freeze(chosen)).dictionary_encode()
        same = _whole(keys.indices)
        distinct = keys.dictionary
        if len(distinct) == len(first):
            return distinct, codes, first
        firsts = np.full(len(distinct), len(codes), np.int64)
        np.minimum.at(firsts, same, first)
        return distinct, same[codes], firsts


def number_values(parts: Sequence[Any]) -> tuple[Any, Any]:
    """Number each record's combination of values, and find the first record of each."""
    codes, count = _codes(parts[0])
    for part in parts[1:]:
        more, several = _codes(part)
        # The numbers begin again after each column: the product of all counts may pass 64 bits.
        codes, count = _codes(pa.array(codes * several + more))
    return codes, _first_of(codes, count)


def _codes(column: Any) -> tuple[Any, int]:
    if pa.types.is_struct(column.type):
        return _number_structs(column)
    codes, distinct = _encode(column)
    return codes, len(distinct)


def _number_structs(column: Any) -> tuple[Any, int]:
    parts = [column.is_null().cast(pa.int8()), *column.flatten()]
    codes, first = number_values(parts)
    return codes, len(first)


def _encode(column: Any) -> tuple[Any, Any]:
    found = column.dictionary_encode(null_encoding="encode")
    return _whole(found.indices), found.dictionary


def _whole(indices: Any) -> Any:
    return indices.to_numpy().astype(np.int64)


def _first_of(codes: Any, count: int) -> Any:
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last assignment stays
    return first


def frozen_keys(
    key_type: TypeInformation, columns: Sequence[Any], time_zone: str = "UTC"
) -> list[Any]:
    """Return the key of each row in the form that tables store.

    Args:
        key_type: The type that the keys are declared as.
        columns: The Arrow columns of the key.
        time_zone: The zone in which keys have instants.
    """
    values = [to_python(column, time_zone) for column in columns]
    keys: Sequence[Any] = values[0] if len(values) == 1 else list(zip(*values))
    return [key_type.freeze_key(key) for key in keys]
