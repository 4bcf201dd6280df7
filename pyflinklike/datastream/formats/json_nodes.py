# SPDX-License-Identifier: Apache-2.0
"""Values as nodes of JSON and back, by their types: what Flink's `JsonRow` schemas do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from pyflinklike.datastream.formats.scalars import is_quoted, parser_of, refused, texter_of
from pyflinklike.shown import shown
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.basic import BigIntTypeInfo, IntegralTypeInfo, StringTypeInfo
from pyflinklike.types.nested import ListTypeInfo, MapTypeInfo

__all__ = ["reader_of", "writer_of"]

_Reader = Callable[[Any], Any]
_Writer = Callable[[Any], str]


def reader_of(type_info: TypeInformation, *, is_strict: bool) -> _Reader:
    """What makes a value of a node of JSON; null is None for every type.

    Args:
        type_info: Of the value.
        is_strict: Whether a field that is missing is an error.

    Raises:
        DeclarationTypeError: JSON has not the type.
    """
    if isinstance(type_info, RowTypeInfo):
        parts = [reader_of(each, is_strict=is_strict) for each in type_info.field_types]
        return _nullable(_row_reader(type_info.field_names, parts, is_strict=is_strict))
    if isinstance(type_info, ListTypeInfo):
        one = reader_of(type_info.elem_type, is_strict=is_strict)
        return _nullable(lambda node: [one(each) for each in _checked(node, list)])
    if isinstance(type_info, MapTypeInfo) and isinstance(type_info._key_type_info, StringTypeInfo):
        value = reader_of(type_info._value_type_info, is_strict=is_strict)
        return _nullable(
            lambda node: {key: value(each) for key, each in _checked(node, dict).items()}
        )
    parse = parser_of(type_info)
    if parse is None:
        raise refused(type_info, "JSON")
    return _nullable(_scalar_reader(type_info, parse))


def _nullable(read: _Reader) -> _Reader:
    return lambda node: None if node is None else read(node)


def _row_reader(names: Sequence[str], parts: list[_Reader], *, is_strict: bool) -> _Reader:
    def read(node: Any) -> tuple[Any, ...]:
        fields = _checked(node, dict)
        if is_strict and (missing := [name for name in names if name not in fields]):
            msg = f"Could not find field with name {missing[0]!r}."
            raise ValueError(msg)
        return tuple([part(fields.get(name)) for name, part in zip(names, parts)])

    return read


def _checked(node: Any, kind: type) -> Any:
    if not isinstance(node, kind):
        wanted = "an array" if kind is list else "an object"
        msg = f"{wanted} is wanted, got {shown(node)}"
        raise ValueError(msg)  # noqa: TRY004  it is what was written that is wrong
    return node


def _scalar_reader(type_info: TypeInformation, parse: Callable[[str], Any]) -> _Reader:
    is_text = isinstance(type_info, StringTypeInfo)
    is_whole = isinstance(type_info, (IntegralTypeInfo, BigIntTypeInfo))

    def read(node: Any) -> Any:
        if isinstance(node, str):
            return parse(node)
        if is_whole and isinstance(node, Decimal) and node == node.to_integral_value():
            return int(node)
        if isinstance(node, (list, dict)) and not is_text:
            msg = f"one value is wanted, got {shown(node)}"
            raise ValueError(msg)
        return parse(_text_of(node))

    return read


def _text_of(node: Any) -> str:
    """A number, boolean, array or object as JSON writes it."""
    if isinstance(node, Decimal):
        return str(node)
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False, default=float)


def writer_of(type_info: TypeInformation) -> _Writer:
    """What writes a frozen value.

    Args:
        type_info: Of the value.

    Raises:
        DeclarationTypeError: JSON has not the type.
    """
    if isinstance(type_info, RowTypeInfo):
        keys = [f"{json.dumps(name, ensure_ascii=False)}:" for name in type_info.field_names]
        return _row_writer(keys, [writer_of(each) for each in type_info.field_types])
    if isinstance(type_info, ListTypeInfo):
        one = _nulls_too(writer_of(type_info.elem_type))
        return lambda value: f"[{','.join(map(one, value))}]"
    if isinstance(type_info, MapTypeInfo) and isinstance(type_info._key_type_info, StringTypeInfo):
        item = _nulls_too(writer_of(type_info._value_type_info))
        return lambda value: (
            f"{{{','.join(f'{_quoted(key)}:{item(each)}' for key, each in value)}}}"
        )
    text_of = texter_of(type_info, is_utc=True)
    if text_of is None:
        raise refused(type_info, "JSON")
    if is_quoted(type_info):
        return lambda value: _quoted(text_of(value))
    return lambda value: _number(text_of(value))


def _row_writer(keys: list[str], parts: list[_Writer]) -> _Writer:
    writers = [_nulls_too(each) for each in parts]

    def write(value: Any) -> str:
        fields = [f"{key}{one(each)}" for key, one, each in zip(keys, writers, value)]
        return f"{{{','.join(fields)}}}"

    return write


def _nulls_too(write: _Writer) -> _Writer:
    return lambda value: "null" if value is None else write(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(text: str) -> str:
    """A number or boolean; what JSON has no number for is a string, as Jackson writes it."""
    return _quoted(text) if text in ("NaN", "Infinity", "-Infinity") else text
