# SPDX-License-Identifier: Apache-2.0
"""Converts stored columns to types that other tools know, and back, by the declared type.

| declared | shown | in a savepoint |
|---|---|---|
| INSTANT | timestamp, to the microsecond | struct of seconds and nanos |
| SQL_TIME | string, `hh:mm:ss.ffffff` | as shown |
| BIG_INT, BIG_DEC | string, all digits | as shown |
| ROW, TUPLE | struct of the fields' names, or f0, f1 ... | as shown |
| pickled | binary | as shown |

All other types are the same in Arrow, Parquet and Spark.

A user may have edited the columns of a savepoint.  So on the way back they are checked as a
function's values are: numbers are in range, a null is refused if None is not a value of the type, and
equal keys have one form.  No value is unpickled.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._messages import shown_message
from pyflinklike.errors import StateValueError
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state.ttl_table import horizon_at
from pyflinklike.types import (
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from pyflinklike.types.time_types import InstantTypeInfo, TimeTypeInfo

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The type of all points in time that readers show."""
_MICROS = 1_000_000
_LAST_SECOND = 2**63 // _MICROS - 1


def type_to_show(declared: TypeInformation, *, saved: bool = False) -> Any:
    """Return the Arrow type in which values of a type are shown.

    Args:
        declared: The type of the values.
        saved: Whether they are for a savepoint, which loses nothing.
    """
    if isinstance(declared, InstantTypeInfo):
        return declared.arrow_type if saved else TIMESTAMP
    if isinstance(declared, TimeTypeInfo):
        return pa.string()
    if isinstance(declared, ListTypeInfo):
        return pa.list_(type_to_show(declared.elem_type, saved=saved))
    if isinstance(declared, MapTypeInfo):
        key, value = declared._key_type_info, declared._value_type_info
        return pa.map_(type_to_show(key, saved=saved), type_to_show(value, saved=saved))
    if isinstance(declared, TupleTypeInfo) and declared.field_types:
        types = [type_to_show(each, saved=saved) for each in declared.field_types]
        return pa.struct(list(zip(field_names(declared), types)))
    return declared.arrow_type


def show_column(column: Any, declared: TypeInformation, *, saved: bool = False) -> Any:
    """Convert a stored column to its `type_to_show`.

    Args:
        column: An Arrow array, as stored.
        declared: The type of the values.
        saved: Whether they are for a savepoint.
    """
    kind = type_to_show(declared, saved=saved)
    if kind == column.type:
        return column
    if isinstance(declared, InstantTypeInfo):
        return _instants(column)
    if isinstance(declared, TimeTypeInfo):
        return column.cast(pa.string())
    return _convert_parts(column, declared, kind, partial(show_column, saved=saved))


def _convert_parts(
    column: Any,
    declared: TypeInformation,
    kind: Any,
    convert: Callable[[Any, TypeInformation], Any],
    names: Sequence[str] | None = None,
) -> Any:
    """Convert the parts of a column of lists, maps or rows.

    Args:
        column: The column, of one of these types.
        declared: The type of its values.
        kind: The Arrow type of the result.
        convert: Converts a part, whose type it gets.
        names: The names of a row's fields in `column`; None takes the fields by their positions.
    """
    column = _unslice(column)
    mask = column.is_null() if column.null_count else None
    if isinstance(declared, ListTypeInfo):
        parts = convert(column.values, declared.elem_type)
        return pa.ListArray.from_arrays(column.offsets, parts, type=kind, mask=mask)
    if isinstance(declared, MapTypeInfo):
        keys = convert(column.keys, declared._key_type_info)
        items = convert(column.items, declared._value_type_info)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=kind, mask=mask)
    assert isinstance(declared, TupleTypeInfo)
    types = declared.field_types
    parts = [convert(column.field(at), each) for at, each in zip(names or range(len(types)), types)]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def _unslice(column: Any) -> Any:
    """Return a column that begins where its buffers do."""
    # Arrow takes no mask beside the offsets of a slice.
    return column.take(pa.array(range(len(column)), pa.int64())) if column.offset else column


def timestamps(milliseconds: Any) -> Any:
    """Return times in ms as timestamps; the nearest timestamp for times that are too far away.

    Args:
        milliseconds: An array of int64, nulls included.
    """
    limit = (2**63 - 1) // 1000
    clipped = pc.max_element_wise(
        pc.min_element_wise(milliseconds, pa.scalar(limit, pa.int64()), skip_nulls=False),
        pa.scalar(-limit, pa.int64()),
        skip_nulls=False,
    )
    return pc.multiply(clipped, pa.scalar(1000, pa.int64())).cast(TIMESTAMP)


def field_names(declared: TupleTypeInfo) -> tuple[str, ...]:
    """Return the names of a row's fields, or the names under which a tuple's fields are shown."""
    if isinstance(declared, RowTypeInfo):
        return tuple(declared.field_names)
    return tuple(f"f{at}" for at in range(len(declared.field_types)))


def _instants(column: Any) -> Any:
    """Return instants as timestamps; null for null, and beyond the range of a timestamp."""
    seconds, nanos = column.flatten()
    within = pc.less_equal(pc.abs(seconds), pa.scalar(_LAST_SECOND, pa.int64()))
    micros = pc.add(
        pc.multiply(pc.if_else(within, seconds, None), pa.scalar(_MICROS, pa.int64())),
        pc.divide(nanos.cast(pa.int64()), pa.scalar(1000, pa.int64())),
    )
    return micros.cast(TIMESTAMP)


# Columns of a savepoint as stored columns


_AS_THEY_ARE = frozenset(
    (
        *(Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()),
        *(Types.FLOAT(), Types.DOUBLE(), Types.STRING(), Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
        *(Types.PICKLED_BYTE_ARRAY(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
    )
)
_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError, LookupError)


def store_column(
    column: Any,
    declared: TypeInformation,
    what: str,
    *,
    as_key: bool = False,
    nullable: bool = False,
) -> Any:
    """Return a column as it is stored.

    Args:
        column: An Arrow array, of the `type_to_show` or a type that can be cast to it.
        declared: The type of the values.
        what: The name of the state, for messages.
        as_key: Whether the values are keys.
        nullable: Whether a value may be null even if its type refuses None.

    Raises:
        StateValueError: A value does not fit the type.
    """
    try:
        found = _store(column, declared)
        _refuse_nulls(found, declared, optional=not as_key and (nullable or declared.accepts_none))
        # A cast has checked values of these types; for the others the declared type checks each.
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


def _store(column: Any, declared: TypeInformation) -> Any:
    if isinstance(declared, InstantTypeInfo):
        return _store_instants(column, declared)
    if isinstance(declared, TimeTypeInfo):
        times = [each and dt.time.fromisoformat(each) for each in column.to_pylist()]
        return pa.array(times, declared.arrow_type)
    if isinstance(declared, TupleTypeInfo) and declared.field_types:
        # A user who edits rows may bring their fields into another order.
        names = field_names(declared)
        return _convert_parts(column, declared, declared.arrow_type, _store, names)
    if isinstance(declared, (ListTypeInfo, MapTypeInfo)):
        return _convert_parts(column, declared, declared.arrow_type, _store)
    return column.cast(declared.arrow_type)


def _store_instants(column: Any, declared: InstantTypeInfo) -> Any:
    if pa.types.is_struct(column.type):
        return column.cast(declared.arrow_type)
    micros = column.cast(TIMESTAMP).cast(pa.int64())
    million = pa.scalar(_MICROS, pa.int64())
    quotients = pc.divide(micros, million)
    below = pc.less(micros, pc.multiply(quotients, million)).cast(pa.int64())
    seconds = pc.subtract(quotients, below)
    rest = pc.subtract(micros, pc.multiply(seconds, million))
    nanos = pc.multiply(rest, pa.scalar(1000, pa.int64())).cast(pa.int32())
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays([seconds, nanos], fields=list(declared.arrow_type), mask=mask)


# Expiry by the clock of a micro-batch: the rules of TTL, for Arrow's columns


_EVENT_TIME = StateTtlConfig.TtlTimeCharacteristic.EventTime.name


@attrs.frozen
class BatchClock:
    """The times that an operator had in a micro-batch.

    Args:
        processing_time: The processing time in ms.
        watermark: The watermark in ms; `MIN_WATERMARK` before the first watermark.
    """

    processing_time: int
    watermark: int = MIN_WATERMARK

    def now(self, ttl: Mapping[str, Any]) -> int:
        """Return the time of the clock that a TTL uses, in ms."""
        return self.watermark if ttl["time"] == _EVENT_TIME else self.processing_time


def are_alive(stamps: Any, ttl: Mapping[str, Any], clock: BatchClock) -> Any:
    """Return a mask of the entries that are not expired; an entry without a stamp never expires.

    Args:
        stamps: The stamps in ms; null for entries without a stamp.
        ttl: The TTL as in `StateInfo.ttl`.
        clock: The clock of the micro-batch.
    """
    horizon = horizon_at(clock.now(ttl), ttl["ms"])
    # Arrow cannot compare a horizon beyond 64 bits; no stamp is as old.
    if horizon < MIN_WATERMARK:
        return pa.repeat(pa.scalar(True), len(stamps))
    return pc.greater(stamps, pa.scalar(horizon, pa.int64())).fill_null(True)


def expires_at(stamps: Any, ttl: Mapping[str, Any]) -> Any:
    """Return when entries expire; null for entries without a stamp or without a known time."""
    last = pa.scalar(MAX_WATERMARK - ttl["ms"], pa.int64())
    known = pc.if_else(pc.equal(stamps, MAX_WATERMARK), pa.scalar(None, pa.int64()), stamps)
    within = pc.min_element_wise(known, last, skip_nulls=False)
    return timestamps(pc.add(within, pa.scalar(ttl["ms"], pa.int64())))
