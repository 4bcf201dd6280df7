# SPDX-License-Identifier: Apache-2.0
"""The effect of incoming rows, one after the other, on the view's row of their key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pyflinklike.errors import OrderKeyError, StateValueError
from pyflinklike.shown import shown
from pyflinklike.types.order_keys import is_newer
from pyflinklike.types.row_kind import DELETE, UPDATE_BEFORE

__all__ = ["Arrival", "final_row"]


class Arrival(NamedTuple):
    """The effect of one incoming row.

    Args:
        key: The encoded key.
        op: One of the four of `row_kind`; None for a plain row.
        row: The encoded row; for a retraction the row it retracts, or None if the feed does not
            say.
        order: The order of a plain row in an ordered view: a tuple to compare.
        event_time: The row's own value, not converted; None if the row has none.
    """

    key: bytes
    op: str | None
    row: bytes | None
    order: tuple[Any, ...] | None
    event_time: Any


def final_row(
    stored: bytes | None,
    arrivals: Iterable[Arrival],
    order_of: Callable[[bytes], tuple[Any, ...] | None] | None,
) -> bytes | None:
    """Return the row of a key after the arrivals of a batch; None for no row.

    A plain row of an ordered view is stale, and dropped, unless its order is greater than the order
    of the row it would replace (in Materialize, too, an equal order is a duplicate).  An
    `update_before` removes only the row that it names, so the result is the same if it comes after
    its `update_after`.

    Args:
        stored: The row before the batch.
        arrivals: The arrivals of this key, in their order.
        order_of: Returns the order of a stored row; None if the view is not ordered.
    """
    row = stored
    for arrival in arrivals:
        if arrival.op is None:
            if order_of is None or row is None or _is_newer(arrival.order, order_of(row)):
                row = arrival.row
        elif arrival.op == DELETE:
            row = None
        elif arrival.op == UPDATE_BEFORE:
            if arrival.row is None or arrival.row == row:
                row = None
        else:
            row = arrival.row
    return row


def _is_newer(order: tuple[Any, ...] | None, stored: tuple[Any, ...] | None) -> bool:
    """Return whether one order is greater than another; None, and None inside, is the least."""
    if stored is None or order is None:
        return stored is None
    try:
        return is_newer(order, stored)
    except OrderKeyError as error:
        msg = f"rows must be ordered by values of one type, got {shown(order)} after {shown(stored)}; cast the column"
        raise StateValueError(msg) from error
