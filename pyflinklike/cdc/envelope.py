# SPDX-License-Identifier: Apache-2.0
"""Parses the JSON of a Debezium record: envelopes and keys, wrapped in a schema or bare.

msgspec parses it.  Most of a wrapped record is its schema, the same in each record: the typed
decoder skips fields that it does not declare (4 us instead of 11 us for a record of 2 kB), and
takes a third of the time of `json` for the rest.  It is also strict: it refuses NaN.

Numbers keep their digits: if a float cannot hold them all, the number becomes a `Decimal`.

If JSON is nested more deeply than `MOST_DEPTH`, that is an error of the record.  So no later step
depends on how much stack is left.
"""

from __future__ import annotations

import base64
import hashlib
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from pyflinklike._messages import short_repr
from pyflinklike.errors import KeyDecodeError, ValueDecodeError

MOST_DEPTH = 200
"""How deeply objects and arrays may be nested; MongoDB's documents have at most 100 levels."""

_ABSENT = msgspec.Raw()


class Envelope(msgspec.Struct):
    """The fields of an envelope to read; the decoder skips all others."""

    op: str | None = None
    before: Any = None
    after: Any = None
    source: dict[str, Any] | None = None
    ts_ms: int | None = None
    schema: msgspec.Raw = _ABSENT
    payload: msgspec.Raw = _ABSENT


class _Wrapping(msgspec.Struct):
    schema: msgspec.Raw


_SHORT = 16  # characters: a point and at most the 15 digits that a float always keeps


def _number(text: str) -> float | Decimal:
    """Read a number that has a fraction or an exponent, with all of its digits."""
    number = float(text)
    if len(text) <= _SHORT and "e" not in text and "E" not in text:
        return number
    if math.isinf(number):
        msg = "a number must be within the range of a double"
        raise ValueError(msg)
    exact = Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


_NOT_JSON = (TypeError, ValueError, RecursionError)
_WRAPPING = msgspec.json.Decoder(_Wrapping)
_ENVELOPE = msgspec.json.Decoder(Envelope | None, float_hook=_number)
_ANYTHING = msgspec.json.Decoder(float_hook=_number)


def parse_envelope(value: Any) -> Envelope | None:
    """Parse the envelope in a record's value; return None for a tombstone.

    Args:
        value: JSON text or bytes, or None.

    Raises:
        ValueDecodeError: It is not JSON, or not an envelope.
    """
    if value is None:
        return None
    try:
        envelope: Envelope | None = _ENVELOPE.decode(value)
        # If a value is wrapped in a schema, its payload is the envelope.
        if envelope is not None and envelope.op is None and envelope.payload:
            schema, envelope = envelope.schema, _ENVELOPE.decode(envelope.payload)
            if envelope is not None:
                envelope.schema = schema
        elif envelope is not None:
            envelope.schema = _ABSENT
        if envelope is not None:
            check_depth(value, envelope.before, envelope.after, envelope.source)
    except _NOT_JSON as error:
        raise _no_envelope(value, error) from error
    return envelope


def parse_fields(value: Any) -> dict[str, Any]:
    """Parse all fields of an envelope, also fields that `parse_envelope` skips.

    Raises:
        ValueDecodeError: A field is nested too deeply.
    """
    try:
        fields = _ANYTHING.decode(value)
        fields = fields["payload"] if "payload" in fields and "op" not in fields else fields
        check_depth(value, fields)
        return dict(fields)
    except _NOT_JSON as error:
        raise _no_envelope(value, error) from error


def _no_envelope(value: Any, error: Exception) -> ValueDecodeError:
    got = f"got {_text_for_message(value)}: {error}"
    return ValueDecodeError(f"a value must be the JSON of a Debezium envelope, {got}")


def parse_row(row: Any, side: str) -> dict[str, Any] | None:
    """Return a row of an envelope; MongoDB's documents come as JSON in a string.

    Args:
        row: The envelope's `before` or `after`.
        side: "before" or "after", for messages.

    Raises:
        ValueDecodeError: It is not an object.
    """
    if isinstance(row, str):
        try:
            document = _ANYTHING.decode(row)
            check_depth(row, document)
        except _NOT_JSON as error:
            msg = f"{side!r} as text must be the JSON of a document, got {_text_for_message(row)}: {error}"
            raise ValueDecodeError(msg) from error
        row = document
    if row is None or isinstance(row, dict):
        return row
    msg = f"{side!r} must be an object with a row's columns or null, got {short_repr(row)}"
    raise ValueDecodeError(msg)


def parse_key(key: Any) -> tuple[Any, bytes]:
    """Parse a record's key.

    Returns:
        The key, which is an object of columns or another JSON value, or None if there is no key;
        and the schema that wraps it, empty if the key is bare.

    Raises:
        KeyDecodeError: It is not JSON.
    """
    if key is None:
        return None, b""
    schema = b""
    try:
        parsed = _ANYTHING.decode(key)
        if isinstance(parsed, dict) and parsed.keys() == {"schema", "payload"}:
            parsed = parsed["payload"]
            schema = bytes(_WRAPPING.decode(key).schema)
        check_depth(key, parsed)
    except _NOT_JSON as error:
        msg = f"a key must be JSON, got {_text_for_message(key)}: {error}; give the topic JsonConverter keys"
        raise KeyDecodeError(msg) from error
    return parsed, schema


def check_depth(document: Any, *parsed: Any) -> None:
    """Refuse JSON that is nested too deeply.

    Args:
        document: The whole JSON, as text or bytes; most documents have too few brackets to be deep.
        parsed: The parts of the document to check.

    Raises:
        ValueError: It is deeper than `MOST_DEPTH`.
    """
    # Counting brackets is far cheaper than walking the parsed values, and mostly enough.
    objects, arrays = ("{", "[") if isinstance(document, str) else (b"{", b"[")
    if not isinstance(document, (str, bytes, bytearray)):
        document = bytes(document)
    if document.count(objects) + document.count(arrays) <= MOST_DEPTH:
        return
    level = list(parsed)
    for _ in range(MOST_DEPTH + 1):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        if not inner:
            return
        level = inner
    msg = f"it is nested more than {MOST_DEPTH} deep"
    raise ValueError(msg)


def _text_for_message(value: Any) -> str:
    """Return a record's JSON for a message, with bytes decoded, as a DataFrame has it."""
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode(errors="backslashreplace")
    return short_repr(value)


# Placeholders of columns that a change did not touch and whose value the database did not log
#
# PostgreSQL keeps a large value out of line (TOAST), and does not log it when an update does not
# touch it.  Debezium then writes a placeholder, in a form that fits the column's type (its
# `UnchangedToastedPlaceholder`).


_NESTED = (list, dict)
DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"


@lru_cache(maxsize=16)
def placeholder_of(text: str) -> Placeholder:
    """Return the `Placeholder` of a text; it is made once, because its hashes take time."""
    return Placeholder(text)


class Placeholder:
    """Recognises the placeholder in all its forms.

    Args:
        text: The text of the connector's option `unavailable.value.placeholder`.
    """

    def __init__(self, text: str = DEFAULT_PLACEHOLDER) -> None:
        self.text = text
        raw = text.encode()
        base64_text = base64.b64encode(raw).decode()
        # In columns that are text in JSON: text, bytes in each coding, hstore.
        safe = base64.urlsafe_b64encode(raw).decode()
        self._texts = {text, base64_text, safe, raw.hex(), f'{{"{text}":"{text}"}}'}
        # Java's UUID.nameUUIDFromBytes makes it so: version 3, without a name space.
        named = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
        # In arrays: of text, of bytes, of uuid, of numbers.
        self._lists = ([text], [base64_text], [str(named)], list(raw))

    def columns_of(self, row: dict[str, Any]) -> tuple[str, ...]:
        """Return the columns of a row that have the placeholder."""
        texts = self._texts
        found = []
        for name, value in row.items():
            kind = type(value)
            if value in texts if kind is str else kind in _NESTED and self._is_nested(value):
                found.append(name)
        return tuple(found)

    def _is_nested(self, value: Any) -> bool:
        if isinstance(value, list):
            return value in self._lists
        return isinstance(value, dict) and value == {self.text: self.text}


# The schemas that Kafka Connect's JsonConverter writes beside values and keys
#
# JSON has fewer types than a table.  A schema says what a number, a text or an object stands for.  It
# has the name of a logical type of Debezium or Connect, or else only Connect's own type
# (https://github.com/apache/kafka/blob/trunk/connect/json/src/main/java/org/apache/kafka/connect/json/JsonConverter.java).


class SemanticType(msgspec.Struct):
    """The schema of one field."""

    field: str = ""
    type: str | None = None
    name: str | None = None
    parameters: dict[str, str] = {}
    fields: list[SemanticType] = []
    items: SemanticType | None = None
    values: SemanticType | None = None

    def part(self, name: str) -> SemanticType | None:
        """Return the schema of a struct's field, or of a map's values; None if it is missing."""
        return next((each for each in self.fields if each.field == name), self.values)


class Meaning(NamedTuple):
    """The meaning of a field's values.

    Args:
        kind: One of "bare" (there is no schema), "boolean", "integer", "float", "double", "text",
            "bytes", "decimal", "date", "time", "zoned time", "local time" (a date and a time
            without a zone), "instant", "duration", "array", "map" and "struct".
        fraction: How many digits after the second a time as a number has; 0 for times as text.
    """

    kind: str
    fraction: int = 0


_BARE: Final = Meaning("bare")

_BY_NAME: Final[Mapping[str, Meaning]] = {
    "org.apache.kafka.connect.data.Decimal": Meaning("decimal"),
    "org.apache.kafka.connect.data.Date": Meaning("date"),
    "org.apache.kafka.connect.data.Time": Meaning("time", 3),
    "org.apache.kafka.connect.data.Timestamp": Meaning("local time", 3),
    "io.debezium.data.VariableScaleDecimal": Meaning("decimal"),
    "io.debezium.time.Date": Meaning("date"),
    "io.debezium.time.IsoDate": Meaning("date"),
    "io.debezium.time.Time": Meaning("time", 3),
    "io.debezium.time.MicroTime": Meaning("time", 6),
    "io.debezium.time.NanoTime": Meaning("time", 9),
    "io.debezium.time.IsoTime": Meaning("time"),
    "io.debezium.time.ZonedTime": Meaning("zoned time"),
    "io.debezium.time.Timestamp": Meaning("local time", 3),
    "io.debezium.time.MicroTimestamp": Meaning("local time", 6),
    "io.debezium.time.NanoTimestamp": Meaning("local time", 9),
    "io.debezium.time.IsoTimestamp": Meaning("local time"),
    "io.debezium.time.ZonedTimestamp": Meaning("instant"),
    "io.debezium.time.MicroDuration": Meaning("duration"),
    "io.debezium.time.NanoDuration": Meaning("duration"),
}
# Other logical types mean what their type says: texts, bytes, numbers, arrays and structs.
_BY_TYPE: Final[Mapping[str, Meaning]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), Meaning("integer")),
    "string": Meaning("text"),
    **{
        name: Meaning(name)
        for name in ("boolean", "float", "double", "bytes", "array", "map", "struct")
    },
}


def classify(semantic: SemanticType | None) -> Meaning:
    """Return the meaning of a field's values, "bare" if there is no schema."""
    if semantic is None:
        return _BARE
    return _BY_NAME.get(semantic.name or "") or _BY_TYPE.get(semantic.type or "", _BARE)


_SEMANTIC = msgspec.json.Decoder(SemanticType)


# Every wrapped record brings the schema of its table, so the same few schemas come again and again.
@lru_cache(maxsize=256)
def schema_at(schema: bytes) -> SemanticType | None:
    """Read a schema; None if it is empty or null.

    Raises:
        ValueError: It is not a schema of Kafka Connect.
    """
    if not schema:
        return None
    try:
        check_depth(schema, _ANYTHING.decode(schema))
        return _SEMANTIC.decode(schema) if schema != b"null" else None
    except RecursionError as error:
        msg = "the schema is nested too deeply"
        raise ValueError(msg) from error


def fields_of(schema: bytes) -> Mapping[str, SemanticType]:
    """Read the fields of a struct's schema by name; an empty schema has no fields.

    Raises:
        ValueError: It is not a schema of Kafka Connect.
    """
    root = schema_at(schema)
    return {} if root is None else {each.field: each for each in root.fields}
