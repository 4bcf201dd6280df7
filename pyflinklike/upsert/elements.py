# SPDX-License-Identifier: Apache-2.0
"""What an element says: a value or its deletion, its place in the order, or an error.

An element is a `Row`, a mapping, or an object with attributes.  Where its value is a
field, two more fields count, which the events of `decode_debezium` have:

* `error`: with a value of None it says why there is no value, so this is no deletion.
* `unavailable`: a list of names of columns that the change left alone and whose values the
  record does not have; they are those of the row before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pyflinklike.errors import (
    DeclarationValueError,
    KeyDecodeError,
    NullKeyError,
    OrderKeyError,
    UpsertError,
    ValueDecodeError,
)
from pyflinklike.shown import shown, shown_error
from pyflinklike.types.order_keys import checked_order
from pyflinklike.types.row import Row

__all__ = ["ElementReader", "Upsert", "error_of", "text_of"]

Selector = str | Callable[[Any], Any]

_ERRORS: Final = {
    each.__name__: each
    for each in (UpsertError, KeyDecodeError, ValueDecodeError, NullKeyError, OrderKeyError)
}


class Upsert(NamedTuple):
    """What one element asks for.

    `value` is None to delete, or an `UpsertError`; `order` is None where there is none;
    `unavailable` names the fields that the value does not have.
    """

    value: Any
    order: Any
    unavailable: tuple[str, ...] = ()


def text_of(error: UpsertError) -> str:
    """An error as the text that rows and states have."""
    return f"{type(error).__name__}: {error}"


def error_of(text: Any) -> UpsertError:
    """The error of such a text; of any other text a `ValueDecodeError`."""
    name, _, rest = str(text).partition(": ")
    return _ERRORS[name](rest) if name in _ERRORS else ValueDecodeError(str(text))


class ElementReader:
    """Reads elements.

    Args:
        value: The name of the field with the value, or a function of the element.
        order_key: The same of the order key; None if arrival is the order.
    """

    def __init__(self, value: Selector, order_key: Selector | None) -> None:
        self._value = value
        self._order_key = order_key

    @property
    def is_ordered(self) -> bool:
        """Whether there are order keys."""
        return self._order_key is not None

    def read(self, element: Any) -> Upsert:
        """What the element asks for; errors of its value or order key are its value.

        Raises:
            DeclarationValueError: It has no field of that name.
        """
        try:
            order = None if self._order_key is None else self._order(element)
        except OrderKeyError as error:
            # What could not be decoded need not have a place in the order.
            reason = _optional_field(element, "error") if isinstance(self._value, str) else None
            return Upsert(error if reason is None else error_of(reason), None)
        if not isinstance(self._value, str):
            return Upsert(self._called(element), order)
        value = _field(element, self._value)
        if value is None:
            reason = _optional_field(element, "error")
            return Upsert(None if reason is None else error_of(reason), order)
        unavailable = _optional_field(element, "unavailable")
        if unavailable and isinstance(unavailable, (list, tuple)):
            return Upsert(value, order, tuple(unavailable))
        return Upsert(value, order)

    def _order(self, element: Any) -> Any:
        if isinstance(self._order_key, str):
            return checked_order(_field(element, self._order_key))
        assert self._order_key is not None
        try:
            order = self._order_key(element)
        except Exception as error:
            msg = f"order_key failed for {shown(element)}: {shown_error(error)}"
            raise OrderKeyError(msg) from error
        return checked_order(order)

    def _called(self, element: Any) -> Any:
        assert not isinstance(self._value, str)
        try:
            return self._value(element)
        except UpsertError as error:
            return error
        except Exception as error:
            msg = f"value failed for {shown(element)}: {shown_error(error)}"
            failure = ValueDecodeError(msg)
            failure.__cause__ = error
            return failure


def _field(element: Any, name: str) -> Any:
    try:
        if isinstance(element, (Row, Mapping)):
            return element[name]
        return getattr(element, name)
    except (KeyError, AttributeError):
        msg = f"an element must have the field {name!r} that is named, got {shown(element)}; name another"
        raise DeclarationValueError(msg) from None


def _optional_field(element: Any, name: str) -> Any:
    if isinstance(element, Row):
        return element[name] if name in element._fields else None
    if isinstance(element, Mapping):
        return element.get(name)
    return getattr(element, name, None)
