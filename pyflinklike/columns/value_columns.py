# SPDX-License-Identifier: Apache-2.0
"""Columns that a function gives: checks of its arrays, and the types of state as columns.

`plain_array` and the checks beside it turn arrays of users into NumPy arrays without nulls or Python
objects.  A `ValueColumn` checks the values that a function puts into a state, and shows those in it:

| declared type                    | put and got                                        |
|----------------------------------|----------------------------------------------------|
| BYTE, SHORT, INT, LONG           | NumPy ints; one out of the type's range is refused |
| FLOAT, DOUBLE                    | NumPy floats; every NaN is one NaN                  |
| BOOLEAN                          | NumPy bools                                        |
| SQL_DATE, SQL_TIMESTAMP          | `datetime64[D]`, `datetime64[us]`                  |
| STRING, CHAR, bytes              | Arrow strings or binary                            |
| TUPLE, ROW, ROW_NAMED of these   | a tuple, or `Row`, of such columns                 |

Columns store what `TypeInformation.freeze` makes of the same values one by one, so that
functions per record and columnar functions read each other's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.types import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from pyflinklike.types.row import row_class

_NUMBERS = frozenset("biuf")


def plain_array(values: Any, what: str) -> Any:
    """Return values as a NumPy array of at most one dimension.

    Args:
        values: An array of NumPy, Arrow, pandas or Polars, a list, or a single value.
        what: The subject of messages, such as "column 'price'".

    Raises:
        StateValueError: A value is null, masked, or of a type that NumPy does not have.
    """
    # Arrow's to_numpy silently turns nulls among ints into NaN, so we refuse them before that.
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if values.null_count:
            msg = (
                f"{what} takes values without nulls, got {values.null_count} nulls in a column of "
                f"{values.type}; use pyarrow.compute.fill_null, or leave such records out"
            )
            raise StateValueError(msg)
        values = values.to_numpy(zero_copy_only=False)
    if isinstance(values, np.ma.MaskedArray):
        msg = f"{what} takes values without nulls, got a masked array; use its filled()"
        raise StateValueError(msg)
    found = np.asarray(values)
    if found.ndim > 1 or found.dtype.kind == "O":
        msg = (
            f"{what} takes values of one type in one dimension, got {found.dtype} of shape "
            f"{found.shape}; give it a NumPy or an Arrow array"
        )
        raise StateValueError(msg)
    return found


def numbers_of(values: Any, what: str) -> Any:
    """Return numbers or bools as a NumPy array.

    Raises:
        StateValueError: The values are of another type, or one is null.
    """
    found = plain_array(values, what)
    if found.dtype.kind not in _NUMBERS:
        msg = f"{what} takes numbers, got {found.dtype}; convert them first"
        raise StateValueError(msg)
    return found


def check_codes(codes: Any, count: int, what: str) -> Any:
    """Return the numbers of groups as a NumPy array of int64.

    Args:
        codes: The number of the group of each value.
        count: How many groups the batch has.
        what: The subject of messages.

    Raises:
        StateValueError: A code is not a whole number from 0 to `count - 1`.
    """
    found = plain_array(codes, f"{what}: codes")
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        msg = f"{what}: codes are the numbers of groups, got {found.dtype}; use batch.groups.codes"
        raise StateValueError(msg)
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < count:
        msg = (
            f"{what}: codes are numbers of the batch's {count} groups, from 0, got "
            f"{int(found.min())} to {int(found.max())}; use batch.groups.codes"
        )
        raise StateValueError(msg)
    return found.astype(np.int64)


def check_mask(where: Any, count: int, what: str, each: str) -> Any:
    """Return the choice of some keys or times as a NumPy array of bools.

    Args:
        where: The `where` of a user.
        count: How many keys or times there are.
        what: The subject of messages.
        each: The name of the things chosen, for messages: "keys" or "times".

    Raises:
        StateValueError: It does not have one bool for each.
    """
    mask = plain_array(where, f"{what}: where")
    if mask.dtype != bool or mask.shape != (count,):
        msg = (
            f"{what}: where takes a bool for each of {count} {each}, got {mask.dtype} of "
            f"shape {mask.shape} {short_repr(mask.ravel()[:3].tolist())}; compare with NumPy to get one"
        )
        raise StateValueError(msg)
    return mask


# The types of state

_INTS = {
    Types.BYTE(): np.int8,
    Types.SHORT(): np.int16,
    Types.INT(): np.int32,
    Types.LONG(): np.int64,
}
_FLOATS = {Types.FLOAT(): np.float32, Types.DOUBLE(): np.float64}
_TIMES = {
    Types.SQL_DATE(): ("datetime64[D]", "0001-01-01", "9999-12-31"),
    Types.SQL_TIMESTAMP(): (
        "datetime64[us]",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59.999999",
    ),
}
_TEXTS = (Types.STRING(), Types.CHAR(), Types.PRIMITIVE_ARRAY(Types.BYTE()))


def value_column(name: str, type_info: TypeInformation) -> ValueColumn:
    """Choose the column of a state's values.

    Args:
        name: The name of the state, for messages.
        type_info: The declared type of the values.

    Raises:
        DeclarationTypeError: There are no columns of this type.
    """
    if type_info in _INTS:
        return IntColumn(name, type_info, np.dtype(_INTS[type_info]))
    if type_info in _FLOATS:
        return FloatColumn(name, type_info, np.dtype(_FLOATS[type_info]))
    if type_info == Types.BOOLEAN():
        return ValueColumn(name, type_info, np.dtype(bool))
    if type_info in _TIMES:
        kind, *ends = _TIMES[type_info]
        return TimeColumn(name, type_info, np.dtype(kind), [np.datetime64(end) for end in ends])
    if type_info in _TEXTS:
        return TextColumn(name, type_info, np.dtype(object))
    if isinstance(type_info, TupleTypeInfo) and _is_flat(type_info):
        return TupleColumns(
            name,
            type_info,
            np.dtype(object),
            [value_column(name, each) for each in type_info.field_types],
        )
    msg = (
        f"state {name!r}: a column state holds numbers, bools, strings, bytes, dates, timestamps, "
        f"or tuples and rows of these, got {type_info!r}; use one of them, or a KeyedProcessFunction"
    )
    raise DeclarationTypeError(msg)


def _is_flat(type_info: TupleTypeInfo) -> bool:
    fields = type_info.field_types
    return bool(fields) and not any(isinstance(each, TupleTypeInfo) for each in fields)


@attrs.frozen
class ValueColumn:
    """Values of one type; a function gets them as `Vector.take` returns them.

    Args:
        name: The name of the state, for messages.
        type_info: The declared type of the values.
        dtype: NumPy's type for them; object if they are not one NumPy array.
    """

    name: str
    type_info: TypeInformation
    dtype: Any

    def check(self, given: Any, count: int) -> Any:
        """Return values from a function in the form that vectors take.

        Args:
            given: One value for each of `count` keys, or one for all.
            count: How many keys there are.

        Raises:
            StateValueError: A value does not fit the type.
        """
        values = plain_array(given, f"state {self.name!r}")
        self._check_count(values, count)
        if len(values) if values.ndim else True:
            values = self._convert(values)
        return np.broadcast_to(values.astype(self.dtype, copy=False), (count,))

    def show(self, values: Any, is_there: Any, default: Any) -> Any:
        """Return the values for a function, with the default for missing ones.

        Raises:
            StateValueError: A key has no value, and there is no default.
        """
        if is_there.all():
            return values
        if default is None:
            raise self._no_default(is_there)
        filled = np.array(values)
        filled[~is_there] = self.check(default, len(values))[~is_there]
        return filled

    def _no_default(self, is_there: Any) -> StateValueError:
        missing = int((~is_there).sum())
        return StateValueError(
            f"state {self.name!r}: get() needs a default for keys without a value, got no default "
            f"and {missing} such keys; write get(0) for example, or arrow() for nulls"
        )

    def _convert(self, values: Any) -> Any:
        if values.dtype != self.dtype:
            raise self._misfit(values)
        return values

    def _check_count(self, values: Any, count: int) -> None:
        if np.ndim(values) and len(values) != count:
            msg = (
                f"state {self.name!r} takes one value for each of the batch's {count} keys, or "
                f"one for all, got {len(values)}; groups.last() turns one for each record into "
                "one for each key"
            )
            raise StateValueError(msg)

    def _misfit(self, got: Any) -> StateValueError:
        kind = getattr(got, "dtype", None) or getattr(got, "type", None)
        what = short_repr(got) if kind is None else f"{kind} with {_sample(got)}"
        return StateValueError(
            f"state {self.name!r} takes values of {self.type_info!r}, got {what}; convert them"
        )


class IntColumn(ValueColumn):
    """Ints in the range of their type."""

    def _convert(self, values: Any) -> Any:
        if values.dtype.kind not in "iu":
            raise self._misfit(values)
        info = np.iinfo(self.dtype)
        if not np.can_cast(values.dtype, self.dtype) and not (
            info.min <= int(values.min()) and int(values.max()) <= info.max
        ):
            raise self._misfit(values)
        return values


class FloatColumn(ValueColumn):
    """Floats, with one NaN; ints become floats."""

    def _convert(self, values: Any) -> Any:
        if values.dtype.kind not in "iuf":
            raise self._misfit(values)
        with np.errstate(over="ignore"):
            floats = values.astype(self.dtype)
        if self.dtype.itemsize < 8 and (np.isinf(floats) & np.isfinite(values)).any():
            raise self._misfit(values)
        floats = np.array(floats, ndmin=floats.ndim)
        # There are many NaNs, and `freeze` stores only one of them, so this does, too.
        floats[np.isnan(floats)] = np.nan
        return floats


@attrs.frozen
class TimeColumn(ValueColumn):
    """Dates and timestamps of the years 1 to 9999, which is Python's range.

    Args:
        ends: The first and the last value of the type.
    """

    ends: Sequence[Any]

    def _convert(self, values: Any) -> Any:
        if values.dtype.kind != "M" or np.isnat(values).any():
            raise self._misfit(values)
        times = values.astype(self.dtype)
        # NumPy silently cuts digits off when it casts ns to us, so we refuse a value that changes.
        if (times != values).any() or times.min() < self.ends[0] or times.max() > self.ends[1]:
            raise self._misfit(values)
        return times


class TextColumn(ValueColumn):
    """Strings and bytes, which are Arrow columns."""

    def check(self, given: Any, count: int) -> Any:
        """Return an Arrow array of `count` values."""
        kind = self.type_info.arrow_type
        try:
            if isinstance(given, (str, bytes)):
                given = pa.array([given]).take(pa.array(np.zeros(count, np.int64)))
            elif isinstance(given, pa.ChunkedArray):
                given = given.combine_chunks()
            values = given if isinstance(given, pa.Array) else pa.array(given)
            if len(values) and not _is_like(values.type, kind):
                raise self._misfit(values)
            values = values.cast(kind)
        except (pa.ArrowException, TypeError, ValueError) as error:
            if isinstance(error, StateValueError):
                raise
            raise self._misfit(given) from error
        self._check_count(values, count)
        is_char = self.type_info == Types.CHAR()
        if values.null_count or (is_char and _any(pc.not_equal(pc.utf8_length(values), 1))):
            raise self._misfit(values)
        return values

    def show(self, values: Any, is_there: Any, default: Any) -> Any:
        """Return an Arrow array, with null if there is neither a value nor a default."""
        if is_there.all():
            return values
        other = pa.scalar(default, self.type_info.arrow_type)
        return pc.if_else(pa.array(is_there), values, other)


@attrs.frozen
class TupleColumns(ValueColumn):
    """Tuples and rows, with a column for each field.

    Args:
        fields: The column of each field, in their order.
    """

    fields: Sequence[ValueColumn]

    def check(self, given: Any, count: int) -> Any:
        """Return a tuple of columns."""
        return tuple(
            field.check(part, count) for field, part in zip(self.fields, self._parts(given))
        )

    def show(self, values: Any, is_there: Any, default: Any) -> Any:
        """Return a tuple or Row of columns."""
        defaults = [None] * len(self.fields) if default is None else self._parts(default)
        parts = [
            field.show(part, is_there, each)
            for field, part, each in zip(self.fields, values, defaults)
        ]
        if isinstance(self.type_info, RowTypeInfo):
            return row_class(self.type_info.field_names)._make(parts)
        return tuple(parts)

    def _parts(self, given: Any) -> Sequence[Any]:
        if not isinstance(given, (tuple, list)) or len(given) != len(self.fields):
            raise self._misfit(given)
        return given


def _is_like(kind: Any, wanted: Any) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    blobs = (pa.types.is_binary, pa.types.is_large_binary)
    return any(is_one(kind) for is_one in (texts if pa.types.is_string(wanted) else blobs))


def _any(column: Any) -> bool:
    return bool(pc.any(column).as_py())


def _sample(got: Any) -> str:
    some = got[:3] if np.ndim(got) or hasattr(got, "type") else got
    return short_repr(some.tolist() if hasattr(some, "tolist") else some)
