# SPDX-License-Identifier: Apache-2.0
"""Reads the parameters of a request, and writes values as JSON.

A key is JSON, read by the type of a store's keys.  `VERBS` lists the reading methods of stores, whose
arguments are named parameters.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

import attrs

from pyflinklike._clock import TimeDomain
from pyflinklike._messages import short_repr
from pyflinklike.errors import StateValueError
from pyflinklike.state_processor._logs.key_columns import (
    as_user,
    json_of,
    time_of,
    to_float,
)
from pyflinklike.state_processor._logs.state_infos import StateInfo
from pyflinklike.types import TupleTypeInfo, TypeInformation, Types
from pyflinklike.types.catalog import type_of
from pyflinklike.types.nested_types import ByteArrayTypeInfo
from pyflinklike.types.row import Row
from pyflinklike.types.time_types import DateTypeInfo, Instant

# Parameters


Query = Mapping[str, Any]
"""The parameters of a request by name, those in `_PARSERS` parsed."""


BOUNDS = ("at_least_batch", "max_age", "timeout")
"""The parameters of every request that reads state."""


PAGING = ("limit", "reverse", "after")
"""The parameters of requests whose answers have pages."""


DIGITS = re.compile(r"[0-9]{1,18}")
"""Matches a whole number of 64 bits."""


_DOMAINS = {domain.name.lower(): domain for domain in TimeDomain}


def _whole(name: str, text: str) -> int:
    if not DIGITS.fullmatch(text):
        msg = f"{name} takes a whole number from 0 on, of at most 18 digits"
        raise StateValueError(f"{msg}, got {short_repr(text)}; give one")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        msg = f"{name} takes true or false, got {short_repr(text)}; give one"
        raise StateValueError(msg)
    return text.lower() in ("true", "1")


def _domain(name: str, text: str) -> TimeDomain:
    if text not in _DOMAINS:
        msg = f"{name} takes one of {sorted(_DOMAINS)}, got {short_repr(text)}"
        raise StateValueError(f"{msg}; leave it out for both")
    return _DOMAINS[text]


_PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    **dict.fromkeys((*BOUNDS, "limit"), _whole),
    "reverse": _flag,
    "domain": _domain,
}


def query_of(query_string: bytes, most: Mapping[str, int]) -> dict[str, Any]:
    """Return the parameters by name.

    Args:
        query_string: The query string, as it was sent.
        most: The greatest values of some parameters.

    Raises:
        StateValueError: The query string is not UTF-8, or has a parameter twice or of a wrong value.
    """
    # Starlette would replace what is not UTF-8, and so one key by another.
    try:
        pairs = parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        msg = f"the query string must be UTF-8, got bytes that are not ({error.reason})"
        raise StateValueError(f"{msg}; encode it as UTF-8") from error
    found: dict[str, Any] = {}
    for name, text in pairs:
        if name in found:
            msg = f"a parameter is given once, got {short_repr(name)} twice; leave one out"
            raise StateValueError(msg)
        found[name] = _PARSERS[name](name, text) if name in _PARSERS else text
    for name, limit in most.items():
        if found.get(name, 0) > limit:
            msg = f"{name} takes a whole number from 0 to {limit}, got {found[name]}; give one"
            raise StateValueError(msg)
    return found


def check_parameters(query: Query, *names: str) -> None:
    """Check that a request has no other parameters.

    Raises:
        StateValueError: A parameter has another name.
    """
    unknown = sorted(query.keys() - set(names))
    if unknown:
        are = f"its parameters are {sorted(names)}" if names else "it takes no parameters"
        raise StateValueError(f"{are}, got {short_repr(unknown[0])}; leave it out")


def key_text(query: Query, what: str) -> Any:
    """Return the text of the key.

    Raises:
        StateValueError: There is no key.
    """
    if "key" not in query:
        msg = f"{what}: a lookup takes key=, got none; give it as JSON"
        raise StateValueError(msg)
    return query["key"]


# Keys


def store_key_of(text: str, info: StateInfo) -> Any:
    """Read a key of a store: a tuple is an array, bytes are hex after 0x, dates ISO 8601.

    Raises:
        StateValueError: The text is not a value of the type of the store's keys.
    """
    assert info.user_key_type is not None
    declared = type_of(info.user_key_type)
    given = json_of(text)
    if declared == Types.STRING() and not isinstance(given, str):
        given = text  # for example a name of digits, which JSON reads as a number
    try:
        return _read_typed(given, declared)
    except (ValueError, TypeError, ArithmeticError) as error:
        msg = f"store {info.name!r}: a key must be {declared!r} as JSON, got {short_repr(text)}"
        raise StateValueError(f"{msg}; write numbers as such and texts in quotes") from error


def _read_typed(given: Any, declared: TypeInformation) -> Any:
    if isinstance(declared, TupleTypeInfo) and isinstance(given, list):
        if len(given) != len(declared.field_types):
            msg = f"{len(given)} values"
            raise ValueError(msg)
        return tuple(_read_typed(each, kind) for each, kind in zip(given, declared.field_types))
    if declared == Types.FLOAT() and not isinstance(given, str):
        return to_float(given, 32)
    if declared == Types.DOUBLE() and not isinstance(given, str):
        return to_float(given)
    if isinstance(given, str) and isinstance(declared, ByteArrayTypeInfo):
        return bytes.fromhex(given.removeprefix("0x"))
    if isinstance(given, str) and isinstance(declared, DateTypeInfo):
        return dt.date.fromisoformat(given)
    return as_user(given, declared)


def json_key_of(text: str) -> Any:
    """Read a key of unknown type: JSON, with tuples for arrays, or the text itself if it is no JSON.

    Raises:
        StateValueError: A number has more digits than a float, so it would become another key.
    """
    return _read_untyped(json_of(text), text)


def _read_untyped(given: Any, text: str) -> Any:
    if isinstance(given, list):
        return tuple(_read_untyped(each, text) for each in given)
    if not isinstance(given, Decimal):
        return given
    try:
        return to_float(given)
    except (ValueError, ArithmeticError) as error:
        msg = f"a number in a key must fit a float exactly, got {short_repr(text)}"
        raise StateValueError(f"{msg}; write a whole number without a point") from error


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


# The reading methods of stores


@attrs.frozen
class Verb:
    """A reading method of a store.

    Args:
        keys: The parameters of its first arguments, which are keys.
        times: The parameters of its further arguments, which are times in ms or ISO 8601.
        required: The parameters that a request must have.
        many: Whether the method returns a cursor, which can be read backwards.
    """

    keys: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    many: bool = True

    def arguments(self, query: Mapping[str, str], verb: str, info: StateInfo) -> list[Any]:
        """Return the arguments that a request gives to the method.

        Raises:
            StateValueError: A parameter is missing, or its value does not fit the type.
        """
        for name in self.required:
            if name not in query:
                msg = f"store {info.name!r}: {verb} takes {name}=, got none; give it"
                raise StateValueError(msg)
        keys = [store_key_of(query[name], info) if name in query else None for name in self.keys]
        return keys + [time_of(query[name]) if name in query else None for name in self.times]


_KEY, _KEYS, _RANGE = ("key",), ("key_from", "key_to"), ("from", "to")
_BY_KEY = {
    "get": Verb(_KEY, required=_KEY, many=False),
    "range": Verb(_RANGE),
    "prefix_scan": Verb(("prefix",), required=("prefix",)),
    "all": Verb(),
}


VERBS: Mapping[str, Mapping[str, Verb]] = {
    **dict.fromkeys(("key-value", "timestamped", "lru"), _BY_KEY),
    "window": {
        "get": Verb(_KEY, ("window_start",), ("key", "window_start"), many=False),
        "fetch": Verb(_KEY, _RANGE, _KEY),
        "fetch_range": Verb(_KEYS, _RANGE),
        "fetch_all": Verb((), _RANGE),
        "all": Verb(),
    },
    "session": {
        "fetch_session": Verb(_KEY, ("start", "end"), ("key", "start", "end"), many=False),
        "fetch": Verb(_KEY, required=_KEY),
        "fetch_range": Verb(_KEYS),
        "find_sessions": Verb(_KEY, ("earliest_end", "latest_start"), _KEY),
        "find_sessions_range": Verb(_KEYS, ("earliest_end", "latest_start")),
        "find_ended_sessions": Verb((), ("earliest_end", "latest_end")),
    },
    "versioned": {
        "get": Verb(_KEY, ("as_of",), _KEY, many=False),
        "history": Verb(_KEY, _RANGE, _KEY),
    },
}
"""The reading methods of each kind of store, by name."""


# Values as JSON


_EPOCH = dt.datetime(1970, 1, 1)


_EXACT = 2**53
"""The largest int that keeps its digits in a browser, which reads JSON's numbers as floats."""


def _iso(instant: Instant) -> str:
    """Return an instant in ISO 8601 with all digits; as `str` if its year has too many digits."""
    try:
        seconds = _EPOCH + dt.timedelta(seconds=instant.seconds)
    except OverflowError:
        return str(instant)
    digits = f".{instant.nanos:09}".rstrip("0").rstrip(".")
    return f"{seconds.isoformat()}{digits}Z"


def json_value(value: Any) -> Any:
    """Return a value in a form that `json.dumps` writes.

    Rows and named tuples become objects.  A map becomes an object if its keys are texts, else a list
    of pairs.  Bytes become hex after 0x, and times ISO 8601.  Large ints, NaN and infinities become
    texts, since JSON or a browser cannot hold them.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"0x{value.hex()}"
    if isinstance(value, Row):
        return json_value(value.as_dict() if getattr(value, "_fields", None) else list(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return json_value(value._asdict())
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: json_value(each) for key, each in value.items()}
        return [[json_value(key), json_value(each)] for key, each in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(each) for each in value]
    if isinstance(value, (dt.date, dt.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Instant):
        return _iso(value)
    if isinstance(value, Decimal):
        return str(value)
    return repr(value)
