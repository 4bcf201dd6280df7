# SPDX-License-Identifier: Apache-2.0
"""Keys in a query string: JSON, read by the types of the key columns or of a store's keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from pyflinklike.errors import StateValueError
from pyflinklike.replay.described import StateInfo
from pyflinklike.replay.typed import as_user, json_of, to_float, user_key_of
from pyflinklike.shown import shown
from pyflinklike.types import TupleTypeInfo, TypeInformation, Types
from pyflinklike.types.nested import ByteArrayTypeInfo
from pyflinklike.types.signature import type_of
from pyflinklike.types.times import DateTypeInfo

__all__ = ["json_key_of", "namespace_of", "state_key_of", "store_key_of"]


def state_key_of(text: str, info: StateInfo) -> Any:
    """Read a key of the stream.

    Args:
        text: JSON, an array if there are several key columns.  A single text may lack its quotes.
        info: The description of a state that belongs to keys.

    Raises:
        StateValueError: The text is no such key.
    """
    assert info.key_type is not None
    return user_key_of(text, info.key_columns, info.key_type)


def store_key_of(text: str, info: StateInfo) -> Any:
    """Read a key of a store: a tuple is an array, bytes are hex after 0x, dates ISO 8601.

    Raises:
        StateValueError: The text is no such key.
    """
    assert info.user_key_type is not None
    declared = type_of(info.user_key_type)
    given = json_of(text)
    if declared == Types.STRING() and not isinstance(given, str):
        given = text  # for example a name of digits, which JSON reads as a number
    try:
        return _typed(given, declared)
    except (ValueError, TypeError, ArithmeticError) as error:
        msg = f"store {info.name!r}: a key must be {declared!r} as JSON, got {shown(text)}"
        raise StateValueError(f"{msg}; write numbers as such and texts in quotes") from error


def json_key_of(text: str) -> Any:
    """Read a key of unknown type: JSON, with tuples for arrays, or else the text itself.

    Raises:
        StateValueError: A number has more digits than a float, so it would become another key.
    """
    return _untyped(json_of(text), text)


def namespace_of(text: str, info: StateInfo) -> Any:
    """Read a namespace, such as a window; return None for a state without namespaces.

    Raises:
        StateValueError: The namespace is missing.
    """
    if info.namespace_type is None:
        return None
    given = json_key_of(text)
    if given is None:
        msg = f"state {info.name!r}: its entries belong to windows, got no namespace="
        raise StateValueError(f"{msg}; give the window as JSON")
    return given


def _untyped(given: Any, text: str) -> Any:
    if isinstance(given, list):
        return tuple(_untyped(each, text) for each in given)
    if not isinstance(given, Decimal):
        return given
    try:
        return to_float(given)
    except (ValueError, ArithmeticError) as error:
        msg = f"a number of a key must be one that a float can be, got {shown(text)}"
        raise StateValueError(f"{msg}; write a whole number without a point") from error


def _typed(given: Any, declared: TypeInformation) -> Any:
    if isinstance(declared, TupleTypeInfo) and isinstance(given, list):
        if len(given) != len(declared.field_types):
            msg = f"{len(given)} values"
            raise ValueError(msg)
        return tuple(_typed(each, kind) for each, kind in zip(given, declared.field_types))
    if declared == Types.FLOAT() and not isinstance(given, str):
        return to_float(given, 32)
    if declared == Types.DOUBLE() and not isinstance(given, str):
        return to_float(given)
    if isinstance(given, str) and isinstance(declared, ByteArrayTypeInfo):
        return bytes.fromhex(given.removeprefix("0x"))
    if isinstance(given, str) and isinstance(declared, DateTypeInfo):
        return dt.date.fromisoformat(given)
    return as_user(given, declared)
