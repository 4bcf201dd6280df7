# SPDX-License-Identifier: Apache-2.0
"""The order of a row as bytes that compare in PostgreSQL as `is_newer` compares in Python.

The key codec tells 1 and 1.0 apart, but orders compare by value.  So a number is written as its
floor and the decimal digits of the rest, which are exact for every float.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from pyflinklike.errors import StateValueError
from pyflinklike.shown import shown
from pyflinklike.types.base import plain
from pyflinklike.types.key_codec import encode_key

__all__ = ["kinds_of", "order_bytes"]

_WIDE = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_NUMBERS = (int, float, Decimal)


def order_bytes(order: tuple[Any, ...]) -> bytes:
    """Return the bytes of an order.

    Args:
        order: One part for each order column; None is the least, and NaN is not allowed.

    Raises:
        StateValueError: A part has no order.
    """
    return encode_key(tuple(map(_form, order)))


def kinds_of(order: tuple[Any, ...]) -> list[str | None]:
    """Return for each part the kind of values it compares with; None for a part that is None."""
    return [None if part is None else _kind(plain(part)) for part in order]


def _kind(part: Any) -> str:
    if isinstance(part, _NUMBERS):
        return "number"
    if isinstance(part, dt.datetime):
        return "datetime" if part.tzinfo is None else "datetime with zone"
    if isinstance(part, (tuple, list)):
        return f"({', '.join('None' if each is None else _kind(plain(each)) for each in part)})"
    return type(part).__name__


def _form(part: Any) -> Any:
    if part is None:
        return None
    part = plain(part)
    if isinstance(part, (tuple, list)):
        return tuple(map(_form, part))
    return _number(part) if isinstance(part, _NUMBERS) else part


def _number(value: int | float | Decimal) -> tuple[Any, ...]:
    if not isinstance(value, int) and math.isinf(value):
        return (1,) if value > 0 else (-1,)
    if isinstance(value, int):
        return (0, int(value), "")
    exact = Decimal(value)
    if abs(exact.adjusted()) > 600:  # an int of the key codec has at most 255 bytes
        msg = (
            f"a row must be ordered by a number of at most 600 digits, got {shown(value)}; round it"
        )
        raise StateValueError(msg)
    whole = math.floor(exact)
    digits = exact.as_tuple()
    places = max(0, -int(digits.exponent))
    # In ints, since arithmetic of Decimals rounds.
    scaled = int(exact.scaleb(places, _WIDE)) - whole * 10**places
    return (0, whole, f"{scaled:0{places}d}".rstrip("0") if places else "")
