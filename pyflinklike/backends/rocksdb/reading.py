# SPDX-License-Identifier: Apache-2.0
"""Iterations over a RocksDB that end only where there is nothing more.

rocksdict's `items()` and `keys()` end without an error where a block of a file is
damaged, as they do where there is nothing more; a reader that believes such an end
loses all that follows.  Here, after an iteration has ended, RocksDB's own iterator is
asked once more from the last row on: its `status()` tells.  That is cheaper than asking
after every row.

Both see what there was when the first row was asked for, whatever is written meanwhile.
What was given before the damage is right: RocksDB checks each block as it reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

__all__ = ["EndedEarlyError", "is_corruption", "keys_backwards", "rows", "rows_backwards"]

_MOST_AT_ONCE = 1024


class EndedEarlyError(Exception):
    """An iteration ended although there is more."""


def is_corruption(error: Exception) -> bool:
    """Whether an error of rocksdict's says that what is on the disk is not what was written."""
    return isinstance(error, EndedEarlyError) or "corruption" in str(error).lower()


def rows(rocksdict: Any, db: Any, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """What lies from `begin` to before `end`, as it is now.

    Raises:
        Exception: As rocksdict raises it, where not all of it can be read.
    """
    bounds = rocksdict.ReadOptions()
    bounds.set_iterate_upper_bound(end)
    last = None
    more = db.iter(bounds)
    for chunk in _chunks(db.items(from_key=begin, read_opt=bounds)):
        yield from chunk
        last = chunk[-1][0]
    more.seek(begin if last is None else last)
    if more.valid() and more.key() == last:
        more.next()
    _must_be_over(more)


def rows_backwards(db: Any, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """What `rows` gives, from its end to its beginning."""
    last, more = end, db.iter()
    for chunk in _chunks(db.items(backwards=True, from_key=end)):
        for key, value in chunk:
            # rocksdict 0.3.29 does not heed a lower bound in its options.
            if key < begin:
                return
            if key < end:
                yield key, value
        last = chunk[-1][0]
    _must_be_over(_before(more, last))


def keys_backwards(db: Any, begin: bytes, end: bytes) -> Iterator[bytes]:
    """The keys of what `rows_backwards` gives."""
    last, more = end, db.iter()
    for chunk in _chunks(db.keys(backwards=True, from_key=end)):
        for key in chunk:
            if key < begin:
                return
            if key < end:
                yield key
        last = chunk[-1]
    _must_be_over(_before(more, last))


def _chunks(read: Iterator[Any]) -> Iterator[list[Any]]:
    """Lists that grow, so that few rows too many are read for a caller who wants one."""
    size = 1
    while chunk := list(islice(read, size)):
        yield chunk
        size = min(2 * size, _MOST_AT_ONCE)


def _before(more: Any, last: bytes) -> Any:
    more.seek_for_prev(last)
    if more.valid() and more.key() == last:
        more.prev()
    return more


def _must_be_over(more: Any) -> None:
    if more.valid():
        msg = "corruption: an iteration ended although there are more rows"
        raise EndedEarlyError(msg)
    more.status()
