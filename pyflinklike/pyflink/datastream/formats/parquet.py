# SPDX-License-Identifier: Apache-2.0
"""Rows as files of Parquet, under PyFlink's path.

A file is read as it was declared, or not at all: a column that is missing, has a type with other
values, or holds what its declared type cannot hold, raises an error that names it.

Parquet has checksums of pages, but none of what is around them: a bit that changes in the footer may
give no rows, without an error.  So a file that is written here has a seal: a checksum of all of it,
in front of the footer, where readers of Parquet do not look.  A file without one must have as many
rows as it says.
"""

from __future__ import annotations

import datetime as dt
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyflinklike._checks import check_count
from pyflinklike._messages import shown, shown_error
from pyflinklike.errors import HostError, OutputError, StateValueError
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
from pyflinklike.pyflink.common.types import make_named_rows
from pyflinklike.pyflink.datastream.formats.avro import (
    AvroSchema,
    GenericRecordAvroTypeInfo,
    of_record,
    row_type_of,
    to_record,
)
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.basic_types import (
    BigDecTypeInfo,
    BigIntTypeInfo,
    BooleanTypeInfo,
    CharTypeInfo,
    DoubleTypeInfo,
    FloatTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
)
from pyflinklike.types.nested_types import ByteArrayTypeInfo, ListTypeInfo, MapTypeInfo
from pyflinklike.types.row_types import TupleTypeInfo
from pyflinklike.types.time_types import (
    DateTypeInfo,
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
"""The size in bytes at which a row group ends, as Flink's."""
_OF_ARROW: Final = (pa.ArrowException, ValueError, ArithmeticError, OSError)
"""What Arrow raises for values that do not fit, and for files that are damaged."""
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class ParquetColumnarRowInputFormat(BulkFormat):
    """Rows of files of Parquet, as PyFlink's, for `FileSource.for_bulk_file_format`.

    Unlike PyFlink's it reads lists, maps and rows inside rows, too.  A file may have more columns
    than are declared.

    Args:
        row_type: The type of the rows: `DataTypes.ROW(...)`, `Types.ROW_NAMED(...)` or a
            `pyarrow.Schema`.
        hadoop_config: Not used: PyArrow reads the files.
        batch_size: The number of rows that are read at once.
        is_utc_timestamp: Where an instant is in a column that is declared as a timestamp without a
            time zone: True gives its time in UTC, False its time in the zone of the machine.
        is_case_sensitive: False finds columns whatever the case of their letters.

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
        """Parquet."""
        return "Parquet"

    def read(self, path: Path) -> Iterator[Any]:
        """Yield the rows of a file.

        Raises:
            HostError: The file is damaged, or is not as declared.
        """
        unit = "ns" if _has_nanoseconds(self._row_type.column) else "us"
        try:
            _check_seal(path)
            # Files of Flink and Hive have timestamps of 96 bits, in which more than 64 bits of
            # nanoseconds can be: in microseconds all fit.
            with pq.ParquetFile(
                path, coerce_int96_timestamp_unit=unit, page_checksum_verification=True
            ) as file:
                yield from self._rows(file, path)
        except _OF_ARROW as error:
            msg = (
                f"a file of Parquet cannot be read, got {str(path)!r}: {shown_error(error)}; write it "
                "again, or take it away"
            )
            raise HostError(msg) from error

    def _rows(self, file: pq.ParquetFile, path: Path) -> Iterator[Any]:
        declared, names = self._row_type, self._find_names(file.schema_arrow.names, path)
        instants = _instants_of(file)
        kind = declared.type_info
        assert isinstance(kind, RowTypeInfo)
        readers = []
        for at, (name, part) in enumerate(zip(names, kind.field_types)):
            field = file.schema_arrow.field(name)
            wanted = declared.column.field(at)
            reading = _Reading(str(path), self._is_utc, is_instant=name in instants)
            reading.check(name, field.type, wanted.type, part)
            readers.append((name, part, wanted.nullable, reading))
        found = 0
        for batch in file.iter_batches(self._batch_size, columns=names):
            found += len(batch)
            columns = [
                reading.column(name, batch.column(name), part, is_nullable)
                for name, part, is_nullable, reading in readers
            ]
            yield from make_named_rows(kind.field_names, zip(*columns))
        if found != file.metadata.num_rows:
            msg = f"it says {file.metadata.num_rows} rows, and has {found}"
            raise ValueError(msg)

    def _find_names(self, there: Sequence[str], path: Path) -> list[str]:
        """Return the names that a file has for the declared columns."""
        kind = self._row_type.type_info
        assert isinstance(kind, RowTypeInfo)
        known: dict[str, list[str]] = {}
        for name in there:
            known.setdefault(name if self._is_case_sensitive else name.lower(), []).append(name)
        names = []
        for name in kind.field_names:
            found = known.get(name if self._is_case_sensitive else name.lower(), [])
            if len(found) != 1:
                raise _other_file(
                    str(path), f"{len(found) or 'no'} column {name!r} among {list(there)}", name
                )
            names.append(found[0])
        return names


class ParquetBulkWriters:
    """Makes writers of rows to files of Parquet, as PyFlink's, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: Any,
        hadoop_config: Any = None,  # noqa: ARG004
        utc_timestamp: bool = False,  # noqa: ARG004
    ) -> BulkWriterFactory:
        """Return the writers of rows of a type.

        Args:
            row_type: The type of the rows: `DataTypes.ROW(...)`, `Types.ROW_NAMED(...)` or a
                `pyarrow.Schema`.
            hadoop_config: Not used: PyArrow writes the files.
            utc_timestamp: Not used: a timestamp without a time zone is written as one.

        Raises:
            DeclarationTypeError: It is no type of rows, or files do not have a type in it.
        """
        return _ParquetWriters(as_row_type(row_type, "ParquetBulkWriters.for_row_type"))


@attrs.frozen
class _ParquetWriters(BulkWriterFactory):
    row_type: DataType

    def open(self, file: IO[bytes], type_info: TypeInformation) -> BulkWriter:  # noqa: ARG002
        schema = pa.schema([_open_field(each) for each in self.row_type.column])
        return RowBlocks(self.row_type, schema, _ParquetFileWriter(file, schema))


def _open_field(field: pa.Field, is_within_none: bool = False) -> pa.Field:
    """Return a column as it is written: where a row may be None its fields may, too.

    Arrow has a null in each field of a row that is null, and refuses to write it where the field is
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
    """Makes readers of generic records of Avro in files of Parquet, as PyFlink's."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Return the format of files with records of a schema, for `FileSource`.

        Args:
            schema: The schema.

        Raises:
            DeclarationTypeError: Files of Parquet have no column for a part of it.
        """
        return _AvroParquetFiles(GenericRecordAvroTypeInfo(schema), row_type_of(schema))


class AvroParquetWriters:
    """Makes writers of generic records of Avro to files of Parquet, as PyFlink's."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Return the writers of records of a schema, for `FileSink.for_bulk_format`.

        Args:
            schema: The schema.

        Raises:
            DeclarationTypeError: Files of Parquet have no column for a part of it.
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
        schema = self.records.schema.expand()
        for row in ParquetColumnarRowInputFormat(self.rows, is_utc_timestamp=True).read(path):
            record = to_record(row, self.rows.type_info, schema)
            try:
                self.records.freeze(record)
            except StateValueError as error:
                raise _other_file(str(path), str(error), self.records.schema.text) from error
            yield record


@attrs.frozen
class _AvroParquetWriters(BulkWriterFactory):
    records: GenericRecordAvroTypeInfo
    rows: DataType

    def open(self, file: IO[bytes], type_info: TypeInformation) -> BulkWriter:
        return _AvroParquetWriter(self, _ParquetWriters(self.rows).open(file, type_info))


@attrs.frozen
class _AvroParquetWriter:
    owner: _AvroParquetWriters
    writer: BulkWriter

    def add(self, value: Any) -> int:
        try:
            record = self.owner.records.converted(value)
        except StateValueError as error:
            msg = f"a file has records of its schema, got {shown(value)}: {error}"
            raise OutputError(msg) from error
        return self.writer.add(of_record(record, self.owner.rows.type_info))

    def finish(self) -> None:
        self.writer.finish()

    def abandon(self) -> None:
        self.writer.abandon()


class _ParquetFileWriter:
    """Writes record batches to a file, some of them as one row group."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = _SealedFile(file)
        self._writer = pq.ParquetWriter(self._file, schema, write_page_checksum=True)
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a record batch."""
        self._batches.append(batch)
        if sum(each.nbytes for each in self._batches) >= _ROW_GROUP:
            self._flush()

    def finish(self) -> None:
        """Write what is left, and the end of the file."""
        self._flush()
        self._file.hold()
        self._writer.close()
        self._file.seal()

    def abandon(self) -> None:
        """Close the writer: Arrow would do so later, when the file is closed, and complain."""
        with suppress(*_OF_ARROW):
            self._writer.close()

    def _flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, self._schema)
            self._writer.write_table(table, row_group_size=len(table))
            self._batches.clear()


_SEAL: Final = struct.Struct("<8sL")
"""The seal of a file: what tells that it is one, and the checksum of all before and behind it."""
_SEAL_MAGIC: Final = b"pflseal1"
_END: Final = 8
"""The size of what is behind the footer: its length, and Parquet's own magic."""
_CHUNK: Final = 1 << 20


class _SealedFile:
    """A file for a writer of Parquet, with a seal in front of the footer.

    Args:
        file: The file.
    """

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._checksum = 0
        self._held: bytearray | None = None

    def write(self, data: Any) -> int:
        """Write bytes, or hold them back."""
        if self._held is not None:
            self._held += data
            return len(data)
        self._checksum = crc32(data, self._checksum)
        return self._file.write(data)

    def hold(self) -> None:
        """Hold back what is written from now on, which ends with the footer."""
        self._held = bytearray()

    def seal(self) -> None:
        """Write what was held back, and the seal."""
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
        ValueError: It was changed after it had been written.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END))
        end = file.read(_END)
        at = size - _END - int.from_bytes(end[:4], "little") - _SEAL.size
        if at < 0:
            return
        file.seek(at)
        magic, sealed = _SEAL.unpack(file.read(_SEAL.size))
        if magic != _SEAL_MAGIC:
            return
        checksum, left = 0, at
        file.seek(0)
        while left and (chunk := file.read(min(left, _CHUNK))):
            checksum, left = crc32(chunk, checksum), left - len(chunk)
        file.seek(at + _SEAL.size)
        if crc32(file.read(), checksum) != sealed:
            msg = "its bytes are not those that were written, by their checksum"
            raise ValueError(msg)


class RowBlocks:
    """Writes rows in blocks of columns.

    Args:
        row_type: The type of the rows.
        schema: The schema of the file.
        writer: Writes record batches: `write`, `finish` and `abandon`.
    """

    def __init__(self, row_type: DataType, schema: pa.Schema, writer: Any) -> None:
        self._schema, self._writer = schema, writer
        kind = row_type.type_info
        assert isinstance(kind, RowTypeInfo)
        self._freeze, self._kind, self._fields = kind.freeze, kind, list(row_type.column)
        self._stored: list[Any] = []

    def add(self, value: Any) -> int:
        """Take a row; blocks are written when they are full.

        Raises:
            OutputError: It does not have the type of the rows.
        """
        try:
            self._stored.append(self._freeze(value))
        except StateValueError as error:
            msg = f"a file has rows of its type, got {shown(value)}: {error}"
            raise OutputError(msg) from error
        if len(self._stored) >= _BATCH:
            self._write()
        return 0

    def finish(self) -> None:
        """Write what is left, and the end of the file."""
        if self._stored:
            self._write()
        self._writer.finish()

    def abandon(self) -> None:
        """Let go of what is not written."""
        self._writer.abandon()

    def _write(self) -> None:
        stored, self._stored = self._stored, []
        parts = zip(self._fields, self._schema, self._kind.field_types)
        columns = [
            self._column(field, written, part, [row[at] for row in stored])
            for at, (field, written, part) in enumerate(parts)
        ]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _column(
        self, field: pa.Field, written: pa.Field, part: TypeInformation, values: list[Any]
    ) -> Column:
        try:
            return _to_file(part.to_arrow(values), part, field, written)
        except _OF_ARROW as error:
            # One by one, for the value that the message shows.
            for value in values:
                try:
                    _to_file(part.to_arrow([value]), part, field, written)
                except _OF_ARROW as own:
                    got = None if value is None else part.thaw(value)
                    raise _no_room(field, got, own) from error
            raise _no_room(field, None, error) from error


def _no_room(field: pa.Field, value: Any, error: Exception) -> OutputError:
    nulls = "" if field.nullable else " and never None"
    msg = (
        f"the column {field.name!r} of a file is {field.type}{nulls}, got {shown(value)}: "
        f"{shown_error(error)}; declare the column wider, or round the value"
    )
    return OutputError(msg)


# From values to columns


def _to_file(column: Column, part: TypeInformation, field: pa.Field, written: pa.Field) -> Column:
    """Return a column of stored values as a column of a file.

    Args:
        column: What `part.to_arrow` has made.
        part: The type of the values.
        field: The column as declared.
        written: The column as it is written.

    Raises:
        ValueError: A value does not fit; Arrow's own errors are its subclasses.
    """
    _refuse_null(column.null_count, field.nullable or written.nullable)
    wanted = written.type
    if isinstance(part, InstantTypeInfo):
        return _to_timestamps(column, wanted)
    if isinstance(part, (TupleTypeInfo, MapTypeInfo, ListTypeInfo)):
        return _convert_parts(column, part, field.type, wanted)
    if isinstance(part, BigDecTypeInfo):
        # In Python: Arrow would take a text in some forms only.
        return pa.array([None if t is None else part.thaw(t) for t in column.to_pylist()], wanted)
    return column.cast(wanted)


def _convert_parts(
    column: Column, part: TypeInformation, declared: pa.DataType, wanted: pa.DataType
) -> Column:
    mask = column.is_null() if column.null_count else None
    if isinstance(part, TupleTypeInfo):
        fields = [wanted.field(at) for at in range(wanted.num_fields)]
        children = []
        for at, (each, field) in enumerate(zip(part.field_types, fields)):
            child, own = column.field(at), declared.field(at)
            nulls = pc.sum(pc.and_(child.is_null(), column.is_valid())).as_py()
            _refuse_null(nulls, own.nullable)
            children.append(_to_file(child, each, own, field))
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if isinstance(part, MapTypeInfo):
        key, value = part._key_type_info, part._value_type_info
        keys = _to_file(column.keys, key, declared.key_field, wanted.key_field)
        items = _to_file(column.items, value, declared.item_field, wanted.item_field)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=wanted, mask=mask)
    assert isinstance(part, ListTypeInfo)
    values = _to_file(column.values, part.elem_type, declared.value_field, wanted.value_field)
    return pa.ListArray.from_arrays(column.offsets, values, type=wanted, mask=mask)


def _to_timestamps(column: Column, wanted: pa.DataType) -> Column:
    per_second = _PER_SECOND[wanted.unit]
    step = 1_000_000_000 // per_second
    counts: list[int | None] = []
    for instant in InstantTypeInfo().from_arrow(column):
        if instant is not None and instant.nanos % step:
            msg = f"{instant!r} is finer than the unit {wanted.unit}"
            raise ValueError(msg)
        counts.append(instant and instant.seconds * per_second + instant.nanos // step)
    return pa.array(counts, pa.int64()).cast(wanted)


# From columns to values


@attrs.frozen
class _Reading:
    """How a column of a file is read.

    Args:
        path: The path of the file.
        is_utc: Whether instants are shown as times in UTC where a time without a zone is declared.
        is_instant: Whether timestamps without a zone are instants, as those of 96 bits.
    """

    path: str
    is_utc: bool
    is_instant: bool

    def check(
        self, where: str, found: pa.DataType, wanted: pa.DataType, part: TypeInformation
    ) -> None:
        """Check that all values of a column can be read as declared.

        Args:
            where: The column, for messages.
            found: Its type in the file.
            wanted: Its type as declared.
            part: The type of its values.

        Raises:
            HostError: They cannot.
        """
        if isinstance(part, TupleTypeInfo) and pa.types.is_struct(found):
            for at, each in enumerate(part.field_types):
                field = wanted.field(at)
                if found.get_field_index(field.name) < 0:
                    names = [found.field(at).name for at in range(found.num_fields)]
                    got = f"no field {field.name!r} of {where!r} among {names}"
                    raise _other_file(self.path, got, f"{where}.{field.name}")
                self.check(f"{where}.{field.name}", found.field(field.name).type, field.type, each)
        elif isinstance(part, MapTypeInfo) and pa.types.is_map(found):
            self.check(f"{where} (key)", found.key_type, wanted.key_type, part._key_type_info)
            self.check(f"{where} (value)", found.item_type, wanted.item_type, part._value_type_info)
        elif isinstance(part, ListTypeInfo) and _is_list(found):
            self.check(f"{where} (element)", found.value_type, wanted.value_type, part.elem_type)
        elif not self._is_within(found, wanted, part):
            raise _other_file(self.path, f"{found} in column {where!r}, not {part!r}", where)

    def _is_within(self, found: pa.DataType, wanted: pa.DataType, part: TypeInformation) -> bool:
        """Return whether values of a type without parts are among those of the declared one."""
        is_one = next((test for kind, test in _WITHIN if isinstance(part, kind)), None)
        if pa.types.is_dictionary(found):
            found = found.value_type
        if pa.types.is_null(found):
            return True
        if is_one is None or not is_one(found, part):
            return False
        if isinstance(part, BigDecTypeInfo) and pa.types.is_decimal(wanted):
            whole = wanted.precision - wanted.scale
            return bool(found.scale <= wanted.scale and found.precision - found.scale <= whole)
        if isinstance(part, InstantTypeInfo):
            return bool(found.tz is not None or self.is_instant)
        return True

    def column(
        self, name: str, column: Column, part: TypeInformation, is_nullable: bool
    ) -> list[Any]:
        """Return the values of a column.

        Raises:
            HostError: One does not fit the declared type.
        """
        try:
            _refuse_null(column.null_count, is_nullable)
            return self._values(column, part)
        except (StateValueError, pa.ArrowInvalid, ValueError, ArithmeticError) as error:
            got = f"{shown_error(error)} in column {name!r}"
            raise _other_file(self.path, got, name) from error

    def _values(self, column: Column, part: TypeInformation) -> list[Any]:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type):
            return [None] * len(column)
        if isinstance(part, TupleTypeInfo):
            return self._rows(column, part)
        if isinstance(part, MapTypeInfo):
            return self._maps(column, part)
        if isinstance(part, ListTypeInfo):
            return self._lists(column, part)
        if isinstance(part, InstantTypeInfo):
            return _instants(column)
        if isinstance(part, TimestampTypeInfo):
            return self._wall_clocks(column)
        if isinstance(part, BigIntTypeInfo):
            return [None if each is None else int(each) for each in column.to_pylist()]
        if isinstance(part, _CHECKED):
            # Frozen and back: what the type does not take is told here.
            values = column.to_pylist()
            return [None if each is None else part.thaw(part.freeze(each)) for each in values]
        plain: list[Any] = column.cast(part.arrow_type).to_pylist()
        return plain

    def _rows(self, column: Column, part: TupleTypeInfo[Any]) -> list[Any]:
        # `flatten` gives each field a null where its row is one.
        fields = dict(zip((each.name for each in column.type), column.flatten()))
        names = part.field_names if isinstance(part, RowTypeInfo) else ()
        names = names or tuple(f"f{at}" for at in range(len(part.field_types)))
        values = zip(*(self._values(fields[n], t) for n, t in zip(names, part.field_types)))
        is_row = isinstance(part, RowTypeInfo)
        rows: Iterator[Any] = make_named_rows(names, values) if is_row else iter(values)
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist())]

    def _maps(self, column: Column, part: MapTypeInfo[Any, Any]) -> list[Any]:
        offsets = column.offsets.to_pylist()
        first, length = (offsets[0], offsets[-1] - offsets[0]) if offsets else (0, 0)
        keys = self._values(column.keys.slice(first, length), part._key_type_info)
        items = self._values(column.items.slice(first, length), part._value_type_info)
        _refuse_null(items.count(None), part._value_type_info.accepts_none)
        found = [
            dict(zip(keys[a - first : b - first], items[a - first : b - first]))
            for a, b in pairwise(offsets)
        ]
        return [
            each if valid else None for each, valid in zip(found, column.is_valid().to_pylist())
        ]

    def _lists(self, column: Column, part: ListTypeInfo[Any]) -> list[Any]:
        elements = self._values(column.flatten(), part.elem_type)
        _refuse_null(elements.count(None), part.elem_type.accepts_none or part._none_fits)
        lists: list[Any] = []
        at = 0
        for length in pc.list_value_length(column).to_pylist():
            # Elements of a list that is null are not among the flat ones.
            lists.append(None if length is None else elements[at : at + length])
            at += length or 0
        return lists

    def _wall_clocks(self, column: Column) -> list[Any]:
        is_instant = self.is_instant or column.type.tz is not None
        values = (
            column.cast(pa.timestamp("us", column.type.tz)).cast(pa.timestamp("us")).to_pylist()
        )
        if self.is_utc or not is_instant:
            return list(values)
        utc = dt.timezone.utc
        return [
            each and each.replace(tzinfo=utc).astimezone().replace(tzinfo=None, fold=0)
            for each in values
        ]


_CHECKED: Final = (BigDecTypeInfo, CharTypeInfo, LimitedTextTypeInfo, LimitedBytesTypeInfo)
"""Types that do not take all that a column of their type in Arrow may hold."""


def _refuse_null(count: int, is_value: bool) -> None:
    if count and not is_value:
        msg = "a null where none is declared"
        raise ValueError(msg)


def _instants(column: Column) -> list[Any]:
    per_second = _PER_SECOND[column.type.unit]
    step = 1_000_000_000 // per_second
    made: list[Any] = []
    for count in column.cast(pa.int64()).to_pylist():
        if count is None:
            made.append(None)
        else:
            seconds, rest = divmod(count, per_second)
            made.append(Instant(seconds, rest * step))
    return made


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    is_fixed = types.is_fixed_size_list(kind)
    return bool(types.is_list(kind) or types.is_large_list(kind) or is_fixed)


def _is_int(found: pa.DataType, part: TypeInformation) -> bool:
    assert isinstance(part, IntegralTypeInfo)
    if pa.types.is_signed_integer(found):
        return bool(found.bit_width <= part.bits)
    return bool(pa.types.is_unsigned_integer(found) and found.bit_width < part.bits)


def _is_float(found: pa.DataType, part: TypeInformation) -> bool:
    bits = 32 if isinstance(part, FloatTypeInfo) else 64
    return bool(pa.types.is_floating(found) and found.bit_width <= bits)


def _is_text(found: pa.DataType, _: TypeInformation) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _is_whole(found: pa.DataType, _: TypeInformation) -> bool:
    is_decimal = pa.types.is_decimal(found)
    return bool(found.scale == 0 if is_decimal else pa.types.is_integer(found))


def _is_binary(found: pa.DataType, _: TypeInformation) -> bool:
    types = pa.types
    is_fixed = types.is_fixed_size_binary(found) and not types.is_decimal(found)
    return bool(types.is_binary(found) or types.is_large_binary(found) or is_fixed)


_WITHIN: Final[tuple[tuple[type, Callable[[pa.DataType, TypeInformation], bool]], ...]] = (
    (BooleanTypeInfo, lambda found, _: pa.types.is_boolean(found)),
    (IntegralTypeInfo, _is_int),
    (FloatTypeInfo, _is_float),
    (DoubleTypeInfo, _is_float),
    (StringTypeInfo, _is_text),
    (CharTypeInfo, _is_text),
    (BigDecTypeInfo, lambda found, _: pa.types.is_decimal(found)),
    (BigIntTypeInfo, _is_whole),
    (ByteArrayTypeInfo, _is_binary),
    (DateTypeInfo, lambda found, _: pa.types.is_date(found)),
    (TimeTypeInfo, lambda found, _: pa.types.is_time(found)),
    (TimestampTypeInfo, lambda found, _: pa.types.is_timestamp(found)),
    (InstantTypeInfo, lambda found, _: pa.types.is_timestamp(found)),
)
"""For each type without parts, the check whether a column holds no others than its values."""


def _other_file(path: str, got: str, where: str) -> HostError:
    msg = (
        f"a file of Parquet is as its row_type declares, got {got}, in {path!r}; declare {where!r} as "
        "it is in the file, or read other files"
    )
    return HostError(msg)


def _instants_of(file: pq.ParquetFile) -> set[str]:
    """Return the columns that hold timestamps of 96 bits, which are instants without saying so."""
    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    paths = [each.path for each in leaves if each.physical_type == "INT96"]
    # A name may have dots, as paths of parts have.
    return {
        name
        for name in file.schema_arrow.names
        if any(f"{path}.".startswith(f"{name}.") for path in paths)
    }


def _has_nanoseconds(kind: pa.DataType) -> bool:
    """Return whether a declared column, or a part of it, holds nanoseconds."""
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_map(kind):
        return _has_nanoseconds(kind.item_type) or _has_nanoseconds(kind.key_type)
    if pa.types.is_struct(kind) or _is_list(kind):
        return any(_has_nanoseconds(kind.field(at).type) for at in range(kind.num_fields))
    return False
