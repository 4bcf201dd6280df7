# SPDX-License-Identifier: Apache-2.0
"""Types of every kind, and strategies for columns of their values."""

from __future__ import annotations

import math
from typing import Any

from pyflinklike.types import Types

LONG, STRING, DOUBLE, PICKLED = (
    Types.LONG(),
    Types.STRING(),
    Types.DOUBLE(),
    Types.PICKLED_BYTE_ARRAY(),
)
INTEGRAL = [(Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (LONG, 64)]


def same(a: Any, b: Any) -> bool:
    """Equal, NaN included, wherever it is."""
    return bool(comparable(a) == comparable(b))


def comparable(value: Any) -> Any:
    """A value that is equal to that of every equal value of the same class; a NaN is one."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else repr(value))
    if isinstance(value, dict):
        return [(comparable(k), comparable(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value), [comparable(part) for part in value])
    return (type(value), value)
