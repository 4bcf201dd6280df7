# SPDX-License-Identifier: Apache-2.0
"""The change of one row that one Debezium record describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["CREATE", "MESSAGE", "READ", "REMOVE", "TRUNCATE", "UPDATE", "CdcEvent"]

# The codes of Debezium's `Envelope.Operation`
CREATE: Final = "c"
UPDATE: Final = "u"
REMOVE: Final = "d"
READ: Final = "r"
TRUNCATE: Final = "t"
MESSAGE: Final = "m"


class CdcEvent(NamedTuple):
    """A change of one row, decoded from a Debezium record.

    It is a tuple, because there is one for every record.  An upsert takes `after` as the value
    (None deletes) and `order_key` as its order.
    """

    op: str | None
    """`c` create, `u` update, `d` delete (also for a tombstone), `r` read by a snapshot,
    `t` truncate; None where the record could not be read."""
    key: Any
    """The value of a key that has one column, a tuple for several; None for a truncation."""
    before: Mapping[str, Any] | None
    """The row before, as far as the database logs it."""
    after: Mapping[str, Any] | None
    """The row after; None for a delete, a tombstone and a truncation."""
    order_key: Any = None
    """Sorts the events of a key: a tuple of ints by default, or the result of `order`."""
    event_time: int | None = None
    """The time at which the database committed the change, in ms since the epoch."""
    snapshot: bool = False
    """True where a snapshot read the row; False where it comes from the database's log."""
    source: Mapping[str, Any] | None = None
    """The `source` block of the envelope."""
    error: str | None = None
    """The reason why the record could not be read, with `on_error="inline"`; else None."""
    unavailable: tuple[str, ...] = ()
    """Columns that the change did not touch and whose value the record does not have.
    `after` does not have them."""
