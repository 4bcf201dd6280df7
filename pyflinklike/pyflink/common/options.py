# SPDX-License-Identifier: Apache-2.0
"""Settings of a `Configuration`: their keys, older keys and defaults, and how their texts are read.

Texts are read as Flink reads them (https://nightlies.apache.org/flink/flink-docs-stable/docs/deployment/config/).
A length of time is `10 s`, `500ms` or a plain number of ms.  Names of enums and booleans may be in upper or
lower case.  Several lengths in one text, as in `1 h 5 min`, are added up; Flink refuses them.  If a key is not
set, its older names are looked up, the newest first.

PyFlink has a getter and a setter for most settings.  If a setting has no effect here, `Option.kept` makes
both: one line of a class declares the key, the default and the names of the two methods.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import attrs

from pyflinklike._checks import is_int
from pyflinklike._clock import to_milliseconds
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import T_co
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.pyflink.common.configuration import Configuration, to_bool, to_float, to_int

__all__ = [
    "Getter",
    "Option",
    "Setter",
    "attribute",
    "boolean",
    "duration",
    "enum_member",
    "integer",
    "make_method",
    "number",
    "refuse_wrong",
    "text",
    "unused",
]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
S = TypeVar("S")

_NANOSECONDS = {
    "d day days": 86_400_000_000_000,
    "h hour hours": 3_600_000_000_000,
    "m min minute minutes": 60_000_000_000,
    "s sec secs second seconds": 1_000_000_000,
    "ms milli millis millisecond milliseconds": 1_000_000,
    # The micro sign, and the Greek letter that looks the same.
    "\u00b5s \u03bcs micro micros microsecond microseconds": 1_000,
    "ns nano nanos nanosecond nanoseconds": 1,
}
_UNITS = {name: length for names, length in _NANOSECONDS.items() for name in names.split()}
_PART = re.compile(r"([0-9]+)\s*([^\W\d]*)\s*")
# 18 digits always fit into Java's long.
_PLAIN = re.compile(r"-?[0-9]{1,18}")
_LENGTHS = "'500 ms', '10 s', '5 min', '1 h', '2 d' or a number of ms"
_MOST = 2**63 - 1


class Getter(Protocol[T_co]):
    """The type of a method without parameters, for type checkers."""

    def __get__(self, instance: Any, owner: Any = None) -> Callable[[], T_co]:
        """Return the method, bound to an object."""


class Setter(Protocol):
    """The type of a method that returns its object, for type checkers."""

    def __get__(self, instance: S, owner: Any = None) -> Callable[..., S]:
        """Return the method, bound to an object."""


def make_method(function: Callable[..., Any], doc: str, **parameters: Any) -> Any:
    """Make a method from a function, with a docstring and named parameters.

    Args:
        function: Takes the object and the arguments, by position.
        doc: The docstring of the method.
        parameters: The default of each parameter by its name; `inspect.Parameter.empty` for no default.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    made = [inspect.Parameter(name, kind, default=each) for name, each in parameters.items()]
    signature = inspect.Signature([inspect.Parameter("self", kind), *made])

    def method(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return function(*bound.args)

    method.__doc__, vars(method)["__signature__"] = doc, signature
    return method


def attribute(name: str, what: str = "the value that was set") -> Getter[Any]:
    """Make a method that returns an attribute of its object.

    Args:
        name: The name of the attribute.
        what: The words for the result in the docstring.
    """
    doc = f"Return {what}; it has no effect here."
    method: Getter[Any] = make_method(lambda self: getattr(self, name), doc)
    return method


def unused(default: Any = None) -> Any:
    """Return the field of a parameter without effect, for an attrs class; None takes its default."""
    return attrs.field(default=None, converter=attrs.converters.default_if_none(default))


def _as_it_is(value: Any, name: str) -> Any:  # noqa: ARG001
    return value


@attrs.frozen
class Option(Generic[T]):
    """A setting of a `Configuration`.

    Args:
        key: The name of the setting in Flink 2.
        default: The value if the setting is not set.
        parse: Makes a value of a text, or raises a ValueError that says which texts are right.
        older: Earlier names of the setting, the newest first.
        check: Takes a value that a program sets and the name of the parameter; returns it or raises an error.
    """

    key: str
    default: T
    parse: Callable[[str], T]
    older: tuple[str, ...] = ()
    check: Callable[[Any, str], Any] = _as_it_is

    def kept(
        self, parameter: str, default: Any = inspect.Parameter.empty
    ) -> tuple[Getter[T], Setter]:
        """Make the getter and the setter of a setting without effect.

        They are methods for a class whose objects have a `_configuration`.

        Args:
            parameter: The name of the setter's parameter, as in PyFlink.
            default: The default of this parameter, if it has one.
        """

        def store(holder: Any, value: Any) -> Any:
            self.set(holder._configuration, self.check(value, parameter))
            return holder

        doc = f"Store `{self.key}` for its getter: it has no effect here."
        return self._getter(), make_method(store, doc, **{parameter: default})

    def switch(self) -> tuple[Setter, Setter, Getter[T]]:
        """Make the methods that enable and disable a setting without effect, and the getter."""

        def store(value: bool) -> Any:
            def set_value(holder: Any) -> Any:
                self.set(holder._configuration, value)
                return holder

            doc = f"Store {value} as `{self.key}` for its getter: it has no effect here."
            return make_method(set_value, doc)

        return store(True), store(False), self._getter()

    def _getter(self) -> Getter[T]:
        default = self.default.name if isinstance(self.default, Enum) else self.default
        doc = f"Return the value of `{self.key}`, by default {default}; it has no effect here."
        method: Getter[T] = make_method(lambda holder: self.of(holder._configuration), doc)
        return method

    def of(self, configuration: Configuration) -> T:
        """Return the value in a configuration, or the default.

        Raises:
            DeclarationValueError: The text is no value of the setting.
        """
        set_keys = filter(configuration.contains_key, (self.key, *self.older))
        key = next(set_keys, None)
        if key is None:
            return self.default
        text = configuration.get_string(key, "")
        try:
            return self.parse(text)
        except ValueError as error:
            msg = (
                f"{key} is {error}, got {short_repr(text)}; set it to one of these, or leave it out"
            )
            raise DeclarationValueError(msg) from None

    def set(self, configuration: Configuration, value: Any) -> None:
        """Store a value as a text that `of` reads."""
        text = value.name if isinstance(value, Enum) else str(value)
        configuration.set_string(self.key, text.lower() if isinstance(value, bool) else text)


# Each option with a value that can be wrong, for `refuse_wrong`.
_ALL: list[Option[Any]] = []


def _remember(option: Option[T]) -> Option[T]:
    _ALL.append(option)
    return option


def duration(key: str, default: int, *older: str) -> Option[int]:
    """Declare a setting for a length of time, in ms."""
    return _remember(Option(key, default, _milliseconds, older, to_milliseconds))


def integer(key: str, default: int, *older: str) -> Option[int]:
    """Declare a setting for an int."""

    def check(value: Any, _: str) -> Any:
        if not is_int(value):
            msg = f"{key} is an int, got {short_repr(value)}; give for example {default}"
            raise DeclarationTypeError(msg)
        return value

    parse = _parse_by(to_int, "a whole number such as '3'")
    return _remember(Option(key, default, parse, older, check))


def number(key: str, default: float, *older: str) -> Option[float]:
    """Declare a setting for a float."""
    parse = _parse_by(_to_finite, "a number such as 0.01 or 100")
    return _remember(Option(key, default, parse, older))


def boolean(key: str, default: bool, *older: str) -> Option[bool]:
    """Declare a setting for a bool."""
    parse = _parse_by(to_bool, "'true' or 'false'")
    return _remember(Option(key, default, parse, older, lambda value, _: bool(value)))


def enum_member(key: str, default: E, *older: str) -> Option[E]:
    """Declare a setting for a member of an enum, by its name."""
    kind = type(default)
    members = kind.__members__

    def check(value: Any, name: str) -> Any:
        if not isinstance(value, kind):
            msg = (
                f"{name} is a member of {kind.__name__}, got {short_repr(value)}; give for example "
                f"{kind.__name__}.{next(iter(members))}"
            )
            raise DeclarationTypeError(msg)
        return value

    return _remember(Option(key, default, lambda text: _member(members, text), older, check))


def text(key: str, *older: str) -> Option[str | None]:
    """Declare a setting for a text; an empty text is None."""
    return Option(key, None, lambda text: text or None, older)


def refuse_wrong(configuration: Configuration) -> None:
    """Read all settings, even those without effect, so that a job with a wrong one fails before it begins.

    Raises:
        DeclarationValueError: The text of a setting is no value of it.
    """
    for option in _ALL:
        option.of(configuration)


def _parse_by(convert: Callable[[str], T], rule: str) -> Callable[[str], T]:
    """Return the parser of a setting that `convert` reads; the rule says which texts are right."""

    def parse(text: str) -> T:
        try:
            return convert(text.strip())
        except ValueError:
            raise ValueError(rule) from None

    return parse


def _to_finite(text: str) -> float:
    number = to_float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _milliseconds(text: str) -> int:
    """Read a length in whole ms, rounded down as Java's `Duration.toMillis` does.

    A plain number may be negative: Flink writes -1 for a length that is not set.
    """
    given = text.strip().lower()
    rule = f"a length of time such as {_LENGTHS}"
    if _PLAIN.fullmatch(given):
        return int(given)
    parts = _PART.findall(given)
    if not parts or _PART.sub("", given) or any(unit not in _UNITS for _, unit in parts):
        raise ValueError(rule)
    # Before `int`: its time grows with the square of the number of digits.
    if max(len(number) for number, _ in parts) > len(str(_MOST)):
        raise ValueError(rule)
    milliseconds = sum(int(number) * _UNITS[unit] for number, unit in parts) // 1_000_000
    if milliseconds > _MOST:
        raise ValueError(rule)
    return milliseconds


def _member(members: Any, text: str) -> Any:
    found = members.get(text.strip().upper().replace("-", "_"))
    if found is None:
        msg = f"one of {', '.join(members)}"
        raise ValueError(msg)
    return found
