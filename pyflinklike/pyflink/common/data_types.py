# SPDX-License-Identifier: Apache-2.0
"""`DataTypes` declare the columns of files, as `pyflink.table.DataTypes`.

The Table API is not here, but PyFlink's `ParquetBulkWriters` and `CsvSchema` take its types.  So a
`DataType` holds two types: the type of the values in a job, and Arrow's type of the column in a file.
Types that no file has, such as intervals, are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

import attrs
import pyarrow as pa

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.pyflink._foreign_names import make_refused
from pyflinklike.pyflink.common.types import Types
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.basic_types import (
    BigDecTypeInfo,
    BigIntTypeInfo,
    StringTypeInfo,
)
from pyflinklike.types.conversions import type_of_column
from pyflinklike.types.nested_types import ByteArrayTypeInfo, ListTypeInfo, MapTypeInfo
from pyflinklike.types.row_types import TupleTypeInfo
from pyflinklike.types.time_types import InstantTypeInfo, IntervalTypeInfo
from pyflinklike.types.type_information import Column

__all__ = [
    "DataType",
    "DataTypes",
    "LimitedBytesTypeInfo",
    "LimitedTextTypeInfo",
    "as_data_type",
    "as_row_type",
]

_NO_COLUMN: Final = (
    "files have no column of this type: use INT or BIGINT for lengths, ARRAY or MAP for others"
)
_REFUSED: Final = "DAY HOUR INTERVAL LIST_VIEW MAP_VIEW MINUTE MONTH MULTISET NULL SECOND YEAR"
"""The types of PyFlink that `DataTypes` refuses."""
_UTC: Final = "UTC"


@attrs.frozen(repr=False)
class LimitedTextTypeInfo(StringTypeInfo):
    """A STRING with a greatest length.

    Args:
        length: The greatest number of characters.
    """

    length: int

    def freeze(self, value: Any) -> Any:
        """Return the str itself."""
        text = StringTypeInfo.freeze(self, value)
        if text is not None and len(text) > self.length:
            raise self._misfit(value, "cut it, or declare the column longer")
        return text

    def freeze_key(self, value: Any) -> Any:
        """Return the str itself."""
        return self.freeze(StringTypeInfo.freeze_key(self, value))

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain texts that are short enough."""
        return StringTypeInfo.are_stored(self, values) and max(map(len, values)) <= self.length

    # None: the base would write the texts as one column, without a look at their lengths.
    def _write(self, values: Sequence[Any]) -> Column | None:  # noqa: ARG002
        return None

    def _takes(self) -> str:
        return f"a str of {self.length} characters at most"


@attrs.frozen(repr=False)
class LimitedBytesTypeInfo(ByteArrayTypeInfo):
    """Bytes with a greatest length.

    Args:
        length: The greatest number of bytes.
    """

    written: ClassVar[frozenset[type]] = frozenset()

    length: int

    def freeze(self, value: Any) -> Any:
        """Return the bytes themselves."""
        data = ByteArrayTypeInfo.freeze(self, value)
        if len(data) > self.length:
            raise self._misfit(value, "cut them, or declare the column longer")
        return data

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain bytes that are short enough."""
        return ByteArrayTypeInfo.are_stored(self, values) and max(map(len, values)) <= self.length

    def _takes(self) -> str:
        return f"{self.length} bytes at most"


@attrs.frozen
class DataType:
    """A type that `DataTypes` makes.

    Args:
        name: The type as SQL writes it, such as `DECIMAL(10, 2)`.
        type_info: The type of the values in a job.
        column: Arrow's type of a column in a file.
        is_nullable: Whether values may be None.
    """

    name: str
    type_info: TypeInformation
    column: pa.DataType
    is_nullable: bool = True

    def nullable(self) -> DataType:
        """Return the same type, with values that may be None."""
        return attrs.evolve(self, is_nullable=True)

    def not_null(self) -> DataType:
        """Return the same type, with values that are never None."""
        return attrs.evolve(self, is_nullable=False)

    def bridged_to(self, conversion_cls: str) -> DataType:  # noqa: ARG002
        """Return the type itself: values are Python's, so a class of Java changes nothing."""
        return self

    def __str__(self) -> str:
        return self.name if self.is_nullable else f"{self.name} NOT NULL"


@attrs.frozen
class _Field:
    name: str
    data_type: DataType


class DataTypes:
    """Makes the types of columns in files, as in PyFlink.

    `DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT(nullable=False))])` is a row with one column.
    """

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of True and False."""
        return DataType("BOOLEAN", Types.BOOLEAN(), pa.bool_(), nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of ints of 8 bits."""
        return DataType("TINYINT", Types.BYTE(), pa.int8(), nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of ints of 16 bits."""
        return DataType("SMALLINT", Types.SHORT(), pa.int16(), nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of ints of 32 bits."""
        return DataType("INT", Types.INT(), pa.int32(), nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of ints of 64 bits."""
        return DataType("BIGINT", Types.LONG(), pa.int64(), nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of floats of 32 bits."""
        return DataType("FLOAT", Types.FLOAT(), pa.float32(), nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of floats of 64 bits."""
        return DataType("DOUBLE", Types.DOUBLE(), pa.float64(), nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of `Decimal`s.

        Args:
            precision: The number of digits, from 1 to 38.
            scale: The digits after the point, from 0 to `precision`.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: A number is out of its range.
        """
        _check_number("the precision of a DECIMAL", precision, 1, 38)
        _check_number("the scale of a DECIMAL", scale, 0, precision)
        column = pa.decimal128(precision, scale)
        return DataType(f"DECIMAL({precision}, {scale})", Types.BIG_DEC(), column, nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of texts; a shorter text is not padded.

        Args:
            length: The greatest length in characters.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The length is out of its range.
        """
        return _limited("CHAR", LimitedTextTypeInfo, length, pa.string(), nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of texts; a shorter text is not padded.

        Args:
            length: The greatest length in characters.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The length is out of its range.
        """
        return _limited("VARCHAR", LimitedTextTypeInfo, length, pa.string(), nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of texts."""
        return DataType("STRING", Types.STRING(), pa.string(), nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of bytes; shorter ones are not padded.

        Args:
            length: The greatest length in bytes.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The length is out of its range.
        """
        return _limited("BINARY", LimitedBytesTypeInfo, length, pa.binary(), nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of bytes; shorter ones are not padded.

        Args:
            length: The greatest length in bytes.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The length is out of its range.
        """
        return _limited("VARBINARY", LimitedBytesTypeInfo, length, pa.binary(), nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of bytes."""
        return DataType("BYTES", _BYTES, pa.binary(), nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of dates."""
        return DataType("DATE", Types.SQL_DATE(), pa.date32(), nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of times of day.

        Args:
            precision: The digits of the second's fraction.  Up to 3, a column is in ms as in Flink,
                otherwise in microseconds.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The precision is not from 0 to 9.
        """
        _check_number("the precision of a TIME", precision, 0, 9)
        column = pa.time32("ms") if precision <= 3 else pa.time64("us")
        return DataType(f"TIME({precision})", Types.SQL_TIME(), column, nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of dates with times of day: `datetime`s without a time zone.

        Args:
            precision: The digits of the second's fraction, which decide the unit of a column: ms up
                to 3, microseconds up to 6, otherwise nanoseconds.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The precision is not from 0 to 9.
        """
        column = pa.timestamp(_unit_of(precision))
        return DataType(f"TIMESTAMP({precision})", Types.SQL_TIMESTAMP(), column, nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(  # noqa: N802
        precision: int = 6, nullable: bool = True
    ) -> DataType:
        """Return the type of instants: `Instant`s, which may have nanoseconds.

        Args:
            precision: The digits of the second's fraction, as for `TIMESTAMP`.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The precision is not from 0 to 9.
        """
        column = pa.timestamp(_unit_of(precision), _UTC)
        return DataType(f"TIMESTAMP_LTZ({precision})", Types.INSTANT(), column, nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of instants, as `TIMESTAMP_WITH_LOCAL_TIME_ZONE`.

        Args:
            precision: The digits of the second's fraction, as for `TIMESTAMP`.
            nullable: Whether values may be None.

        Raises:
            DeclarationValueError: The precision is not from 0 to 9.
        """
        return DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision, nullable)

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of lists.

        Args:
            element_type: The type of the elements.
            nullable: Whether values may be None.
        """
        part = as_data_type(element_type)
        field = pa.field("element", part.column, part.is_nullable)
        # `Types` has two types for lists: only elements of an OBJECT_ARRAY may be None.
        make = Types.OBJECT_ARRAY if part.is_nullable else Types.LIST
        kind: TypeInformation = make(part.type_info)
        return DataType(f"ARRAY<{part}>", kind, pa.list_(field), nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of dicts.

        Args:
            key_type: The type of the keys.
            value_type: The type of the values.
            nullable: Whether values may be None.
        """
        key, item = as_data_type(key_type), as_data_type(value_type)
        value = pa.field("value", item.column, item.is_nullable)
        kind = Types.MAP(key.type_info, item.type_info)
        return DataType(f"MAP<{key}, {item}>", kind, pa.map_(key.column, value), nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> Any:  # noqa: ARG004, N802
        """Return a field for `ROW`.

        Args:
            name: The name of the column.
            data_type: The type of the column.
            description: A comment on the field; it is ignored.
        """
        return _Field(name, as_data_type(data_type))

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of rows.

        Args:
            row_fields: Fields made by `FIELD`; types alone get the names f0, f1, and so on.
            nullable: Whether values may be None.

        Raises:
            DeclarationTypeError: `row_fields` is no list of fields and types.
        """
        if isinstance(row_fields, (str, bytes, DataType)) or not isinstance(row_fields, Sequence):
            msg = f"a ROW takes a list of DataTypes.FIELD(name, type), got {short_repr(row_fields)}; put them into [...]"
            raise DeclarationTypeError(msg)
        fields = [
            each if isinstance(each, _Field) else _Field(f"f{at}", as_data_type(each))
            for at, each in enumerate(row_fields)
        ]
        names = [each.name for each in fields]
        kind = Types.ROW_NAMED(names, [each.data_type.type_info for each in fields])
        columns = [
            pa.field(each.name, each.data_type.column, each.data_type.is_nullable)
            for each in fields
        ]
        shown_fields = ", ".join(f"{each.name} {each.data_type}" for each in fields)
        return DataType(f"ROW<{shown_fields}>", kind, pa.struct(columns), nullable)


for _name in _REFUSED.split():
    setattr(DataTypes, _name, make_refused(f"table.types.DataTypes.{_name}", _NO_COLUMN))

_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())


def _check_number(what: str, number: Any, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        msg = f"{what} is from {least} to {most}, got {short_repr(number)}; give such an int"
        raise DeclarationValueError(msg)


def _limited(
    name: str, kind: Callable[[int], TypeInformation], length: int, column: Any, nullable: bool
) -> DataType:
    _check_number(f"the length of a {name}", length, 1, 2**31 - 1)
    return DataType(f"{name}({length})", kind(length), column, nullable)


def _unit_of(precision: int) -> Any:
    _check_number("the precision of a timestamp", precision, 0, 9)
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


# From types of `Types` and of Arrow


def as_row_type(row_type: Any, what: str) -> DataType:
    """Return the type of the rows of a file.

    Args:
        row_type: `DataTypes.ROW(...)`, `Types.ROW_NAMED(...)` or a `pyarrow.Schema`.
        what: The class or method that takes the argument, for messages.

    Raises:
        DeclarationTypeError: `row_type` is no type of rows, or a field has a type that files do not have.
    """
    if isinstance(row_type, pa.Schema):
        return _of_arrow(pa.struct(list(row_type)))
    found = row_type if isinstance(row_type, DataType) else None
    if isinstance(row_type, RowTypeInfo):
        found = as_data_type(row_type)
    if found is None or not isinstance(found.type_info, RowTypeInfo):
        msg = (
            f"{what} takes a type of rows, got {short_repr(row_type)}; give DataTypes.ROW(...), "
            "Types.ROW_NAMED(...) or a pyarrow.Schema"
        )
        raise DeclarationTypeError(msg)
    if not found.type_info.field_names:
        msg = f"{what} takes rows with fields, got none; declare at least one field"
        raise DeclarationTypeError(msg)
    return found


def as_data_type(kind: Any) -> DataType:
    """Return the `DataType` for a type of `Types`; a `DataType` is returned as it is.

    Raises:
        DeclarationTypeError: `kind` is no type, or files do not have it.
    """
    if isinstance(kind, DataType):
        return kind
    if not isinstance(kind, TypeInformation):
        msg = f"the type of a column is one of DataTypes or Types, got {short_repr(kind)}; give for example DataTypes.INT() or Types.INT()"
        raise DeclarationTypeError(msg)
    if kind.is_pickled:
        msg = (
            f"a column of a file takes no pickled objects, got {kind!r}; map elements to rows of "
            "other types"
        )
        raise DeclarationTypeError(msg)
    return DataType(repr(kind), kind, _column_of(kind))


def _column_of(kind: TypeInformation) -> pa.DataType:
    """Return Arrow's type of the column for values of a type."""
    if isinstance(kind, RowTypeInfo):
        pairs = zip(kind.field_names, kind.field_types)
        return pa.struct([(name, as_data_type(part).column) for name, part in pairs])
    if isinstance(kind, TupleTypeInfo):
        parts = enumerate(kind.field_types)
        return pa.struct([(f"f{at}", as_data_type(part).column) for at, part in parts])
    if isinstance(kind, ListTypeInfo):
        return pa.list_(pa.field("element", as_data_type(kind.elem_type).column))
    if isinstance(kind, MapTypeInfo):
        key, value = kind._key_type_info, kind._value_type_info
        return pa.map_(as_data_type(key).column, as_data_type(value).column)
    if isinstance(kind, BigDecTypeInfo):
        return pa.decimal128(38, 18)  # as Flink's own conversion of BIG_DEC
    if isinstance(kind, BigIntTypeInfo):
        return pa.decimal128(38, 0)
    if isinstance(kind, InstantTypeInfo):
        return pa.timestamp("us", _UTC)
    if isinstance(kind, ByteArrayTypeInfo):
        return pa.binary()
    return kind.arrow_type


_FAMILIES: Final = (
    (pa.types.is_decimal, Types.BIG_DEC()),
    (pa.types.is_time, Types.SQL_TIME()),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz, Types.INSTANT()),
    (pa.types.is_timestamp, Types.SQL_TIMESTAMP()),
    (pa.types.is_large_string, Types.STRING()),
    (pa.types.is_large_binary, _BYTES),
)
"""The types of values for columns of files that DataFrames do not have, or have with other values."""


def _of_arrow(kind: pa.DataType) -> DataType:
    """Return the `DataType` for a column with a type of Arrow.

    Raises:
        DeclarationTypeError: Jobs have no values for such a column.
    """
    name = str(kind)
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        parts = [_of_arrow(each.type).type_info for each in fields]
        return DataType(name, Types.ROW_NAMED([each.name for each in fields], parts), kind)
    if pa.types.is_list(kind):
        return DataType(name, Types.OBJECT_ARRAY(_of_arrow(kind.value_type).type_info), kind)
    if pa.types.is_map(kind):
        key, item = _of_arrow(kind.key_type).type_info, _of_arrow(kind.item_type).type_info
        return DataType(name, Types.MAP(key, item), kind)
    of_family = [found for is_one, found in _FAMILIES if is_one(kind)]
    if of_family:
        return DataType(name, of_family[0], kind)
    with suppress(KeyError):
        found = type_of_column(kind, _UTC)
        if not isinstance(found, IntervalTypeInfo):
            return DataType(name, found, kind)
    msg = f"jobs have no values for a column of type {kind}; give for example pa.int64() or pa.string()"
    raise DeclarationTypeError(msg)
