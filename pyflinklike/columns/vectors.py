# SPDX-License-Identifier: Apache-2.0
"""Growing columns, written by row, that hold the keys and states of a key group.

A vector has a value for each row of the key group's key index.  Numbers lie in a NumPy array.
Strings and bytes lie behind one another in a buffer, and each row has a position in it.  Tuples have
one vector for each field.  Entries without a value, such as timers, have an empty vector.  All of
them are read and written many rows at a time.

Keys have 64-bit hashes, computed for all keys of a column at once.  Bytes are read as words of 64
bits, word by word over all keys; every word is mixed in as splitmix64 does.  The hash begins with a
random number for each process.  So hashes are not durable, and an attacker cannot choose keys that
collide.  `KeyIndex` distinguishes two keys with one hash, so a collision costs only time.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LEAST = 64
_GARBAGE = 1024
_MOST_BYTES = 2**31 - 1


def vector_of(kind: pa.DataType) -> Vector:
    """Make an empty vector for an Arrow type."""
    if pa.types.is_struct(kind):
        return StructVector(kind, [vector_of(field.type) for field in kind])
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return BytesVector(kind)
    if pa.types.is_date(kind):
        return FixedVector(kind, np.dtype("datetime64[D]"))
    return FixedVector(kind, np.dtype(kind.to_pandas_dtype()))


class Vector(ABC):
    """Values by row, as an Arrow array or in the *fast form*, which is the fastest to compute with."""

    kind: pa.DataType
    """The type of the Arrow arrays."""

    @abstractmethod
    def reserve(self, count: int) -> None:
        """Make room for at least `count` rows."""

    @abstractmethod
    def put(self, rows: Any, values: Any) -> None:
        """Write rows, from Arrow or the fast form; if a row comes twice, its last value stays."""

    @abstractmethod
    def take(self, rows: Any) -> Any:
        """Return rows in the fast form."""

    @abstractmethod
    def to_arrow(self, rows: Any, present: Any = None) -> Any:
        """Return rows as an Arrow array, with null for rows that are not present."""

    @abstractmethod
    def has_nulls(self, rows: Any) -> bool:
        """Return whether a row has a null that the fast form cannot show."""

    @abstractmethod
    def equal(self, rows: Any, values: Any) -> Any:
        """Return which of the rows equal the values of an Arrow array; two nulls are equal."""

    @abstractmethod
    def keep(self, rows: Any) -> None:
        """Forget all other rows; these become the first ones, in this order."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of memory."""


class FixedVector(Vector):
    """Numbers, bools, dates and timestamps; a mask exists only if there are nulls.

    Args:
        kind: Arrow's type of the values.
        dtype: NumPy's type of the same values.
    """

    def __init__(self, kind: pa.DataType, dtype: Any) -> None:
        self.kind = kind
        self._values = np.zeros(0, dtype)
        self._valid: Any = None

    def reserve(self, count: int) -> None:
        self._values = grown(self._values, count)
        if self._valid is not None:
            self._valid = grown(self._valid, len(self._values), fill=True)

    def put(self, rows: Any, values: Any) -> None:
        nulls = None
        if isinstance(values, pa.Array):
            if values.null_count:
                nulls = values.is_null().to_numpy(zero_copy_only=False)
                values = values.fill_null(_zero(self.kind))
            values = values.to_numpy(zero_copy_only=False)
        self._values[rows] = values
        if nulls is not None and self._valid is None:
            self._valid = np.ones(len(self._values), bool)
        if self._valid is not None:
            self._valid[rows] = True if nulls is None else ~nulls

    def take(self, rows: Any) -> Any:
        return self._values[rows]

    def has_nulls(self, rows: Any) -> bool:
        return self._valid is not None and not bool(self._valid[rows].all())

    def to_arrow(self, rows: Any, present: Any = None) -> Any:
        mask = None if self._valid is None else ~self._valid[rows]
        if present is not None:
            mask = ~present if mask is None else mask | ~present
        return pa.array(self._values[rows], self.kind, mask=mask)

    def equal(self, rows: Any, values: Any) -> Any:
        if values.null_count or self._valid is not None:
            return _equal(self.to_arrow(rows), values)
        return self._values[rows] == values.to_numpy(zero_copy_only=False)

    def keep(self, rows: Any) -> None:
        self._values = self._values[rows]
        self._valid = None if self._valid is None else self._valid[rows]

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes) + (0 if self._valid is None else int(self._valid.nbytes))


def _zero(kind: pa.DataType) -> Any:
    # Arrow cannot cast an int64 to a date of 32 bits.
    return (
        pa.scalar(0, pa.int64())
        .cast(pa.int32() if pa.types.is_date(kind) else pa.int64())
        .cast(kind)
    )


class BytesVector(Vector):
    """Strings or bytes; overwritten ones stay in the buffer until they are half of it.

    Args:
        kind: Arrow's type of the values.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._at = np.zeros(0, np.int64)
        self._empty()

    def _empty(self) -> None:
        self._offsets = np.zeros(1, np.int64)
        self._data = np.zeros(0, np.uint8)
        self._stored = 0

    def reserve(self, count: int) -> None:
        self._at = grown(self._at, count, fill=-1)

    def put(self, rows: Any, values: Any) -> None:
        places = self._stored + np.arange(len(values))
        if values.null_count:
            places[values.is_null().to_numpy(zero_copy_only=False)] = -1
        self._append(large_binary(values))
        self._at[rows] = places
        # The buffer only grows, so it is packed once more than half of it is overwritten.
        if self._stored > 2 * len(self._at) + _GARBAGE:
            self.keep(np.arange(len(self._at)))

    def _append(self, values: Any) -> None:
        offsets, data = _offsets_of(values)
        begin, end = int(offsets[0]), int(offsets[-1])
        used, count = int(self._offsets[self._stored]), len(values)
        self._offsets = grown(self._offsets, self._stored + count + 1)
        self._offsets[self._stored + 1 : self._stored + count + 1] = offsets[1:] + (used - begin)
        self._data = grown(self._data, used + end - begin)
        self._data[used : used + end - begin] = data[begin:end]
        self._stored += count

    def take(self, rows: Any) -> Any:
        return self.to_arrow(rows)

    def to_arrow(self, rows: Any, present: Any = None) -> Any:
        taken = self._take_bytes(rows, present)
        valid, offsets, data = taken.buffers()
        if offsets is None or data is None or taken.offset or data.size > _MOST_BYTES:
            return taken.cast(self.kind)
        # A cast would check the bytes again, although they came from values of the type.
        short = np.frombuffer(offsets, np.int64)[: len(taken) + 1].astype(np.int32)
        buffers = [valid, pa.py_buffer(short), data]
        return pa.Array.from_buffers(self.kind, len(taken), buffers, taken.null_count)

    def _take_bytes(self, rows: Any, present: Any = None) -> Any:
        places = self._at[rows]
        missing = places < 0 if present is None else (places < 0) | ~present
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        stored = pa.Array.from_buffers(pa.large_binary(), self._stored, buffers)
        return stored.take(pa.array(places, mask=missing if missing.any() else None))

    def has_nulls(self, rows: Any) -> bool:  # noqa: ARG002 - Arrow shows them
        return False

    def equal(self, rows: Any, values: Any) -> Any:
        taken, values = self._take_bytes(rows), large_binary(values)
        if taken.equals(values):
            return np.ones(len(taken), bool)
        return _equal(taken, values)

    def keep(self, rows: Any) -> None:
        values = self._take_bytes(rows)
        self._at = np.full(len(rows), -1, np.int64)
        self._empty()
        if len(rows):
            self._append(values)
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            self._at[valid] = np.flatnonzero(valid)

    @property
    def nbytes(self) -> int:
        return int(self._at.nbytes + self._offsets.nbytes + self._data.nbytes)


class StructVector(Vector):
    """Tuples, with one vector for each field; any value may be null.

    Args:
        kind: Arrow's type of the tuples.
        fields: A vector for each field.
    """

    def __init__(self, kind: pa.DataType, fields: Sequence[Vector]) -> None:
        self.kind = kind
        self.fields = tuple(fields)

    def reserve(self, count: int) -> None:
        for field in self.fields:
            field.reserve(count)

    def put(self, rows: Any, values: Any) -> None:
        parts = values.flatten() if isinstance(values, pa.Array) else values
        for field, part in zip(self.fields, parts):
            field.put(rows, part)

    def take(self, rows: Any) -> Any:
        return tuple(field.take(rows) for field in self.fields)

    def to_arrow(self, rows: Any, present: Any = None) -> Any:
        parts = [field.to_arrow(rows, present) for field in self.fields]
        mask = None if present is None or present.all() else pa.array(~present)
        return pa.StructArray.from_arrays(parts, fields=list(self.kind), mask=mask)

    def has_nulls(self, rows: Any) -> bool:
        return any(field.has_nulls(rows) for field in self.fields)

    def equal(self, rows: Any, values: Any) -> Any:
        same = np.ones(len(rows), bool)
        for field, part in zip(self.fields, values.flatten()):
            same &= field.equal(rows, part)
        return same

    def keep(self, rows: Any) -> None:
        for field in self.fields:
            field.keep(rows)

    @property
    def nbytes(self) -> int:
        return sum(field.nbytes for field in self.fields)


class NoVector(StructVector):
    """A column for entries without a value: tuples without fields, which Arrow writes as nulls."""

    def __init__(self) -> None:
        super().__init__(pa.null(), ())

    def put(self, rows: Any, values: Any) -> None:
        """Do nothing, because there are no values."""

    def to_arrow(self, rows: Any, present: Any = None) -> Any:  # noqa: ARG002
        """Return a column of nulls."""
        return pa.nulls(len(rows))


def _equal(one: Any, other: Any) -> Any:
    same = pc.equal(one, other)
    if same.null_count:
        same = pc.or_(pc.fill_null(same, False), pc.and_(one.is_null(), other.is_null()))
    return same.to_numpy(zero_copy_only=False)


def grown(array: Any, count: int, fill: Any = 0) -> Any:
    """Return an array with room for at least `count` rows: the same one, or one twice as long."""
    if count <= len(array):
        return array
    larger = np.full(max(count, 2 * len(array), _LEAST), fill, array.dtype)
    larger[: len(array)] = array
    return larger


# Hashes

_U64 = np.uint64
_SEED = int.from_bytes(os.urandom(8), "little")
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_NULL = 0x51_7C_C1_B7_27_22_0A_95
_WORD = 8
_LONG_KEY = 512
"""Python hashes keys of more bytes one by one, or all other keys would wait for their words."""


def hashes_of(keys: Any) -> Any:
    """Return the hash of each key.

    Args:
        keys: An Arrow column of bools, ints, dates, timestamps, strings or bytes, or of structs of
            these.

    Returns:
        A NumPy array of uint64.
    """
    if pa.types.is_struct(keys.type):
        # Mixed in field by field, so that (a, b) and (b, a) have different hashes.
        hashes = np.full(len(keys), _SEED, _U64)
        for part in keys.flatten():
            hashes = _mix(hashes + _part_hashes(part))
        return hashes
    return _part_hashes(keys)


def has_hashes(kind: pa.DataType) -> bool:
    """Return whether keys of a type of Arrow have hashes."""
    if pa.types.is_struct(kind):
        return all(has_hashes(field.type) for field in kind)
    is_whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    is_time = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    return bool(is_whole or is_time or is_text)


def _part_hashes(column: Any) -> Any:
    kind = column.type
    if pa.types.is_primitive(kind):
        whole = column.cast(pa.int32()) if pa.types.is_date(kind) else column
        whole = whole.cast(pa.int64())
        filled = whole.fill_null(0) if whole.null_count else whole
        hashes = _mix(filled.to_numpy().view(_U64) ^ _U64(_SEED))
    else:
        hashes = _bytes_hashes(column)
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _U64(_NULL), hashes)
    return hashes


def _mix(words: Any) -> Any:
    words = words + _U64(_STEP)
    words ^= words >> _U64(30)
    words *= _U64(_FIRST)
    words ^= words >> _U64(27)
    words *= _U64(_SECOND)
    words ^= words >> _U64(31)
    return words


def _bytes_hashes(column: Any) -> Any:
    offsets, data = _offsets_of(large_binary(column))
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = _mix(lengths.astype(_U64) ^ _U64(_SEED))
    if not len(hashes) or not len(data):
        return hashes
    # The last word is read past the end of the last value, so there must be bytes behind it.
    padded = np.concatenate([data[: offsets[-1]], np.zeros(_WORD, np.uint8)])
    # A view of the word that begins at each byte, without a copy.
    words: Any = np.ndarray((len(padded) - _WORD + 1,), _U64, padded, 0, (1,))
    short = np.minimum(lengths, _LONG_KEY)
    for at in range(0, int(short.max()), _WORD):
        left = short - at
        if left.min() >= _WORD:
            hashes = _mix(hashes ^ words[starts + at])
            continue
        some = np.flatnonzero(left > 0)
        read = words[starts[some] + at]
        # The last word of a value may have bytes of the next value, which are shifted out.
        unused = np.maximum(_WORD - left[some], 0).astype(_U64) * _U64(8)
        hashes[some] = _mix(hashes[some] ^ (read << unused))
    # The first words of a long key are in its hash already; Python's hash adds the whole key.
    for row in np.flatnonzero(lengths > _LONG_KEY).tolist():
        rest = padded[starts[row] : starts[row] + lengths[row]].tobytes()
        hashes[row] = _U64(hash(rest) & 0xFFFFFFFFFFFFFFFF) ^ hashes[row]
    return hashes


def large_binary(column: Any) -> Any:
    """Return a column of strings or bytes as bytes with offsets of 64 bits."""
    return column if pa.types.is_large_binary(column.type) else column.cast(pa.large_binary())


def _offsets_of(column: Any) -> tuple[Any, Any]:
    """Return the offsets of a `large_binary` column's values, and the bytes that hold them."""
    # A slice shares the buffers of the whole column, so its own offset says where it begins.
    _, offsets, data = column.buffers()
    begin, end = column.offset, column.offset + len(column) + 1
    if offsets is None or not len(column):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    found = np.frombuffer(offsets, np.int64)[begin:end]
    return found, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
