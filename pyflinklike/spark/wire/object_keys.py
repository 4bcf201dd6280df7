# SPDX-License-Identifier: Apache-2.0
"""The key group of a Python key.

Spark never sees the keys of a job, so the hash is our own: CRC-32 of the bytes that a table on
disk writes for the key.  The hash must never change, because a checkpoint finds its keys by it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Hashable
from typing import Any

from pyflinklike.backends.rocksdb.keys import encode

__all__ = ["key_group_of_object", "with_the_one_nan"]


def key_group_of_object(key: Hashable, max_parallelism: int) -> int:
    """Return the key group of a key.

    Args:
        key: The key as its type freezes it.
        max_parallelism: The number of key groups.

    Raises:
        StateValueError: No type freezes keys to such a value.
    """
    return zlib.crc32(encode(key)) % max_parallelism


def with_the_one_nan(key: Any) -> Any:
    """Return a frozen key out of a pickle with `math.nan` in place of every NaN.

    A frozen NaN is the object `math.nan`, which a dict finds because it is the same object.  A
    pickle gives another NaN, under which no state would be found.

    Args:
        key: The frozen key out of a pickle.
    """
    if key.__class__ is float:
        return key if key == key else math.nan
    if isinstance(key, tuple):
        return tuple(map(with_the_one_nan, key))
    return key
