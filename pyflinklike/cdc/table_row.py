# SPDX-License-Identifier: Apache-2.0
"""The row of a table as its user declares it, and the conversion of records to such rows and keys.

A declaration is Spark's DDL or a `StructType`.  This room does not import Spark, so it reads DDL
itself, and a `StructType` by its attributes.

The conversion of a row depends on the schema of its envelope.  Records of one table have the same
schema, so we make one plan of the conversion for each schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from pyflinklike._messages import short_repr
from pyflinklike.cdc.column_values import (
    NAMES,
    Convert,
    converter_of,
    is_as_it_is,
    natural_of,
    type_name,
)
from pyflinklike.cdc.envelope import SemanticType, fields_of, schema_at
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    KeyDecodeError,
    ValueDecodeError,
)

_MOST_PLANS: Final = 256


class TableRow:
    """The columns of a table's row.

    Args:
        columns: Their names and types; None if they are not declared, so that each value becomes
            what fits the schema of its envelope.

    Raises:
        DeclarationTypeError: Debezium's JSON has no form for the type of a column.
    """

    def __init__(self, columns: Iterable[tuple[str, pa.DataType]] | None) -> None:
        self.types = None if columns is None else dict(columns)
        for name, column in (self.types or {}).items():
            if type_name(column) is None:
                raise _unknown(f"{column} of {name!r}")
        self._plans: dict[bytes, ConversionPlan] = {}

    def __reduce__(self) -> tuple[type[TableRow], tuple[Any, ...]]:
        """Pickle the columns without the plans."""
        return TableRow, (None if self.types is None else tuple(self.types.items()),)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; empty if they are not declared."""
        return tuple(self.types or ())

    def plan(self, schema: bytes) -> ConversionPlan:
        """Return the conversion of rows and keys of records with this schema.

        Raises:
            ValueDecodeError: It is not a schema of Kafka Connect.
        """
        plan = self._plans.get(schema)
        if plan is None:
            # A connector that writes ever new schemas must not fill the memory of a worker.
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            try:
                plan = self._plans[schema] = ConversionPlan(self, fields_of(schema))
            except ValueError as error:
                msg = f"a value's schema must be one of Kafka Connect, got {short_repr(schema)}: {error}"
                raise ValueDecodeError(msg) from error
        return plan


UNDECLARED: Final = TableRow(None)


class ConversionPlan:
    """The conversion of the rows and keys of records that have one schema.

    Args:
        row: The columns to convert to.
        sides: The schemas of the fields of the envelope.
    """

    def __init__(self, row: TableRow, sides: Mapping[str, SemanticType]) -> None:
        self._row = row
        fields = {
            side: {each.field: each for each in sides[side].fields} if side in sides else {}
            for side in ("before", "after")
        }
        self._converters = {
            side: self._converters_of(row.types or semantics, semantics)
            for side, semantics in fields.items()
        }
        self._semantics = {**fields["before"], **fields["after"]}
        self._keys: dict[tuple[bytes, tuple[str, ...]], list[tuple[type | None, Convert]]] = {}

    def _converters_of(
        self, columns: Mapping[str, Any], semantics: Mapping[str, SemanticType]
    ) -> list[tuple[str, type | None, Convert]]:
        found = ((name, *self._column(name, semantics.get(name))) for name in columns)
        return [
            (name, as_it_is, convert) for name, as_it_is, convert in found if convert is not None
        ]

    def _column(
        self, name: str, semantic: SemanticType | None
    ) -> tuple[type | None, Convert | None]:
        """Return the class of values that need no conversion, and the conversion of the others."""
        types = self._row.types
        if types is not None and name in types:
            return is_as_it_is(types[name], semantic), converter_of(types[name], semantic)
        return is_as_it_is(None, semantic), natural_of(semantic)

    def convert_row(self, row: dict[str, Any], side: str) -> dict[str, Any]:
        """Convert a row.

        Args:
            row: A row of the envelope; it may be changed.
            side: The field of the envelope that has the row, "before" or "after".

        Returns:
            The declared columns, with None for columns that the row lacks; if no columns are
            declared, all columns of the row.

        Raises:
            ValueDecodeError: A value does not fit its column; the message names the column.
        """
        converted = row if self._row.types is None else {}
        for name, as_it_is, convert in self._converters[side]:
            value = row.get(name)
            if value is not None and type(value) is not as_it_is:
                try:
                    value = convert(value)
                except ValueError as error:
                    msg = f"{side!r} must fit the table's columns: the column {name!r} {error}"
                    raise ValueDecodeError(msg) from error
            elif converted is row:
                continue
            converted[name] = value
        return converted

    def convert_key(self, key: Any, columns: tuple[str, ...], schema: bytes) -> Any:
        """Convert a key.

        Args:
            key: The value of the key column, or a tuple for several columns.
            columns: The names of its columns; empty if they are unknown.
            schema: The schema that the record's own key is wrapped in.

        Raises:
            KeyDecodeError: A value does not fit its column; the message names the column.
        """
        values = key if isinstance(key, tuple) else (key,)
        plan = self._keys.get((schema, columns))
        if plan is None:
            plan = self._keys[schema, columns] = self._key_plan(columns, schema)
        if not plan:
            return key
        if len(plan) != len(values):
            msg = f"a key must have the columns {list(columns)}, got {short_repr(key)}; name them with key="
            raise KeyDecodeError(msg)
        converted: list[Any] = []
        for (as_it_is, convert), value in zip(plan, values):
            if value is not None and type(value) is not as_it_is:
                try:
                    value = convert(value)
                except ValueError as error:
                    name = columns[len(converted)] if columns else "value"
                    msg = f"a key must fit the table's columns: the column {name!r} {error}"
                    raise KeyDecodeError(msg) from error
            converted.append(value)
        return tuple(converted) if isinstance(key, tuple) else converted[0]

    def _key_plan(
        self, columns: tuple[str, ...], schema: bytes
    ) -> list[tuple[type | None, Convert]]:
        try:
            root, own = schema_at(schema), fields_of(schema)
        except ValueError as error:
            msg = f"a key's schema must be one of Kafka Connect, got {short_repr(schema)}: {error}"
            raise KeyDecodeError(msg) from error
        if len(self._keys) >= _MOST_PLANS:
            self._keys.clear()
        # If a struct lists no fields, its schema does not describe the fields of the key.
        plain = None if root is None or own or root.type == "struct" else root
        if not columns:
            natural = None if plain is None else natural_of(plain)
            return [] if natural is None else [(None, natural)]
        plain = plain if len(columns) == 1 else None
        semantics = {name: own.get(name, self._semantics.get(name)) for name in columns}
        found = [self._column(name, plain or semantics[name]) for name in columns]
        if not any(convert for _, convert in found):
            return []
        return [(as_it_is, convert or _keep) for as_it_is, convert in found]


def _keep(value: Any) -> Any:
    return value


# Declarations

_ALIASES: Final = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "real": "FLOAT",
    "char": "STRING",
    "varchar": "STRING",
    "timestamp_ltz": "TIMESTAMP",
}
_BY_NAME: Final = {name: kind for kind, name in NAMES.items()}
_PLAIN: Final[Mapping[str, pa.DataType]] = {
    **{name.lower(): kind for name, kind in _BY_NAME.items()},
    **{alias: _BY_NAME[name] for alias, name in _ALIASES.items()},
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_NUMBERS: Final = re.compile(r"\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*")
_NOT_NULL: Final = re.compile(r"\s*not\s+null\b", re.IGNORECASE)


@lru_cache(maxsize=256)
def _row_of_ddl(ddl: str) -> TableRow:
    text = _Ddl(ddl)
    return TableRow(text.fields(""))


def row_of(schema: Any) -> TableRow:
    """Return the row that a user declares.

    Args:
        schema: DDL such as "id int, name string", or a `StructType` of Spark.

    Raises:
        DeclarationTypeError: It is neither, or JSON has no form for the type of a column.
        DeclarationValueError: It is not DDL.
    """
    if isinstance(schema, str):
        return _row_of_ddl(schema)
    fields = getattr(schema, "fields", None)
    if not fields or not all(hasattr(each, "dataType") for each in fields):
        msg = (
            "schema= must be the table's row as DDL such as 'id int, name string' or a StructType "
            f"of Spark, got {short_repr(schema)}"
        )
        raise DeclarationTypeError(msg)
    return TableRow((each.name, _type_of(each.dataType)) for each in fields)


def _type_of(kind: Any) -> pa.DataType:
    """Return the Arrow type of a Spark type."""
    word = kind.typeName()
    if word == "array":
        return pa.list_(_type_of(kind.elementType))
    if word == "map":
        return pa.map_(_type_of(kind.keyType), _type_of(kind.valueType))
    if word == "struct":
        return pa.struct([(each.name, _type_of(each.dataType)) for each in kind.fields])
    if word == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    found = _PLAIN.get(re.split(r"[( ]", word)[0])
    if found is None:
        raise _unknown(kind.simpleString())
    return found


def _unknown(kind: str) -> DeclarationTypeError:
    return DeclarationTypeError(
        "a column of schema= must have a type that Debezium's JSON has a form for, got "
        f"{kind}; declare it STRING and cast it"
    )


class _Ddl:
    """Reads DDL from left to right."""

    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._at = 0

    def fields(self, end: str) -> list[tuple[str, pa.DataType]]:
        """Read names with types up to a token, or up to the end of the text."""
        found: list[tuple[str, pa.DataType]] = []
        while not found or self._skip(","):
            name = self._name()
            self._skip(":")
            found.append((name, self._type()))
            if matched := _NOT_NULL.match(self._ddl, self._at):
                self._at = matched.end()
        if self._ddl[self._at :].strip() if not end else not self._skip(end):
            raise self._wrong()
        return found

    def _type(self) -> pa.DataType:
        word = self._name().lower()
        if word == "array":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return pa.list_(element)
        if word == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return pa.map_(key, value)
        if word == "struct":
            self._expect("<")
            return pa.struct(self.fields(">"))
        numbers = _NUMBERS.match(self._ddl, self._at)
        if numbers is not None:
            self._at = numbers.end()
        if word in _DECIMALS:
            precision, scale = (10, 0) if numbers is None else numbers.groups("0")
            try:
                return pa.decimal128(int(precision), int(scale))
            except ValueError as error:
                raise self._wrong() from error
        if word not in _PLAIN:
            raise _unknown(word)
        return _PLAIN[word]

    def _name(self) -> str:
        found = _NAME.match(self._ddl, self._at)
        if found is None:
            raise self._wrong()
        self._at = found.end()
        return found[2] or found[1].replace("``", "`")

    def _skip(self, token: str) -> bool:
        rest = self._ddl[self._at :].lstrip()
        if not rest.startswith(token):
            return False
        self._at = len(self._ddl) - len(rest) + 1
        return True

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            raise self._wrong()

    def _wrong(self) -> DeclarationValueError:
        return DeclarationValueError(
            f"schema= must be DDL such as 'id int, name string', got {short_repr(self._ddl)}"
        )
