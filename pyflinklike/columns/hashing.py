# SPDX-License-Identifier: Apache-2.0
"""A 64-bit hash of each key of a column, computed for all keys at once.

Bytes are read as words of 64 bits, word by word over all keys; every word is mixed in as
splitmix64 does.  The hash begins with a number that is drawn once per process.  So it is not
durable, and nobody can choose keys that collide.  `KeyIndex` tells two keys of one hash
apart: a collision costs time and nothing else.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["hashes_of", "large_binary", "offsets_of"]

_U64 = np.uint64
_SEED = int.from_bytes(os.urandom(8), "little")
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_NULL = 0x51_7C_C1_B7_27_22_0A_95
_WORD = 8
_LONG_KEY = 512
"""Keys of more bytes are hashed by Python one by one: else all others wait for their words."""


def hashes_of(keys: Any) -> Any:
    """Return the hash of each key.

    Args:
        keys: An Arrow column of bools, ints, dates, timestamps, strings or bytes, or of structs of
            these.

    Returns:
        A NumPy array of uint64.
    """
    if pa.types.is_struct(keys.type):
        hashes = np.full(len(keys), _SEED, _U64)
        for part in keys.flatten():
            hashes = _mixed(hashes + _part_hashes(part))
        return hashes
    return _part_hashes(keys)


def _part_hashes(column: Any) -> Any:
    kind = column.type
    if pa.types.is_primitive(kind):
        whole = column.cast(pa.int32()) if pa.types.is_date(kind) else column
        whole = whole.cast(pa.int64())
        filled = whole.fill_null(0) if whole.null_count else whole
        hashes = _mixed(filled.to_numpy().view(_U64) ^ _U64(_SEED))
    else:
        hashes = _bytes_hashes(column)
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _U64(_NULL), hashes)
    return hashes


def _mixed(words: Any) -> Any:
    words = words + _U64(_STEP)
    words ^= words >> _U64(30)
    words *= _U64(_FIRST)
    words ^= words >> _U64(27)
    words *= _U64(_SECOND)
    words ^= words >> _U64(31)
    return words


def large_binary(column: Any) -> Any:
    """Return a column of strings or bytes as bytes with offsets of 64 bits."""
    return column if pa.types.is_large_binary(column.type) else column.cast(pa.large_binary())


def offsets_of(column: Any) -> tuple[Any, Any]:
    """Return the offsets of a `large_binary` column's values, and the bytes that hold them."""
    # The buffers of a slice are those of the whole column: its own offset says where it begins.
    _, offsets, data = column.buffers()
    begin, end = column.offset, column.offset + len(column) + 1
    if offsets is None or not len(column):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    found = np.frombuffer(offsets, np.int64)[begin:end]
    return found, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def _bytes_hashes(column: Any) -> Any:
    offsets, data = offsets_of(large_binary(column))
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = _mixed(lengths.astype(_U64) ^ _U64(_SEED))
    if not len(hashes) or not len(data):
        return hashes
    # A word is read past the end of the last value, so there must be bytes behind it.
    padded = np.concatenate([data[: offsets[-1]], np.zeros(_WORD, np.uint8)])
    # The word that begins at each byte.
    words: Any = np.ndarray((len(padded) - _WORD + 1,), _U64, padded, 0, (1,))
    short = np.minimum(lengths, _LONG_KEY)
    for at in range(0, int(short.max()), _WORD):
        left = short - at
        if left.min() >= _WORD:
            hashes = _mixed(hashes ^ words[starts + at])
            continue
        some = np.flatnonzero(left > 0)
        read = words[starts[some] + at]
        # Of a value's last word, the bytes that belong to the next value are shifted out.
        unused = np.maximum(_WORD - left[some], 0).astype(_U64) * _U64(8)
        hashes[some] = _mixed(hashes[some] ^ (read << unused))
    for row in np.flatnonzero(lengths > _LONG_KEY).tolist():
        rest = padded[starts[row] : starts[row] + lengths[row]].tobytes()
        hashes[row] = _U64(hash(rest) & 0xFFFFFFFFFFFFFFFF) ^ hashes[row]
    return hashes
