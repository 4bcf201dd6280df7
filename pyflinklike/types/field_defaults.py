# SPDX-License-Identifier: Apache-2.0
"""Defaults of a row's fields: the value of a field in rows that were stored before its declaration.

Defaults are part of the type and of its signature, so whoever reads state without the program finds
the same values as the program.  Hence they are plain: None, or what Python writes and reads as a
literal.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.shown import shown
from pyflinklike.types.base import TypeInformation

__all__ = ["Defaults", "checked_defaults", "default_of", "literal_of"]

Defaults = tuple[tuple[str, str], ...]
"""Field names in the fields' order, each with the literal of its default."""

_PLAIN = (bool, int, float, str, bytes)


def checked_defaults(
    names: Sequence[str], types: Sequence[TypeInformation], defaults: Any
) -> Defaults:
    """Return defaults in the form that a type holds.

    Args:
        names: The name of each field.
        types: The type of each field.
        defaults: Values by name, or an earlier result of this function.

    Raises:
        DeclarationTypeError, DeclarationValueError: A field does not exist, or a value does not fit
            its type or cannot be a default.
    """
    if isinstance(defaults, tuple):
        return defaults
    if not isinstance(defaults, Mapping):
        msg = f"defaults must be a dict of values by field name, got {shown(defaults)}"
        raise DeclarationTypeError(f"{msg}; write {{...}}")
    unknown = [name for name in defaults if name not in names]
    if unknown:
        msg = f"defaults are of the fields {list(names)}, got {shown(unknown[0])}; rename it"
        raise DeclarationValueError(msg)
    return tuple(
        (name, _checked(name, part, defaults[name]))
        for name, part in zip(names, types)
        if name in defaults
    )


def _checked(name: str, part: TypeInformation, value: Any) -> str:
    if value is None:
        return repr(None)
    try:
        stored = part.freeze(value)
    except StateValueError as error:
        msg = f"the default of field {name!r} must fit its type: {error}"
        raise DeclarationValueError(msg) from error
    # The stored and the user's form must be one: a BIG_DEC is stored as text, which is no number.
    plain = type(stored) in _PLAIN and part.thaw(stored) is stored
    if not plain or (isinstance(stored, float) and not math.isfinite(stored)):
        msg = (
            f"the default of field {name!r} must be None, a bool, a finite number, a str or bytes, "
            f"got {shown(value)} for {part!r}; use None, and tell it in the function"
        )
        raise DeclarationValueError(msg)
    return repr(stored)


def default_of(defaults: Defaults, name: str) -> Any:
    """Return the default of a field in stored form; None where it has none."""
    return ast.literal_eval(dict(defaults).get(name, "None"))


def literal_of(defaults: Defaults, name: str) -> str:
    """Return how a signature writes a field's default; "" where it has none."""
    found = dict(defaults).get(name)
    return "" if found is None else f" = {found}"
