# SPDX-License-Identifier: Apache-2.0
"""Converts the values of Debezium's JSON to the values of a table's columns.

`converter_of` compiles the conversion of one column, from the column's type and from the schema
that the envelope has for it.  The schema decides: if a value means something else than the column
holds, it is refused, because a number of ms is not a day and hexadecimal text is not base64.  If
there is no schema, the column's type decides how to read a value; the tables below call this kind
"bare".  https://debezium.io/documentation/reference/stable/connectors/postgresql.html describes how a
connector writes each type of a database.

If a column cannot hold all digits, bits or fractions of a second of a value, that is an error whose
message has the remedy.  No value is rounded or cut.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
import pyarrow as pa

from pyflinklike._checks import is_int, is_number
from pyflinklike._messages import short_repr
from pyflinklike.cdc.envelope import Meaning, SemanticType, classify

Convert: TypeAlias = Callable[[Any], Any]
"""Converts a JSON value that is not None; raises `ValueError` if it does not fit."""

_UTC = dt.timezone.utc
_EPOCH = dt.datetime(1970, 1, 1)
_DAY_ZERO = dt.date(1970, 1, 1)
_WIDE = Context(prec=100)  # the default context would round decimals that Spark can hold
_MOST_SCALE = 5_000
_DIGITS_OF_A_FLOAT, _DIGITS_OF_A_DOUBLE = 6, 15  # any decimal with so many comes back unchanged
_DIGITS_OF_A_WRITTEN_DOUBLE = 17  # the most that the text of a double may have
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)Z?", re.ASCII)  # Debezium's type IsoDate ends in a Z
_TIME = re.compile(r"(\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z?)", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d){0,2})?",
    re.ASCII,
)
# JSON has no numbers for these values, so they come as text.
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FLOAT32 = struct.Struct("f")


# Types of columns

_INTEGERS: Final[Mapping[pa.DataType, str]] = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
}
NAMES: Final[Mapping[pa.DataType, str]] = {
    **_INTEGERS,
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}


def type_name(column: pa.DataType) -> str | None:
    """Return Spark's name of a column's type; None if Debezium's JSON has no form for it."""
    if pa.types.is_decimal(column):
        return f"DECIMAL({column.precision},{column.scale})"
    if pa.types.is_list(column):
        return "ARRAY" if type_name(column.value_type) else None
    if pa.types.is_map(column):
        return "MAP" if column.key_type == pa.string() and type_name(column.item_type) else None
    if pa.types.is_struct(column):
        return "STRUCT" if all(type_name(each.type) for each in column) else None
    return NAMES.get(column)


# Refusals

_DECLARE: Final[Mapping[str, str]] = {
    "boolean": "declare it BOOLEAN",
    "integer": "declare it BIGINT",
    "float": "declare it FLOAT or DOUBLE",
    "double": "declare it DOUBLE",
    "text": "declare it STRING",
    "bytes": "declare it BINARY",
    "decimal": "declare it DECIMAL, or STRING for its digits",
    "date": "declare it DATE",
    "time": "declare it STRING for ISO 8601, or BIGINT for the connector's number",
    "zoned time": "declare it STRING",
    "local time": (
        "declare it TIMESTAMP_NTZ, and cast that to an instant in a session of the database's zone"
    ),
    "instant": "declare it TIMESTAMP",
    "duration": "declare it BIGINT",
    "array": "declare it ARRAY, or STRING for its JSON",
    "map": "declare it MAP, or STRING for its JSON",
    "struct": "declare it STRUCT, or STRING for its JSON",
}
_SCHEMAS = "let the converter write schemas (schemas.enable=true)"
_TINY = (
    "declare it SMALLINT if it is MySQL's tinyint(1), or set the connector's converter "
    "TinyIntOneToBooleanConverter"
)
_NOT_BASE64 = (
    "set binary.handling.mode=bytes, or declare it STRING and decode that with unhex or unbase64"
)
_REMEDIES: Final[Mapping[tuple[str, str], str]] = {
    ("BINARY", "text"): _NOT_BASE64,
    ("BINARY", "bare"): _NOT_BASE64,
    ("BOOLEAN", "integer"): _TINY,
    ("BOOLEAN", "bare"): _TINY,
    ("DECIMAL", "bare"): (f"{_SCHEMAS}, or set decimal.handling.mode=string, or declare it STRING"),
    ("DECIMAL", "text"): "set decimal.handling.mode=precise, or declare it STRING",
    ("DECIMAL", "float"): "set decimal.handling.mode=precise, or declare it DOUBLE",
    ("DECIMAL", "double"): "set decimal.handling.mode=precise, or declare it DOUBLE",
    ("TIMESTAMP", "bare"): f"{_SCHEMAS}, or declare it BIGINT; TIMESTAMP_NTZ if it has no zone",
    ("TIMESTAMP", "text"): "declare it TIMESTAMP_NTZ if it has no zone, else STRING",
    ("TIMESTAMP_NTZ", "bare"): f"{_SCHEMAS}, or declare it BIGINT; TIMESTAMP if it has a zone",
    ("TIMESTAMP_NTZ", "text"): "declare it TIMESTAMP if it has a zone, else STRING",
    ("STRING", "bare"): f"{_SCHEMAS}, or declare it BIGINT, DOUBLE, DECIMAL or BOOLEAN",
    ("STRING", "bytes"): "declare it BINARY, or set binary.handling.mode=base64 or hex",
}
_FINER = "declare it STRING for all of its digits, or BIGINT for the connector's number"
_WIDER = "declare it STRING, or BIGINT for the connector's number"
_LONGER = "declare it DECIMAL, or STRING for its digits"


class _Reading:
    """How to read a column's values, with the messages of its errors.

    Args:
        column: The column's type; None for the value that fits the schema best.
        semantic: The envelope's schema of the column, or None.
    """

    def __init__(self, column: Any, semantic: SemanticType | None) -> None:
        self.column: Any = column
        self.semantic = semantic
        self.meaning: Meaning = classify(semantic)
        self.scale = self._scale()

    @property
    def family(self) -> str:
        """The name of the column's type, without precision and parts."""
        if self.column is None:
            return ""
        if pa.types.is_decimal(self.column):
            return "DECIMAL"
        return "INTEGER" if self.column in _INTEGERS else type_name(self.column) or ""

    def refuse(self, value: Any, expected: str = "", remedy: str = "") -> NoReturn:
        """Raise the error of a value that does not fit.

        Args:
            value: The value, as it was parsed from JSON.
            expected: The rule; by default the column's type.
            remedy: The remedy in the message; by default the one for the column's type and the
                value's meaning.
        """
        named = "" if self.column is None else type_name(self.column) or ""
        kind = self.meaning.kind
        if not expected:
            expected = named or f"of its schema's type, {self._label()}"
        shown = "" if self.semantic is None or not self._label() else f" of {self._label()}"
        if not remedy:
            remedy = (
                _REMEDIES.get((self.family, kind))
                or _DECLARE.get(kind)
                or "declare it as the database has it"
            )
        msg = f"must be {expected}, got {short_repr(value)}{shown}; {remedy}"
        raise ValueError(msg)

    def _scale(self) -> int | None:
        """Return the scale of a schema's Decimal; None if no number can have it."""
        if self.semantic is None or self.meaning.kind != "decimal":
            return None
        text = self.semantic.parameters.get("scale", "0" if self.semantic.type != "struct" else "")
        return int(text) if re.fullmatch(r"-?\d{1,4}", text, re.ASCII) else None

    def _label(self) -> str:
        if self.semantic is None:
            return ""
        return self.semantic.name or self.semantic.type or ""


def _refusal(reading: _Reading) -> Convert:
    return reading.refuse


# Booleans and integers


def _boolean(reading: _Reading) -> Convert:
    def convert(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if is_int(value) and value in (0, 1) and reading.meaning.kind != "boolean":
            return value == 1  # MySQL's tinyint(1)
        return reading.refuse(value, "BOOLEAN, or 0 or 1")

    return convert


def _integer(reading: _Reading) -> Convert:
    column = reading.column
    bits = column.bit_width if column is not None else 64
    limit = 1 << (bits - 1)
    named = _INTEGERS.get(column, "BIGINT")
    is_decimal = reading.meaning.kind == "decimal"

    def convert(value: Any) -> int:
        if type(value) is int and -limit <= value < limit and not is_decimal:
            return value
        number = value
        if is_decimal or isinstance(value, dict):
            exact = _decimal_of(value, reading)
            if exact == exact.to_integral_value(context=_WIDE) and exact.adjusted() < 20:
                number = int(exact)
        if is_int(number) and -limit <= number < limit:
            return number
        remedy = ""
        if is_int(number) and reading.meaning.kind in ("bare", "integer"):
            remedy = "declare it BIGINT, or DECIMAL(20,0) for unsigned numbers of 64 bits"
        elif isinstance(number, (float, Decimal)):
            remedy = "declare it DOUBLE or DECIMAL"
        return reading.refuse(value, f"{named}, an integer of {bits} bits", remedy)

    return convert


# Floats


def _to_double(value: Any, reading: _Reading) -> float:
    kind = reading.meaning.kind
    if isinstance(value, str) and value in _NOT_FINITE and kind != "decimal":
        return _NOT_FINITE[value]
    if kind == "decimal" or isinstance(value, dict):
        value = _decimal_of(value, reading)
    if isinstance(value, float):
        return value
    if is_int(value) or isinstance(value, Decimal):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and (
            kind in ("float", "double")
            or Decimal(repr(number)) == value
            # Java before 19 writes some doubles with other digits than Python does.
            or (
                kind == "bare"
                and isinstance(value, Decimal)
                and _digits(value) <= _DIGITS_OF_A_WRITTEN_DOUBLE
            )
        ):
            return number
        return reading.refuse(value, "a number whose digits fit DOUBLE", _LONGER)
    return reading.refuse(value, "a number")


def _double(reading: _Reading) -> Convert:
    return lambda value: _to_double(value, reading)


def _float(reading: _Reading) -> Convert:
    def convert(value: Any) -> float:
        number = _to_double(value, reading)
        try:
            rounded: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
        except OverflowError:
            rounded = math.nan
        if rounded == number or number != number or math.isinf(number):
            return rounded
        if reading.meaning.kind == "float" and rounded == rounded:
            return rounded
        digits = _digits(Decimal(repr(number))) or 1
        if not is_int(value) and rounded == rounded and float(f"{rounded:.{digits}g}") == number:
            return rounded
        return reading.refuse(value, "a number whose digits fit FLOAT", "declare it DOUBLE")

    return convert


def _digits(number: Decimal) -> int:
    """Return how many digits a number has, without zeros at its ends."""
    return len("".join(map(str, number.as_tuple().digits)).strip("0"))


# Decimals


def _decimal_of(value: Any, reading: _Reading) -> Decimal:
    """Return the decimal of a schema's Decimal or VariableScaleDecimal, or of a bare value."""
    is_decimal = reading.meaning.kind == "decimal"
    if isinstance(value, str):
        if is_decimal:
            return _scale_up(value, reading.scale, value, reading)
        if _NUMBER.fullmatch(value):
            return Decimal(value)
    elif isinstance(value, Decimal) or is_number(value):
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        scale = reading.scale or 0
        if is_decimal and number.is_finite() and -int(number.as_tuple().exponent) < scale:
            return Decimal(f"{number:.{scale}f}")  # decimal.format=NUMERIC
        return number
    elif isinstance(value, dict):  # VariableScaleDecimal, for columns without a fixed scale
        unscaled, own = value.get("value"), value.get("scale")
        if value.keys() == {"scale", "value"} and isinstance(unscaled, str) and is_int(own):
            return _scale_up(unscaled, own, value, reading)
    named = None if reading.column is None else type_name(reading.column)
    return reading.refuse(value, f"{named or 'a decimal'}, a number or its digits")


def _scale_up(text: str, scale: int | None, value: Any, reading: _Reading) -> Decimal:
    raw = _base64(text)
    if raw is None or scale is None or abs(scale) > _MOST_SCALE or len(raw) > _MOST_SCALE // 4:
        expected = "the base64 of a decimal's unscaled number"
        return reading.refuse(value, expected, "set decimal.handling.mode=precise or string")
    # `Decimal` reads a text without rounding, whatever the context is.
    return Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E{-scale}")


def _decimal(reading: _Reading) -> Convert:
    column, kind = reading.column, reading.meaning.kind
    precision, scale = column.precision, column.scale
    quantum = Decimal(1).scaleb(-scale)
    # A double keeps so many digits of any decimal; further digits are not the database's.
    most = {"float": _DIGITS_OF_A_FLOAT, "double": _DIGITS_OF_A_DOUBLE}.get(kind)

    def convert(value: Any) -> Decimal:
        number = _decimal_of(value, reading)
        if most is not None and _digits(number) > most:
            reading.refuse(value, f"a number of at most {most} digits, as a {kind} keeps them")
        if not number:
            return quantum * 0
        if number.adjusted() < precision - scale:
            fitted = number.quantize(quantum, context=_WIDE)
            if fitted == number:
                return fitted
        wider = "declare it with as many digits as the database has, or STRING"
        return reading.refuse(value, f"{type_name(column)} without rounding", wider)

    return convert


# Texts and bytes


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _binary(reading: _Reading) -> Convert:
    def convert(value: Any) -> bytes:
        raw = _base64(value) if isinstance(value, str) else None
        return reading.refuse(value, "BINARY in base64") if raw is None else raw

    return convert


def _string(reading: _Reading) -> Convert:
    # Texts of objects have the values that the parts mean, such as decimals instead of base64.
    nested = natural_of(reading.semantic)

    def convert(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, (dict, list)):
            return json_text(value if nested is None else nested(value))
        return reading.refuse(value)

    return convert


def _text_only(reading: _Reading) -> Convert:
    return lambda value: value if isinstance(value, str) else reading.refuse(value)


def _string_of_decimal(reading: _Reading) -> Convert:
    return lambda value: format(_decimal_of(value, reading), "f")


def _string_of_date(reading: _Reading) -> Convert:
    to_date = _date(reading)
    return lambda value: to_date(value).isoformat()


def _fraction(rest: int, digits: int) -> str:
    return f".{rest:0{digits}d}" if rest else ""


def _string_of_time(reading: _Reading) -> Convert:
    digits = reading.meaning.fraction
    per_second = 10**digits

    def convert(value: Any) -> str:
        if digits and is_int(value):
            seconds, rest = divmod(value, per_second)
            if 0 <= seconds < 86_400 or (seconds, rest) == (86_400, 0):
                minutes, second = divmod(seconds, 60)
                clock = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
                return f"{clock}{_fraction(rest, digits)}"
            reading.refuse(value, "a time from 00:00 to 24:00", "declare it BIGINT")
        found = _TIME.fullmatch(value) if isinstance(value, str) and not digits else None
        return reading.refuse(value, "a time of a day") if found is None else found[1]

    return convert


def _string_of_local_time(reading: _Reading) -> Convert:
    digits = reading.meaning.fraction
    per_second = 10**digits

    def convert(value: Any) -> str:
        if digits and is_int(value):
            seconds, rest = divmod(value, per_second)
            try:
                return f"{(_EPOCH + dt.timedelta(seconds=seconds)).isoformat()}{_fraction(rest, digits)}"
            except OverflowError:
                reading.refuse(value, "a time of the years 1 to 9999", "declare it BIGINT")
        found = _TIMESTAMP.fullmatch(value) if isinstance(value, str) and not digits else None
        if found is not None and found[3] in (None, "Z"):
            return found[0].removesuffix("Z")
        return reading.refuse(value, "a time without a zone")

    return convert


# Dates and times


def _date(reading: _Reading) -> Convert:
    def convert(value: Any) -> dt.date:
        try:
            if is_int(value) and reading.meaning.kind != "text":
                return _DAY_ZERO + dt.timedelta(days=value)
            if isinstance(value, str) and (found := _DATE.fullmatch(value)):
                return dt.date.fromisoformat(found[1])
        except (OverflowError, ValueError):
            reading.refuse(value, "a date of the years 1 to 9999", _WIDER)
        return reading.refuse(value, "DATE, as days since 1970 or ISO 8601")

    return convert


def _parse(text: str, reading: _Reading) -> dt.datetime | None:
    """Read a date and a time in ISO 8601, with its zone if it has one; None for another text."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    clock, fraction, zone = found.groups()
    if fraction is not None:
        if fraction[6:].strip("0"):
            reading.refuse(text, "a time without fractions of a microsecond", "declare it STRING")
        clock = f"{clock}.{fraction[:6]:0<6}"  # Python 3.10 reads 3 or 6 digits
    try:
        time = dt.datetime.fromisoformat(clock)
    except ValueError:
        return None
    if zone is None:
        return time
    return time.replace(tzinfo=_UTC if zone == "Z" else _zone(zone))


def _zone(text: str) -> dt.timezone:
    hours, minutes, seconds = (int(each or 0) for each in re.findall(r"\d\d", text + "0000")[:3])
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-offset if text[0] == "-" else offset)


def _instant(reading: _Reading) -> Convert:
    def convert(value: Any) -> dt.datetime:
        time = _parse(value, reading) if isinstance(value, str) else None
        if time is None or time.tzinfo is None:
            return reading.refuse(value, "TIMESTAMP in ISO 8601 with a zone")
        try:
            instant = time.astimezone(_UTC)
            # A function on Spark sees instants like this, in a session whose time zone is UTC.
            return instant if reading.column is None else instant.replace(tzinfo=None)
        except OverflowError:
            return reading.refuse(value, "a time of the years 1 to 9999", "declare it STRING")

    return convert


def _local_time(reading: _Reading) -> Convert:
    kind, digits = reading.meaning
    over = 10 ** max(digits - 6, 0)
    times = 10 ** max(6 - digits, 0)

    def convert(value: Any) -> dt.datetime:
        if digits and is_int(value):
            microseconds, rest = divmod(value, over)
            if rest:
                reading.refuse(value, "a time without fractions of a microsecond", _FINER)
            try:
                return _EPOCH + dt.timedelta(microseconds=microseconds * times)
            except OverflowError:
                reading.refuse(value, "a time of the years 1 to 9999", "declare it BIGINT")
        time = _parse(value, reading) if isinstance(value, str) and not digits else None
        # A value of Debezium's type IsoTimestamp ends in a Z, although it has no zone.
        if time is not None and time.tzinfo is None:
            return time
        if time is not None and kind != "text" and value[-1] == "Z":
            return time.replace(tzinfo=None)
        return reading.refuse(value, "TIMESTAMP_NTZ, a time without a zone in ISO 8601")

    return convert


# Values with parts


def _array(reading: _Reading) -> Convert:
    items = None if reading.semantic is None else reading.semantic.items
    return _list_of(converter_of(reading.column.value_type, items), reading)


def _list_of(element: Convert, reading: _Reading, remedy: str = "") -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            reading.refuse(value, "an array", remedy)
        return [None if each is None else element(each) for each in value]

    return convert


def _map(reading: _Reading) -> Convert:
    semantic, item_type = reading.semantic, reading.column.item_type
    fields = {} if semantic is None else {each.field: each for each in semantic.fields}
    known = {name: converter_of(item_type, each) for name, each in fields.items()}
    other = converter_of(item_type, None if semantic is None else semantic.values)

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            reading.refuse(value, "an object")
        return {k: None if v is None else known.get(k, other)(v) for k, v in value.items()}

    return convert


def _struct(reading: _Reading) -> Convert:
    semantic = reading.semantic
    parts = [
        (each.name, converter_of(each.type, None if semantic is None else semantic.part(each.name)))
        for each in reading.column
    ]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            reading.refuse(value, "an object")
        found = ((name, part, value.get(name)) for name, part in parts)
        return {name: None if each is None else part(each) for name, part, each in found}

    return convert


_NUMBERS_OF_TIME = ("date", "time", "local time", "duration")
_FLOATS = ("bare", "integer", "float", "double", "decimal")
# If a pair is missing here, every value of the column is refused, because its schema does not fit.
_READERS: Final[Mapping[tuple[str, str], Callable[[_Reading], Convert]]] = {
    **{("BOOLEAN", kind): _boolean for kind in ("bare", "boolean", "integer")},
    **{("INTEGER", kind): _integer for kind in ("bare", "integer", "decimal", *_NUMBERS_OF_TIME)},
    **{("FLOAT", kind): _float for kind in _FLOATS},
    **{("DOUBLE", kind): _double for kind in _FLOATS},
    **{("DECIMAL", kind): _decimal for kind in (*_FLOATS, "text")},
    **{("STRING", kind): _string for kind in ("bare", "array", "map", "struct")},
    **{("STRING", kind): _text_only for kind in ("text", "zoned time", "instant")},
    ("STRING", "decimal"): _string_of_decimal,
    ("STRING", "date"): _string_of_date,
    ("STRING", "time"): _string_of_time,
    ("STRING", "local time"): _string_of_local_time,
    **{("BINARY", kind): _binary for kind in ("bare", "bytes")},
    **{("DATE", kind): _date for kind in ("bare", "date", "text")},
    **{("TIMESTAMP", kind): _instant for kind in ("bare", "instant", "text")},
    **{("TIMESTAMP_NTZ", kind): _local_time for kind in ("bare", "local time", "text")},
    **{("ARRAY", kind): _array for kind in ("bare", "array")},
    **{("MAP", kind): _map for kind in ("bare", "map", "struct")},
    **{("STRUCT", kind): _struct for kind in ("bare", "map", "struct", "decimal")},
}


def converter_of(column: pa.DataType, semantic: SemanticType | None) -> Convert:
    """Return the conversion of a column's values.

    Args:
        column: The column's type, which has a `type_name`.
        semantic: The envelope's schema of the column, or None.
    """
    reading = _Reading(column, semantic)
    return _READERS.get((reading.family, reading.meaning.kind), _refusal)(reading)


def is_as_it_is(column: pa.DataType | None, semantic: SemanticType | None) -> type | None:
    """Return the class whose values need no conversion, or None; most columns have one.

    Args:
        column: The column's type; None for the value that fits the schema best.
        semantic: The envelope's schema of the column, or None.
    """
    kind = classify(semantic).kind
    if column is None:
        return float if kind in ("float", "double") else None
    if column == pa.string() and kind in ("bare", "text"):
        return str
    if column == pa.bool_() and kind in ("bare", "boolean"):
        return bool
    return float if column == pa.float64() and kind in ("bare", "float", "double") else None


# Without a column's type

_NATURAL: Final[Mapping[str, Callable[[_Reading], Convert]]] = {
    "float": _double,
    "double": _double,
    "bytes": _binary,
    "decimal": lambda reading: lambda value: _decimal_of(value, reading),
    "date": _date,
    "local time": _local_time,
    "instant": _instant,
}


def natural_of(semantic: SemanticType | None) -> Convert | None:
    """Return the conversion to the Python value that fits a schema; None if JSON's own does."""
    kind = classify(semantic).kind
    if semantic is None or kind == "bare":
        return None
    reading = _Reading(None, semantic)
    if kind == "array":
        element = natural_of(semantic.items)
        return None if element is None else _list_of(element, reading, _SCHEMAS)
    if kind in ("map", "struct"):
        known = {each.field: natural_of(each) for each in semantic.fields}
        return _natural_dict(reading, known, natural_of(semantic.values))
    make = _NATURAL.get(kind)
    return None if make is None else make(reading)


def _natural_dict(
    reading: _Reading, known: Mapping[str, Convert | None], other: Convert | None
) -> Convert | None:
    if other is None and not any(known.values()):
        return None

    def part(name: Any, value: Any) -> Any:
        convert = known.get(name, other) if isinstance(name, str) else other
        return value if convert is None or value is None else convert(value)

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: part(name, each) for name, each in value.items()}
        # A map comes as pairs if its keys are not texts, as in Debezium's SparseDoubleVector.
        is_pairs = isinstance(value, list) and reading.meaning.kind == "map"
        if is_pairs and all(isinstance(each, list) and len(each) == 2 for each in value):
            return [[key, part(None, each)] for key, each in value]
        return reading.refuse(value, "an object", _SCHEMAS)

    return convert


# Back to JSON

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_text(value: Any) -> str:
    """Write a value that was read from JSON as JSON text, with all digits of its numbers."""
    try:
        return _ENCODER.encode(value).decode()
    except OverflowError:  # msgspec reads ints of any size, but writes only ints of 64 bits
        return _ENCODER.encode(_widen_ints(value)).decode()


def _widen_ints(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _widen_ints(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_widen_ints(each) for each in value]
    if is_int(value) and value.bit_length() > 63:
        return msgspec.Raw(str(value).encode())
    return value
