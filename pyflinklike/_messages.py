# SPDX-License-Identifier: Apache-2.0
r"""User values in messages: never long, and never failing.

A user's key, element, row or error may be of any size, and its `__repr__` and `__str__` are the user's
code, which may fail.  So every message shows such a value through this module.  Use `repr` only for
names and declarations of a program.

The text can always be written as UTF-8.  A lone surrogate, as in the name of a file that is no text,
becomes `\udcff`: Spark's workers and Arrow would refuse the surrogate.
"""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable
from itertools import islice
from types import TracebackType
from typing import Any, Final

_MOST: Final = 2_000
# Python refuses to write an int of more than 4,300 digits, which is some 14,000 bits.
_BITS: Final = 4_096
# Modules of __repr__ methods that show the names and values of all fields.
_NAMED_TUPLES: Final = frozenset({"collections", "pyflinklike"})  # the public module of a Row

_OWN_STATES: Final[dict[str, str]] = {}

_ANY_ERROR: Final[Any] = BaseException.__str__
_KEY_ERROR: Final[Any] = KeyError.__str__
_BY_REPR: Final[Any] = object.__str__


def short_repr(value: object) -> str:
    """Return the `repr` of a user's value, shortened to some 2,000 characters.

    `...` replaces the middle of a long text, further elements, and deep nesting.  If `__repr__`
    fails, the text names the class of the value.
    """
    return as_utf8(_shorten(_SHORT.repr(value), _MOST))


def as_utf8(text: str) -> str:
    """Return a text with its lone surrogates escaped, so that it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def shown_state(name: str) -> str:
    """Return the name of a state for messages; for a state of ours, also what the state holds.

    A user who looks into a checkpoint or edits a savepoint needs the name of either kind.
    """
    return f"{_OWN_STATES[name]} (state {name!r})" if name in _OWN_STATES else f"state {name!r}"


def is_own_state(name: str) -> bool:
    """Return whether a program of ours has named a state, so that its user cannot rename it."""
    return name in _OWN_STATES


def own_state(name: str, holds: str) -> str:
    """Let messages say what a state of ours holds, and return the state's name.

    A program of ours, such as a window operator, names a state that its user never declared.  If
    that program is not imported, as in a reader of checkpoints, messages have only the name.

    Args:
        name: The name under which the program declares the state.
        holds: The contents of the state in words, such as "the fold of a key".
    """
    _OWN_STATES[name] = holds
    return name


def shown_error(error: BaseException) -> str:
    """Return the class and message of an error of the user's code, shortened as by `short_repr`."""
    return f"{as_utf8(type(error).__name__)}: {shown_message(error)}"


def shown_message(error: BaseException) -> str:
    """Return the message of an error that may hold a user's value, shortened as by `short_repr`."""
    return _guarded(_message, error)


def whole_message(error: BaseException) -> str:
    """Return `str` of an error of the user's code, even if its `__str__` fails."""
    return _guarded(str, error)


def shown_traceback(error: BaseException, trace: TracebackType | None = None) -> str:
    """Return the traceback of an error of the user's code, even if its class fails to show it.

    Args:
        error: The error, which need not be the one that is being handled.
        trace: The frame to begin with; None for the first one.
    """

    # `traceback` guards `__str__`, but reads attributes of a SyntaxError that the user may have set.
    def show(each: BaseException) -> str:
        return "".join(traceback.format_exception(type(each), each, trace or each.__traceback__))

    return _guarded(show, error)


def _guarded(show: Callable[[BaseException], str], error: BaseException) -> str:
    try:
        return as_utf8(show(error))
    except Exception as failure:
        return f"<its message failed with {type(failure).__name__}>"


def _message(error: BaseException) -> str:
    """Return `str(error)`, shortened; an argument is shortened before its whole `repr` is made."""
    says, args = type(error).__str__, error.args
    if says is _KEY_ERROR and len(args) == 1:
        return short_repr(args[0])
    if says is _ANY_ERROR and len(args) == 1:
        return (
            short_repr(args[0])
            if type(args[0]).__str__ is _BY_REPR
            else _shorten(str(error), _MOST)
        )
    if says is _ANY_ERROR and args:
        return short_repr(args)
    return _shorten(str(error), _MOST)


def instance_of(kind: type | tuple[type, ...], given: object, otherwise: str) -> str:
    """Return the remedy for an argument that is no instance: to call it, if it is the class itself.

    Args:
        kind: The class or classes that the argument must be an instance of.
        given: The argument that the user gave.
        otherwise: The remedy for an argument that is not such a class.
    """
    if isinstance(given, type) and issubclass(given, kind):
        return f"that is the class: give an instance of it, {given.__name__}(...)"
    return otherwise


class _ShortRepr(reprlib.Repr):
    """A `reprlib.Repr` for more kinds of values, in their own order; no value makes it fail."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxstring = self.maxother = 500
        self.maxlong = self.maxbytes = 200
        self.maxdict = self.maxlist = self.maxtuple = self.maxdeque = 10
        self.maxset = self.maxfrozenset = self.maxarray = 10
        self.maxfields = 30

    def repr1(self, x: Any, level: int) -> str:
        kind = type(x)
        try:
            if kind.__module__ in ("builtins", "collections", "array"):
                return super().repr1(x, level)
            if issubclass(kind, tuple) and kind.__repr__.__module__ in _NAMED_TUPLES:
                return self._repr_fields(x, level)
            return self.repr_instance(x, level)
        except Exception as error:
            return f"<{kind.__name__} whose repr failed with {type(error).__name__}>"

    def repr_instance(self, x: Any, _: int) -> str:
        return _shorten(repr(x), self.maxother)

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > _BITS:
            return f"<int of {x.bit_length()} bits>"
        return super().repr_int(x, level)

    def repr_bytes(self, x: bytes | bytearray, _: int) -> str:
        # Escape only the ends of long bytes: escaping them all could take four times their memory.
        end = self.maxbytes // 2
        return _shorten(repr(x if len(x) < 2 * end else x[:end] + x[-end:]), self.maxbytes)

    repr_bytearray = repr_bytes

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if x and level <= 0:
            return "{...}"
        pairs = [
            f"{self.repr1(key, level - 1)}: {self.repr1(value, level - 1)}"
            for key, value in islice(x.items(), self.maxdict)
        ]
        return f"{{{', '.join(_and_more(pairs, len(x)))}}}"

    def _repr_fields(self, x: Any, level: int) -> str:
        """Return the text of a `Row` or a named tuple."""
        names = getattr(type(x), "_fields", ())
        if x and level <= 0:
            return f"{type(x).__name__}(...)"
        values = [self.repr1(value, level - 1) for value in islice(x, self.maxfields)]
        if not names:
            return f"<{type(x).__name__}({', '.join(_and_more(values, len(x)))})>"
        fields = [f"{name}={value}" for name, value in zip(names, values)]
        return f"{type(x).__name__}({', '.join(_and_more(fields, len(x)))})"


def _and_more(parts: list[str], count: int) -> list[str]:
    return parts if len(parts) == count else [*parts, "..."]


def _shorten(text: str, most: int) -> str:
    """Cut the middle out of a text that is too long."""
    if len(text) <= most:
        return text
    end = (most - 3) // 2
    return f"{text[: most - 3 - end]}...{text[-end:]}"


_SHORT: Final = _ShortRepr()
