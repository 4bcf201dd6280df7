# SPDX-License-Identifier: Apache-2.0
"""Records and rows as Avro, at PyFlink's path; needs the extra `avro`.

fastavro reads and writes the bytes.  A generic record is a dict with the values that fastavro has for Avro's
types, such as times with a zone for `timestamp-millis` and `Decimal`s for `decimal`.  A row of
`AvroRowSerializationSchema` has the values of `Types`, so rows are converted to records and back.

fastavro writes some values that do not fit their type: it cuts off microseconds, and takes any text for a uuid.
So a value is written only if the written bytes give the same value when they are read (`AvroSchema.check`).
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import attrs
import pyarrow as pa

from pyflinklike._checks import install
from pyflinklike._messages import instance_of, short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    RequirementError,
    SparkSetupError,
    StateValueError,
)
from pyflinklike.pyflink._graph.files import BulkWriter, BulkWriterFactory, FileSource, StreamFormat
from pyflinklike.pyflink._graph.serialization import (
    DeserializationSchema,
    SerializationSchema,
    value_of,
)
from pyflinklike.pyflink._graph.sources import Source, SourceMaker
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.data_types import DataType, DataTypes
from pyflinklike.pyflink.common.types import Row, Types
from pyflinklike.pyflink.datastream.formats.value_conversion import (
    Convert,
    PartConverter,
    same,
)
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.time_types import TimestampTypeInfo, TimeTypeInfo

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

__getattr__ = of_pyflink(__name__)


def _fastavro() -> Any:
    """Return the module fastavro.

    Raises:
        RequirementError: fastavro is not installed.
    """
    try:
        import fastavro
        import fastavro.schema
        import fastavro.validation
        import fastavro.write
    except ImportError as error:
        msg = f"Avro needs fastavro, which is not installed; {install('avro')}"
        raise RequirementError(msg, name="fastavro") from error
    return fastavro


# Schemas


@attrs.frozen(eq=False)
class AvroSchema:
    """A schema of Avro, as in PyFlink; `parse_string` and `parse_file` make it.

    Args:
        text: The schema as JSON.

    Raises:
        DeclarationTypeError: `text` is no text.
        DeclarationValueError: `text` is no schema.
        RequirementError: fastavro is not installed.
    """

    text: str
    parsed: Any = attrs.field(init=False, repr=False)
    _may_change_values: bool = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Parse the schema."""
        if not isinstance(self.text, str):
            msg = f"a schema of Avro is JSON, got {short_repr(self.text)}; give a text"
            raise DeclarationTypeError(msg)
        fastavro = _fastavro()
        try:
            parsed = fastavro.parse_schema(json.loads(self.text))
        except Exception as error:
            msg = f'a schema of Avro is JSON such as {{"type": "record", ...}}, got {short_repr(self.text)}: {shown_error(error)}'
            raise DeclarationValueError(msg) from error
        object.__setattr__(self, "parsed", parsed)
        kinds = ('"logicalType"', '"float"', '"double"')
        changes = any(each in json.dumps(parsed, default=str) for each in kinds)
        object.__setattr__(self, "_may_change_values", changes)

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Make a schema from a text.

        Args:
            json_schema: The schema as JSON.

        Raises:
            DeclarationTypeError, DeclarationValueError: The text is no schema.
            RequirementError: fastavro is not installed.
        """
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Make a schema from a file.

        Args:
            file_path: The path of a file with the schema as JSON.

        Raises:
            DeclarationValueError: The file contains no schema.
            OSError: The file cannot be read.
            RequirementError: fastavro is not installed.
        """
        return AvroSchema(Path(file_path).read_text(encoding="utf-8"))

    def expand(self) -> Any:
        """Return the schema as JSON, with each name replaced by the type that it names."""
        return _fastavro().schema.expand_schema(json.loads(self.text))

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value, without the schema.

        Raises:
            ValueError: The value does not fit the schema.
        """
        self.check(value)
        out = io.BytesIO()
        try:
            _fastavro().schemaless_writer(out, self.parsed, value, strict=True)
        except Exception as error:
            raise ValueError(_in_one_line(error)) from error
        return out.getvalue()

    def check(self, value: Any) -> None:
        """Check that a value fits the schema: it must stay the same when it is written and read.

        Raises:
            ValueError: The value does not fit the schema.
        """
        fastavro, out = _fastavro(), io.BytesIO()
        try:
            # Before the writer, which would cut off a number, or write a boolean as a number.
            fastavro.validation.validate(value, self.parsed, raise_errors=True, strict=True)
            if not self._may_change_values:
                return
            # fastavro takes any text for a uuid, and cuts off microseconds of a `timestamp-millis`.
            fastavro.schemaless_writer(out, self.parsed, value, strict=True)
            written = out.getvalue()
            read = fastavro.schemaless_reader(io.BytesIO(written), self.parsed)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self.parsed, read, strict=True)
        except Exception as error:
            raise ValueError(_in_one_line(error)) from error
        change = _find_change(value, read)
        if change is None and out.getvalue() != written:
            change = f"{short_repr(value)} would be read as {short_repr(read)}"
        if change is not None:
            raise ValueError(change)

    def decode(self, data: bytes) -> Any:
        """Return the value that bytes contain.

        Raises:
            ValueError: The bytes do not fit the schema.
        """
        given = io.BytesIO(data)
        try:
            value = _fastavro().schemaless_reader(given, self.parsed)
        except RequirementError:
            raise
        # Any error: for bytes of another schema fastavro raises many kinds, such as EOFError or IndexError.
        except Exception as error:
            msg = f"these bytes do not fit the schema of Avro: {shown_error(error)}"
            raise ValueError(msg) from error
        left = len(data) - given.tell()
        if left:
            msg = f"these bytes do not fit the schema of Avro: {left} of {len(data)} are left over"
            raise ValueError(msg)
        return value

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.parsed == other.parsed

    def __hash__(self) -> int:
        return hash(json.dumps(self.parsed, sort_keys=True, default=str))

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (self.text,)


def _find_change(given: Any, read: Any, where: str = "") -> str | None:
    """Return a sentence about a part of a value that changes when it is read; None if no part changes."""
    if isinstance(read, dict) and isinstance(given, Mapping):
        parts = [
            (given[name], each, f"{where}.{name}") for name, each in read.items() if name in given
        ]
    elif isinstance(read, list):
        parts = [(*pair, f"{where}[{at}]") for at, pair in enumerate(zip(given, read))]
    elif isinstance(given, tuple):  # a value of a union, with the name of its type
        parts = [(given[1], read, where)]
    else:
        if isinstance(read, float) and isinstance(given, float):
            # Avro's float has 32 bits: a rounded number is fine, but not one that became infinite.
            is_same = math.isfinite(given) == math.isfinite(read)
        else:
            is_exact = isinstance(given, (dt.date, dt.time, Decimal)) or isinstance(read, float)
            is_same = given == read or not is_exact
        at = where.lstrip(".")
        return (
            None
            if is_same
            else f"{short_repr(given)} {at and f'in {at!r} '}would be read as {short_repr(read)}"
        )
    return next(filter(None, (_find_change(*part) for part in parts)), None)


def _in_one_line(error: Exception) -> str:
    """Return the message of an error in one line; fastavro writes a list in JSON over several lines."""
    return " ".join(shown_error(error).split())


def _check_schema(schema: Any) -> AvroSchema:
    if not isinstance(schema, AvroSchema):
        remedy = instance_of(AvroSchema, schema, "make it by AvroSchema.parse_string")
        msg = f"Avro needs an AvroSchema, got {short_repr(schema)}; {remedy}"
        raise DeclarationTypeError(msg)
    return schema


@attrs.frozen(repr=False)
class GenericRecordAvroTypeInfo(TypeInformation[Any]):
    """The type of generic records of a schema, which are dicts; a `Row` with names becomes a dict.

    Args:
        schema: The schema of the records.

    Raises:
        DeclarationTypeError: `schema` is no `AvroSchema`.
    """

    schema: AvroSchema = attrs.field(converter=_check_schema)
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.binary())

    @property
    def is_identity(self) -> bool:
        """False: the stored form is the bytes of Avro."""
        return False

    @property
    def signature(self) -> str:
        """The type with its whole schema, for the check of stored state."""
        return f"GenericRecordAvroTypeInfo({self.schema.text!r})"

    def freeze(self, value: Any) -> Any:
        """Return the bytes of a record, or of a `Row` with names."""
        record = value.as_dict(recursive=True) if isinstance(value, Row) else value
        try:
            return self.schema.encode(record)
        except ValueError as error:
            raise self._misfit(value, f"{error}; give a dict with these fields") from error

    def thaw(self, stored: Any) -> Any:
        """Return the record that bytes contain."""
        return self.schema.decode(stored)

    def _takes(self) -> str:
        return "a record of its schema"

    def __repr__(self) -> str:
        name = self.schema.parsed.get("name") if isinstance(self.schema.parsed, dict) else None
        return f"GenericRecord<{name or self.schema.text}>"


# Files


@attrs.frozen
class AvroFiles(StreamFormat):
    """Reads generic records from files of Avro, by Avro's rules for files with another schema.

    Args:
        schema: The schema of the reader.
    """

    schema: AvroSchema

    @property
    def type_info(self) -> TypeInformation:
        """The type of the records."""
        return GenericRecordAvroTypeInfo(self.schema)

    @property
    def name(self) -> str:
        """The name of the format."""
        return "Avro"

    def read(self, path: Path) -> Iterator[Any]:
        """Yield the records of a file.

        Raises:
            SparkSetupError: The file is damaged, or Avro cannot resolve its schema to the declared one.
        """
        fastavro = _fastavro()
        with path.open("rb") as file:
            try:
                yield from self._records(fastavro, file)
            except Exception as error:
                raise _bad_file(path, error) from error

    def _records(self, fastavro: Any, file: IO[bytes]) -> Iterator[Any]:
        end = None
        for block in fastavro.block_reader(file, self.schema.parsed):
            yield from block
            # fastavro reads as many records as the block declares, and would ignore more bytes.
            left = len(block.bytes_.read())
            if left:
                msg = f"a block of {block.num_records} records has {left} more bytes than these records"
                raise ValueError(msg)
            end = block.offset + block.size
        if end is not None and end != file.seek(0, os.SEEK_END):
            msg = "it ends within a block"
            raise ValueError(msg)


def _bad_file(path: Path, error: Exception) -> SparkSetupError:
    msg = (
        f"a file of Avro cannot be read by the declared schema, got {str(path)!r}: {shown_error(error)}; "
        "declare the schema of the file, give new fields a default, or write the file again"
    )
    return SparkSetupError(msg)


class AvroInputFormat(SourceMaker):
    """Reads generic records from files of Avro, as in PyFlink, for `env.create_input`.

    Args:
        path: The path of a file or folder.
        schema: The schema of the records, to which Avro's rules resolve the schema of each file.

    Raises:
        DeclarationTypeError: `schema` is no `AvroSchema`.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._format = AvroFiles(_check_schema(schema))
        self._path = path

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Return the type of the records."""
        return GenericRecordAvroTypeInfo(self._format.schema)

    def source(self) -> Source:
        """Make the source of the records."""
        return FileSource.for_record_stream_format(self._format, self._path).build()


class AvroBulkWriters:
    """Makes writers of generic records to files of Avro, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Return the factory of writers for records of a schema.

        Args:
            schema: The schema of the files.

        Raises:
            DeclarationTypeError: `schema` is no `AvroSchema`.
        """
        return _AvroWriters(_check_schema(schema))


@attrs.frozen
class _AvroWriters(BulkWriterFactory):
    schema: AvroSchema

    def open(self, file: IO[bytes], type_info: TypeInformation) -> BulkWriter:  # noqa: ARG002
        return _AvroFileWriter(file, self.schema)


class _AvroFileWriter:
    def __init__(self, file: IO[bytes], schema: AvroSchema) -> None:
        self._schema = schema
        self._writer = _fastavro().write.Writer(file, schema.parsed, codec="null")

    def add(self, value: Any) -> int:
        record = value.as_dict(recursive=True) if isinstance(value, Row) else value
        try:
            self._schema.check(record)
            self._writer.write(record)
        except Exception as error:
            msg = f"a record does not fit the schema of its file, got {short_repr(value)}: {_in_one_line(error)}"
            raise OutputError(msg) from error
        return 0

    def finish(self) -> None:
        self._writer.flush()

    def abandon(self) -> None:
        """Do nothing: the sink removes the file."""


# Rows


class _RowSchema:
    """The base of both schemas, which convert rows to records of Avro and back.

    Args:
        record_class: The name of a class in Java, which is refused.
        avro_schema_string: The schema of a record, as JSON.

    Raises:
        SparkSetupError: `record_class` is given.
        DeclarationTypeError, DeclarationValueError: The schema is missing or wrong, or rows cannot represent it.
        RequirementError: fastavro is not installed.
    """

    def __init__(
        self, record_class: str | None = None, avro_schema_string: str | None = None
    ) -> None:
        what = type(self).__name__
        if record_class is not None:
            msg = f"a record class is written in Java, got {short_repr(record_class)}; give {what} avro_schema_string"
            raise SparkSetupError(msg)
        if avro_schema_string is None:
            msg = f"{what} needs a schema, got none; give avro_schema_string"
            raise DeclarationTypeError(msg)
        self._schema = AvroSchema(avro_schema_string)
        rows = row_type_of(self._schema)
        self._type_info = rows.type_info
        self._read, self._write = record_reader(rows), record_writer(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self._schema.text)


class AvroRowSerializationSchema(_RowSchema, SerializationSchema):
    """Makes records of Avro, without their schema, from rows, as in PyFlink.

    Args:
        record_class: The name of a class in Java, which is refused.
        avro_schema_string: The schema of a record, as JSON.
    """

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a row.

        Raises:
            OutputError: The row does not fit the schema.
        """
        try:
            return self._schema.encode(self._write(self._type_info.converted(element)))
        except (StateValueError, ValueError) as error:
            msg = f"AvroRowSerializationSchema writes {self._type_info!r}, got {short_repr(element)}: {error}"
            raise OutputError(msg) from error


class AvroRowDeserializationSchema(_RowSchema, DeserializationSchema):
    """Makes rows from records of Avro without their schema, as in PyFlink.

    Args:
        record_class: The name of a class in Java, which is refused.
        avro_schema_string: The schema of a record, as JSON.
    """

    def deserialize(self, message: bytes | None) -> Any:
        """Return the row for the bytes of a record.

        Raises:
            ValueError: The bytes do not fit the schema.
        """
        return self._type_info.converted(self._read(self._schema.decode(value_of(message))))

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info


_PLAIN: Final[Mapping[str, DataType]] = {
    "boolean": DataTypes.BOOLEAN(),
    "int": DataTypes.INT(),
    "long": DataTypes.BIGINT(),
    "float": DataTypes.FLOAT(),
    "double": DataTypes.DOUBLE(),
    "string": DataTypes.STRING(),
    "enum": DataTypes.STRING(),
    "bytes": DataTypes.BYTES(),
    "fixed": DataTypes.BYTES(),
    "int.date": DataTypes.DATE(),
    "int.time-millis": DataTypes.TIME(3),
    "long.time-micros": DataTypes.TIME(6),
    "long.timestamp-millis": DataTypes.TIMESTAMP(3),
    "long.timestamp-micros": DataTypes.TIMESTAMP(6),
    "string.uuid": DataTypes.STRING(),
}
"""Types of rows by the types of Avro, with a dot and the logical type if there is one."""


def row_type_of(schema: AvroSchema) -> DataType:
    """Return the type of rows for the records of a schema.

    Raises:
        DeclarationTypeError: The schema has no records, or rows have no type for a part of it.
    """
    kind = _type_of(schema.expand(), {})
    if not isinstance(kind.type_info, RowTypeInfo):
        msg = f"rows need a schema of records, got the schema {schema.text}; give one of the type record"
        raise DeclarationTypeError(msg)
    return kind


def _type_of(schema: Any, named: dict[str, DataType | None]) -> DataType:
    """Return the type for a part of a schema; `named` collects the parts that later parts may name."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) == 1:
            kind = _type_of(others[0], named)
            return kind.nullable() if len(schema) > 1 else kind
        raise _no_type(schema)
    if isinstance(schema, str) and schema in named:
        found = named[schema]
        if found is None:  # a record within itself
            raise _no_type(schema)
        return found
    name = schema if isinstance(schema, str) else schema["type"]
    if isinstance(name, (dict, list)):
        return _type_of(name, named)
    if name == "record":
        named[schema["name"]] = None
        fields = [(each["name"], _type_of(each["type"], named)) for each in schema["fields"]]
        row = DataTypes.ROW([DataTypes.FIELD(*each) for each in fields], nullable=False)
        named[schema["name"]] = row
        return row
    if name == "array":
        return DataTypes.ARRAY(_type_of(schema["items"], named), nullable=False)
    if name == "map":
        values = _type_of(schema["values"], named)
        return DataTypes.MAP(DataTypes.STRING(), values, nullable=False)
    kind = _plain_type_of(schema, name).not_null()
    if name in ("enum", "fixed"):
        named[schema["name"]] = kind
    return kind


def _plain_type_of(schema: Any, name: str) -> DataType:
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if logical == "decimal":
        return DataTypes.DECIMAL(schema["precision"], schema.get("scale", 0))
    # Avro ignores unknown logical types.  fastavro knows more timestamps than rows have, so these are refused.
    is_other_time = "timestamp" in str(logical) and f"{name}.{logical}" not in _PLAIN
    found = _PLAIN.get(f"{name}.{logical}") or _PLAIN.get(name)
    if found is None or is_other_time:
        raise _no_type(schema)
    return found


def _no_type(schema: Any) -> DeclarationTypeError:
    msg = (
        f"rows have no type for {short_repr(schema)} of a schema of Avro; write your own DeserializationSchema or "
        "SerializationSchema with AvroSchema.decode and encode"
    )
    return DeclarationTypeError(msg)


class _RecordReader(PartConverter):
    """Makes the values of rows from the values of fastavro."""

    def row(self, names: Sequence[str], parts: Sequence[Convert]) -> Convert:
        return lambda record: tuple([part(record[name]) for name, part in zip(names, parts)])

    def leaf(self, kind: TypeInformation, column: pa.DataType) -> Convert:  # noqa: ARG002
        if isinstance(kind, TimestampTypeInfo):
            return lambda value: value.astimezone(dt.timezone.utc).replace(tzinfo=None)
        # fastavro gives a `UUID` for a uuid, and rows have a text.
        return str if kind == Types.STRING() else same


class _RecordWriter(PartConverter):
    """Makes the values of fastavro from the values of rows."""

    def row(self, names: Sequence[str], parts: Sequence[Convert]) -> Convert:
        return lambda row: {name: part(each) for name, part, each in zip(names, parts, row)}

    def leaf(self, kind: TypeInformation, column: pa.DataType) -> Convert:
        if not isinstance(kind, (TimestampTypeInfo, TimeTypeInfo)):
            return same

        def zoned(value: Any) -> Any:
            if column.unit == "ms" and value.microsecond % 1000:
                msg = f"{value} is finer than {'time' if isinstance(value, dt.time) else 'timestamp'}-millis"
                raise ValueError(msg)
            return value if isinstance(value, dt.time) else value.replace(tzinfo=dt.timezone.utc)

        return zoned


def record_reader(rows: DataType) -> Convert:
    """Return the function that makes the values of a row from a record of fastavro."""
    return _RecordReader().function_of(rows.type_info, pa.field("", rows.column))


def record_writer(rows: DataType) -> Convert:
    """Return the function that makes a record of fastavro from a row.

    The function raises a ValueError if a time has more digits than its schema.
    """
    return _RecordWriter().function_of(rows.type_info, pa.field("", rows.column))
