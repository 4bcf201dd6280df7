# SPDX-License-Identifier: Apache-2.0
"""What descriptors of stores check when they are made.

Each function is a validator of attrs: it is given the descriptor, the attribute and
the value, and raises `DeclarationTypeError` or `DeclarationValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyflinklike.checks import is_int
from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import instance_of, shown
from pyflinklike.stores.codec import check_key_type
from pyflinklike.types import TypeInformation

__all__ = [
    "checked_bool",
    "checked_choice",
    "checked_config",
    "checked_history",
    "checked_max_entries",
    "checked_name",
    "checked_retention",
    "checked_scope",
    "checked_segments",
    "checked_stream_time",
    "checked_type",
    "checked_window_size",
    "to_history",
    "to_retention",
    "to_window_size",
]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SCOPES = ("key", "partition")
_STREAM_TIMES = ("key", "partition", "watermark")


def checked_name(_: Any, __: Any, name: Any) -> None:
    """1 to 249 of the characters Kafka takes in a topic's name."""
    if not isinstance(name, str):
        msg = f"the name of a store must be a str, got {shown(name)}; name it"
        raise DeclarationTypeError(msg)
    if not _NAME.fullmatch(name):
        msg = f"the name of a store must be 1 to 249 of A-Z a-z 0-9 . _ -, got {name!r}; rename it"
        raise DeclarationValueError(msg)


def checked_type(descriptor: Any, attribute: Any, given: Any) -> None:
    """A type; that of keys has an order."""
    if not isinstance(given, TypeInformation):
        remedy = instance_of(TypeInformation, given, "use for example Types.LONG(), with ()")
        msg = (
            f"store {descriptor.name!r}: {attribute.name} must be a TypeInformation, "
            f"got {shown(given)}; {remedy}"
        )
        raise DeclarationTypeError(msg)
    if attribute.name == "key_type":
        check_key_type(descriptor.name, given)


def checked_bool(descriptor: Any, attribute: Any, given: Any) -> None:
    """True or False."""
    if not isinstance(given, bool):
        msg = f"store {descriptor.name!r}: {attribute.name} must be a bool, got {shown(given)}"
        raise DeclarationTypeError(f"{msg}; give True or False")


def checked_config(descriptor: Any, _: Any, given: Any) -> None:
    """A mapping with texts as keys, or None."""
    texts = isinstance(given, Mapping) and all(isinstance(key, str) for key in given)
    if given is not None and not texts:
        msg = (
            f"store {descriptor.name!r}: changelog_config must be a dict of topic settings, "
            f"got {shown(given)}; for example {{'segment.bytes': '1048576'}}"
        )
        raise DeclarationTypeError(msg)


def checked_choice(descriptor: Any, name: str, given: Any, choices: Any) -> None:
    """One of some texts."""
    if given not in choices:
        msg = f"store {descriptor.name!r}: {name} must be one of {choices}, got {shown(given)}"
        raise DeclarationValueError(f"{msg}; choose one")


def checked_scope(descriptor: Any, _: Any, given: Any) -> None:
    """One of the two scopes."""
    checked_choice(descriptor, "scope", given, _SCOPES)


def checked_max_entries(descriptor: Any, _: Any, given: Any) -> None:
    """An int of at least 1."""
    if not is_int(given):
        msg = f"store {descriptor.name!r}: max_entries must be an int, got {shown(given)}; for example 100"
        raise DeclarationTypeError(msg)
    if given < 1:
        msg = f"store {descriptor.name!r}: max_entries must be at least 1, got {shown(given)}"
        raise DeclarationValueError(f"{msg}; a store without entries keeps nothing")


def checked_segments(descriptor: Any, _: Any, given: Any) -> None:
    """An int of at least 2."""
    if not is_int(given):
        msg = (
            f"store {descriptor.name!r}: segments must be an int, got {shown(given)}; for example 2"
        )
        raise DeclarationTypeError(msg)
    if given < 2:
        msg = f"store {descriptor.name!r}: segments must be at least 2, got {shown(given)}; give 2"
        raise DeclarationValueError(msg)


def to_retention(length: DurationLike) -> int:
    """The length of a `retention` in ms."""
    return to_milliseconds(length, "retention")


def to_window_size(length: DurationLike) -> int:
    """The length of a `window_size` in ms."""
    return to_milliseconds(length, "window_size")


def to_history(length: DurationLike) -> int:
    """The length of a `history_retention` in ms."""
    return to_milliseconds(length, "history_retention")


def checked_stream_time(descriptor: Any, _: Any, given: Any) -> None:
    """None or a mode that goes with the scope."""
    if given is None:
        return
    checked_choice(descriptor, "stream_time", given, _STREAM_TIMES)
    if given == "key" and descriptor.scope == "partition":
        msg = (
            f"store {descriptor.name!r}: stream_time 'key' needs scope 'key', got scope "
            f"{descriptor.scope!r}; choose 'partition' or 'watermark'"
        )
        raise DeclarationValueError(msg)


def checked_retention(descriptor: Any, _: Any, given: int) -> None:
    """At least 1 ms."""
    if given < 1:
        msg = f"store {descriptor.name!r}: retention must be at least 1 ms, got {given} ms"
        raise DeclarationValueError(f"{msg}; nothing would be kept")


def checked_window_size(descriptor: Any, _: Any, given: int) -> None:
    """At least 1 ms, and no more than the retention."""
    if given < 1:
        msg = f"store {descriptor.name!r}: window_size must be at least 1 ms, got {given} ms"
        raise DeclarationValueError(f"{msg}; give the length of a window")
    if descriptor.retention < given:
        msg = (
            f"store {descriptor.name!r}: retention must be no smaller than window_size, got "
            f"retention {descriptor.retention} ms and window_size {given} ms; raise the former"
        )
        raise DeclarationValueError(msg)


def checked_history(descriptor: Any, _: Any, given: int) -> None:
    """Not negative."""
    if given < 0:
        msg = (
            f"store {descriptor.name!r}: history_retention must not be negative, got {given} ms; "
            "give 0 to keep the latest version only"
        )
        raise DeclarationValueError(msg)
