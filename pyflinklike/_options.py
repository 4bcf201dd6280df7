# SPDX-License-Identifier: Apache-2.0
"""Options that several methods take by keyword: declared once, checked, and shown by each method.

A TypedDict names the options that a method takes, so type checkers and editors know them.  A class
of attrs holds what the caller gave, and is the only place of the defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from pyflinklike.errors import DeclarationTypeError

__all__ = ["collect", "options_shown"]

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
