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
from decimal import Decimal
from functools import lru_cache
from typing import Any

import attrs
import msgspec

from pyflinklike._messages import short_repr
from pyflinklike.errors import KeyDecodeError, ValueDecodeError

__all__ = [
    "DEFAULT_PLACEHOLDER",
    "MOST_DEPTH",
    "Envelope",
    "Placeholder",
    "check_depth",
    "parse_envelope",
    "parse_fields",
    "parse_key",
    "parse_row",
    "placeholder_of",
]


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
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"a value must be the JSON of a Debezium envelope, got {_text_for_message(value)}: {error}"
        raise ValueDecodeError(msg) from error
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
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"a value must be the JSON of a Debezium envelope, got {_text_for_message(value)}: {error}"
        raise ValueDecodeError(msg) from error


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
        except (ValueError, RecursionError) as error:
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
    except (TypeError, ValueError, RecursionError) as error:
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


def _texts(placeholder: str) -> frozenset[str]:
    """Return its forms in columns that are text in JSON: text, bytes in each coding, hstore."""
    raw = placeholder.encode()
    return frozenset(
        {
            placeholder,
            base64.b64encode(raw).decode(),
            base64.urlsafe_b64encode(raw).decode(),
            raw.hex(),
            f'{{"{placeholder}":"{placeholder}"}}',
        }
    )


def _lists(placeholder: str) -> tuple[list[Any], ...]:
    """Return its forms in arrays: of text, of bytes, of uuid, of numbers."""
    raw = placeholder.encode()
    # Java's UUID.nameUUIDFromBytes makes it so: version 3, without a name space.
    named = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    return ([placeholder], [base64.b64encode(raw).decode()], [str(named)], list(raw))


@lru_cache(maxsize=16)
def placeholder_of(text: str) -> Placeholder:
    """Return the `Placeholder` of a text; it is made once, because its hashes take time."""
    return Placeholder(text)


@attrs.frozen
class Placeholder:
    """Recognises the placeholder in all its forms.

    Args:
        text: The text of the connector's option `unavailable.value.placeholder`.
    """

    text: str = DEFAULT_PLACEHOLDER
    _texts: frozenset[str] = attrs.field(
        init=False, default=attrs.Factory(lambda self: _texts(self.text), takes_self=True)
    )
    _lists: tuple[list[Any], ...] = attrs.field(
        init=False, default=attrs.Factory(lambda self: _lists(self.text), takes_self=True)
    )

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
