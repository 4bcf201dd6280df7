# SPDX-License-Identifier: Apache-2.0
"""The encoding of a function's outputs as Arrow columns, and their layout as rows of the result.

The state operator emits payloads, and each belongs to one output: number 0 is the main output, and
the side outputs follow in the order of their declaration.  If there are no side outputs, the rows of
the result are the rows of the main output.  Otherwise each row belongs to one output: either
`output_tag` is null and the main columns are set, or `output_tag` is the tag's id and the column of
that name, a struct, is set.

A payload of outputs that came before the watermark of the micro-batch carries `~number` in place
of its number.  If the result has a column for it, that column is then true.

A datetime without a zone is a local time of the Spark session, also deep within a value.  The values
of a row with names go to the columns of these names; without names, their positions decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st

from pyflinklike._checks import as_tuple_of
from pyflinklike._messages import short_repr
from pyflinklike._runtime.outputs import Outputs
from pyflinklike.errors import OutputError, StateValueError
from pyflinklike.spark._wire.payloads import payload_to_batch
from pyflinklike.spark._wire.schema import arrow_schema
from pyflinklike.spark._wire.system_columns import OUTPUT_TAG, PHASE_MARK
from pyflinklike.types.arrow_rows import cut_to_cover
from pyflinklike.types.conversions import Writer, writer_of
from pyflinklike.types.row import Row, in_order, misnamed


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


# The encoding of outputs as Arrow columns


@attrs.frozen
class OutputEncoder:
    """Encodes the outputs of a function as an Arrow record batch.

    Args:
        columns: The declared type of the output, with at least one column.
        time_zone: The zone of the Spark session, in which naive datetimes are read.
        what: Names the output in messages.
        show_key: Turns a stored key into the user's form, for messages.
    """

    columns: st.StructType
    time_zone: str
    what: str
    show_key: Callable[[Any], Any]
    schema: pa.Schema = attrs.field(init=False)
    _names: tuple[str, ...] = attrs.field(init=False)
    _writers: tuple[Writer, ...] = attrs.field(init=False)
    _takes_all_nulls: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Derive the Arrow schema, and how each column is written."""
        schema = arrow_schema(self.columns)
        writers = tuple([writer_of(kind, self.time_zone) for kind in schema.types])
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "_names", tuple(self.columns.names))
        object.__setattr__(self, "_writers", writers)
        object.__setattr__(self, "_takes_all_nulls", _takes_nulls(self.columns, True))

    def encode(self, rows: Sequence[Any], keys: Sequence[Any]) -> pa.RecordBatch:
        """Encode rows as columns.

        Args:
            rows: Tuples, Rows, lists, mappings, or plain values if there is one column.
            keys: The key under which each row was yielded, for messages.

        Raises:
            OutputError: A row does not fit; the message names the column, the value and the key.
        """
        classes = set(map(type, rows))
        if classes != {tuple}:
            rows = self._tuples(classes, rows, keys)
        if set(map(len, rows)) != {len(self._names)}:
            for row, key in zip(rows, keys):
                self.in_order(row, key)
        arrays = []
        for at, column in enumerate(self.columns):
            # `zip(*rows)` would step through an iterator of every row for each column.
            values = list(map(itemgetter(at), rows))
            try:
                arrays.append(self._encode(values, column, at))
            except StateValueError as error:
                raise self._blame_value(column, at, values, keys, error) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _tuples(
        self, classes: set[type], rows: Sequence[Any], keys: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        # A function that yields the rows it got needs no check of each row: the names are the same.
        if all(issubclass(each, Row) and each._fields == self._names for each in classes):
            return list(map(tuple, rows))
        return [self.in_order(row, key) for row, key in zip(rows, keys)]

    def _encode(self, values: Sequence[Any], column: st.StructField, at: int) -> pa.Array:
        encoded = self._writers[at](values)
        if not self._takes_all_nulls:
            check_nulls(encoded, column.dataType, column.nullable)
        return encoded

    def in_order(self, row: Any, key: Any) -> tuple[Any, ...]:
        """Return the values of a row in the order of the columns: by names, else by position.

        Args:
            row: A row of any kind that `encode` takes.
            key: The key under which the row was yielded, for messages.

        Raises:
            OutputError: The row is of another kind, or has other names or too few or many values.
        """
        names = self._names
        is_row = isinstance(row, (tuple, list, Mapping))
        values = in_order(row, names) if is_row else (row,) if len(names) == 1 else None
        if values is not None:
            return tuple(values)
        got = f"got {short_repr(row)} for key {short_repr(self.show_key(key))}"
        if not is_row:
            remedy = "yield a whole row at a time (a returned iterable is taken apart into outputs)"
            if row is None:
                remedy = "for no output, yield nothing"
            elif as_tuple_of(row):
                remedy = f"yield {as_tuple_of(row)}"
            msg = (
                f"{self.what}: an output must be a tuple, Row or mapping of the columns "
                f"{list(names)}, {got}; {remedy}"
            )
            raise OutputError(msg)
        wrong = misnamed(row, names) or f"it has {len(row)} values; give one for each column"
        raise OutputError(f"{self.what}: a row must have the columns {list(names)}, {got}; {wrong}")

    def _blame_value(
        self,
        column: st.StructField,
        at: int,
        values: Iterable[Any],
        keys: Iterable[Any],
        error: Exception,
    ) -> OutputError:
        what = f"{self.what}: column {column.name!r} is {column.dataType.simpleString()}"
        for value, key in zip(values, keys):
            try:
                self._encode([value], column, at)
            except StateValueError as cause:
                return OutputError(f"{what}, for key {short_repr(self.show_key(key))}: {cause}")
        return OutputError(f"{what}: {error}")


def _takes_nulls(kind: st.DataType, nullable: bool) -> bool:
    """Return whether a value and all its parts may be null."""
    if isinstance(kind, st.StructType):
        return nullable and all(_takes_nulls(each.dataType, each.nullable) for each in kind)
    if isinstance(kind, st.ArrayType):
        return nullable and _takes_nulls(kind.elementType, kind.containsNull)
    if isinstance(kind, st.MapType):
        return nullable and _takes_nulls(kind.valueType, kind.valueContainsNull)
    return nullable


def check_nulls(column: pa.Array, kind: st.DataType, nullable: bool) -> None:
    """Refuse a null in a column, or in a part of it, that is declared without null.

    Spark would read such a null as 0.

    Args:
        column: The values as Arrow encodes them.
        kind: The declared Spark type of the values.
        nullable: Whether a value itself may be null; its parts are declared within `kind`.

    Raises:
        StateValueError: There is a null.
    """
    if column.null_count and not nullable:
        msg = "it is declared without null, got None; yield a value, or declare it nullable"
        raise StateValueError(msg)
    there = column.drop_null() if column.null_count and pa.types.is_nested(column.type) else column
    if isinstance(kind, st.StructType) and kind.fields:
        for at, field in enumerate(kind.fields):
            check_nulls(there.field(at), field.dataType, field.nullable)
    elif isinstance(kind, st.ArrayType):
        check_nulls(cut_to_cover(there, there.values), kind.elementType, kind.containsNull)
    elif isinstance(kind, st.MapType):
        items = cut_to_cover(there, there.items)
        check_nulls(items, kind.valueType, kind.valueContainsNull)
