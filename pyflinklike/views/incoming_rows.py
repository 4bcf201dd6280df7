# SPDX-License-Identifier: Apache-2.0
"""The rows of a batch, and what they do to a view: their keys, and the new row of each key.

Rows are mappings, `Row`s (ours, Spark's) or named tuples.  A row has one of four forms, by its fields:

* A change, as `UpsertFunction` yields it: `op`, `diff` and `value`, often `key` and `error`.  The
  row of the view is the value.
* A flat change: `op` and `diff` beside the row's own fields, without `value`.  The row of the view
  is all fields but `op`, `diff` and `error`.
* A tuple without names that is such a change: `(key, op, value, diff)`, or with `error` at the end.
* Any other row is plain: it replaces the row of its key.

The key is taken from the declared columns if the row has them; else, for a change, from its field
`key`; else from the fields of the value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import attrs

from pyflinklike._checks import is_int64
from pyflinklike._messages import short_repr
from pyflinklike.errors import NullKeyError, OrderKeyError, StateValueError
from pyflinklike.types.row import (
    DELETE,
    INSERT,
    OPS,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    names_of,
    row_class,
)
from pyflinklike.views.order_keys import is_nan, is_newer
from pyflinklike.views.row_codec import Failure, decode_row, encode_row, to_key_bytes

_DIFFS = {INSERT: 1, UPDATE_AFTER: 1, UPDATE_BEFORE: -1, DELETE: -1}
_CHANGE = ("key", "op", "value", "diff", "error")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_NULL_KEY = b"\x00"  # as the key codec writes None


def column_of(row: Any, name: str) -> Any:
    """Return a field of a row by its name.

    Raises:
        StateValueError: The row has no such field.
    """
    names = names_of(row)
    if names is None or name not in names:
        got = f"a row with the fields {list(names)}" if names else short_repr(row)
        msg = f"a column must be a field of the row, got {name!r} of {got}; name another column"
        raise StateValueError(msg)
    return row[name] if isinstance(row, Mapping) else tuple.__getitem__(row, names.index(name))


class RowLayout(NamedTuple):
    """The positions of the parts of rows with certain names."""

    names: tuple[str, ...]
    key: tuple[int, ...] | None
    whole_key: int | None
    is_change: bool
    value: int | None
    op: int | None
    diff: int | None
    error: int | None
    content: tuple[int, ...]


@lru_cache(maxsize=1024)
def layout_of(names: tuple[str, ...], key_columns: tuple[str, ...]) -> RowLayout:
    """Find the parts of rows that have these field names.

    Raises:
        StateValueError: Two fields have one name.
    """
    at = {name: position for position, name in enumerate(names)}
    if len(at) < len(names):
        msg = f"the columns of a row must differ, got {list(names)}; rename some"
        raise StateValueError(msg)
    signs = [name for name in ("op", "diff") if name in at]
    is_change = len(signs) == 2 or (bool(signs) and {"key", "value"} <= at.keys())
    is_flat = is_change and "value" not in at
    marks = {"op", "diff", "error"} if is_flat else set()
    has_key = all(name in at for name in key_columns)
    return RowLayout(
        names,
        tuple(at[name] for name in key_columns) if has_key else None,
        at.get("key") if is_change else None,
        is_change,
        at.get("value") if is_change else None,
        at.get("op"),
        at.get("diff"),
        at.get("error"),
        tuple(position for name, position in at.items() if name not in marks),
    )


@attrs.frozen
class BatchReader:
    """Reads the rows of batches for one view.

    Args:
        view: The name of the view, for messages.
        key_columns: The columns that make the key.
        order_columns: The columns by which plain rows are ordered; empty for the order of arrival.
        event_time: The column of the event time; None means the order column, if there is one and
            it holds datetimes.
    """

    view: str
    key_columns: tuple[str, ...]
    order_columns: tuple[str, ...]
    event_time: str | None

    def read(self, rows: Iterable[Any]) -> list[Arrival]:
        """Read all rows of a batch, in their order.

        Raises:
            NullKeyError: A row has no key.
            StateValueError: A row has a form that no view takes; the message says which row and why.
        """
        return [self._arrival(row) for row in rows]

    def order_of(self, row: Any) -> tuple[Any, ...] | None:
        """Return the order of a row in the view; None if it lacks a column, or has a NaN there.

        A change may have put such a row into the view.
        """
        order = self._order_of(row)
        return None if order is None or is_nan(order) else order

    def order_of_stored(self, row: bytes) -> tuple[Any, ...] | None:
        """Return the order of an encoded row, as `order_of` does."""
        return self.order_of(decode_row(row))

    def _order_of(self, row: Any) -> tuple[Any, ...] | None:
        names = names_of(row) or ()
        if not all(name in names for name in self.order_columns):
            return None
        return tuple(column_of(row, name) for name in self.order_columns)

    def _arrival(self, row: Any) -> Arrival:
        names = names_of(row) or self._names_of_change(row)
        if not names:
            msg = (
                f"view {self.view!r}: a row must be a mapping, a Row or a named tuple, got {short_repr(row)}; "
                "name its fields"
            )
            raise StateValueError(msg)
        layout = layout_of(names, self.key_columns)
        values = list(row.values()) if isinstance(row, Mapping) else row
        return (
            self._change(row, values, layout)
            if layout.is_change
            else self._plain(row, values, layout)
        )

    @staticmethod
    def _names_of_change(row: Any) -> tuple[str, ...] | None:
        """Return the names for a tuple without names, if it is a change."""
        if isinstance(row, tuple) and len(row) in (4, 5) and row[1] in OPS:
            return _CHANGE[: len(row)]
        return None

    def _plain(self, row: Any, values: Sequence[Any], layout: RowLayout) -> Arrival:
        if layout.key is None:
            wanted = f"the key columns {list(self.key_columns)}"
            raise self._refusal(f"a row must have {wanted}", row, list(layout.names))
        key = self._key([values[at] for at in layout.key], row)
        order = None
        if self.order_columns:
            order = self._order_of(row)
            wanted = f"the columns {list(self.order_columns)} it is ordered by"
            if order is None:
                raise self._refusal(f"a row must have {wanted}", row, list(layout.names))
            if is_nan(order):
                raise self._refusal(f"a row must not have NaN in {wanted}", row, order)
        return Arrival(key, None, encode_row(row), order, self._event_time(row))

    def _change(self, row: Any, values: Sequence[Any], layout: RowLayout) -> Arrival:
        op = self._op(row, values, layout)
        error = None if layout.error is None else values[layout.error]
        content: Any
        if layout.value is not None:
            content = values[layout.value]
        elif isinstance(row, Mapping):
            content = {layout.names[at]: values[at] for at in layout.content}
        else:
            cls = row_class(tuple(layout.names[at] for at in layout.content))
            content = cls._make(values[at] for at in layout.content)
        key = self._key_of_change(row, values, layout, content, is_error=error is not None)
        if error is not None:
            return Arrival(key, op, encode_row(Failure(error)), None, None)
        is_left_out = _DIFFS[op] < 0 and content is None
        return Arrival(
            key, op, None if is_left_out else encode_row(content), None, self._event_time(content)
        )

    def _op(self, row: Any, values: Sequence[Any], layout: RowLayout) -> str:
        op = None if layout.op is None else values[layout.op]
        diff = None if layout.diff is None else values[layout.diff]
        if op is None and diff in (1, -1):
            return INSERT if diff == 1 else DELETE
        if op not in OPS:
            raise self._refusal(f"the op of a change must be one of {OPS}", row, op)
        if diff is not None and diff != _DIFFS[op]:
            raise self._refusal(f"the diff of {op!r} must be {_DIFFS[op]:+}", row, diff)
        return str(op)

    def _key_of_change(
        self, row: Any, values: Sequence[Any], layout: RowLayout, content: Any, *, is_error: bool
    ) -> bytes:
        if layout.key is not None:
            parts = [values[at] for at in layout.key]
        elif layout.whole_key is not None:
            whole = values[layout.whole_key]
            is_tuple = len(self.key_columns) > 1 and isinstance(whole, tuple)
            parts = list(whole) if is_tuple else [whole]
            if whole is not None and len(parts) != len(self.key_columns):
                raise self._refusal(f"the key must be of {list(self.key_columns)}", row, whole)
        else:
            names = names_of(content) or ()
            if not set(self.key_columns) <= set(names):
                wanted = f"the key columns {list(self.key_columns)}, or `key`"
                raise self._refusal(f"a change must have {wanted}", row, list(layout.names))
            parts = [column_of(content, name) for name in self.key_columns]
        if is_error and all(part is None for part in parts):
            return _NULL_KEY  # one error for all records without a key, as in Materialize
        return self._key(parts, row)

    def _key(self, parts: list[Any], row: Any) -> bytes:
        key = parts[0] if len(parts) == 1 else tuple(parts)
        if key is None or all(part is None for part in parts):
            msg = f"view {self.view!r}: a row must have a key, got None in {short_repr(row)}; drop such rows before"
            raise NullKeyError(msg)
        return to_key_bytes(key)

    def _event_time(self, row: Any) -> Any:
        names = names_of(row) or ()
        if self.event_time is not None:
            return column_of(row, self.event_time) if self.event_time in names else None
        if len(self.order_columns) == 1 and self.order_columns[0] in names:
            value = column_of(row, self.order_columns[0])
            return value if isinstance(value, dt.datetime) else None
        return None

    def _refusal(self, rule: str, row: Any, got: Any) -> StateValueError:
        what = f"view {self.view!r}: {rule}"
        return StateValueError(f"{what}, got {short_repr(got)} in {short_repr(row)}; mend the feed")


class Arrival(NamedTuple):
    """The effect of one incoming row.

    Args:
        key: The encoded key of the row.
        op: One of the four values of `row_kind`; None for a plain row.
        row: The encoded row; for a retraction the row that it retracts, or None if the feed leaves
            it out.
        order: The order of a plain row in an ordered view: a tuple to compare.
        event_time: The row's own value, not converted; None for a row without one.
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

    In an ordered view a plain row is dropped as stale unless its order is greater than the order
    of the row that it would replace.  (In Materialize, too, an equal order is a duplicate.)  An
    `update_before` removes only the row that it names.  So the result is the same if it comes after
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
        msg = f"rows must be ordered by values of one type, got {short_repr(order)} after {short_repr(stored)}; cast the column"
        raise StateValueError(msg) from error


def to_ms(value: Any, zone: dt.tzinfo) -> int:
    """Return an event time in ms since the epoch.

    Raises:
        StateValueError: The value is neither a datetime nor an int of 64 bits.
    """
    if isinstance(value, dt.datetime):
        aware = value.replace(tzinfo=zone) if value.tzinfo is None else value
        return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
    if is_int64(value):
        return value
    msg = f"an event time must be a datetime or an int of ms in 64 bits, got {short_repr(value)}; cast the column"
    raise StateValueError(msg)
