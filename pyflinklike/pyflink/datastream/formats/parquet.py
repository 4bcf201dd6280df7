# SPDX-License-Identifier: Apache-2.0
"""Rows as files of Parquet, at PyFlink's path.

PyArrow reads and writes the files.  It would convert a column that does not fit its declared type, and lose
data.  So this module plans each column of a file before it reads (`_ColumnReader.plan`): the type to which Arrow
casts the column without loss, and the function that makes values of the result.  If a column is missing, or may
contain values that its declared type does not have, an error names the column.

Parquet has checksums for pages, but not for the bytes around them
(https://parquet.apache.org/docs/file-format/).  If a bit in the footer changes, a reader may find no rows and
raise no error.  So a file that is written here has a seal in front of the footer, where readers of Parquet do
not look: a checksum of the whole file.  In a file without a seal, the number of rows must match the footer.
"""

from __future__ import annotations

import datetime as dt
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from pyflinklike._checks import check_count
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import OutputError, SparkSetupError, StateValueError
from pyflinklike.pyflink._graph.files import (
    BulkFormat,
    BulkWriter,
    BulkWriterFactory,
    StreamFormat,
)
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.data_types import (
    DataType,
    LimitedBytesTypeInfo,
    LimitedTextTypeInfo,
    as_row_type,
)
from pyflinklike.pyflink.common.types import RowKind, make_named_rows, restore_row
from pyflinklike.pyflink.datastream.formats.avro import (
    AvroSchema,
    GenericRecordAvroTypeInfo,
    record_reader,
    record_writer,
    row_type_of,
)
from pyflinklike.pyflink.datastream.formats.value_conversion import (
    Convert,
    PartConverter,
    none_or,
    same,
)
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.basic_types import (
    BigDecTypeInfo,
    BigIntTypeInfo,
    CharTypeInfo,
    DoubleTypeInfo,
    IntegralTypeInfo,
)
from pyflinklike.types.conversions import is_cast
from pyflinklike.types.nested_types import ListTypeInfo, MapTypeInfo
from pyflinklike.types.row_types import TupleTypeInfo
from pyflinklike.types.time_types import (
    Instant,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from pyflinklike.types.type_information import Column

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]

__getattr__ = of_pyflink(__name__)

_BATCH: Final = 10_000
"""The number of rows that become columns at once."""
_ROW_GROUP: Final = 1 << 27
"""The size in bytes at which a row group ends, as in Flink."""
_OF_ARROW: Final = (pa.ArrowException, ValueError, ArithmeticError, OSError)
"""The errors of Arrow for values that do not fit, and for damaged files."""
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads rows from files of Parquet, as in PyFlink, for `FileSource.for_bulk_file_format`.

    Unlike PyFlink's it also reads lists, maps and rows inside rows.  A file may have more columns than are
    declared.

    Args:
        row_type: The type of the rows: `DataTypes.ROW(...)`, `Types.ROW_NAMED(...)` or a
            `pyarrow.Schema`.
        hadoop_config: A configuration; it is ignored, because PyArrow reads the files.
        batch_size: The number of rows to read at once.
        is_utc_timestamp: If a column has instants and is declared as a timestamp without a time zone,
            True gives their times in UTC, False their times in the zone of the machine.
        is_case_sensitive: False finds columns without regard to upper and lower case.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Any = None,  # noqa: ARG002
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        self._row_type = as_row_type(row_type, "ParquetColumnarRowInputFormat")
        self._batch_size = check_count(batch_size, "ParquetColumnarRowInputFormat: batch_size")
        self._is_utc, self._is_case_sensitive = is_utc_timestamp, is_case_sensitive

    @property
    def type_info(self) -> TypeInformation:
        """The type of the rows."""
        return self._row_type.type_info

    @property
    def name(self) -> str:
        """The name of the format."""
        return "Parquet"

    def read(self, path: Path) -> Iterator[Any]:
        """Yield the rows of a file.

        Raises:
            SparkSetupError: The file is damaged, or does not fit the declared type.
        """
        unit = "ns" if _has_nanoseconds(self._row_type.column) else "us"
        try:
            _check_seal(path)
            # Flink and Hive write timestamps of 96 bits.  Their nanoseconds may exceed 64 bits, but their
            # microseconds never do.
            with pq.ParquetFile(
                path, coerce_int96_timestamp_unit=unit, page_checksum_verification=True
            ) as file:
                yield from self._rows(file, path)
        except _OF_ARROW as error:
            msg = (
                f"a file of Parquet cannot be read, got {str(path)!r}: {shown_error(error)}; write it "
                "again, or remove it"
            )
            raise SparkSetupError(msg) from error

    def _rows(self, file: pq.ParquetFile, path: Path) -> Iterator[Any]:
        declared, names = self._row_type, self._find_names(file.schema_arrow.names, path)
        instants = _instants_of(file)
        kind = declared.type_info
        assert isinstance(kind, RowTypeInfo)
        readers = []
        for at, (name, part) in enumerate(zip(names, kind.field_types)):
            field = file.schema_arrow.field(name)
            wanted = declared.column.field(at)
            reader = _ColumnReader(str(path), self._is_utc, is_instant=name in instants)
            readers.append((name, reader, reader.plan(name, field.type, wanted, part)))
        found = 0
        for batch in file.iter_batches(self._batch_size, columns=names):
            found += len(batch)
            columns = [reader.values(n, batch.column(n), plan) for n, reader, plan in readers]
            yield from make_named_rows(kind.field_names, zip(*columns))
        if found != file.metadata.num_rows:
            msg = f"its footer declares {file.metadata.num_rows} rows, but it has {found}"
            raise ValueError(msg)

    def _find_names(self, there: Sequence[str], path: Path) -> list[str]:
        """Return the names of the declared columns in a file, which may differ in case."""
        kind = self._row_type.type_info
        assert isinstance(kind, RowTypeInfo)
        case = str if self._is_case_sensitive else str.lower
        names = []
        for name in kind.field_names:
            found = [each for each in there if case(each) == case(name)]
            if len(found) != 1:
                raise _other_file(
                    str(path), f"{len(found) or 'no'} column {name!r} among {list(there)}", name
                )
            names.append(found[0])
        return names


class ParquetBulkWriters:
    """Makes writers of rows to files of Parquet, as in PyFlink, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: Any,
        hadoop_config: Any = None,  # noqa: ARG004
        utc_timestamp: bool = False,  # noqa: ARG004
    ) -> BulkWriterFactory:
        """Return the factory of writers for rows of a type.

        Args:
            row_type: The type of the rows: `DataTypes.ROW(...)`, `Types.ROW_NAMED(...)` or a
                `pyarrow.Schema`.
            hadoop_config: A configuration; it is ignored, because PyArrow writes the files.
            utc_timestamp: True or False; it is ignored, because no zone is added to a timestamp.

        Raises:
            DeclarationTypeError: `row_type` is no type of rows, or files do not have the type of a field.
        """
        return _ParquetWriters(as_row_type(row_type, "ParquetBulkWriters.for_row_type"))


@attrs.frozen
class _ParquetWriters(BulkWriterFactory):
    row_type: DataType

    def open(self, file: IO[bytes], type_info: TypeInformation) -> BulkWriter:  # noqa: ARG002
        return _ParquetWriter(self.row_type, file)


def _open_field(field: pa.Field, is_within_none: bool = False) -> pa.Field:
    """Return a column as it is written: if a row may be None, its fields may be null.

    Arrow stores a row that is null as a null in each field, and refuses to write this null if the field is
    declared without nulls.
    """
    kind, is_nullable = field.type, field.nullable or is_within_none
    if pa.types.is_struct(kind):
        kind = pa.struct([_open_field(part, is_nullable) for part in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_open_field(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _open_field(kind.item_field))
    return pa.field(field.name, kind, is_nullable)


class AvroParquetReaders:
    """Makes readers of generic records of Avro from files of Parquet, as in PyFlink."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Return the format for files with records of a schema, for `FileSource`.

        Args:
            schema: The schema of the records.

        Raises:
            DeclarationTypeError: Files of Parquet have no column for a part of the schema.
        """
        return _AvroParquetFiles(GenericRecordAvroTypeInfo(schema), row_type_of(schema))


class AvroParquetWriters:
    """Makes writers of generic records of Avro to files of Parquet, as in PyFlink."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Return the factory of writers for records of a schema, for `FileSink.for_bulk_format`.

        Args:
            schema: The schema of the records.

        Raises:
            DeclarationTypeError: Files of Parquet have no column for a part of the schema.
        """
        return _AvroParquetWriters(GenericRecordAvroTypeInfo(schema), row_type_of(schema))


@attrs.frozen
class _AvroParquetFiles(StreamFormat):
    records: GenericRecordAvroTypeInfo
    rows: DataType

    @property
    def type_info(self) -> TypeInformation:
        return self.records

    @property
    def name(self) -> str:
        return "Parquet of Avro"

    def read(self, path: Path) -> Iterator[Any]:
        to_record = record_writer(self.rows)
        for row in ParquetColumnarRowInputFormat(self.rows, is_utc_timestamp=True).read(path):
            record = to_record(row)
            try:
                self.records.freeze(record)
            except StateValueError as error:
                raise _other_file(str(path), str(error), self.records.schema.text) from error
            yield record


@attrs.frozen
class _AvroParquetWriters(BulkWriterFactory):
    records: GenericRecordAvroTypeInfo
    rows: DataType

    def open(self, file: IO[bytes], type_info: TypeInformation) -> BulkWriter:  # noqa: ARG002
        to_row = record_reader(self.rows)

        def row_of(value: Any) -> Any:
            try:
                return to_row(self.records.converted(value))
            except StateValueError as error:
                msg = f"a record does not fit the schema of its file, got {short_repr(value)}: {error}"
                raise OutputError(msg) from error

        return _ParquetWriter(self.rows, file, row_of)


class _ParquetWriter:
    """Writes rows to a file: many rows become columns at once, and several of these batches a row group.

    Args:
        rows: The type of the rows.
        file: The file, open for writing.
        to_row: Makes a row from an element.
    """

    def __init__(
        self, rows: DataType, file: IO[bytes], to_row: Convert = lambda value: value
    ) -> None:
        assert isinstance(rows.type_info, RowTypeInfo)
        self._kind, self._to_row, self._declared = rows.type_info, to_row, list(rows.column)
        self._schema = pa.schema([_open_field(each) for each in self._declared])
        pairs = zip(rows.type_info.field_types, self._declared)
        self._converters = [_ColumnConverter().function_of(*pair) for pair in pairs]
        self._file = _SealedFile(file)
        self._writer = pq.ParquetWriter(self._file, self._schema, write_page_checksum=True)
        self._rows: list[Any] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, value: Any) -> int:
        """Take an element; make columns if enough rows are there.

        Raises:
            OutputError: The element does not have the type of the rows.
        """
        row = self._to_row(value)
        try:
            self._rows.append(self._kind.converted(row))
        except StateValueError as error:
            msg = f"a row does not fit the type of its file, got {short_repr(row)}: {error}"
            raise OutputError(msg) from error
        if len(self._rows) >= _BATCH:
            self._make_columns()
        return 0

    def finish(self) -> None:
        """Write the remaining rows and the footer, with the seal in front of it."""
        self._make_columns()
        self._write_group()
        self._file.hold()
        self._writer.close()
        self._file.seal()

    def abandon(self) -> None:
        """Close the writer now: later, when the file is closed, Arrow would raise an error."""
        with suppress(*_OF_ARROW):
            self._writer.close()

    def _make_columns(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            columns = [self._column(at, [row[at] for row in rows]) for at in range(len(rows[0]))]
            self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        if sum(each.nbytes for each in self._batches) >= _ROW_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, self._schema)
            self._writer.write_table(table, row_group_size=len(table))
            self._batches.clear()

    def _column(self, at: int, values: list[Any]) -> Column:
        convert, kind = self._converters[at], self._schema.field(at).type
        try:
            return pa.array(map(convert, values), kind, size=len(values))
        except _OF_ARROW as error:
            if len(values) == 1:
                raise _no_room(self._declared[at], values[0], error) from error
            for value in values:  # one by one, to find the value for the message
                self._column(at, [value])
            raise


def _no_room(field: pa.Field, value: Any, error: Exception) -> OutputError:
    nulls = "" if field.nullable else " and never None"
    msg = (
        f"the column {field.name!r} of a file is {field.type}{nulls}, got {short_repr(value)}: "
        f"{shown_error(error)}; declare the column wider, or round the value"
    )
    return OutputError(msg)


class _ColumnConverter(PartConverter):
    """Converts values to the form that Arrow writes without loss; refuses other values."""

    rows = TupleTypeInfo

    def row(self, names: Sequence[str], parts: Sequence[Convert]) -> Convert:  # noqa: ARG002
        return lambda row: tuple([part(each) for part, each in zip(parts, row)])

    def map(self, kind: TypeInformation, key: Convert, item: Convert) -> Convert:  # noqa: ARG002
        return lambda value: [(key(k), item(v)) for k, v in value.items()]

    def leaf(self, kind: TypeInformation, column: pa.DataType) -> Convert:
        nanoseconds_of = next((of for each, of in _NANOSECONDS if isinstance(kind, each)), None)
        if nanoseconds_of is None or (
            column.unit == "us" and not isinstance(kind, InstantTypeInfo)
        ):
            return same
        # Arrow would cut off the digits that a column's unit does not have.
        step = 1_000_000_000 // _PER_SECOND[column.unit]

        def count(value: Any) -> int:
            steps, rest = divmod(nanoseconds_of(value), step)
            if rest:
                msg = f"{short_repr(value)} is finer than the unit {column.unit}, which would lose data"
                raise ValueError(msg)
            return steps

        return count


_EPOCH: Final = dt.datetime(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_NANOSECONDS: Final[tuple[tuple[type, Callable[[Any], int]], ...]] = (
    (InstantTypeInfo, lambda value: value.seconds * 1_000_000_000 + value.nanos),
    (TimestampTypeInfo, lambda value: (value - _EPOCH) // _MICROSECOND * 1_000),
    (
        TimeTypeInfo,
        lambda value: (dt.datetime.combine(_EPOCH, value) - _EPOCH) // _MICROSECOND * 1_000,
    ),
)
"""For each type of times, the nanoseconds from the epoch or from midnight to a value."""


_SEAL: Final = struct.Struct("<8sL")
"""The seal of a file: `_SEAL_MAGIC`, and the checksum of all bytes before and after the seal."""
_SEAL_MAGIC: Final = b"pflseal1"
_END: Final = 8
"""The size of the end after the footer: the footer's length, and the magic of Parquet."""
_CHUNK: Final = 1 << 20


class _SealedFile:
    """A file for a writer of Parquet, with a seal in front of the footer.

    When it is closed, the writer writes the footer and maybe more.  So the file holds these bytes back, reads
    the footer's length at their end, and puts the seal before the footer.

    Args:
        file: The file itself, open for writing.
    """

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._checksum = 0
        self._held: bytearray | None = None

    def write(self, data: Any) -> int:
        """Write bytes, or hold them back after `hold`."""
        if self._held is not None:
            self._held += data
            return len(data)
        self._checksum = crc32(data, self._checksum)
        return self._file.write(data)

    def hold(self) -> None:
        """Hold back all bytes from now on; they end with the footer."""
        self._held = bytearray()

    def seal(self) -> None:
        """Write the bytes that were held back, with the seal in front of the footer."""
        held, self._held = bytes(self._held or b""), None
        footer = len(held) - _END - int.from_bytes(held[-_END : -_END + 4], "little")
        self.write(held[:footer])
        seal = _SEAL.pack(_SEAL_MAGIC, crc32(held[footer:], self._checksum))
        self._file.write(seal + held[footer:])

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()


def _check_seal(path: Path) -> None:
    """Compare a file with its seal, if it has one.

    Raises:
        ValueError: The file was changed after it had been written.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END))
        end = file.read(_END)
        at = size - _END - int.from_bytes(end[:4], "little") - _SEAL.size
        if at < 0:
            return
        file.seek(at)
        # Files of other writers have pages or indexes here.
        magic, sealed = _SEAL.unpack(file.read(_SEAL.size))
        if magic != _SEAL_MAGIC:
            return
        checksum, left = 0, at
        file.seek(0)
        while left and (chunk := file.read(min(left, _CHUNK))):
            checksum, left = crc32(chunk, checksum), left - len(chunk)
        file.seek(at + _SEAL.size)
        if crc32(file.read(), checksum) != sealed:
            msg = "its checksum is wrong, so its bytes were changed after writing"
            raise ValueError(msg)


# From columns to values


@attrs.frozen
class _ColumnReader:
    """Makes values from a column of a file.

    Args:
        path: The path of the file, for messages.
        is_utc: Whether an instant becomes a time in UTC if a time without a zone is declared.
        is_instant: Whether timestamps without a zone are instants, as timestamps of 96 bits are.
    """

    path: str
    is_utc: bool
    is_instant: bool

    def plan(
        self, where: str, found: pa.DataType, field: pa.Field, kind: TypeInformation
    ) -> tuple[pa.DataType, Convert]:
        """Return the type to which Arrow casts a column, and the function that then makes its values.

        Args:
            where: The name of the column or part, for messages.
            found: The type of the column in the file.
            field: The column as it is declared.
            kind: The declared type of the values.

        Raises:
            SparkSetupError: The column may have values that the declared type does not have.
        """
        cast, convert = self._plan(where, found, field.type, kind)
        if convert is same and field.nullable:
            return cast, same
        return cast, none_or(convert, is_nullable=field.nullable)

    def _plan(
        self, where: str, found: pa.DataType, wanted: pa.DataType, kind: TypeInformation
    ) -> tuple[pa.DataType, Convert]:
        if isinstance(kind, TupleTypeInfo) and pa.types.is_struct(found):
            return self._plan_row(where, found, wanted, kind)
        if isinstance(kind, MapTypeInfo) and pa.types.is_map(found):
            value = kind._value_type_info
            field = _nullable_if(wanted.item_field, value.accepts_none)
            key = self.plan(f"{where} (key)", found.key_type, wanted.key_field, kind._key_type_info)
            item = self.plan(f"{where} (value)", found.item_type, field, value)
            return pa.map_(key[0], item[0]), lambda pairs: {key[1](k): item[1](v) for k, v in pairs}
        if isinstance(kind, ListTypeInfo) and _is_list(found):
            part = kind.elem_type
            field = _nullable_if(wanted.value_field, part.accepts_none or kind._none_fits)
            cast, one = self.plan(f"{where} (element)", found.value_type, field, part)
            return pa.list_(cast), same if one is same else lambda value: list(map(one, value))
        plain = found.value_type if pa.types.is_dictionary(found) else found
        if not self._is_within(plain, wanted, kind):
            raise _other_file(self.path, f"{found} in column {where!r}, not {kind!r}", where)
        if pa.types.is_null(plain):
            return found, same
        return self._plan_leaf(plain, kind)

    def _plan_row(
        self, where: str, found: pa.DataType, wanted: pa.DataType, kind: TupleTypeInfo[Any]
    ) -> tuple[pa.DataType, Convert]:
        names, plans = [each.name for each in wanted], []
        for field, part in zip(wanted, kind.field_types):
            place = f"{where}.{field.name}"
            if found.get_field_index(field.name) < 0:
                there = [each.name for each in found]
                got = f"no field {field.name!r} of {where!r} among {there}"
                raise _other_file(self.path, got, place)
            plans.append(self.plan(place, found.field(field.name).type, field, part))
        cast = pa.struct([(name, each) for name, (each, _) in zip(names, plans)])
        parts = [(name, convert) for name, (_, convert) in zip(names, plans)]
        is_row = isinstance(kind, RowTypeInfo)

        def make(value: dict[str, Any]) -> Any:
            values = [convert(value[name]) for name, convert in parts]
            return restore_row(names, values, RowKind.INSERT) if is_row else tuple(values)

        return cast, make

    def _is_within(self, found: pa.DataType, wanted: pa.DataType, kind: TypeInformation) -> bool:
        """Return whether the declared type has all values that a column without parts may have."""
        types = pa.types
        if types.is_null(found):
            return True
        if isinstance(kind, IntegralTypeInfo):
            # The greatest values of a column without signs need one more bit.
            bits = kind.bits - types.is_unsigned_integer(found)
            return bool(types.is_integer(found) and found.bit_width <= bits)
        if isinstance(kind, DoubleTypeInfo):
            return bool(types.is_floating(found) and found.bit_width <= kind.arrow_type.bit_width)
        if isinstance(kind, BigDecTypeInfo):
            whole = wanted.precision - wanted.scale
            is_one = types.is_decimal(found) and found.scale <= wanted.scale
            return bool(is_one and found.precision - found.scale <= whole)
        if isinstance(kind, BigIntTypeInfo):
            is_decimal = types.is_decimal(found)
            return bool(found.scale == 0 if is_decimal else types.is_integer(found))
        if isinstance(kind, TimeTypeInfo):
            return bool(types.is_time(found))
        if isinstance(kind, TimestampTypeInfo):
            return bool(types.is_timestamp(found))
        if isinstance(kind, InstantTypeInfo):
            return bool(types.is_timestamp(found) and (found.tz is not None or self.is_instant))
        return is_cast(found, kind.arrow_type)

    def _plan_leaf(self, found: pa.DataType, kind: TypeInformation) -> tuple[pa.DataType, Convert]:
        if isinstance(kind, InstantTypeInfo):
            per_second = _PER_SECOND[found.unit]
            step = 1_000_000_000 // per_second
            return pa.int64(), lambda n: Instant(n // per_second, n % per_second * step)
        if isinstance(kind, TimestampTypeInfo):
            is_shown_as_it_is = self.is_utc or not (self.is_instant or found.tz)
            return kind.arrow_type, same if is_shown_as_it_is else _local_time
        if isinstance(kind, BigIntTypeInfo):
            return found, int
        if isinstance(kind, BigDecTypeInfo):
            return found, kind.converted
        # Arrow's types for these have more values, so each value is checked.
        is_limited = isinstance(kind, (CharTypeInfo, LimitedTextTypeInfo, LimitedBytesTypeInfo))
        return kind.arrow_type, kind.converted if is_limited else same

    def values(self, name: str, column: Column, plan: tuple[pa.DataType, Convert]) -> list[Any]:
        """Return the values of a column.

        Raises:
            SparkSetupError: A value does not fit the declared type.
        """
        cast, convert = plan
        try:
            values: list[Any] = column.cast(cast).to_pylist()
            return values if convert is same else list(map(convert, values))
        except (StateValueError, *_OF_ARROW) as error:
            got = f"{shown_error(error)} in column {name!r}"
            raise _other_file(self.path, got, name) from error


def _nullable_if(field: pa.Field, is_nullable: bool) -> pa.Field:
    return field.with_nullable(field.nullable and is_nullable)


def _local_time(value: dt.datetime) -> dt.datetime:
    """Return the local time of the machine for a time in UTC."""
    return value.replace(tzinfo=dt.timezone.utc).astimezone().replace(tzinfo=None, fold=0)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    is_fixed = types.is_fixed_size_list(kind)
    return bool(types.is_list(kind) or types.is_large_list(kind) or is_fixed)


def _other_file(path: str, got: str, where: str) -> SparkSetupError:
    msg = (
        f"a file of Parquet does not fit its row_type, got {got}, in {path!r}; declare {where!r} as "
        "it is in the file, or read other files"
    )
    return SparkSetupError(msg)


def _instants_of(file: pq.ParquetFile) -> set[str]:
    """Return the names of columns with timestamps of 96 bits, which are instants without a zone."""
    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    paths = [each.path for each in leaves if each.physical_type == "INT96"]
    # A name may contain dots, and so do the paths of parts.
    return {
        name
        for name in file.schema_arrow.names
        if any(f"{path}.".startswith(f"{name}.") for path in paths)
    }


def _has_nanoseconds(kind: pa.DataType) -> bool:
    """Return whether a declared column, or a part of it, has nanoseconds."""
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_map(kind):
        return _has_nanoseconds(kind.item_type) or _has_nanoseconds(kind.key_type)
    if pa.types.is_struct(kind) or _is_list(kind):
        return any(_has_nanoseconds(kind.field(at).type) for at in range(kind.num_fields))
    return False
