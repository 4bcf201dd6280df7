# SPDX-License-Identifier: Apache-2.0
"""A change of a view, and the changes that a subscriber wants to see.

The subscriber's condition is checked for the row before and for the row after.  A row that begins
to meet it is an insert, and a row that ceases to meet it is a delete: so a subscriber can maintain
the filtered view.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs

from pyflinklike.errors import PyflinklikeError, UserFunctionError, ValueDecodeError
from pyflinklike.shown import shown, shown_error
from pyflinklike.types.row_kind import DELETE, INSERT, UPDATE_AFTER
from pyflinklike.views.core.row_codec import Failure, decode_row, from_key_bytes
from pyflinklike.views.core.storage import RowChange
from pyflinklike.views.core.where import Condition

__all__ = ["Change", "Filter", "failed"]


class Change(NamedTuple):
    """The effect of a batch on the row of a key.

    Args:
        op: "insert", "update_after" or "delete".
        key: The plain value of one key column, a tuple of several.
        before: The row before; None for an insert.
        after: The row after; None for a delete.
        ts: The time at which the batch was applied, in ms since the epoch.
    """

    op: str
    key: Any
    before: Any
    after: Any
    ts: int


@attrs.frozen
class Filter:
    """The changes that a subscriber wants to see.

    Args:
        key: The only key, encoded; None for all keys.
        condition: The condition that rows meet.
    """

    key: bytes | None
    condition: Condition

    def change(self, raw: RowChange, ts: int) -> Change | None:
        """Return the change as the subscriber sees it; None if it is filtered out.

        Raises:
            UserFunctionError: The condition raised an error that is not ours.
        """
        try:
            return self._change(raw, ts)
        except PyflinklikeError:
            raise
        except Exception as error:
            msg = f"the condition of a subscriber must take every row, it raised {shown_error(error)}; mend it"
            raise UserFunctionError(msg) from error

    def _change(self, raw: RowChange, ts: int) -> Change | None:
        if self.key is not None and raw.key != self.key:
            return None
        key = from_key_bytes(raw.key)
        before, after = self._seen(key, raw.before), self._seen(key, raw.after)
        if before is None:
            return None if after is None else Change(INSERT, key, None, after[0], ts)
        if after is None:
            return Change(DELETE, key, before[0], None, ts)
        return Change(UPDATE_AFTER, key, before[0], after[0], ts)

    def _seen(self, key: Any, row: bytes | None) -> tuple[Any] | None:
        """Return the row in a tuple, since None may be a row."""
        if row is None:
            return None
        value = decode_row(row)
        if not self.condition.is_met(key, value):
            return None
        return (failed(key, value) if isinstance(value, Failure) else value,)


def failed(key: Any, failure: Failure) -> ValueDecodeError:
    """Return the error that stands in the place of a row."""
    msg = f"the row of key {shown(key)} must be decodable, got: {shown(failure.error)}; send a good one"
    return ValueDecodeError(msg)
