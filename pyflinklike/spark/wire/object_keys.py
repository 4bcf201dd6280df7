# SPDX-License-Identifier: Apache-2.0
"""The key group of a Python key.

Spark never sees the keys of a job, so their hash is ours: CRC-32 of the key's bytes, which are those
that tables on disk have.  It is frozen: a checkpoint finds its keys by it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Hashable
from typing import Any

from pyflinklike.backends.rocksdb.keys import encode

__all__ = ["key_group_of_object", "with_the_one_nan"]


def key_group_of_object(key: Hashable, max_parallelism: int) -> int:
    """The key group of a key.

    Args:
        key: In the form that its type freezes it to.
        max_parallelism: How many key groups there are.

    Raises:
        StateValueError: No type freezes keys to this.
    """
    return zlib.crc32(encode(key)) % max_parallelism


def with_the_one_nan(key: Any) -> Any:
    """A key that has travelled, as its type froze it.

    NaN is a key because each is `math.nan`, which is equal to itself; out of a pickle comes another one.

    Args:
        key: In its frozen form, out of a pickle.
    """
    if key.__class__ is float:
        return key if key == key else math.nan
    if isinstance(key, tuple):
        return tuple(map(with_the_one_nan, key))
    return key
