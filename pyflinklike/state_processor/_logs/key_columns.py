# SPDX-License-Identifier: Apache-2.0
"""Converts stored keys to the key columns of the stream and back, and parses keys that users type.

Numbers, booleans and strings are stored as such, several of them as a struct.  Keys of other types
are stored encoded, and are decoded one by one.

A user may type a key on a command line or in a URL.  The text is exactly a key, or it is refused: it
is never rounded or cut to another key.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import re
import struct
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import DeclarationTypeError, IncompatibleStateError, StateValueError
from pyflinklike.state_processor._logs.column_values import show_column, store_column, type_to_show
from pyflinklike.types import ListTypeInfo, TupleTypeInfo, TypeInformation, Types
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.catalog import DECIMAL, PLAIN, TEXT, type_of
from pyflinklike.types.key_codec import ANY_KEY, decode_key, encode_key
from pyflinklike.types.time_types import (
    Instant,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    to_instant,
)

OWN_NAMES = frozenset(
    (
        *("alive", "batch_id", "change_type", "domain", "due", "expires_at", "key_group"),
        *("last_use", "namespace", "number", "position", "result", "session_end"),
        *("session_start", "stamp", "store_key", "time", "timestamp", "user_key", "valid_from"),
        *("valid_to", "value", "window_end", "window_start", "before", "after", "change"),
    )
)
"""Names of columns that readers add; a key column of such a name gets the prefix `key_`."""


@attrs.frozen
class KeyColumns:
    """The key columns of a stream.

    Args:
        names: The names that readers show.
        types: The Arrow types of the columns.
        signature: The signature of the stored keys' type.
        is_encoded: Whether keys are shown as they are stored, as encoded bytes.
    """

    names: tuple[str, ...]
    types: tuple[Any, ...]
    signature: str
    is_encoded: bool = False

    @classmethod
    def of(cls, record: OperatorRecord) -> KeyColumns:
        """Return the key columns that a record names, or one called `key` if it names none.

        Raises:
            IncompatibleStateError: A column has a type that cannot be read.
        """
        declared, signature = record.identity.key_columns, record.identity.key
        if not declared:
            is_encoded = signature == ANY_KEY
            kind = pa.binary() if is_encoded else type_to_show(type_of(signature))
            return cls(("key",), (kind,), signature, is_encoded)
        # If the key columns of two inputs have different names, the record notes both: "a = b".
        names = [name.partition(" = ")[0] for name, _ in declared]
        return cls(_unlike(names), tuple(arrow_of(kind) for _, kind in declared), signature)

    @property
    def fields(self) -> list[Any]:
        """The columns, as fields of a schema."""
        return [pa.field(name, kind) for name, kind in zip(self.names, self.types)]

    def show(self, keys: Any) -> list[Any]:
        """Return stored keys as columns.

        Args:
            keys: An Arrow array of stored keys.

        Raises:
            IncompatibleStateError: The columns cannot hold a key exactly, such as the nanoseconds
                of an instant; it would become another key.
        """
        if self.signature != ANY_KEY:
            declared = type_of(self.signature)
            if not self._is_struct:
                return [_exactly_shown(keys, declared)]
            return [part.cast(kind) for part, kind in zip(keys.flatten(), self.types)]
        if self.is_encoded:
            return [keys]
        decoded = [decode_key(each) for each in keys.to_pylist()]
        try:
            columns = (
                [decoded] if len(self.types) == 1 else list(zip(*decoded)) or [()] * len(self.types)
            )
            return [pa.array(each, kind) for each, kind in zip(columns, self.types)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = ", ".join(f"{each.name} {each.type}" for each in self.fields)
            msg = f"keys must be values of the key columns ({said}), got {shown_error(error)}"
            raise IncompatibleStateError(
                f"{msg}; give the harness keys of these types, or read the state as bytes"
            ) from error

    @property
    def _is_struct(self) -> bool:
        return len(self.types) > 1 and isinstance(type_of(self.signature), TupleTypeInfo)

    def store(self, columns: Sequence[Any]) -> Any:
        """Return columns as stored keys.

        Args:
            columns: Arrow arrays of the `types`.

        Raises:
            IncompatibleStateError: A key is null.
            StateValueError: A key does not fit its type.
        """
        if any(column.null_count for column in columns) and len(columns) == 1:
            msg = f"a key must have a value in its column {self.names[0]!r}, got null"
            raise IncompatibleStateError(f"{msg}; leave such rows out")
        if self.signature != ANY_KEY:
            declared = type_of(self.signature)
            if not self._is_struct:
                return store_column(columns[0], declared, "keys", as_key=True)
            kind = declared.arrow_type
            parts = [each.cast(kind.field(at).type) for at, each in enumerate(columns)]
            return pa.StructArray.from_arrays(parts, fields=list(kind))
        if self.is_encoded:
            return columns[0]
        values = [_with_zones(to_python(each, "UTC"), each.type) for each in columns]
        keys = values[0] if len(values) == 1 else zip(*values)
        return pa.array([encode_key(key) for key in keys], pa.binary())


def _exactly_shown(keys: Any, declared: TypeInformation) -> Any:
    found = show_column(keys, declared)
    if not _has_instants(declared):
        return found
    with contextlib.suppress(StateValueError):  # an instant beyond timestamps is shown as null
        if store_column(found, declared, "keys", as_key=True).equals(keys):
            return found
    msg = f"keys of {declared!r} are read and saved to the microsecond, got one that does not fit"
    raise IncompatibleStateError(f"{msg}; key by seconds and nanos, in Types.TUPLE, say")


def _has_instants(declared: TypeInformation) -> bool:
    if isinstance(declared, TupleTypeInfo):
        return any(map(_has_instants, declared.field_types))
    if isinstance(declared, ListTypeInfo):
        return _has_instants(declared.elem_type)
    return isinstance(declared, InstantTypeInfo)


def _with_zones(values: list[Any], kind: Any) -> list[Any]:
    """Return values whose instants are in UTC, as they are stored."""
    if pa.types.is_timestamp(kind) and kind.tz:
        return [each and to_instant(each, "UTC") for each in values]
    if pa.types.is_struct(kind):
        parts = [
            _with_zones([each and each[at] for each in values], kind.field(at).type)
            for at in range(kind.num_fields)
        ]
        rows = list(zip(*parts))
        return [each and row for each, row in zip(values, rows)]
    return values


def _unlike(names: Sequence[str]) -> tuple[str, ...]:
    # By lower case, as Spark compares the names of columns.
    return tuple(f"key_{name}" if name.lower() in OWN_NAMES else name for name in names)


# The types of key columns; a record names them as Spark's `simpleString` does


def arrow_of(kind: str) -> Any:
    """Return the Arrow type of a key column.

    Args:
        kind: Spark's name of the type.

    Raises:
        IncompatibleStateError: A type of this name cannot be read.
    """
    if kind in PLAIN:
        return PLAIN[kind]
    decimal = DECIMAL.fullmatch(kind)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if TEXT.fullmatch(kind):
        return pa.string()
    if kind.startswith("struct<") and kind.endswith(">"):
        parts = [each.partition(":") for each in _parts(kind[len("struct<") : -1])]
        return pa.struct([(name, arrow_of(part)) for name, _, part in parts])
    msg = f"a key column must have a type that Arrow can hold, got {kind!r}"
    raise IncompatibleStateError(f"{msg}; use read_savepoint() for this state")


def name_of(kind: Any) -> str:
    """Return Spark's name of an Arrow type that a key can have."""
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return f"struct<{','.join(f'{each.name}:{name_of(each.type)}' for each in fields)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next((name for name, each in PLAIN.items() if each == kind), str(kind))


def _parts(text: str) -> list[str]:
    """Divide a text at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text else []


def list_keys(keys: Any) -> list[Any]:
    """Return the keys that a user gives as `keys`.

    Raises:
        DeclarationTypeError: It is a single key.
    """
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        msg = f"keys takes a list of keys, got {short_repr(keys)}; write keys=[...]"
        raise DeclarationTypeError(msg)
    return list(keys)


# Keys and times that were typed


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)
_FINER = re.compile(r"[.,][0-9]{6}0*[1-9]")
"""Matches digits behind the microseconds, which Python's parser would drop."""
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MISFITS = (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException)
_MAX_DIGITS = 100
"""How many digits a number may have on either side of the point; Arrow's decimals have fewer."""


def json_of(text: str) -> Any:
    """Parse a text as JSON, with exact decimals for numbers with a point, or return the text.

    JSON that is too deep for Python, or has a number of too many digits, is a text, too.
    """
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=float)
    except (ValueError, RecursionError, InvalidOperation):
        return text


def key_of(text: str, columns: Sequence[tuple[str, str]]) -> Any:
    """Parse a key: JSON (for several columns an array), or the text of one string.

    A whole number is written without a point, a date as ISO 8601, a timestamp in ms or as ISO 8601,
    bytes in hex after 0x.  For a timestamp with a time zone, a text without a zone is in UTC.  For a
    timestamp without a zone, a text with a zone is refused.

    Args:
        text: The text that the user typed.
        columns: The names and Spark types of the key columns.

    Raises:
        StateValueError: The text does not fit the columns, or is not exactly a value of them.
    """
    given = json_of(text)
    if len(columns) == 1:
        name, kind = columns[0]
        if pa.types.is_string(arrow_of(kind)) and not isinstance(given, str):
            given = text  # the digits of a name, say
        return _part_of(given, name, kind, arrow_of(kind))
    if not isinstance(given, list) or len(given) != len(columns):
        names = [name for name, _ in columns]
        msg = f"KEY must be a JSON array with a value for each of {names}, got {short_repr(text)}"
        raise StateValueError(f"""{msg}; write it as '["ann", 3]'""")
    return tuple(
        _part_of(each, name, kind, arrow_of(kind)) for each, (name, kind) in zip(given, columns)
    )


def user_key_of(text: str, columns: Sequence[tuple[str, str]], signature: str) -> Any:
    """Parse a key to the value that a function gets: a `time`, say, whose column is a text.

    Args:
        text: The text that the user typed, as `key_of` takes it.
        columns: The names and Spark types of the key columns.
        signature: The signature of the stored keys' type.

    Raises:
        StateValueError: The text does not fit the columns, or is not exactly a value of them.
    """
    shown_key = key_of(text, columns)
    if len(columns) != 1:
        return shown_key
    declared = type_of(signature)
    try:
        return as_user(shown_key, declared)
    except _MISFITS as error:
        msg = f"KEY must be a value of {declared!r}, got {short_repr(text)}"
        raise StateValueError(f"{msg}; write it as it is shown") from error


def as_user(given: Any, declared: TypeInformation) -> Any:
    """Return what a user typed as a value of a type that JSON or the key's column cannot hold.

    Args:
        given: A value of JSON, or a key that `key_of` returned.
        declared: The type of the key, or of a part of it.

    Raises:
        ValueError, TypeError, ArithmeticError: It is not exactly a value of the type.
    """
    if isinstance(declared, TupleTypeInfo) and isinstance(given, tuple):
        return tuple(as_user(each, part) for each, part in zip(given, declared.field_types))
    if isinstance(declared, TimeTypeInfo) and isinstance(given, str):
        return dt.time.fromisoformat(_of_microseconds(given))
    if declared == Types.BIG_INT() and isinstance(given, str):
        if not _WHOLE.fullmatch(given):
            raise _misfit(given)
        return int(given)
    if declared == Types.BIG_DEC() and isinstance(given, str):
        return Decimal(given)
    if isinstance(declared, TimestampTypeInfo) and isinstance(given, (int, str)):
        return _instant(given, is_zoned=False)
    if isinstance(declared, InstantTypeInfo) and isinstance(given, (int, str, dt.datetime)):
        instant = given if isinstance(given, dt.datetime) else _instant(given, is_zoned=True)
        seconds, rest = divmod(instant - _EPOCH, dt.timedelta(seconds=1))
        return Instant(seconds, rest.microseconds * 1000)
    return given


def column_key_of(text: str, columns: Sequence[tuple[str, str]], signature: str | None) -> Any:
    """Parse a key to the value that its column shows; it raises as `user_key_of` does."""
    declared = None if signature in (None, ANY_KEY) else type_of(signature)
    if declared is None or declared.is_pickled or len(columns) != 1:
        return key_of(text, columns)
    key = declared.freeze_key(user_key_of(text, columns, declared.signature))
    return _without_names(show_column(declared.to_arrow([key]), declared)[0].as_py())


def _without_names(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_without_names(each) for each in value.values())
    return value


def _part_of(given: Any, name: str, kind: str, declared: Any) -> Any:
    if pa.types.is_struct(declared) and not isinstance(given, dict):
        return _tuple_of(given, name, kind, declared)
    try:
        return _exactly(given, declared)
    except _MISFITS as error:
        msg = f"KEY must be a value of column {name!r}, which is {kind}, got {short_repr(given)}"
        raise StateValueError(f"{msg}{_remedy(kind)}") from error


def _remedy(kind: str) -> str:
    if kind == "timestamp_ntz":
        return "; write ms, or ISO 8601 without a time zone"
    if kind == "timestamp":
        return "; write ms, or ISO 8601 such as 2026-11-23T02:00:00Z"
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return "; write it as JSON, a whole number in its range without a point"
    return "; write it as JSON"


def _exactly(given: Any, declared: Any) -> Any:
    """Return the value of an Arrow type that is exactly what was given.

    Raises:
        ValueError, TypeError, ArithmeticError, pa.ArrowException: There is none.
    """
    types = pa.types
    if given is None:
        return None
    if isinstance(given, bool) is not types.is_boolean(declared):
        if types.is_boolean(declared) and given in ("true", "false"):
            return given == "true"
        raise _misfit(given)
    if types.is_boolean(declared):
        return given
    if types.is_integer(declared):
        if not isinstance(given, int) and not (isinstance(given, str) and _WHOLE.fullmatch(given)):
            raise _misfit(given)
        return pa.scalar(int(given), declared).as_py()
    if types.is_floating(declared):
        return to_float(given, 32 if types.is_float32(declared) else 64)
    if types.is_decimal(declared):
        number = Decimal(given)
        if not number.is_finite() or abs(number.adjusted()) > _MAX_DIGITS:
            raise _misfit(given)
        return pa.scalar(number, declared).as_py()
    if types.is_timestamp(declared):
        return _instant(given, is_zoned=declared.tz is not None)
    if types.is_struct(declared):
        names = [field.name for field in declared]
        if not isinstance(given, dict) or sorted(given) != sorted(names):
            raise _misfit(given)
        return tuple(_exactly(given[field.name], field.type) for field in declared)
    if not isinstance(given, str):
        raise _misfit(given)
    if types.is_date(declared):
        return dt.date.fromisoformat(given)
    if types.is_binary(declared):
        return bytes.fromhex(given.removeprefix("0x"))
    return pa.scalar(given, declared).as_py()


def _misfit(given: Any) -> ValueError:
    return ValueError(f"no value of the type: {type(given).__name__}")


def to_float(given: Any, bits: int = 64) -> float:
    """Return the float of so many bits that a number stands for.

    A number stands for a float if it is its exact value or the digits that the float is shown with,
    as 0.1 is; any other number would lead to another key.

    Raises:
        ValueError, TypeError, ArithmeticError: It stands for none.
    """
    if isinstance(given, bool):
        raise _misfit(given)
    number = float(given)
    if not math.isfinite(number):
        if str(given).lower().lstrip("+-") in ("nan", "inf", "infinity"):
            return number
        raise _misfit(given)  # too large
    if bits == 32:
        number = struct.unpack("f", struct.pack("f", number))[0]
    digits = [f"{number:.{count}g}" for count in range(6, 10)] if bits == 32 else []
    shortest = next((each for each in digits if _as_32(each) == number), repr(number))
    exact = Decimal(given) if isinstance(given, str) else given
    if exact not in (Decimal(number), Decimal(repr(number)), Decimal(shortest)):
        raise _misfit(given)
    return number


def _as_32(digits: str) -> float:
    found: float = struct.unpack("f", struct.pack("f", float(digits)))[0]
    return found


def _of_microseconds(text: str) -> str:
    """Return a text that has only zeros behind its microseconds.

    Raises:
        ValueError: It has other digits there.
    """
    if _FINER.search(text):
        raise _misfit(text)
    return text


def _instant(given: Any, *, is_zoned: bool) -> dt.datetime:
    if isinstance(given, int) or (isinstance(given, str) and _WHOLE.fullmatch(given)):
        instant = _EPOCH + int(given) * _MILLISECOND
        return instant if is_zoned else instant.replace(tzinfo=None)
    if not isinstance(given, str):
        raise _misfit(given)
    instant = dt.datetime.fromisoformat(_of_microseconds(given).replace("Z", "+00:00"))
    if not is_zoned:
        if instant.tzinfo is not None:
            raise _misfit(given)
        return instant
    zoned = instant if instant.tzinfo else instant.replace(tzinfo=dt.timezone.utc)
    return zoned.astimezone(dt.timezone.utc)


def _tuple_of(given: Any, name: str, kind: str, declared: Any) -> tuple[Any, ...]:
    """Return a key that is a tuple, from an array with a value for each field."""
    if not isinstance(given, list) or len(given) != declared.num_fields:
        msg = f"KEY must be a JSON array with the {declared.num_fields} values of column {name!r}"
        raise StateValueError(
            f"""{msg}, which is {kind}, got {short_repr(given)}; write '["ann", 3]'"""
        )
    return tuple(
        None if each is None else _part_of(each, name, kind, declared.field(at).type)
        for at, each in enumerate(given)
    )


def time_of(text: str) -> int:
    """Parse a point in time, in ms or as ISO 8601 (in UTC if it has no zone); return it in ms.

    Raises:
        StateValueError: The text is neither, between two ms, or beyond 64 bits.
    """
    try:
        if _WHOLE.fullmatch(text):
            found = int(text)
        else:
            found, finer = divmod(_instant(text, is_zoned=True) - _EPOCH, _MILLISECOND)
            if finer:
                raise _misfit(text)
        struct.pack("q", found)
    except (ValueError, OverflowError, struct.error) as error:
        msg = f"a time is given in ms or as ISO 8601, got {short_repr(text)}; write 2026-11-23T02:00:00Z"
        raise StateValueError(msg) from error
    return found
