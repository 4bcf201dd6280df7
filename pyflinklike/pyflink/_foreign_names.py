# SPDX-License-Identifier: Apache-2.0
"""Names of PyFlink that work differently here: refused, without an effect, or of Flink 1.

A program may import a name of PyFlink and never use it.  So a missing name is a class which raises the
reason and the remedy with each use, but not when it is imported.  A name without an effect, or one that
only Flink 1 had, warns once in a process, at the line of the program that uses it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pyflinklike._deprecation import refusal_of, warn_once
from pyflinklike.errors import DeclarationTypeError, RefusedNameError

C = TypeVar("C", bound=Callable[..., Any])
F = TypeVar("F", bound=Callable[..., Any])


class Refused(type):
    """The class of missing names: annotations may name them, and each use raises the reason."""

    place: str
    reason: str

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any
    ) -> Refused:
        """Make the name; a subclass in a user's program counts as a use."""
        for base in bases:
            if isinstance(base, Refused):
                base.refuse()
        return super().__new__(cls, name, bases, namespace)

    def refuse(cls) -> NoReturn:
        """Raise the reason and the remedy.

        Raises:
            RefusedNameError: Always.
        """
        raise RefusedNameError(refusal_of(cls.place, cls.reason))

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        """Refuse a call, which would make an object."""
        cls.refuse()

    def __iter__(cls) -> NoReturn:
        """Refuse to list the members of an enum."""
        cls.refuse()

    def __getitem__(cls, _: Any) -> Refused:
        """Return the name itself: an annotation does not count as a use."""
        return cls

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            # `copy`, `pickle` and `inspect` look for special attributes, and expect this error.
            if name.startswith("__"):
                msg = f"{cls.__name__} has no attribute {name!r}"
                raise AttributeError(msg, name=name, obj=cls)
            raise RefusedNameError(refusal_of(f"{cls.place}.{name}", cls.reason))


def make_refused(place: str, reason: str, base: type = object) -> Refused:
    """Make a name that is refused when it is used.

    Args:
        place: Its name in PyFlink with the modules around it, below `pyflink`.
        reason: The reason and the remedy, which end the message.
        base: The base class; `Exception` for a name that programs catch.
    """
    namespace = {"place": place, "reason": reason, "__module__": __name__}
    return Refused(place.rpartition(".")[2], (base,), namespace)


# Once for each name


def deprecated_alias(today: str) -> Callable[[F], F]:
    """Mark a method that only Flink 1 had: it still works, and warns once with the form of today.

    Args:
        today: The call that programs write today.
    """
    return lambda method: _tell_of(
        method,
        f"{method.__qualname__.removesuffix('.__init__')} is of Flink 1: write {today}",
        DeprecationWarning,
        today=today,
    )


def renamed_keywords(**todays: str) -> Callable[[F], F]:
    """Mark a method whose parameters had other names in Flink 1: it takes both names.

    Args:
        todays: The name of today for each name of Flink 1.
    """

    def mark(method: F) -> F:
        @functools.wraps(method)
        def call_renamed(*args: Any, **kwargs: Any) -> Any:
            for name in todays.keys() & kwargs.keys():
                text = f"{name}= of {method.__qualname__} is of Flink 1: write {todays[name]}="
                warn_once(text, DeprecationWarning)
                if todays[name] in kwargs:
                    msg = f"{method.__name__}() got {todays[name]} twice, also as {name}; leave that out"
                    raise DeclarationTypeError(msg)
                kwargs[todays[name]] = kwargs.pop(name)
            return method(*args, **kwargs)

        vars(call_renamed)["renamed_keywords"] = todays
        return call_renamed  # type: ignore[return-value]

    return mark


def without_effect(reason: str) -> Callable[[C], C]:
    """Mark a method or a class that is accepted without an effect: its first use says why.

    Args:
        reason: Why there is no effect, and what to use instead.
    """

    def mark(marked: C) -> C:
        text = f"{marked.__qualname__} has no effect here: {reason}"
        if not isinstance(marked, type):
            told: C = _tell_of(marked, text, UserWarning, without_effect=reason)
            return told
        cls: Any = marked
        cls.__init__ = _tell_of(cls.__init__, text, UserWarning)
        cls.without_effect = reason
        return marked

    return mark


def _tell_of(method: Any, text: str, category: type[Warning], **marks: str) -> Any:
    @functools.wraps(method)
    def tell_and_call(*args: Any, **kwargs: Any) -> Any:
        warn_once(text, category)
        return method(*args, **kwargs)

    vars(tell_and_call).update(marks)
    return tell_and_call
