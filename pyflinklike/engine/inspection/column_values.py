# SPDX-License-Identifier: Apache-2.0
"""Columns of a savepoint, whoever wrote them, as stored columns.

The columns may have been edited, so they are checked as a function's values are: numbers in range,
no null where None is no value, one form for equal keys.  Nothing is unpickled.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.errors import StateValueError
from pyflinklike.replay.values import field_names
from pyflinklike.shown import shown_message
from pyflinklike.types import ListTypeInfo, MapTypeInfo, TupleTypeInfo, TypeInformation, Types
from pyflinklike.types.times import InstantTypeInfo, TimeTypeInfo

__all__ = ["stored"]

_AS_THEY_ARE = frozenset(
    (
        *(Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()),
        *(Types.FLOAT(), Types.DOUBLE(), Types.STRING(), Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
        *(Types.PICKLED_BYTE_ARRAY(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
    )
)
_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError, LookupError)


def stored(
    column: Any,
    declared: TypeInformation,
    what: str,
    *,
    as_key: bool = False,
    nullable: bool = False,
) -> Any:
    """Return a column as it is stored.

    Args:
        column: An Arrow array, of the `shown_type` or a type that can be cast to it.
        declared: Type of the values.
        what: Name of the state, for messages.
        as_key: Whether the values are keys.
        nullable: Whether a value may be null whatever its type says.

    Raises:
        StateValueError: A value does not fit the type.
    """
    try:
        found = _stored(column, declared)
        _refuse_nulls(found, declared, optional=not as_key and (nullable or declared.accepts_none))
        if declared in _AS_THEY_ARE or declared.is_pickled:
            return found
        freeze = declared.freeze_key if as_key else declared.freeze
        values = declared.from_arrow(found)
        return declared.to_arrow(
            [None if each is None else freeze(declared.thaw(each)) for each in values]
        )
    except StateValueError as error:
        message = str(error)
        raise StateValueError(
            message if message.startswith(what) else f"{what}: {message}"
        ) from error
    except _MISFITS as error:
        msg = f"{what}: a column must hold values of {declared!r}, got {column.type}"
        raise StateValueError(f"{msg} ({shown_message(error)}); cast it") from error


def _refuse_nulls(column: Any, declared: TypeInformation, *, optional: bool) -> None:
    if column.null_count and not optional:
        raise StateValueError(f"type {declared!r} takes no null, got one; fill it")


def _stored(column: Any, declared: TypeInformation) -> Any:
    # Arrow takes no mask beside the offsets of a slice.
    if column.offset:
        column = column.take(pa.array(range(len(column)), pa.int64()))
    if isinstance(declared, InstantTypeInfo):
        return _instants(column, declared)
    if isinstance(declared, TimeTypeInfo):
        texts = column.to_pylist()
        times = [each and dt.time.fromisoformat(each) for each in texts]
        return pa.array(times, declared.arrow_type)
    mask = column.is_null() if column.null_count else None
    if isinstance(declared, ListTypeInfo):
        parts = _stored(column.values, declared.elem_type)
        return pa.ListArray.from_arrays(column.offsets, parts, type=declared.arrow_type, mask=mask)
    if isinstance(declared, MapTypeInfo):
        keys = _stored(column.keys, declared._key_type_info)
        items = _stored(column.items, declared._value_type_info)
        return pa.MapArray.from_arrays(
            column.offsets, keys, items, type=declared.arrow_type, mask=mask
        )
    if isinstance(declared, TupleTypeInfo) and declared.field_types:
        names = field_names(declared)
        parts = [
            _stored(column.field(name), each) for name, each in zip(names, declared.field_types)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(declared.arrow_type), mask=mask)
    return column.cast(declared.arrow_type)


def _instants(column: Any, declared: InstantTypeInfo) -> Any:
    if pa.types.is_struct(column.type):
        return column.cast(declared.arrow_type)
    micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    million = pa.scalar(1_000_000, pa.int64())
    quotients = pc.divide(micros, million)
    below = pc.less(micros, pc.multiply(quotients, million)).cast(pa.int64())
    seconds = pc.subtract(quotients, below)
    rest = pc.subtract(micros, pc.multiply(seconds, million))
    nanos = pc.multiply(rest, pa.scalar(1000, pa.int64())).cast(pa.int32())
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays([seconds, nanos], fields=list(declared.arrow_type), mask=mask)
