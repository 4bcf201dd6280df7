# SPDX-License-Identifier: Apache-2.0
"""Questions about a user's argument, asked in the same sense everywhere.

In Python a bool is an int.  As a count, a time or a limit it is a mistake: `True` would pass for 1.
A numpy scalar is neither an int nor a float here; code that accepts one makes it Python's own
first, by `plain` of the types.

The functions that begin with `is_` only answer; the caller chooses the error and its words.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, TypeGuard, TypeVar

from pyflinklike._deprecation import tell_once
from pyflinklike._messages import shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, RequirementError

__all__ = [
    "as_tuple_of",
    "check_count",
    "install",
    "is_int",
    "is_int64",
    "is_number",
    "lacking",
    "note_plain",
    "warn_of_plain_ttl",
    "warn_of_seconds",
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


def as_tuple_of(row: object) -> str | None:
    """Return the call that makes a row of an object with fields, for messages, or None.

    Args:
        row: The object that a user gave for a row, such as an instance of a dataclass.
    """
    if isinstance(row, type):
        return None
    if hasattr(row, "__dataclass_fields__"):
        return "dataclasses.astuple(value)"
    if hasattr(row, "__attrs_attrs__"):
        return "attrs.astuple(value)"
    # A model of pydantic; its module is not imported here.
    return "value.model_dump()" if hasattr(row, "model_dump") else None


def install(extra: str) -> str:
    """Return the command that installs an extra of this package, for messages.

    Args:
        extra: For example "rocksdb".
    """
    # The package is not published yet: this is the one place to change once it is.
    return f"pip install '.[{extra}]' in a checkout of pyflinklike"


def lacking(what: str, extra: str, error: ImportError) -> RequirementError:
    """Return the error of a module of ours that an extra is needed for.

    Args:
        what: The name of the module.
        extra: The extra that brings the package.
        error: The error of the import.
    """
    return RequirementError(f"{what} needs another package, got {error}; {install(extra)}")


# Numbers that are lengths and times

A = TypeVar("A")

_PLAIN: Final = "_plain_lengths"
_SECOND: Final = 1000
_YEARS: Final = 10 * 365 * 86_400_000


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
    tell_once(
        f"a plain number is a length in ms, got {type(assigner).__name__} of {short[0]} ms, which "
        f"is less than a second; for a minute write Time.minutes(1) or timedelta(minutes=1), and "
        f"where ms are meant Time.milliseconds({short[0]})"
    )


def warn_of_plain_ttl(ttl: object) -> None:
    """Warn of a TTL that is a plain number of ms and looks like one of seconds, as 3600 does.

    It does if it is five minutes or more in seconds, in whole minutes or hours, and not in ms.  So
    the small numbers in which tests count pass.

    Args:
        ttl: The TTL as the user gave it.
    """
    if not is_int(ttl) or ttl < 300 or ttl % 60_000 == 0:
        return
    if ttl % 3600 == 0 or (ttl % 60 == 0 and ttl % _SECOND != 0):
        tell_once(
            f"a plain number is a length in ms, got a TTL of {ttl} ms, which is {ttl / _SECOND:g} "
            f"seconds; if it is in seconds write Time.seconds({ttl}) or timedelta(seconds={ttl}), "
            f"and where ms are meant Time.milliseconds({ttl})"
        )


def warn_of_seconds(time: int, now: int) -> None:
    """Warn of a timer that is due and looks like a time in seconds: as ms it is in January 1970.

    Args:
        time: The time of the earliest timer that is due.
        now: The time of its clock in ms.
    """
    if now - time < _YEARS or abs(time * _SECOND - now) > _YEARS:
        return
    day = dt.datetime.fromtimestamp(time / _SECOND, dt.timezone.utc).date()
    tell_once(
        f"the time of a timer is in ms since 1970, got {time}, which is of {day} and fires at once; "
        f"if it is in seconds, multiply it: {time} * 1000"
    )
