# SPDX-License-Identifier: Apache-2.0
"""A type's signature back to the type.

State is stored with the signatures of its types.  The program that wrote it only compares them.
Code that reads state without that program gets the types back here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.types import TupleTypeInfo, TypeInformation, Types
from pyflinklike.types.keys import AnyKeyTypeInfo

__all__ = ["type_of"]

_SCALARS: dict[str, TypeInformation] = {
    each.signature: each
    for each in (
        Types.BOOLEAN(),
        Types.BYTE(),
        Types.SHORT(),
        Types.INT(),
        Types.LONG(),
        Types.FLOAT(),
        Types.DOUBLE(),
        Types.STRING(),
        Types.CHAR(),
        Types.BIG_INT(),
        Types.BIG_DEC(),
        Types.INSTANT(),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.PICKLED_BYTE_ARRAY(),
        AnyKeyTypeInfo(),
    )
}
_OF_ELEMENTS: dict[str, Callable[[Any], TypeInformation]] = {
    "ListTypeInfo": Types.LIST,
    "PrimitiveArrayTypeInfo": Types.PRIMITIVE_ARRAY,
    "BasicArrayTypeInfo": Types.BASIC_ARRAY,
    "ObjectArrayTypeInfo": Types.OBJECT_ARRAY,
}
_IS_NAMED = {"TupleTypeInfo": False, "RowTypeInfo": True}
_MAX_DEPTH = 64
"""Arrow does not write types that are nested deeper."""
_NAME = re.compile(r"\w+")
_FIELD = re.compile(r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"): ")

_LITERAL = re.compile(r"b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\"|-?[\w.]+(?:[+-]\d+)?")


def type_of(signature: str) -> TypeInformation:
    """Return the type that has this signature.

    Raises:
        IncompatibleStateError: It is none of `Types`.
    """
    reader = _Reader(signature)
    try:
        found = reader.type()
        reader.end()
    except (ValueError, KeyError, TypeError, SyntaxError) as error:
        msg = (
            f"state can be taken apart where its types are pyflinklike's own, got {signature[:200]!r}; "
            "restore it with the keys and in the place it was written with"
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
        """Check that nothing is left."""
        if self._rest():
            raise ValueError(self._rest())

    def type(self) -> TypeInformation:
        """Read the next type."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            msg = f"types within types, {self._depth} deep"
            raise ValueError(msg)
        found = self._type()
        self._depth -= 1
        return found

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
            # Elements of two inputs (`pyflinklike.joins`): a row to whoever reads them without it.
            first, second = self._fields(named=False).get_field_types()
            return Types.ROW_NAMED(["input", "first", "second"], [Types.BYTE(), first, second])
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
