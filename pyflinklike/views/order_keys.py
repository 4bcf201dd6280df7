# SPDX-License-Identifier: Apache-2.0
"""Order keys: which of two upserts of one key is the newer one.

An order key is an int, float, Decimal, str, bytes, bool, date, time, datetime, `Instant`, or a
tuple, list or `Row` of these, such as (partition, offset).  Order keys compare as in Python and Spark:
tuples and arrays compare from left to right, a shorter one comes before a longer one that begins with
it, and a None inside comes first.  Numbers compare by value.  Keys of other kinds do not compare with
one another; such data is an error.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any, Final

from pyflinklike._messages import short_repr
from pyflinklike.errors import OrderKeyError
from pyflinklike.types.time_types import Instant
from pyflinklike.types.type_information import plain

_ORDERED: Final = (bool, int, float, Decimal, str, bytes, dt.date, dt.time, Instant)


def check_order(order: Any) -> Any:
    """Return an order key in its stored form, with lists and rows as tuples.

    Raises:
        OrderKeyError: The key is None or NaN, or a part of it has no order.
    """
    if order is None:
        msg = (
            "an upsert needs an order key, got None; give each record one (decode_debezium takes "
            "order= for records without a known source), or filter such records out"
        )
        raise OrderKeyError(msg)
    return _check(order)


def is_newer(order: Any, than: Any) -> bool:
    """Return whether an order key comes after another one; `check_order` returned both.

    Raises:
        OrderKeyError: The two keys do not compare.
    """
    try:
        return bool(order > than)
    except TypeError:
        pass  # one has a None inside, or the two do not compare
    try:
        # Slower, so only now: most order keys hold no None.
        return bool(_comparable(order) > _comparable(than))
    except TypeError as error:
        msg = (
            f"the order keys of one key must compare with one another, got {short_repr(order)} after {short_repr(than)}; "
            "give all of them one type"
        )
        raise OrderKeyError(msg) from error


def is_nan(order: Any) -> bool:
    """Return whether a part of an order key is a NaN, quiet or signaling.

    Upserts and views refuse a NaN.  It is neither less nor greater than anything, so no later update
    would be newer.  Sorting it last, as PostgreSQL and Spark do, would have the same result.
    """
    if isinstance(order, (tuple, list)):
        return any(map(is_nan, order))
    if isinstance(order, Decimal):
        return order.is_nan()
    return isinstance(order, float) and math.isnan(order)


def _check(order: Any) -> Any:
    if isinstance(order, (tuple, list)):
        return tuple(None if each is None else _check(each) for each in order)
    order = plain(order)
    if not isinstance(order, _ORDERED):
        msg = (
            "an order key is a number, str, bytes, date or time, or a tuple of these, "
            f"got {short_repr(order)} ({type(order).__name__}); give something that compares"
        )
        raise OrderKeyError(msg)
    if is_nan(order):
        msg = f"an order key must have a place in the order, got {short_repr(order)}; give a number"
        raise OrderKeyError(msg)
    return order


def _comparable(order: Any) -> Any:
    """Return the same order key with None below everything."""
    if type(order) is not tuple:
        return order
    return tuple((False,) if each is None else (True, _comparable(each)) for each in order)
