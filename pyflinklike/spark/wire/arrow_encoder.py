# SPDX-License-Identifier: Apache-2.0
"""The encoding of Python's values as Arrow columns: outputs of functions, keys and elements.

A datetime without a zone is a local time of the Spark session, wherever it stands in a value.  A
row is matched to columns by name if it has exactly their names, and else by position.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.engine.checks import as_tuple_of
from pyflinklike.engine.shown import shown, shown_message
from pyflinklike.engine.types.row import names_of
from pyflinklike.engine.types.time_types import to_instants
from pyflinklike.errors import OutputError

__all__ = ["OutputEncoder", "to_arrow"]


@attrs.frozen
class OutputEncoder:
    """Encodes the outputs of a function as an Arrow record batch.

    Args:
        schema: The schema of the output type.
        time_zone: The zone of the Spark session, in which naive datetimes are read.
        what: Names the output in messages.
        show_key: Turns a stored key into the user's form, for messages.
    """

    schema: pa.Schema
    time_zone: str
    what: str
    show_key: Callable[[Any], Any]

    def encode(self, rows: Sequence[Any], keys: Sequence[Any]) -> pa.RecordBatch:
        """Encode rows as columns.

        Args:
            rows: Tuples, Rows, lists, mappings, or plain values if there is one column.
            keys: The key under which each row was yielded, for messages.

        Raises:
            OutputError: A row does not fit; the message names the column, the value and the key.
        """
        if set(map(type, rows)) != {tuple}:
            rows = [self.in_order(row, key) for row, key in zip(rows, keys)]
        width = len(self.schema)
        if set(map(len, rows)) != {width}:
            self._blame_width(rows, keys)
        arrays = []
        for at, field in enumerate(self.schema):
            # Not zip(*rows), which steps through an iterator of every row for each column.
            values = list(map(itemgetter(at), rows))
            try:
                arrays.append(to_arrow(values, field.type, self.time_zone))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise self._blame_value(field, values, keys, error) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def in_order(self, row: Any, key: Any) -> tuple[Any, ...]:
        """Return the values of a row: by name if it has exactly the column names, else by position.

        Args:
            row: A row of any kind that `encode` takes.
            key: The key under which the row was yielded, for messages.

        Raises:
            OutputError: The row is of another kind, or a mapping with other names.
        """
        names = self.schema.names
        if isinstance(row, Mapping):
            if set(row) != set(names):
                msg = (
                    f"{self.what}: a mapping must have the columns {names}, got {shown(list(row))} "
                    f"for key {shown(self.show_key(key))}; name every column, None where it is null"
                )
                raise OutputError(msg)
            return tuple(row[name] for name in names)
        if isinstance(row, tuple):
            fields = names_of(row) or ()
            plain = tuple(row)
            if list(fields) != names and set(fields) == set(names):
                return tuple(plain[fields.index(name)] for name in names)
            return plain
        if isinstance(row, list):
            return tuple(row)
        if len(names) == 1:
            return (row,)
        remedy = "yield a whole row at a time (what a function returns is taken apart into outputs)"
        if row is None:
            remedy = "for no output, yield nothing"
        elif as_tuple_of(row):
            remedy = f"yield {as_tuple_of(row)}"
        msg = (
            f"{self.what}: an output must be a tuple, Row or mapping of the columns {names}, "
            f"got {shown(row)} for key {shown(self.show_key(key))}; {remedy}"
        )
        raise OutputError(msg)

    def _blame_width(self, rows: Sequence[Any], keys: Sequence[Any]) -> None:
        names = self.schema.names
        for row, key in zip(rows, keys):
            if len(row) != len(names):
                msg = (
                    f"{self.what}: a row must have the {len(names)} columns {names}, "
                    f"got {len(row)} values {shown(tuple(row))} for key {shown(self.show_key(key))}"
                )
                raise OutputError(msg)

    def _blame_value(
        self, field: pa.Field, values: Iterable[Any], keys: Iterable[Any], error: Exception
    ) -> OutputError:
        for value, key in zip(values, keys):
            try:
                to_arrow([value], field.type, self.time_zone)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
                return OutputError(
                    f"{self.what}: column {field.name!r} is {field.type}, got {shown(value)} "
                    f"({type(value).__name__}) for key {shown(self.show_key(key))}: {shown_message(cause)}; "
                    "convert the value, or change the output type"
                )
        return OutputError(
            f"{self.what}: column {field.name!r} is {field.type}: {shown_message(error)}"
        )


def to_arrow(values: Sequence[Any], kind: pa.DataType, time_zone: str) -> pa.Array:
    """Encode Python's values as a column, which `to_python` reads back.

    Raises:
        ArrowException, TypeError, ValueError, OverflowError: A value does not fit.
    """
    if pa.types.is_timestamp(kind):
        return _timestamps(values, kind, time_zone)
    # Arrow would take naive times within lists and structs for UTC, not for the session's zone.
    if _holds_structs_or_instants(kind):
        values = [_prepare(value, kind, time_zone) for value in values]
    return pa.array(values, kind)


def _timestamps(values: Sequence[Any], kind: pa.DataType, time_zone: str) -> pa.Array:
    if not kind.tz:
        return pa.array(values, pa.timestamp("us"))
    if any(isinstance(value, dt.datetime) and value.tzinfo is not None for value in values):
        return pa.array([_prepare(value, kind, time_zone) for value in values], kind)
    return to_instants(values, time_zone).cast(kind)


def _holds_structs_or_instants(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _holds_structs_or_instants(kind.key_type) or _holds_structs_or_instants(
            kind.item_type
        )
    if pa.types.is_list(kind):
        return _holds_structs_or_instants(kind.value_type)
    return pa.types.is_struct(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _prepare(value: Any, kind: pa.DataType, time_zone: str) -> Any:
    """Prepare a value for Arrow: structs become mappings, naive datetimes become instants."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        if kind.tz and isinstance(value, dt.datetime) and value.tzinfo is None:
            return to_instants([value], time_zone)[0].as_py()
        return value
    if pa.types.is_struct(kind):
        return _prepare_struct(value, kind, time_zone)
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [
            (_prepare(k, kind.key_type, time_zone), _prepare(v, kind.item_type, time_zone))
            for k, v in pairs
        ]
    if pa.types.is_list(kind):
        return [_prepare(part, kind.value_type, time_zone) for part in value]
    return value


def _prepare_struct(value: Any, kind: pa.DataType, time_zone: str) -> Any:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    if isinstance(value, tuple):
        own = names_of(value) or ()
        names = [field.name for field in fields]
        # The rule of `in_order`: by name if the names match, else by position.
        value = dict(zip(own if set(own) == set(names) else names, value, strict=True))
    if not isinstance(value, Mapping):
        return value
    return {field.name: _prepare(value.get(field.name), field.type, time_zone) for field in fields}
