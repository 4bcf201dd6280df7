# SPDX-License-Identifier: Apache-2.0
"""Checks of a user's arguments, which mean the same everywhere.

In Python a bool is an int.  As a count, a time or a limit it is a mistake: `True` would pass for 1.
A numpy scalar is neither an int nor a float here; code that accepts numpy scalars first converts them
to Python's own numbers with `plain` of the types.

The functions that begin with `is_` only answer; the caller chooses the error and its words.

Several methods take options by keyword.  A TypedDict names the options that a method takes, so type
checkers and editors know them.  A class of attrs holds what the caller gave, and is the only place of
the defaults (`collect`).
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard, TypeVar

import attrs

from pyflinklike._deprecation import warn_once
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, RequirementError


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
        extra: Its name in setup.cfg, for example "rocksdb".
    """
    # The package is not published yet: this is the one place to change once it is.
    return f"pip install '.[{extra}]' in a checkout of pyflinklike"


def lacking(what: str, extra: str, error: ImportError) -> RequirementError:
    """Return the error for a module of ours that needs an extra which is not installed.

    Args:
        what: The name of the module, as a message shows it.
        extra: The extra that brings the missing package.
        error: The error that the import raised.
    """
    msg = f"{what} needs another package, got {error}; {install(extra)}"
    return RequirementError(msg, name=error.name)


# Numbers that are lengths and times

A = TypeVar("A")

# An attribute of the object itself: assigners are compared by their fields, and this is none.
_PLAIN: Final = "_plain_lengths"
_SECOND: Final = 1000
# A time in seconds that is read as ms lies decades before its clock, which a late timer never does.
_YEARS: Final = 10 * 365 * 86_400_000


def check_count(number: Any, what: str) -> int:
    """Return the user's number, if it is an int of at least 1.

    Args:
        number: The user's argument, of any type.
        what: The subject of messages, such as "CountTrigger: the count".

    Raises:
        DeclarationTypeError: It is no int.
        DeclarationValueError: It is less than 1.
    """
    if not is_int(number):
        msg = f"{what} must be an int, got {short_repr(number)}; for example 10"
        raise DeclarationTypeError(msg)
    if number < 1:
        msg = f"{what} must be at least 1, got {short_repr(number)}; for example 10"
        raise DeclarationValueError(msg)
    return number


def check_choice(given: Any, choices: Any, what: str, remedy: str = "choose one") -> None:
    """Refuse a value that is not one of the choices.

    Args:
        given: The user's argument, of any type.
        choices: The values that it may have.
        what: The subject of the message, such as "overflow".
        remedy: The end of the message.

    Raises:
        DeclarationValueError: It is none of them.
    """
    if given not in choices:
        msg = f"{what} must be one of {list(choices)}, got {short_repr(given)}; {remedy}"
        raise DeclarationValueError(msg)


def note_plain(assigner: A, *lengths: Any) -> A:
    """Have an assigner remember which of its lengths were plain numbers, and return it.

    Args:
        assigner: A new assigner of windows, which is changed.
        lengths: The lengths as the user gave them.
    """
    plain = tuple(each for each in lengths if is_int(each))
    if plain:
        vars(assigner)[_PLAIN] = plain
    return assigner


def warn_of_short(assigner: object) -> None:
    """Warn of a plain number below 1000 as a length: it counts as ms, and may be meant as seconds.

    Only windows over a user's data warn: tests in a harness count in small numbers.
    """
    short = [each for each in getattr(assigner, _PLAIN, ()) if each < _SECOND]
    if short:
        warn_once(
            f"a plain number is a length in ms, got {type(assigner).__name__} of {short[0]} ms, which "
            f"is less than a second; for a minute write Time.minutes(1) or timedelta(minutes=1), and "
            f"if ms are meant Time.milliseconds({short[0]})"
        )


def warn_of_plain_ttl(ttl: object) -> None:
    """Warn of a TTL that is a plain number of ms and looks like one of seconds, as 3600 does.

    A number looks like seconds if it is at least five minutes in seconds, is a whole number of minutes
    or hours in seconds, and is none in ms.  So the small numbers of tests pass.
    """
    if not is_int(ttl) or ttl < 300 or ttl % 60_000 == 0:
        return
    if ttl % 3600 == 0 or (ttl % 60 == 0 and ttl % _SECOND != 0):
        warn_once(
            f"a plain number is a length in ms, got a TTL of {ttl} ms, which is {ttl / _SECOND:g} "
            f"seconds; if it is in seconds write Time.seconds({ttl}) or timedelta(seconds={ttl}), "
            f"and if ms are meant Time.milliseconds({ttl})"
        )


def warn_of_seconds(time: int, now: int) -> None:
    """Warn if a due timer looks like a time in seconds: read as ms, it lies in January 1970.

    Args:
        time: The time of the earliest timer that is due, as the user registered it.
        now: The time of its clock in ms.
    """
    if now - time < _YEARS or abs(time * _SECOND - now) > _YEARS:
        return
    day = dt.datetime.fromtimestamp(time / _SECOND, dt.timezone.utc).date()
    warn_once(
        f"the time of a timer is in ms since 1970, got {time}, which is on {day} and fires at once; "
        f"if it is in seconds, multiply it: {time} * 1000"
    )


# Options that several methods take by keyword


F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=attrs.AttrsInstance)


def collect(settings: type[S], options: Mapping[str, Any], allowed: type) -> S:
    """Collect the options that a method was given.

    Args:
        settings: The class that holds them.
        options: The options by name.
        allowed: The TypedDict of the options that the method takes.

    Raises:
        DeclarationTypeError: An option is not one of them.
    """
    known = _names_of(allowed, settings)
    unknown = [name for name in options if name not in known]
    if unknown:
        msg = f"an option must be a keyword of the method, got {unknown}; choose from {known}"
        raise DeclarationTypeError(msg)
    return settings(**options)


def options_shown(kind: type, settings: type[attrs.AttrsInstance]) -> Callable[[F], F]:
    """Have a method show each of its options in `help` and `inspect.signature`.

    Python shows `**options` alone, however it is annotated.

    Args:
        kind: The TypedDict of the options.
        settings: The class that holds them, with their order and their defaults.
    """

    def shown_on(method: F) -> F:
        signature = inspect.signature(method)
        named = [
            each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD
        ]
        by_name = [_parameter(name, kind, settings) for name in _names_of(kind, settings)]
        method.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*named, *by_name]
        )
        return method

    return shown_on


def _names_of(kind: type, settings: type[attrs.AttrsInstance]) -> list[str]:
    """Return the names of a TypedDict's options in the order of the settings."""
    return [each.name for each in attrs.fields(settings) if each.name in kind.__annotations__]


def _parameter(name: str, kind: type, settings: type[attrs.AttrsInstance]) -> inspect.Parameter:
    annotation = kind.__annotations__[name]
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=attrs.fields_dict(settings)[name].default,
        # As text, as all annotations of this package are.
        annotation=getattr(annotation, "__forward_arg__", annotation),
    )
