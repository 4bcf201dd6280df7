# SPDX-License-Identifier: Apache-2.0
"""Records and outputs of a `KeyedBatchFunction` on Spark: columns all the way, never rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.engine.columnar.keyed_batch import KeyReader
from pyflinklike.engine.runtime.columnar_records import ColumnReader, ColumnRecords
from pyflinklike.engine.runtime.outputs import Outputs
from pyflinklike.engine.shown import shown_message
from pyflinklike.engine.types.arrow_rows import to_python
from pyflinklike.errors import OutputError
from pyflinklike.spark.wire.output_layout import OutputLayout
from pyflinklike.spark.wire.record_readers import RecordReader
from pyflinklike.spark.wire.schema import InstantKeyTypeInfo, arrow_schema

__all__ = ["ColumnLayout", "ColumnRecordReader"]


@attrs.frozen
class ColumnRecordReader(RecordReader):
    """Reads the records of one operator as columns, where `RecordReader` makes rows."""

    def read(self, records: pa.RecordBatch, *, in_order: bool = False) -> Any:
        """Read records in the order in which to process them, as `ColumnRecords`.

        Args:
            records: Must be in the order of arrival.
            in_order: Whether this is the final order, so that nothing is sorted.
        """
        keys = KeyReader(self.key_columns, self.key_type, self._frozen)
        reader = ColumnReader(keys, self.event_time)
        read: ColumnRecords = reader.read(records, in_order=in_order or self.arrival_order)
        return read

    def _frozen(self, columns: Sequence[Any]) -> list[Any]:
        if isinstance(self.key_type, InstantKeyTypeInfo):
            return self.key_type.frozen(columns)
        values = [to_python(column, self.time_zone) for column in columns]
        keys: Sequence[Any] = values[0] if len(values) == 1 else list(zip(*values))
        return [self.key_type.freeze_key(key) for key in keys]


@attrs.frozen
class ColumnLayout(OutputLayout):
    """The layout of outputs that come as columns."""

    def encoder(
        self,
        show_key: Callable[[Any], Any],  # noqa: ARG002 - columns have no key to show
    ) -> Callable[[Outputs], list[tuple[int, pa.RecordBatch]]]:
        """Return the function that makes numbered record batches of the declared types."""
        main = arrow_schema(self.main)
        sides = {
            tag_id: (number, arrow_schema(schema))
            for number, (tag_id, schema) in enumerate(self.sides.items(), start=1)
        }

        def encode(outputs: Outputs) -> list[tuple[int, pa.RecordBatch]]:
            batches = [(0, self._fit(batch, main, "output")) for batch in outputs.main]
            for tag_id, (_, given) in outputs.side.items():
                # A side output that was not declared is dropped, as in Flink.
                if tag_id in sides:
                    number, schema = sides[tag_id]
                    what = f"side output {tag_id!r}"
                    batches += [(number, self._fit(batch, schema, what)) for batch in given]
            return batches

        return encode

    def _fit(self, batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.RecordBatch:
        """Give a record batch the columns of a schema, matched by name.

        Raises:
            OutputError: The batch has other columns, or a column whose values do not fit.
        """
        what = f"{self.operator} {what}"
        if sorted(batch.schema.names) != sorted(schema.names):
            msg = (
                f"{what}: the columns must be {schema.names}, got {batch.schema.names}; name "
                "every column, one of nulls where there is nothing"
            )
            raise OutputError(msg)
        columns = [self._cast(batch.column(field.name), field, what) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _cast(self, column: Any, field: pa.Field, what: str) -> Any:
        given, wanted = column.type, field.type
        if given == wanted:
            return column
        try:
            if pa.types.is_dictionary(given):
                return self._cast(column.dictionary_decode(), field, what)
            if not pa.types.is_null(given) and _family(given) != _family(wanted):
                msg = "convert the values, or change the output type"
                raise pa.ArrowInvalid(msg)
            if pa.types.is_timestamp(wanted) and wanted.tz and not given.tz:
                # Naive timestamps are local times of the session, as naive datetimes are.
                column = pc.assume_timezone(
                    column, self.time_zone, ambiguous="earliest", nonexistent="earliest"
                )
            return column.cast(wanted)
        except pa.ArrowException as error:
            msg = f"{what}: column {field.name!r} is {wanted}, got {given}: {shown_message(error)}"
            raise OutputError(msg) from error


def _family(kind: pa.DataType) -> str:
    """Return the family of a type; within a family values convert without a change of meaning."""
    families: dict[str, tuple[Callable[[Any], bool], ...]] = {
        "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        "bytes": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
        "timestamp": (pa.types.is_timestamp,),
        "list": (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    }
    for name, members in families.items():
        if any(is_one(kind) for is_one in members):
            return name
    return str(kind.id)
