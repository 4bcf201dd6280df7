# SPDX-License-Identifier: Apache-2.0
"""Copies of elements, so that a function can change an element after it has yielded it.

PyFlink serializes an element before the function that yielded it goes on, so a function may change a
row and yield it again.  Jobs here keep some elements for a while before they travel, so they copy them
first.  For an immutable element the copy costs only a look at its class.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterable
from copyreg import __newobj__  # type: ignore[attr-defined]  # as pickle names it
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import OutputError
from pyflinklike.types.row import Row

Copier = Callable[[Any, Callable[[Any], Any]], Any]

_FIXED = frozenset(
    {
        *(int, str, float, bool, bytes, complex, range, type(None), Decimal, UUID),
        *(dt.date, dt.datetime, dt.time, dt.timedelta),
    }
)
"""Classes whose values can never change."""
_are_fixed = _FIXED.issuperset


def are_unchangeable(values: Iterable[Any]) -> bool:
    """Return whether all values, and the values inside them, can never change."""
    return all(
        kind in _FIXED
        or ((kind is tuple or issubclass(kind, Row)) and _are_fixed(map(type, value)))
        for value in values
        for kind in (value.__class__,)
    )


def as_given(value: Any) -> Any:
    """Return a copy of an element, or the element itself if pickle cannot write it."""
    kind = value.__class__
    if kind in _FIXED or (kind is tuple and _are_fixed(map(type, value))):
        return value
    try:
        return copy_value(value)
    except OutputError:
        return value  # it is refused only if it has to travel


def copy_value(value: Any) -> Any:
    """Return a copy of a value, or the value itself if it is immutable.

    Raises:
        OutputError: The value cannot be pickled.
    """
    try:
        return _copy(value)
    except RecursionError:  # the value contains itself
        return _by_pickle(value)


def copy_by(kind: type, copier: Copier) -> None:
    """Register a function that copies values of a class without pickle.

    Args:
        kind: The class itself; its subclasses keep their way.
        copier: Takes a value and the function that copies its parts, and returns the copy.
    """
    _COPIERS[kind] = copier


def _copy(value: Any) -> Any:
    kind = value.__class__
    if kind in _FIXED or (kind is tuple and _are_fixed(map(type, value))):
        return value
    return _COPIERS.get(kind, _by_attributes)(value, _copy)


def _by_attributes(value: Any, copy: Callable[[Any], Any]) -> Any:
    """Copy an object of a user's class, if pickle would take no more than its attributes."""
    try:
        make, args, state, *more = value.__reduce_ex__(4)
    except Exception:  # the class does not support that, or has its own way
        return _by_pickle(value)
    has_more = type(state) is not dict or any(each is not None for each in more)
    # Any of these means that the class has more to say about its pickles than its attributes.
    if make is not __newobj__ or len(args) > 1 or has_more or hasattr(value, "__setstate__"):
        return _by_pickle(value)
    made = make(*args)
    made.__dict__.update({name: copy(each) for name, each in state.items()})
    return made


def _by_pickle(value: Any) -> Any:
    if isinstance(value, Enum):
        # A member of an enum exists once, and unpickling it gives the same object.
        return value
    try:
        return pickle.loads(pickle.dumps(value, protocol=5))  # noqa: S301  # the same line made it
    except Exception as error:
        msg = (
            f"an element that goes two ways must be one that pickle can write, got {short_repr(value)}: "
            f"{shown_error(error)}; leave out locks, files and lambdas"
        )
        raise OutputError(msg) from error


_COPIERS: dict[type, Copier] = {
    tuple: lambda value, copy: tuple(map(copy, value)),
    list: lambda value, copy: list(map(copy, value)),
    dict: lambda value, copy: {key: copy(each) for key, each in value.items()},
}
