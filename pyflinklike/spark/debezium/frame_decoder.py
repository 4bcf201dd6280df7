# SPDX-License-Identifier: Apache-2.0
"""The decoding of Debezium's records on the executors: record batches of records become events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st

from pyflinklike.cdc.decoder import DebeziumDecoder
from pyflinklike.cdc.envelope import schema_of
from pyflinklike.cdc.event import CdcEvent
from pyflinklike.errors import KeyDecodeError, ValueDecodeError
from pyflinklike.shown import shown
from pyflinklike.spark.debezium.json_types import RowConverter, json_text, needs_semantics
from pyflinklike.spark.debezium.semantics import Semantic, fields_of, semantics_of
from pyflinklike.spark.wire.schema import arrow_schema

__all__ = ["FrameDecoder"]

_MAX_TIME = 253_402_300_799_999  # the last ms of the year 9999, as far as Spark's literals go


@attrs.frozen
class FrameDecoder:
    """Decodes record batches on the executors, to which it is pickled.

    Args:
        decoder: Decodes single records.
        key_columns: The key columns, in the order of the key's values.
        row: The schema of the table's row.
        events: The schema of the events.
    """

    decoder: DebeziumDecoder
    key_columns: tuple[str, ...]
    row: st.StructType
    events: st.StructType

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode record batches of records to record batches of events."""
        convert = _EventConverter(self)
        schema = arrow_schema(self.events)
        for batch in batches:
            columns: list[list[Any]] = [[] for _ in schema]
            for record in batch.to_pylist():
                event = convert.record(record)
                if event is not None:
                    for column, value in zip(columns, event):
                        column.append(value)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema)]
            yield pa.record_batch(arrays, schema=schema)


class _EventConverter:
    """Decodes records to the values that Arrow takes."""

    def __init__(self, work: FrameDecoder) -> None:
        self._decoder = work.decoder
        self._key_columns = work.key_columns
        keys = [st.StructField(name, work.row[name].dataType) for name in work.key_columns]
        self._key = RowConverter(st.StructType(keys))
        self._row = RowConverter(work.row)
        self._order = RowConverter(st.StructType([work.events["order_key"]]))
        self._needs_schema = needs_semantics(work.row)

    def record(self, record: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the fields of a record's event; None if there is nothing to apply."""
        event = self._decoder.record(record)
        if event is None:
            return None
        try:
            return self._fields(event, record)
        except (KeyDecodeError, ValueDecodeError) as error:
            failed = self._decoder.failed(record, error)
        if failed is None:
            return None
        try:
            return self._fields(failed, record)
        except (KeyDecodeError, ValueDecodeError):
            # The event of the failure still has fields of the record that do not fit: drop them.
            return self._fields(failed._replace(key=None, order_key=None, event_time=None), record)

    def _fields(self, event: CdcEvent, record: Mapping[str, Any]) -> tuple[Any, ...]:
        order = event.order_key
        if isinstance(order, tuple):
            order = list(order)
        try:
            sides = self._sides(event, record)
            before = event.before and self._row(event.before, sides.get("before", {}))
            after = event.after and self._row(event.after, sides.get("after", {}))
            order = self._order({"order_key": order}, {})["order_key"]
        except ValueError as error:
            msg = f"a record must fit schema= and the order's type, got another: {error}"
            raise ValueDecodeError(msg) from error
        return (
            event.op,
            self._key_of(event, record, sides),
            before,
            after,
            order,
            _microseconds(event.event_time),
            event.snapshot,
            None if event.source is None else json_text(event.source),
            event.error,
            list(event.unavailable),
        )

    def _sides(
        self, event: CdcEvent, record: Mapping[str, Any]
    ) -> Mapping[str, Mapping[str, Semantic]]:
        try:
            return semantics_of(schema_of(record["value"])) if self._needs_schema else {}
        except ValueError:
            if event.error is None:
                raise
            return {}  # the error may be about the schema

    def _key_of(
        self,
        event: CdcEvent,
        record: Mapping[str, Any],
        sides: Mapping[str, Mapping[str, Semantic]],
    ) -> Any:
        if event.key is None:
            return None
        values = event.key if isinstance(event.key, tuple) else (event.key,)
        if len(values) != len(self._key_columns):
            msg = f"a key must have the columns {list(self._key_columns)}, got {shown(event.key)}; name them with key="
            raise KeyDecodeError(msg)
        try:
            own = fields_of(schema_of(record["key"])) if self._needs_schema else {}
            semantics = {**sides.get("before", {}), **sides.get("after", {}), **own}
            named = self._key(dict(zip(self._key_columns, values)), semantics)
        except ValueError as error:
            msg = f"a key must fit schema=, got one that does not: {error}"
            raise KeyDecodeError(msg) from error
        return named if len(values) > 1 else next(iter(named.values()))


def _microseconds(event_time: int | None) -> int | None:
    if event_time is None:
        return None
    if abs(event_time) > _MAX_TIME:
        msg = f"the time of a change must be in ms since the epoch, got {shown(event_time)}"
        raise ValueDecodeError(msg)
    return event_time * 1000
