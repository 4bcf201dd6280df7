# SPDX-License-Identifier: Apache-2.0
"""The five keyed states, each written once over a `Table`.

A state turns what the user hands over into the immutable form its type keeps
(`freeze`), and what it read into the user's own copy (`thaw`).  It does not
know whether its table expires entries, nor where they are stored.

Names and signatures are PyFlink's (`pyflink.datastream.state`); the behaviour
is that of Flink's heap backend, where PyFlink's process mode differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from pyflinklike.errors import StateValueError
from pyflinklike.functions import AggregateFunction
from pyflinklike.table import MISSING, Table
from pyflinklike.types import TypeInformation

__all__ = [
    "AggregatingState",
    "AppendingState",
    "ListState",
    "MapState",
    "MergingState",
    "ReducingState",
    "State",
    "ValueState",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State:
    """A state of the current key.

    Args:
        name: As declared; it appears in messages.
        table: The entries.
        type_info: Of the values in the table.
    """

    __slots__ = ("_freeze", "_get", "_put", "_table", "_thaw", "name")

    def __init__(self, name: str, table: Table, type_info: TypeInformation) -> None:
        self.name = name
        self._table = table
        self._get = table.get
        self._put = table.put
        self._freeze = type_info.freeze
        self._thaw = None if type_info.is_identity else type_info.thaw

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def clear(self) -> None:
        """Remove what is stored under the current key."""
        self._table.clear()

    def _frozen(self, value: Any) -> Any:
        try:
            return self._freeze(value)
        except StateValueError as error:
            raise self._refuse(error) from None

    def _refuse(self, error: StateValueError) -> StateValueError:
        refusal = StateValueError(f"state {self.name!r}: {error}")
        refusal.__cause__ = error.__cause__
        return refusal

    def _refuse_none(self, what: str) -> StateValueError:
        return StateValueError(
            f"state {self.name!r}: {what} must not be None, got None; "
            "call clear() to empty the state"
        )


class ValueState(State, Generic[T]):
    """One value per key, as Flink's ValueState."""

    __slots__ = ()

    def value(self) -> T | None:
        """The value, or None where there is none.

        It is the caller's own: changing it has no effect until `update`.
        """
        stored = self._get(None)
        if stored is MISSING:
            return None
        return stored if self._thaw is None else self._thaw(stored)  # type: ignore[no-any-return]

    def update(self, value: T | None) -> None:
        """Store a value; None clears the state.

        Raises:
            StateValueError: The value does not fit the declared type.
        """
        if value is None:
            self._table.delete(None)
            return
        try:
            stored = self._freeze(value)
        except StateValueError as error:
            raise self._refuse(error) from None
        self._put(None, stored)

    def clear(self) -> None:
        """Remove the value."""
        self._table.delete(None)


class AppendingState(State, Generic[IN, OUT]):
    """A state that elements are added to, as Flink's AppendingState."""

    __slots__ = ()

    def get(self) -> OUT:
        """What the elements added so far come to."""
        raise NotImplementedError

    def add(self, value: IN) -> None:
        """Add an element."""
        raise NotImplementedError


class MergingState(AppendingState[IN, OUT]):
    """An appending state whose contents can be merged, as Flink's MergingState."""

    __slots__ = ()


class ListState(MergingState[T, Iterable[T]]):
    """A list of elements per key, as Flink's ListState."""

    __slots__ = ()

    def get(self) -> Iterable[T]:
        """The elements in the order they were added: never None, iterable again and again.

        What is iterated is the list as it was at this call; with a TTL, each
        element is judged when it is reached.
        """
        return _Elements(self._table.elements(), self._thaw)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def add(self, value: T) -> None:
        """Append an element.

        Raises:
            StateValueError: It is None or does not fit the element type.
        """
        self._table.append(self._frozen_element(value))

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements, all or (where one is refused) none.

        Raises:
            StateValueError: `values`, or one of them, is None or does not fit.
        """
        append = self._table.append
        for stored in self._frozen_elements(values):
            append(stored)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; an empty list clears the state.

        Raises:
            StateValueError: `values`, or one of them, is None or does not fit.
        """
        elements = self._frozen_elements(values)
        self._table.clear()
        append = self._table.append
        for stored in elements:
            append(stored)

    def _frozen_elements(self, values: Iterable[T]) -> list[Any]:
        if values is None:
            raise self._refuse_none("the list of elements")
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            msg = (
                f"state {self.name!r}: elements come as a list, got {values!r}; "
                "call add() for a single one"
            )
            raise StateValueError(msg)
        return [self._frozen_element(value) for value in values]

    def _frozen_element(self, value: T) -> Any:
        if value is None:
            raise self._refuse_none("an element")
        return self._frozen(value)


class MapState(State, Generic[K, V]):
    """A map per key, as Flink's MapState.

    `state[k]` of a missing key is None and `del state[k]` of one does nothing,
    as in PyFlink.  The order of iteration is unspecified.
    """

    __slots__ = ("_freeze_key", "_thaw_key")

    def __init__(
        self, name: str, table: Table, key_type: TypeInformation, value_type: TypeInformation
    ) -> None:
        super().__init__(name, table, value_type)
        self._freeze_key = key_type.freeze_key
        self._thaw_key = None if key_type.is_identity else key_type.thaw_key

    def get(self, key: K) -> V | None:
        """The value under a user key, or None."""
        stored = self._get(self._frozen_key(key))
        if stored is MISSING:
            return None
        return stored if self._thaw is None else self._thaw(stored)  # type: ignore[no-any-return]

    def put(self, key: K, value: V) -> None:
        """Store a value under a user key; None is a value where the type takes it.

        Raises:
            StateValueError: The key is None, or either does not fit its type.
        """
        self._put(self._frozen_key(key), self._frozen(value))

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store every item of a mapping, all or (where one is refused) none.

        Raises:
            StateValueError: A key is None, or a key or value does not fit its type.
        """
        if dict_value is None:
            return
        pairs = dict_value.items() if isinstance(dict_value, Mapping) else dict_value
        self._table.multi_put([(self._frozen_key(k), self._frozen(v)) for k, v in pairs])

    def remove(self, key: K) -> None:
        """Remove a user key; nothing happens where it is missing."""
        self._table.delete(self._frozen_key(key))

    def contains(self, key: K) -> bool:
        """Whether there is an entry under a user key, be its value None."""
        return self._get(self._frozen_key(key)) is not MISSING

    def items(self) -> Iterable[tuple[K, V]]:
        """The entries there are when this is iterated, in no specified order."""
        return _Items(self._table, self._thaw_key or _identity, self._thaw or _identity)

    def keys(self) -> Iterable[K]:
        """The user keys."""
        return _Part(self.items(), 0)

    def values(self) -> Iterable[V]:
        """The values."""
        return _Part(self.items(), 1)

    def is_empty(self) -> bool:
        """Whether no entry is stored; expired ones that are still stored count, as in Flink."""
        return self._table.is_empty()

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def _frozen_key(self, key: K) -> Any:
        try:
            return self._freeze_key(key)
        except StateValueError as error:
            raise self._refuse(error) from None


class ReducingState(MergingState[T, T]):
    """One value per key into which elements are folded, as Flink's ReducingState."""

    __slots__ = ("_reduce",)

    def __init__(
        self, name: str, table: Table, type_info: TypeInformation, reduce: Callable[[T, T], T]
    ) -> None:
        super().__init__(name, table, type_info)
        self._reduce = reduce

    def get(self) -> T | None:  # type: ignore[override]
        """The elements reduced so far, or None where there is none."""
        stored = self._get(None)
        if stored is MISSING:
            return None
        return stored if self._thaw is None else self._thaw(stored)  # type: ignore[no-any-return]

    def add(self, value: T) -> None:
        """Fold an element in: `reduce(current, value)`; the first is stored as it is.

        Raises:
            StateValueError: The element is None or does not fit the declared type.
        """
        if value is None:
            raise self._refuse_none("an element")
        frozen = self._frozen(value)
        stored = self._get(None)
        if stored is not MISSING:
            reduced = self._fold(stored if self._thaw is None else self._thaw(stored), value)
            if reduced is None:
                self._table.delete(None)
                return
            frozen = self._frozen(reduced)
        self._put(None, frozen)

    def _fold(self, current: T, value: T) -> T:
        try:
            return self._reduce(current, value)
        except Exception as error:
            _blame(self, error)
            raise


class AggregatingState(MergingState[IN, OUT]):
    """An accumulator per key with its own result, as Flink's AggregatingState."""

    __slots__ = ("_function",)

    def __init__(
        self,
        name: str,
        table: Table,
        accumulator_type: TypeInformation,
        function: AggregateFunction,
    ) -> None:
        super().__init__(name, table, accumulator_type)
        self._function = function

    def get(self) -> OUT | None:  # type: ignore[override]
        """`get_result` of the accumulator, or None where nothing was added."""
        stored = self._get(None)
        if stored is MISSING:
            return None
        accumulator = stored if self._thaw is None else self._thaw(stored)
        try:
            return self._function.get_result(accumulator)  # type: ignore[no-any-return]
        except Exception as error:
            _blame(self, error)
            raise

    def add(self, value: IN) -> None:
        """Store `add(value, accumulator)`, starting from `create_accumulator()`.

        Raises:
            StateValueError: The element is None, or the accumulator does not fit its type.
        """
        if value is None:
            raise self._refuse_none("an element")
        stored = self._get(None)
        try:
            if stored is MISSING:
                accumulator = self._function.create_accumulator()
            else:
                accumulator = stored if self._thaw is None else self._thaw(stored)
            accumulator = self._function.add(value, accumulator)
        except Exception as error:
            _blame(self, error)
            raise
        if accumulator is None:
            self._table.delete(None)
            return
        self._put(None, self._frozen(accumulator))


class _Elements:
    """Elements thawed while they are iterated; an iterable of one kind for every type."""

    def __init__(self, stored: Iterable[Any], thaw: Callable[[Any], Any] | None) -> None:
        self._stored = stored
        self._thaw = thaw

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stored) if self._thaw is None else map(self._thaw, self._stored)


class _Items:
    """Map entries, read from the table each time they are iterated."""

    def __init__(
        self, table: Table, thaw_key: Callable[[Any], Any], thaw: Callable[[Any], Any]
    ) -> None:
        self._table = table
        self._thaw_key = thaw_key
        self._thaw = thaw

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        thaw_key, thaw = self._thaw_key, self._thaw
        for user_key, stored in self._table.items():
            yield thaw_key(user_key), thaw(stored)


class _Part:
    """The keys or the values of map entries."""

    def __init__(self, items: Iterable[tuple[Any, Any]], index: int) -> None:
        self._items = items
        self._index = index

    def __iter__(self) -> Iterator[Any]:
        index = self._index
        return (item[index] for item in self._items)


def _identity(value: Any) -> Any:
    return value


def _blame(state: State, error: Exception) -> None:
    """Note in the error of a state's function which state it is."""
    if not hasattr(error, "state_name"):
        error.state_name = state.name  # type: ignore[attr-defined]
