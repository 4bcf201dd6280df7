# SPDX-License-Identifier: Apache-2.0
"""The errors of upserts as text and back, by the name of their class."""

from __future__ import annotations

from typing import Any, Final

from pyflinklike.errors import (
    KeyDecodeError,
    NullKeyError,
    OrderKeyError,
    UpsertError,
    ValueDecodeError,
)

__all__ = ["error_named", "error_of", "name_of", "text_of"]

_CLASSES: Final = {
    each.__name__: each
    for each in (UpsertError, KeyDecodeError, ValueDecodeError, NullKeyError, OrderKeyError)
}


def name_of(error: UpsertError) -> str:
    """Return the name that stores an error: its class's, or `UpsertError` for a user's subclass."""
    name = type(error).__name__
    return name if name in _CLASSES else UpsertError.__name__


def error_named(name: str, message: str) -> UpsertError:
    """Return the error that was stored under this name.

    Raises:
        KeyError: No class has that name.
    """
    return _CLASSES[name](message)


def text_of(error: UpsertError) -> str:
    """Return the text of an error, as in rows and states."""
    return f"{type(error).__name__}: {error}"


def error_of(text: Any) -> UpsertError:
    """Return the error that has this text; for any other text a `ValueDecodeError`."""
    name, _, message = str(text).partition(": ")
    return error_named(name, message) if name in _CLASSES else ValueDecodeError(str(text))
