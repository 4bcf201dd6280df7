# SPDX-License-Identifier: Apache-2.0
"""Values of Python as values of JSON."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyflinklike.types.row import Row
from pyflinklike.types.times import Instant

__all__ = ["json_value"]

_EPOCH = dt.datetime(1970, 1, 1)
_EXACT = 2**53
"""The largest int that keeps its digits where JSON's numbers are floats, as in a browser."""


def _iso(instant: Instant) -> str:
    """Return an instant in ISO 8601 with all digits; as `str` if its year has too many digits."""
    try:
        seconds = _EPOCH + dt.timedelta(seconds=instant.seconds)
    except OverflowError:
        return str(instant)
    digits = f".{instant.nanos:09}".rstrip("0").rstrip(".")
    return f"{seconds.isoformat()}{digits}Z"


def json_value(value: Any) -> Any:
    """Return a value in a form that `json.dumps` writes.

    Rows and named tuples become objects.  A map becomes an object if its keys are texts, else a list
    of pairs.  Bytes become hex after 0x, times ISO 8601, and numbers that JSON lacks a text.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"0x{value.hex()}"
    if isinstance(value, Row):
        names = getattr(value, "_fields", None)
        return json_value(value.as_dict() if names else list(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return json_value(value._asdict())
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: json_value(each) for key, each in value.items()}
        return [[json_value(key), json_value(each)] for key, each in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(each) for each in value]
    if isinstance(value, (dt.date, dt.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Instant):
        return _iso(value)
    if isinstance(value, Decimal):
        return str(value)
    return repr(value)
