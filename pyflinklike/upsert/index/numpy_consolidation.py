# SPDX-License-Identifier: Apache-2.0
"""A chunk of differences, one sketch per key: a chunk at a time, with Arrow and NumPy.

Arrow numbers the keys in the order in which they first come.  Sorted by that number, the sums of
diffs, lengths and checksums of each key are sums of runs; 64-bit integers wrap around by
themselves.  Only rows with an odd diff are in the xor.  Most keys of a snapshot have one such row,
whose bytes are the xor; the bytes of the other keys' rows are xored into one buffer in which each
key has as many bytes as its longest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.upsert.index.difference_sketch import Consolidating, Difference, checksum

__all__ = ["consolidate_vectorized"]


def consolidate_vectorized(chunk: Sequence[Difference]) -> dict[bytes, Consolidating]:
    """Return the sum of each key's differences, in the order in which the keys first come."""
    if not chunk:
        return {}
    keys, values, diff_list = zip(*chunk)
    numbered = pa.array(keys, pa.large_binary()).dictionary_encode()
    distinct = numbered.dictionary.to_pylist()
    codes = numbered.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    diffs = np.array(diff_list, np.int64)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    checks = np.fromiter(map(checksum, values), np.uint64, len(values))

    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(distinct)))
    diff_sums = np.add.reduceat(diffs[order], starts)
    len_sums = np.add.reduceat((lengths * diffs)[order], starts)
    check_sums = np.add.reduceat((checks * diffs.view(np.uint64))[order], starts).view(np.int64)

    odd = order[(diffs[order] & 1) == 1]
    xors = _xors(codes[odd], [values[row] for row in odd.tolist()], lengths[odd], len(distinct))
    return {
        key: Consolidating(*sums)
        for key, *sums in zip(
            distinct, xors, len_sums.tolist(), check_sums.tolist(), diff_sums.tolist()
        )
    }


def _xors(codes: Any, values: list[bytes], lengths: Any, count: int) -> list[bytes]:
    """Return the xor of the values of each key.

    Args:
        codes: The number of each row's key, ascending.
        values: The encoded value of each row.
        lengths: The length of each value in bytes.
        count: How many keys there are.
    """
    xors = [b""] * count
    rows_of = np.bincount(codes, minlength=count)
    is_alone = rows_of[codes] == 1
    for row in np.flatnonzero(is_alone).tolist():
        xors[codes[row]] = values[row]
    shared = np.flatnonzero(~is_alone)
    if not len(shared):
        return xors

    owners, first = np.unique(codes[shared], return_index=True)
    widths = np.maximum.reduceat(lengths[shared], first)
    begins = np.cumsum(widths) - widths
    buffer = np.zeros(int(widths.sum()), np.uint8)
    # Byte i of a row goes to byte i of its key's part of the buffer.
    sizes = lengths[shared]
    offsets = np.cumsum(sizes) - sizes
    within = np.arange(int(sizes.sum())) - np.repeat(offsets, sizes)
    begin_of_row = begins[np.searchsorted(owners, codes[shared])]
    bytes_of_rows = np.frombuffer(b"".join(values[row] for row in shared.tolist()), np.uint8)
    np.bitwise_xor.at(buffer, np.repeat(begin_of_row, sizes) + within, bytes_of_rows)
    data = buffer.tobytes()
    for owner, begin, width in zip(owners.tolist(), begins.tolist(), widths.tolist()):
        xors[owner] = data[begin : begin + width]
    return xors
