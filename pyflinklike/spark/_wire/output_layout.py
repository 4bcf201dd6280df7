# SPDX-License-Identifier: Apache-2.0
"""The layout of a function's outputs as rows of the result.

The state operator emits payloads, and each belongs to one output: number 0 is the main output, and
the side outputs follow in the order of their declaration.  If there are no side outputs, the rows of
the result are the rows of the main output.  Otherwise each row belongs to one output: either
`output_tag` is null and the main columns are set, or `output_tag` is the tag's id and the column of
that name, a struct, is set.

A payload of outputs that came before the watermark of the micro-batch carries `~number` in place
of its number.  If the result has a column for it, that column is then true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st

from pyflinklike._runtime.outputs import Outputs
from pyflinklike.spark._wire.arrow_encoder import OutputEncoder
from pyflinklike.spark._wire.payloads import payload_to_batch
from pyflinklike.spark._wire.schema import arrow_schema
from pyflinklike.spark._wire.system_columns import OUTPUT_TAG, PHASE_MARK

__all__ = ["OutputLayout"]


@attrs.frozen
class OutputLayout:
    """The layout of the outputs of one operator.

    Args:
        main: The schema of the main output.
        sides: The schema of each declared side output, by tag id.
        time_zone: The zone of the Spark session, in which naive datetimes are read.
        operator: The name of the operator, for messages.
        before_watermark: The column that says whether an output came before the watermark; it
            follows the columns of the main output.  None if the result has no such column.
    """

    main: st.StructType
    sides: dict[str, st.StructType]
    time_zone: str
    operator: str
    before_watermark: str | None = None

    def result_type(self) -> st.StructType:
        """Return the schema of the result."""
        if not self.sides:
            return st.StructType([*self.main.fields, *self._phase()])
        # The main columns become nullable, since they are null in the rows of side outputs.
        fields = [
            st.StructField(field.name, field.dataType, metadata=field.metadata)
            for field in self.main.fields
        ]
        fields += self._phase()
        fields.append(st.StructField(OUTPUT_TAG, st.StringType()))
        fields += [st.StructField(tag_id, schema) for tag_id, schema in self.sides.items()]
        return st.StructType(fields)

    def _phase(self) -> list[st.StructField]:
        if self.before_watermark is None:
            return []
        return [
            st.StructField(self.before_watermark, st.BooleanType(), metadata={PHASE_MARK: True})
        ]

    def encoder(
        self, show_key: Callable[[Any], Any]
    ) -> Callable[[Outputs], list[tuple[int, pa.RecordBatch]]]:
        """Return the function that turns outputs into numbered record batches.

        Args:
            show_key: Turns a stored key into the user's form, for messages.
        """
        main = self._encoder(self.main, "output", show_key)
        sides = {
            tag_id: (number, self._encoder(schema, f"side output {tag_id!r}", show_key))
            for number, (tag_id, schema) in enumerate(self.sides.items(), start=1)
        }

        def encode(outputs: Outputs) -> list[tuple[int, pa.RecordBatch]]:
            batches = []
            if outputs.main:
                batches.append((0, main.encode(outputs.main, outputs.keys)))
            for tag_id, (keys, values) in outputs.side.items():
                # A side output that was not declared is dropped, as in Flink.
                if tag_id in sides:
                    number, encoder = sides[tag_id]
                    batches.append((number, encoder.encode(values, keys)))
            return batches

        return encode

    def _encoder(
        self, schema: st.StructType, what: str, show_key: Callable[[Any], Any]
    ) -> OutputEncoder:
        what = f"{self.operator} {what}"
        return OutputEncoder(schema, self.time_zone, what, show_key)

    def arranger(self) -> Callable[[int, pa.RecordBatch], pa.RecordBatch]:
        """Return the function that lays a numbered record batch out as rows of the result."""
        schema = arrow_schema(self.result_type())
        width, phases = len(self.main.fields), len(self._phase())
        tag_ids = list(self.sides)
        if not tag_ids and not phases:
            return lambda _, batch: batch

        def arrange(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            count = batch.num_rows
            columns = [pa.nulls(count, field.type) for field in schema]
            if phases:
                columns[width] = pa.repeat(number < 0, count)
            number = max(number, ~number)  # drops the mark of outputs before the watermark
            if number == 0:
                columns[:width] = batch.columns
            else:
                tag_at = width + phases
                columns[tag_at] = pa.array([tag_ids[number - 1]] * count, pa.string())
                at = tag_at + number
                columns[at] = pa.StructArray.from_arrays(
                    batch.columns, fields=list(schema[at].type)
                )
            return pa.RecordBatch.from_arrays(columns, schema=schema)

        return arrange

    def unpacker(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function that lays payloads out as rows, for `mapInArrow`."""

        def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            arrange = self.arranger()
            for batch in batches:
                rows = [
                    arrange(number.as_py(), payload_to_batch(payload.as_py()))
                    for number, payload in zip(batch.column("output"), batch.column("payload"))
                ]
                if rows:
                    yield pa.concat_batches(rows)

        return unpack
