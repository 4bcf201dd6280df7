# SPDX-License-Identifier: Apache-2.0
"""Questions about a user's argument, asked in the same sense everywhere.

In Python a bool is an int.  As a count, a time or a limit it is a mistake: `True` would pass for 1.
A numpy scalar is neither an int nor a float here; code that accepts one makes it Python's own
first, by `plain` of the types.

The functions that begin with `is_` only answer; the caller chooses the error and its words.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, Final, TypeGuard, TypeVar

from pyflinklike.engine.shown import shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError

__all__ = [
    "check_count",
    "install",
    "is_int",
    "is_int64",
    "is_number",
    "note_plain",
    "warn_of_short",
]


def is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is an int and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_int64(value: object) -> TypeGuard[int]:
    """Return whether a value is an int of 64 bits with sign, and no bool."""
    return is_int(value) and -(2**63) <= value < 2**63


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is an int or a float (also infinite or NaN), and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def install(extra: str) -> str:
    """Return the command that installs an extra of this package, for messages.

    Args:
        extra: For example "rocksdb".
    """
    # The package is not published yet: this is the one place to change once it is.
    return f"pip install '.[{extra}]' in a checkout of pyflinklike"


# Numbers that declare windows

A = TypeVar("A")

_OURS: Final = f"{__name__.partition('.')[0]}."
_PLAIN: Final = "_plain_lengths"
_SECOND: Final = 1000


def check_count(number: Any, what: str) -> int:
    """Return a number that is an int of at least 1.

    Args:
        number: The user's argument.
        what: The subject of messages, such as "CountTrigger: the count".

    Raises:
        DeclarationTypeError: It is no int.
        DeclarationValueError: It is less than 1.
    """
    if not is_int(number):
        msg = f"{what} must be an int, got {shown(number)}; for example 10"
        raise DeclarationTypeError(msg)
    if number < 1:
        msg = f"{what} must be at least 1, got {shown(number)}; for example 10"
        raise DeclarationValueError(msg)
    return number


def note_plain(assigner: A, *lengths: Any) -> A:
    """Have an assigner remember which of its lengths were plain numbers, and return it.

    Args:
        assigner: A new assigner of windows.
        lengths: The lengths as the user gave them.
    """
    plain = tuple(each for each in lengths if is_int(each))
    if plain:
        vars(assigner)[_PLAIN] = plain
    return assigner


def warn_of_short(assigner: object) -> None:
    """Warn of a length that is a plain number of less than a second: it is ms, maybe meant as s.

    Only windows over a user's data are warned of: tests in a harness count in small numbers.

    Args:
        assigner: The assigner of the windows.
    """
    short = [each for each in getattr(assigner, _PLAIN, ()) if each < _SECOND]
    if not short:
        return
    depth = 1
    while str(sys._getframe(depth).f_globals.get("__name__", "")).startswith(_OURS):
        depth += 1
    warnings.warn(
        f"a plain number is a length in ms, got {type(assigner).__name__} of {short[0]} ms, which "
        f"is less than a second; for a minute write Time.minutes(1) or timedelta(minutes=1), and "
        f"where ms are meant Time.milliseconds({short[0]})",
        stacklevel=depth + 1,
    )
