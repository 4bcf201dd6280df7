# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for keys, state types, values, records and TTLs.

The library must accept all that these strategies draw: a value of `values_of(t)` fits `t`, and
reads the same before a restart and after it.

    @given(keyed_records(values=st.integers()))
    def test_totals_add_up(records):
        with KeyedProcessHarness(RunningTotal(), key_selector=first) as harness:
            for key, value, timestamp in records:
                harness.process_element((key, value), timestamp)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable
from typing import Any

from pyflinklike._checks import lacking
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.types import (
    BasicArrayTypeInfo,
    Instant,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from pyflinklike.types.row import Row

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError as error:
    raise lacking(__name__, "testing", error) from error

__all__ = ["keyed_records", "keys", "timestamps", "ttl_configs", "type_infos", "values_of"]

_UTC = st.just(dt.timezone.utc)
# No surrogates: they cannot be encoded as UTF-8, and state refuses them.
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_BYTES = st.binary(max_size=8)
_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
_PICKLABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT | _BYTES,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(_TEXT, parts, max_size=3),
    max_leaves=4,
)


def _ints(bits: int) -> SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


_SCALARS: dict[TypeInformation, SearchStrategy[Any]] = {
    Types.BOOLEAN(): st.booleans(),
    Types.BYTE(): _ints(8),
    Types.SHORT(): _ints(16),
    Types.INT(): _ints(32),
    Types.LONG(): _ints(64),
    Types.FLOAT(): st.floats(width=32),
    Types.DOUBLE(): st.floats(),
    Types.CHAR(): st.characters(exclude_categories=["Cs"]),
    Types.STRING(): _TEXT,
    Types.BIG_INT(): st.integers(),
    Types.BIG_DEC(): _DECIMALS,
    Types.INSTANT(): st.builds(Instant, _ints(64), st.integers(0, 999_999_999)),
    Types.SQL_DATE(): st.dates(),
    Types.SQL_TIME(): st.times(),
    Types.SQL_TIMESTAMP(): st.datetimes(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): _BYTES,
    Types.PICKLED_BYTE_ARRAY(): _PICKLABLE,
}
_MAP_KEYS: list[TypeInformation] = [
    Types.BOOLEAN(),
    Types.LONG(),
    Types.STRING(),
    Types.SQL_DATE(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.TUPLE([Types.STRING(), Types.LONG()]),
]


def keys() -> SearchStrategy[Hashable]:
    """Draw keys of elements, as a key selector may return them if no key type is declared."""
    scalars = (
        st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | _TEXT
        | _BYTES
        | _DECIMALS
        | st.dates()
        | st.times()
        | st.datetimes()
        | st.datetimes(timezones=_UTC)
    )
    inner: SearchStrategy[Any] = st.none() | scalars
    return scalars | st.recursive(
        inner, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=6
    ).filter(lambda key: key is not None)


def type_infos() -> SearchStrategy[TypeInformation]:
    """Draw types of state, nested ones included."""
    return st.recursive(st.sampled_from(list(_SCALARS)), _nest, max_leaves=4)


def _nest(parts: SearchStrategy[TypeInformation]) -> SearchStrategy[TypeInformation]:
    fields = st.lists(parts, max_size=3)
    names = st.lists(st.sampled_from("abcdef"), min_size=3, max_size=3, unique=True)
    return st.one_of(
        parts.map(Types.LIST),
        parts.map(Types.OBJECT_ARRAY),
        st.sampled_from([Types.INT(), Types.DOUBLE()]).map(Types.PRIMITIVE_ARRAY),
        st.sampled_from([Types.INT(), Types.STRING()]).map(Types.BASIC_ARRAY),
        st.builds(Types.MAP, st.sampled_from(_MAP_KEYS), parts),
        fields.map(Types.TUPLE),
        fields.map(Types.ROW),
        st.builds(lambda some, types: Types.ROW_NAMED(some[: len(types)], types), names, fields),
    )


def values_of(type_info: TypeInformation) -> SearchStrategy[Any]:
    """Draw values that fit a type; None is among them if the type takes it.

    Args:
        type_info: Any type of `Types`; nested ones, too.
    """
    scalar = _SCALARS.get(type_info)
    if scalar is not None:
        return st.none() | scalar if type_info.accepts_none else scalar
    if isinstance(type_info, TupleTypeInfo):
        fields = st.tuples(*[st.none() | values_of(part) for part in type_info.field_types])
        return fields.map(_row_maker(type_info)) if isinstance(type_info, RowTypeInfo) else fields
    if isinstance(type_info, ListTypeInfo):
        element = values_of(type_info.elem_type)
        if isinstance(type_info, (BasicArrayTypeInfo, ObjectArrayTypeInfo)):
            element = st.none() | element
        return st.lists(element, max_size=3)
    key_type, value_type = type_info._key_type_info, type_info._value_type_info  # type: ignore[attr-defined]
    # Map keys cannot be None, though a type such as STRING takes it as a value.
    some = values_of(key_type).filter(lambda key: key is not None)
    return st.dictionaries(some, values_of(value_type), max_size=3)


def _row_maker(type_info: RowTypeInfo) -> Callable[[tuple[Any, ...]], Row]:
    names = type_info.get_field_names()
    return lambda fields: Row(**dict(zip(names, fields)))


def timestamps() -> SearchStrategy[int]:
    """Draw event times in ms around 1970, so close together that some are equal."""
    return st.integers(-1_000, 10_000)


def keyed_records(
    keys: SearchStrategy[Any] | None = None,
    values: SearchStrategy[Any] | None = None,
    timestamps: SearchStrategy[int | None] | None = None,
    max_size: int = 20,
) -> SearchStrategy[list[tuple[Any, Any, int | None]]]:
    """Draw lists of (key, value, timestamp) in arrival order; they have few keys, so these repeat.

    Args:
        keys: Draws keys; "a", "b" or "c" by default.
        values: Draws values; small ints by default.
        timestamps: Draws event times in ms; 0 to 100 by default.
        max_size: The most records of one list.
    """
    return st.lists(
        st.tuples(
            st.sampled_from("abc") if keys is None else keys,
            st.integers(-9, 9) if values is None else values,
            st.integers(0, 100) if timestamps is None else timestamps,
        ),
        max_size=max_size,
    )


def ttl_configs(
    ttl_ms: SearchStrategy[int] | None = None, *, background: bool | None = None
) -> SearchStrategy[StateTtlConfig]:
    """Draw enabled TTLs: every update type and visibility, with cleanup of every kind.

    Args:
        ttl_ms: Draws how long entries live, in ms; 1 to 100 by default.
        background: Whether cleanup in the background may run; either by default.
    """
    lengths = st.integers(1, 100) if ttl_ms is None else ttl_ms
    flags = st.booleans()
    in_background = flags if background is None else st.just(background)
    sizes = st.none() | st.integers(1, 10) if background is not False else st.none()
    return st.builds(_ttl_config, lengths, flags, flags, in_background, sizes, flags)


def _ttl_config(
    ttl: int,
    on_read: bool,
    return_expired: bool,
    in_background: bool,
    cleanup_size: int | None,
    every_record: bool,
) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(ttl)
    if on_read:
        builder.update_ttl_on_read_and_write()
    if return_expired:
        builder.return_expired_if_not_cleaned_up()
    if not in_background:
        builder.disable_cleanup_in_background()
    if cleanup_size is not None:
        builder.cleanup_incrementally(cleanup_size, every_record)
    return builder.build()
