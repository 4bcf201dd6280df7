# SPDX-License-Identifier: Apache-2.0
"""Records and outputs of a `KeyedBatchFunction` on Spark, which stay columns all the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st

from pyflinklike._runtime.outputs import Outputs
from pyflinklike.columns.column_tables import check_columnar
from pyflinklike.columns.columnar_records import ColumnReader
from pyflinklike.columns.keyed_batch import KeyReader, frozen_keys
from pyflinklike.errors import OutputError, StateValueError
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.output_layout import OutputLayout, check_nulls
from pyflinklike.spark._wire.record_readers import RecordReader
from pyflinklike.spark._wire.schema import InstantKeyTypeInfo, arrow_schema
from pyflinklike.types.conversions import cast_column


def in_columns(plan: Plan) -> Plan:
    """Return a plan that reads and writes columns instead of rows.

    Raises:
        DeclarationValueError: The backend has no columnar state.
    """
    check_columnar(plan.state_backend)  # so that the driver raises, not the first task
    assert isinstance(plan.reader, RecordReader)  # such a function has one input
    return attrs.evolve(
        plan,
        reader=ColumnRecordReader(**_fields(plan.reader)),
        layout=ColumnLayout(**_fields(plan.layout)),
    )


def _fields(made: Any) -> dict[str, Any]:
    return {field.name: getattr(made, field.name) for field in attrs.fields(type(made))}


@attrs.frozen
class ColumnRecordReader(RecordReader):
    """Reads the records of one operator as columns; `RecordReader` makes rows instead."""

    def read(self, records: pa.RecordBatch, *, in_order: bool = False) -> Any:
        """Read records in the order in which to process them, as `ColumnRecords`.

        Args:
            records: The records in the order of arrival.
            in_order: Whether this is the final order, so that no sort is needed.
        """
        keys = KeyReader(self.key_columns, self.key_type, self._frozen)
        reader = ColumnReader(keys, self.event_time)
        return reader.read(records, in_order=in_order or self.arrival_order)

    def _frozen(self, columns: Sequence[Any]) -> list[Any]:
        if isinstance(self.key_type, InstantKeyTypeInfo):
            return self.key_type.frozen(columns)
        return frozen_keys(self.key_type, columns, self.time_zone)


@attrs.frozen
class ColumnLayout(OutputLayout):
    """The layout of outputs that come as columns."""

    def encoder(
        self,
        show_key: Callable[[Any], Any],  # noqa: ARG002 - columns have no key to show
    ) -> Callable[[Outputs], list[tuple[int, pa.RecordBatch]]]:
        """Return the function that makes numbered record batches of the declared types."""
        sides = {
            tag_id: (number, schema)
            for number, (tag_id, schema) in enumerate(self.sides.items(), 1)
        }

        def encode(outputs: Outputs) -> list[tuple[int, pa.RecordBatch]]:
            batches = [(0, self._fit(batch, self.main, "output")) for batch in outputs.main]
            for tag_id, (_, given) in outputs.side.items():
                # A side output that was not declared is dropped, as in Flink.
                if tag_id in sides:
                    number, schema = sides[tag_id]
                    what = f"side output {tag_id!r}"
                    batches += [(number, self._fit(batch, schema, what)) for batch in given]
            return batches

        return encode

    def _fit(self, batch: pa.RecordBatch, columns: st.StructType, what: str) -> pa.RecordBatch:
        """Give a record batch the columns of an output type, matched by name.

        Raises:
            OutputError: The batch has other columns, or a column whose values do not fit.
        """
        what = f"{self.operator} {what}"
        if sorted(batch.schema.names) != sorted(columns.names):
            msg = (
                f"{what}: the columns must be {columns.names}, got {batch.schema.names}; return "
                "every column, with nulls if it has no values"
            )
            raise OutputError(msg)
        schema = arrow_schema(columns)
        fitted = [
            self._cast(batch.column(each.name), each, kind, what)
            for each, kind in zip(columns, schema.types)
        ]
        return pa.RecordBatch.from_arrays(fitted, schema=schema)

    def _cast(self, column: Any, wanted: st.StructField, kind: pa.DataType, what: str) -> Any:
        try:
            fitted = cast_column(column, kind, self.time_zone)
            check_nulls(fitted, wanted.dataType, wanted.nullable)
        except StateValueError as error:
            msg = (
                f"{what}: column {wanted.name!r} is {wanted.dataType.simpleString()}, "
                f"got a column of {column.type}: {error}"
            )
            raise OutputError(msg) from error
        return fitted
