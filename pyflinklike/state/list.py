# SPDX-License-Identifier: Apache-2.0
"""List state: elements in the order they were added, each with a TTL of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from pyflinklike.errors import StateValueError
from pyflinklike.shown import shown, shown_state
from pyflinklike.state.base import MergingState
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Table
from pyflinklike.type_vars import T
from pyflinklike.types import TypeInformation

__all__ = ["ListState"]


class ListState(MergingState[T, Iterable[T]]):
    """A list of elements for each key, as Flink's ListState."""

    __slots__ = ("_append",)

    def __init__(self, name: str, table: Table, type_info: TypeInformation) -> None:
        super().__init__(name, table, type_info)
        self._append = table.append

    def get(self) -> Iterable[T]:
        """Return the elements in the order they were added: never None, iterable again and again.

        It is the list as it was at this call; with a TTL, each element is judged when it is
        reached.
        """
        return _Elements(self._table.elements(), self._thaw)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def add(self, value: T) -> None:
        """Append an element.

        Raises:
            StateValueError: The element is None or does not fit the element type.
        """
        if value is None:
            raise self._refuse_none("an element")
        try:
            stored = self._freeze(value)
        except StateValueError as error:
            raise self._refuse(error) from None
        self._append(stored)

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements, all or (where one is refused) none.

        Raises:
            StateValueError: `values`, or one of them, is None or does not fit.
        """
        for stored in self._frozen_elements(values):
            self._append(stored)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; an empty list clears the state.

        Raises:
            StateValueError: `values`, or one of them, is None or does not fit.
        """
        elements = self._frozen_elements(values)
        self._table.clear()
        for stored in elements:
            self._append(stored)

    def _merge_namespaces(
        self, table: Table, current: CurrentKey, target: Hashable, sources: Iterable[Hashable]
    ) -> None:
        moved: list[Any] = []
        for current.namespace in sources:
            moved.extend(table.elements())
            table.clear()
        current.namespace = target
        for entry in moved:
            table.append(entry)

    def _frozen_elements(self, values: Iterable[T]) -> list[Any]:
        if values is None:
            raise self._refuse_none("the list of elements")
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            msg = (
                f"{shown_state(self.name)}: elements come as a list, got {shown(values)}; "
                "call add() for a single one"
            )
            raise StateValueError(msg)
        # All are frozen before the first is stored: where one is refused, none is.
        return [self._frozen_element(value) for value in values]

    def _frozen_element(self, value: T) -> Any:
        if value is None:
            raise self._refuse_none("an element")
        return self._frozen(value)


class _Elements:
    """Elements thawed while they are iterated; an iterable of one kind for every type."""

    def __init__(self, stored: Iterable[Any], thaw: Callable[[Any], Any] | None) -> None:
        self._stored = stored
        self._thaw = thaw

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stored) if self._thaw is None else map(self._thaw, self._stored)
