# SPDX-License-Identifier: Apache-2.0
"""The type of a DataFrame's elements, for operators that keep elements in state.

Users declare the types of a function's states.  Folds and windows keep whole elements without a
declaration, so the type of their state is the type of the DataFrame.  An element comes back from
state unchanged: a decimal keeps its scale, an array keeps its None, and an instant stays the same,
even in the hour that comes twice in autumn or after a restart in another time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_type

from pyflinklike.errors import DeclarationValueError, StateValueError
from pyflinklike.spark._wire.schema import arrow_type, ddl_type
from pyflinklike.types import RowTypeInfo, TypeInformation, Types
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.catalog import StoredColumnTypeInfo
from pyflinklike.types.conversions import Writer, type_of_column, writer_of
from pyflinklike.types.row import row_class
from pyflinklike.types.time_types import LocalTimeTypeInfo

_KNOWN: dict[type[st.DataType], TypeInformation] = {
    st.BooleanType: Types.BOOLEAN(),
    st.ByteType: Types.BYTE(),
    st.ShortType: Types.SHORT(),
    st.IntegerType: Types.INT(),
    st.LongType: Types.LONG(),
    st.FloatType: Types.FLOAT(),
    st.DoubleType: Types.DOUBLE(),
    st.StringType: Types.STRING(),
    st.BinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    st.DateType: Types.SQL_DATE(),
    st.TimestampNTZType: Types.SQL_TIMESTAMP(),
}


def element_type(schema: st.StructType, time_zone: str) -> RowTypeInfo:
    """Return the type of a DataFrame's rows.

    Args:
        schema: The schema of the DataFrame.
        time_zone: The zone of the session, in which a function sees instants.

    Raises:
        DeclarationTypeError: Python functions cannot take the type of a column.
    """
    kinds = [_type_of(field.dataType, time_zone) for field in schema.fields]
    return Types.ROW_NAMED(schema.names, kinds)


def type_of_ddl(df: DataFrame, ddl: str, what: str, time_zone: str) -> TypeInformation:
    """Return the type that DDL declares, a row or any other type.

    Args:
        df: Any DataFrame of the session that parses the DDL.
        ddl: DDL such as "n long, total double", or "long".
        what: The name of the argument, for messages.
        time_zone: The zone of the session, in which a function sees instants.

    Raises:
        DeclarationTypeError: Python functions cannot take the type.
        DeclarationValueError: The DDL does not parse.
    """
    try:
        # Spark parses the DDL of a plain type as a row with one column, so give it a column.
        column: Any = ddl_type(df, f"value {ddl}", what)
    except DeclarationValueError:
        columns: Any = ddl_type(df, ddl, what)
        return element_type(columns, time_zone)
    return _type_of(column["value"].dataType, time_zone)


def _type_of(kind: st.DataType, time_zone: str) -> TypeInformation:
    known = _KNOWN.get(type(kind))
    return (
        ColumnTypeInfo(kind.simpleString(), arrow_type(kind), time_zone) if known is None else known
    )


@attrs.frozen(repr=False)
class ColumnTypeInfo(StoredColumnTypeInfo):
    """The type of a column's values as a function sees them.

    Args:
        kind: Spark's name of the column's type.
        arrow_type: Arrow's type of the column.
        time_zone: The zone in which a function sees instants.  It is not written to state.
    """

    time_zone: str = attrs.field(eq=False)
    _of_values: TypeInformation | None = attrs.field(init=False, eq=False)
    _writer: Writer = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Find the type of the values; None if they have parts, or are all None."""
        kind = self.arrow_type
        has_values = not (pa.types.is_nested(kind) or pa.types.is_null(kind))
        found = type_of_column(kind, self.time_zone) if has_values else None
        object.__setattr__(self, "_of_values", found)
        object.__setattr__(self, "_writer", writer_of(kind, self.time_zone))

    @property
    def spark_type(self) -> st.DataType:
        """Spark's type of the column."""
        return from_arrow_type(self.arrow_type, prefer_timestamp_ntz=True)

    @property
    def adds_up(self) -> bool:
        """Whether a sum needs no rounding before it is stored: true of decimals.

        Python rounds a sum with more digits than its decimals keep.  State stores zeros for these
        digits, which is the same number.
        """
        return bool(pa.types.is_decimal(self.arrow_type))

    @property
    def is_identity(self) -> bool:
        """Whether the values are immutable, because the type has no fields or elements."""
        return not pa.types.is_nested(self.arrow_type)

    def freeze(self, value: Any) -> Any:
        """Return the value as the column gives it back, with tuples in place of mutable parts.

        Raises:
            StateValueError: The value does not fit the column.
        """
        if value is None:
            return None
        if self._of_values is not None:
            return self._of_values.freeze(value)
        # Through Arrow and back, so that state holds the same value before and after a restart.
        stored: Any = self.from_arrow(self._writer([value]))[0]
        return stored

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether the column would give all values back unchanged."""
        if isinstance(self._of_values, LocalTimeTypeInfo):
            return self._of_values.are_stored(values)
        kinds = set(map(type, values))
        if not self.is_identity or len(kinds) > 1 or None in values:
            return False
        # Once for all values, since a call of Arrow takes tens of microseconds.
        try:
            back = self.from_arrow(self._writer(values))
        except StateValueError:
            return False
        # By `repr`, since 1.0 and 1.00 are equal but not the same decimal.
        return set(map(type, back)) == kinds and list(map(repr, values)) == list(map(repr, back))

    def thaw(self, stored: Any) -> Any:
        """Return a value that the caller may change."""
        return _change(stored, self.arrow_type, _THAW)

    def to_arrow(self, stored: Sequence[Any]) -> pa.Array:
        """Encode stored values as a column."""
        values = stored if self.is_identity else [self.thaw(each) for each in stored]
        return self._writer(values)

    def from_arrow(self, column: pa.Array) -> list[Any]:
        """Return the stored values of a column."""
        values = to_python(column, self.time_zone)
        if self.is_identity:
            return values
        return [_change(value, self.arrow_type, _FREEZE) for value in values]


@attrs.frozen
class _Direction:
    """A conversion between values that can change and values that cannot.

    Args:
        row: Makes the value of a struct from its names and fields.
        pairs: Returns the keys and values of a map.
        mapping: Makes the value of a map from pairs.
        sequence: Makes the value of a list from its elements.
    """

    row: Callable[[tuple[str, ...], Sequence[Any]], Any]
    pairs: Callable[[Any], Any]
    mapping: Callable[[Any], Any]
    sequence: Callable[[Any], Any]


_FREEZE = _Direction(lambda _, fields: tuple(fields), lambda value: value.items(), tuple, tuple)
_THAW = _Direction(
    lambda names, fields: row_class(names)._make(fields), lambda value: value, dict, list
)


def _change(value: Any, kind: pa.DataType, way: _Direction) -> Any:
    """Convert a value of a column and all its parts to the other form."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        parts = [kind.field(at) for at in range(kind.num_fields)]
        fields = [_change(each, part.type, way) for each, part in zip(value, parts)]
        return way.row(tuple(part.name for part in parts), fields)
    if pa.types.is_map(kind):
        return way.mapping(
            (_change(key, kind.key_type, way), _change(each, kind.item_type, way))
            for key, each in way.pairs(value)
        )
    return way.sequence([_change(each, kind.value_type, way) for each in value])
