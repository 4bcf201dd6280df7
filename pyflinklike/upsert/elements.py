# SPDX-License-Identifier: Apache-2.0
"""Reads elements: a value or its deletion, its place in the order, or an error.

An element is a `Row`, a mapping, or an object with attributes.  If the value is read from a field,
two more fields are read, which the events of `decode_debezium` have:

* `error`: if the value is None, this says why, and the element is not a deletion.
* `unavailable`: the names of columns that the change did not touch and whose values the record does
  not have; their values are taken from the row before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pyflinklike.errors import (
    DeclarationValueError,
    OrderKeyError,
    UpsertError,
    ValueDecodeError,
)
from pyflinklike.shown import shown, shown_error
from pyflinklike.types.fields import field_of
from pyflinklike.types.order_keys import checked_order
from pyflinklike.upsert.index.error_text import error_of

__all__ = ["ElementReader", "Upsert"]

Selector = str | Callable[[Any], Any]

_ABSENT = object()


class Upsert(NamedTuple):
    """The request of one element.

    `value` is None for a deletion, or an `UpsertError`; `order` is None if there is none;
    `unavailable` names the fields that the value lacks.
    """

    value: Any
    order: Any
    unavailable: tuple[str, ...] = ()


class ElementReader:
    """Reads elements.

    Args:
        value: The name of the field with the value, or a function of the element.
        order_key: The same for the order key; None if elements are ordered by arrival.
    """

    def __init__(self, value: Selector, order_key: Selector | None) -> None:
        self._value = value
        self._order_key = order_key

    @property
    def is_ordered(self) -> bool:
        """True where elements have order keys."""
        return self._order_key is not None

    def read(self, element: Any) -> Upsert:
        """Return the request of the element; an error in its value or order key becomes its value.

        Raises:
            DeclarationValueError: The element has no field of that name.
        """
        try:
            order = None if self._order_key is None else self._order(element)
        except OrderKeyError as error:
            # An element that could not be decoded may lack its place in the order.
            reason = field_of(element, "error", None) if isinstance(self._value, str) else None
            return Upsert(error if reason is None else error_of(reason), None)
        if not isinstance(self._value, str):
            return Upsert(self._called(element), order)
        value = _field(element, self._value)
        if value is None:
            reason = field_of(element, "error", None)
            return Upsert(None if reason is None else error_of(reason), order)
        unavailable = field_of(element, "unavailable", None)
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
    found = field_of(element, name, _ABSENT)
    if found is _ABSENT:
        msg = f"an element must have the field {name!r} that is named, got {shown(element)}; name another"
        raise DeclarationValueError(msg)
    return found
