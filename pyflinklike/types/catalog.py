# SPDX-License-Identifier: Apache-2.0
"""The types by PyFlink's names, and the way back from the signature of a type to the type.

A log or a savepoint stores the signatures of the types of its state.  The program that wrote it only
compares them.  Code that reads state without that program makes types of them with `type_of`.

Folds, windows and joins of DataFrames keep whole rows.  Some columns have no type in `Types` that gives
every value back unchanged: instants, decimals, intervals, arrays, maps and structs.  Their type is
Spark's, and state names it by Spark's `simpleString`, as in `ColumnTypeInfo(decimal(10,2))`.  The
program itself has its own class for such a type (`pyflinklike.aggregations._element_types`), which
knows the session's time zone; `StoredColumnTypeInfo` is for code that reads state without its program.
Both classes have the same signature and write the same column.

The pickle of a type is the call of `Types` that makes it.  So the pickle of a descriptor says
`Types.LIST(Types.LONG())`, as a program does.  It does not name the classes that check and copy
values, because these are not public.
"""

from __future__ import annotations

import ast
import copyreg
import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, T, V
from pyflinklike.errors import DeclarationTypeError, IncompatibleStateError
from pyflinklike.types.arrow_rows import to_python
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
from pyflinklike.types.key_codec import AnyKeyTypeInfo
from pyflinklike.types.nested_types import (
    BasicArrayTypeInfo,
    ByteArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    require_type,
)
from pyflinklike.types.pickled_type import PickledByteArrayTypeInfo
from pyflinklike.types.row_types import RowTypeInfo, TupleTypeInfo, default_of
from pyflinklike.types.time_types import (
    DateTypeInfo,
    Instant,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from pyflinklike.types.type_information import Column, TypeInformation

_STRING = StringTypeInfo()
_CHAR = CharTypeInfo()
_BOOLEAN = BooleanTypeInfo()
_BYTE = IntegralTypeInfo("Byte", 8, pa.int8())
_SHORT = IntegralTypeInfo("Short", 16, pa.int16())
_INT = IntegralTypeInfo("Integer", 32, pa.int32())
_LONG = IntegralTypeInfo("Long", 64, pa.int64())
_FLOAT = FloatTypeInfo()
_DOUBLE = DoubleTypeInfo()
_BIG_INT = BigIntTypeInfo()
_BIG_DEC = BigDecTypeInfo()
_INSTANT = InstantTypeInfo()
_SQL_DATE = DateTypeInfo()
_SQL_TIME = TimeTypeInfo()
_SQL_TIMESTAMP = TimestampTypeInfo()
_PICKLED = PickledByteArrayTypeInfo()
_BYTE_ARRAY = ByteArrayTypeInfo()

# PyFlink makes primitive arrays of these only; an array of strings is a BASIC_ARRAY.
_PRIMITIVE = (_BOOLEAN, _BYTE, _SHORT, _INT, _LONG, _FLOAT, _DOUBLE, _CHAR)


# ruff: disable[N802] - the names are PyFlink's
class Types:
    """The types of keys and state, as `pyflink.common.Types`.

    Example:
        ```python
        Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))
        Types.ROW_NAMED(["user", "clicks"], [Types.STRING(), Types.LONG()])
        ```
    """

    @staticmethod
    def STRING() -> TypeInformation[str]:
        """Give the type of a str, or None."""
        return _STRING

    @staticmethod
    def BYTE() -> TypeInformation[int]:
        """Give the type of an int of 8 bits."""
        return _BYTE

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:
        """Give the type of True and False."""
        return _BOOLEAN

    @staticmethod
    def SHORT() -> TypeInformation[int]:
        """Give the type of an int of 16 bits."""
        return _SHORT

    @staticmethod
    def INT() -> TypeInformation[int]:
        """Give the type of an int of 32 bits."""
        return _INT

    @staticmethod
    def LONG() -> TypeInformation[int]:
        """Give the type of an int of 64 bits."""
        return _LONG

    @staticmethod
    def FLOAT() -> TypeInformation[float]:
        """Give the type of a float that is rounded to 32 bits."""
        return _FLOAT

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:
        """Give the type of a float."""
        return _DOUBLE

    @staticmethod
    def CHAR() -> TypeInformation[str]:
        """Give the type of a str of one character."""
        return _CHAR

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:
        """Give the type of an int of any size, or None."""
        return _BIG_INT

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:
        """Give the type of a finite `decimal.Decimal`, or None."""
        return _BIG_DEC

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:
        """Give the type of an `Instant`, or None."""
        return _INSTANT

    @staticmethod
    def SQL_DATE() -> TypeInformation[dt.date]:
        """Give the type of a `datetime.date`, or None."""
        return _SQL_DATE

    @staticmethod
    def SQL_TIME() -> TypeInformation[dt.time]:
        """Give the type of a `datetime.time` without a time zone, or None."""
        return _SQL_TIME

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[dt.datetime]:
        """Give the type of a `datetime.datetime` without a time zone, or None."""
        return _SQL_TIMESTAMP

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:
        """Give the type of anything that pickle takes."""
        return _PICKLED

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Give the type of a `Row` with the fields f0, f1, and so on.

        Args:
            field_types: The type of each field.
        """
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> RowTypeInfo:
        """Give the type of a `Row` with these fields.

        Args:
            field_names: The name of each field, no name twice.
            field_types: The type of each field, in the order of the names.
            defaults: By name, the value of a field in rows that were stored before the field was
                declared: None (as without a default), a bool, a finite number, a str or bytes.
                PyFlink has no defaults.
        """
        return RowTypeInfo(field_types, field_names, defaults or {})

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo[tuple[Any, ...]]:
        """Give the type of a tuple of these fields."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Give the type of a list of numbers, bools or characters without None; of bytes for BYTE."""
        _element(element_type, _PRIMITIVE, "primitive")
        return _BYTE_ARRAY if element_type == _BYTE else PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[T]) -> BasicArrayTypeInfo[T]:
        """Give the type of a list of numbers, bools, characters or strings, which may hold None."""
        _element(element_type, (*_PRIMITIVE, _STRING), "basic")
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[T]) -> ObjectArrayTypeInfo[T]:
        """Give the type of a list of elements of any type, which may hold None."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(
        key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]
    ) -> MapTypeInfo[K, V]:
        """Give the type of a dict."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation[T]) -> ListTypeInfo[T]:
        """Give the type of a list."""
        return ListTypeInfo(element_type_info)


# ruff: enable[N802]


def _element(
    element_type: TypeInformation, allowed: tuple[TypeInformation, ...], kind: str
) -> None:
    if require_type(element_type, "element_type") not in allowed:
        msg = f"a {kind} array has elements of {list(allowed)}, got {short_repr(element_type)}; use OBJECT_ARRAY or LIST"
        raise DeclarationTypeError(msg)


# Types of columns

PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Arrow's types by Spark's names, of all columns without parts; a key may have any of them."""
DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
"""Spark's name of a decimal type: precision and scale."""
TEXT = re.compile(r"(?:varchar|char)\(\d+\)|string collate \w+")
"""Spark's names for types of text other than a plain string."""

_WORDS = {"void": pa.null(), **PLAIN}
# Longer words must come first, because "timestamp_ntz" begins with "timestamp".
_WORD = re.compile("|".join(sorted(_WORDS, key=len, reverse=True)))
_INTERVAL = re.compile(r"interval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?")
_COLUMNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], pa.DataType]], ...] = (
    (DECIMAL, lambda found: pa.decimal128(int(found[1]), int(found[2]))),
    (_INTERVAL, lambda _: pa.duration("us")),
    (TEXT, lambda _: pa.string()),
    (_WORD, lambda found: _WORDS[found[0]]),
)
# Spark writes the name of a field without quotes; a name with a colon cannot be read back.
_COLUMN_FIELD = re.compile(r"([^:]+):")


@attrs.frozen(repr=False)
class StoredColumnTypeInfo(TypeInformation):
    """The type of a column's stored values.

    Args:
        kind: Spark's name of the column's type, its `simpleString`.
        arrow_type: Arrow's type of the stored column.
    """

    accepts_none: ClassVar[bool] = True

    kind: str
    arrow_type: pa.DataType = attrs.field(eq=False)

    def freeze(self, value: Any) -> Any:
        """Return the value."""
        return value

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the values of a column, with instants as datetimes in UTC."""
        return to_python(column, "UTC")

    def _takes(self) -> str:
        return f"what a column of type {self.kind} holds"

    def __repr__(self) -> str:
        return f"ColumnTypeInfo({self.kind})"


# Types of signatures

_MAKERS: tuple[Callable[[], TypeInformation], ...] = (
    Types.BOOLEAN,
    Types.BYTE,
    Types.SHORT,
    Types.INT,
    Types.LONG,
    Types.FLOAT,
    Types.DOUBLE,
    Types.STRING,
    Types.CHAR,
    Types.BIG_INT,
    Types.BIG_DEC,
    Types.INSTANT,
    Types.SQL_DATE,
    Types.SQL_TIME,
    Types.SQL_TIMESTAMP,
    Types.PICKLED_BYTE_ARRAY,
)
_MAKER_OF = {make(): make for make in _MAKERS}
"""The call of `Types` that makes each type without parts."""
_SCALARS = {each.signature: each for each in (*_MAKER_OF, AnyKeyTypeInfo())}
_OF_ELEMENTS: dict[str, Callable[[Any], TypeInformation]] = {
    "ListTypeInfo": Types.LIST,
    "PrimitiveArrayTypeInfo": Types.PRIMITIVE_ARRAY,
    "BasicArrayTypeInfo": Types.BASIC_ARRAY,
    "ObjectArrayTypeInfo": Types.OBJECT_ARRAY,
}
_IS_NAMED = {"TupleTypeInfo": False, "RowTypeInfo": True}
_MAX_DEPTH = 64
"""Arrow cannot write types that are nested deeper."""
_NAME = re.compile(r"\w+")
_FIELD = re.compile(r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"): ")

# The literals that `row_types` writes for defaults: texts, bytes, None, bools and finite numbers.
_LITERAL = re.compile(r"b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\"|-?[\w.]+(?:[+-]\d+)?")


def type_of(signature: str) -> TypeInformation:
    """Return the type that has this signature.

    Raises:
        IncompatibleStateError: `Types` has no such type.
    """
    reader = _Reader(signature)
    try:
        found = reader.type()
        reader.end()
    except (ValueError, KeyError, TypeError, SyntaxError) as error:
        msg = (
            f"state can be taken apart only if its types are pyflinklike's own, got {signature[:200]!r}; "
            "restore it unchanged, with the program that wrote it"
        )
        raise IncompatibleStateError(msg) from error
    return found


class _Reader:
    """Reads a signature from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def _rest(self) -> str:
        return self._text[self._at :]

    def end(self) -> None:
        """Check that the whole text was read."""
        if self._rest():
            raise ValueError(self._rest())

    def type(self) -> TypeInformation:
        """Read the next type."""
        with self._deeper():
            return self._type()

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            msg = f"types within types, {self._depth} deep"
            raise ValueError(msg)
        yield
        self._depth -= 1

    def _type(self) -> TypeInformation:
        name = self._match(_NAME)[0]
        if self._skip("<"):
            first = self.type()
            if name == "MapTypeInfo":
                self._expect(", ")
                made: TypeInformation = Types.MAP(first, self.type())
            else:
                made = _OF_ELEMENTS[name](first)
            self._expect(">")
            return made
        if not self._skip("("):
            return _SCALARS[name]
        if name == "TaggedTypeInfo":
            # Elements of two inputs (`pyflinklike.joins`).  A reader without that program gets a row.
            first, second = self._fields(named=False).get_field_types()
            return Types.ROW_NAMED(["input", "first", "second"], [Types.BYTE(), first, second])
        if name == "ColumnTypeInfo":
            start, column = self._at, self._column()
            kind = self._text[start : self._at]
            self._expect(")")
            return StoredColumnTypeInfo(kind, column)
        return self._fields(named=_IS_NAMED[name])

    def _fields(self, *, named: bool) -> TupleTypeInfo[Any]:
        names: list[str] = []
        types: list[TypeInformation] = []
        defaults: dict[str, Any] = {}
        while not self._skip(")"):
            if types:
                self._expect(", ")
            if named:
                names.append(ast.literal_eval(self._match(_FIELD)[1]))
            types.append(self.type())
            if named and self._skip(" = "):
                defaults[names[-1]] = ast.literal_eval(self._match(_LITERAL)[0])
        if named:
            return Types.ROW_NAMED(names, types, defaults=defaults)
        return Types.TUPLE(types)

    def _column(self) -> pa.DataType:
        """Read the type of a column by Spark's name for it."""
        with self._deeper():
            if self._skip("array<"):
                made: pa.DataType = pa.list_(self._column())
            elif self._skip("map<"):
                key = self._column()
                self._expect(",")
                made = pa.map_(key, self._column())
            elif self._skip("struct<"):
                fields: list[pa.Field] = []
                while not self._skip(">"):
                    if fields:
                        self._expect(",")
                    name = self._match(_COLUMN_FIELD)[1]
                    fields.append(pa.field(name, self._column()))
                return pa.struct(fields)
            else:
                return self._plain_column()
            self._expect(">")
            return made

    def _plain_column(self) -> pa.DataType:
        for pattern, make in _COLUMNS:
            found = pattern.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
                return make(found)
        raise ValueError(self._rest())

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(self._rest())
        self._at = found.end()
        return found

    def _skip(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            raise ValueError(self._rest())


# Pickles of types

_MADE_BY: dict[type, tuple[Callable[..., TypeInformation], tuple[str, ...]]] = {
    BasicArrayTypeInfo: (Types.BASIC_ARRAY, ("elem_type",)),
    ListTypeInfo: (Types.LIST, ("elem_type",)),
    MapTypeInfo: (Types.MAP, ("_key_type_info", "_value_type_info")),
    ObjectArrayTypeInfo: (Types.OBJECT_ARRAY, ("elem_type",)),
    PrimitiveArrayTypeInfo: (Types.PRIMITIVE_ARRAY, ("elem_type",)),
    TupleTypeInfo: (Types.TUPLE, ("field_types",)),
}
"""The call that makes a type with parts, and the attributes that are its arguments."""


def register_reducers() -> None:
    """Register with pickle and copy the call that makes each type."""
    for kind in {*map(type, _MAKER_OF), *_MADE_BY}:
        copyreg.pickle(kind, _reduce)
    copyreg.pickle(ByteArrayTypeInfo, _reduce_bytes)
    copyreg.pickle(RowTypeInfo, _reduce_row)


# The results are Any, because copyreg's stubs want calls that return that very class.
def _reduce(each: TypeInformation) -> Any:
    if each in _MAKER_OF:
        return _MAKER_OF[each], ()
    maker, arguments = _MADE_BY[type(each)]
    return maker, tuple(getattr(each, name) for name in arguments)


def _reduce_bytes(_: ByteArrayTypeInfo) -> Any:
    return Types.PRIMITIVE_ARRAY, (Types.BYTE(),)


def _reduce_row(each: RowTypeInfo) -> Any:
    defaults = {name: default_of(each.defaults, name) for name, _ in each.defaults}
    # Without defaults, a pickle needs no `partial`.
    maker = partial(Types.ROW_NAMED, defaults=defaults) if defaults else Types.ROW_NAMED
    return maker, (each.field_names, each.field_types)
