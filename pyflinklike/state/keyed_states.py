# SPDX-License-Identifier: Apache-2.0
"""The five keyed states, each written once over a `Table`: value, list, map, reducing, aggregating.

A state converts a value that the user stores into the immutable form of its type (`freeze`), and a
value that it reads into a copy for the user (`thaw`).  So a user who changes an object after
storing or reading it changes nothing in the state.  A state does not know whether its table expires
entries, nor in which backend they are.  With a TTL, each element of a list and each entry of a map
expires separately; other states have one value per key.

Names and signatures are PyFlink's (`pyflink.datastream.state`).  If PyFlink's process mode and
Flink's heap backend behave differently, we do as the heap backend.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, Generic

from pyflinklike._messages import short_repr, shown_state
from pyflinklike._type_vars import IN, OUT, K, T, V
from pyflinklike.errors import StateValueError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.fold_functions import AggregateFunction, ReduceFunction, not_returned
from pyflinklike.state.table import MISSING, Setting, Table
from pyflinklike.types import RowTypeInfo, TypeInformation


class State:
    """A state of the current key.

    Args:
        name: The declared name, which appears in messages.
        table: The table of its entries.
        type_info: Type of the values in the table.
    """

    __slots__ = ("_freeze", "_get", "_put", "_table", "_thaw", "name")

    def __init__(self, name: str, table: Table, type_info: TypeInformation) -> None:
        self.name = name
        self._table = table
        # Look these up once, because they are called for every record.
        self._get = table.get
        self._put = table.put
        self._freeze = type_info.freeze
        # None if both forms are one object, as for ints and strings: that saves a call per read.
        self._thaw = None if type_info.is_identity else type_info.thaw

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def clear(self) -> None:
        """Remove everything that is stored under the current key."""
        self._table.clear()

    def _frozen(self, value: Any) -> Any:
        try:
            return self._freeze(value)
        except StateValueError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: StateValueError) -> StateValueError:
        refusal = StateValueError(f"{shown_state(self.name)}: {error}")
        refusal.__cause__ = error.__cause__
        return refusal

    def _none_refusal(self, what: str) -> StateValueError:
        return StateValueError(
            f"{shown_state(self.name)}: {what} must not be None, got None; "
            "call clear() to empty the state"
        )


class AppendingState(State, Generic[IN, OUT]):
    """A state that elements are added to, as Flink's AppendingState."""

    __slots__ = ()

    def get(self) -> OUT:
        """Return the result of the elements added so far."""
        raise NotImplementedError

    def add(self, value: IN) -> None:
        """Add an element."""
        raise NotImplementedError

    # These two are for programs of ours that add many elements under a key at once.  `_prepare` may
    # call user code and raise, and changes nothing; `_store` stores its result and cannot fail.

    def _prepare(self, values: Iterable[IN], fold: Callable[[Any, Any], Any] | None) -> Any:
        """Return the value that `add` of each element in turn would store, without storing it.

        Args:
            values: At least one element.
            fold: The function that `add` calls, without the checks of its results.  None for a
                list.

        Raises:
            StateValueError: `add` would raise it for an element, or a result of `fold` is None.
        """
        raise NotImplementedError

    def _store(self, prepared: Any) -> None:
        """Store the result of `_prepare` under the same key."""
        raise NotImplementedError


class MergingState(AppendingState[IN, OUT]):
    """An appending state whose contents can be merged, as Flink's MergingState."""

    __slots__ = ()

    def _merge_namespaces(
        self, table: Table, current: CurrentKey, target: Hashable, sources: Iterable[Hashable]
    ) -> None:
        """Move the contents of some namespaces into another one.

        Args:
            table: The state's table without the layer of its TTL, so that elements keep their age.
            current: The current key, whose namespace this method changes.
            target: Namespace that gets the contents.
            sources: Namespaces that lose them.
        """
        raise NotImplementedError


class ValueState(State, Generic[T]):
    """One value for each key, as Flink's ValueState."""

    __slots__ = ()

    def value(self) -> T | None:
        """Return the value, or None if the state is empty.

        The value is a copy: changing it has no effect until `update`.
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
            raise self._refusal(error) from None
        self._put(None, stored)

    def clear(self) -> None:
        """Remove the value."""
        self._table.delete(None)


class ListState(MergingState[T, Iterable[T]]):
    """A list of elements for each key, as Flink's ListState."""

    __slots__ = ("_append",)

    def __init__(self, name: str, table: Table, type_info: TypeInformation) -> None:
        super().__init__(name, table, type_info)
        self._append = table.append

    def get(self) -> Iterable[T]:
        """Return the elements in the order they were added: never None, iterable many times.

        Later writes do not change the result.  With a TTL, each element is checked when the
        iteration reaches it.
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
            raise self._none_refusal("an element")
        try:
            stored = self._freeze(value)
        except StateValueError as error:
            raise self._refusal(error) from None
        self._append(stored)

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements; if one is refused, none is appended.

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

    def _prepare(self, values: Iterable[T], fold: Callable[[Any, Any], Any] | None) -> Any:
        assert fold is None
        freeze, prepared = self._freeze, []
        for value in values:
            if value is None:
                raise self._none_refusal("an element")
            prepared.append(freeze(value))
        return prepared

    def _store(self, prepared: Any) -> None:
        append = self._append
        for stored in prepared:
            append(stored)

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
            raise self._none_refusal("the list of elements")
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            msg = (
                f"{shown_state(self.name)}: elements come as a list, got {short_repr(values)}; "
                "call add() for a single one"
            )
            raise StateValueError(msg)
        # Freeze all before the first is stored, so that one bad element leaves the state as it was.
        return [self._frozen_element(value) for value in values]

    def _frozen_element(self, value: T) -> Any:
        if value is None:
            raise self._none_refusal("an element")
        return self._frozen(value)


class _Elements:
    """The elements of a list, thawed during iteration; the same class for every type."""

    def __init__(self, stored: Iterable[Any], thaw: Callable[[Any], Any] | None) -> None:
        self._stored = stored
        self._thaw = thaw

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stored) if self._thaw is None else map(self._thaw, self._stored)


class MapState(State, Generic[K, V]):
    """A map for each key, as Flink's MapState.

    `state[k]` of a missing key is None and `del state[k]` of one does nothing, as in PyFlink.  The
    order of iteration is unspecified.
    """

    __slots__ = ("_freeze_key", "_thaw_key")

    def __init__(
        self, name: str, table: Table, key_type: TypeInformation, value_type: TypeInformation
    ) -> None:
        super().__init__(name, table, value_type)
        self._freeze_key = key_type.freeze_key
        self._thaw_key = None if key_type.is_identity else key_type.thaw_key

    def get(self, key: K) -> V | None:
        """Return the value under a user key, or None."""
        try:
            user_key = self._freeze_key(key)
        except StateValueError as error:
            raise self._refusal(error) from None
        stored = self._get(user_key)
        if stored is MISSING:
            return None
        return stored if self._thaw is None else self._thaw(stored)  # type: ignore[no-any-return]

    def put(self, key: K, value: V) -> None:
        """Store a value under a user key; None is a value if the type allows it.

        Raises:
            StateValueError: The key is None, or either does not fit its type.
        """
        try:
            user_key, stored = self._freeze_key(key), self._freeze(value)
        except StateValueError as error:
            raise self._refusal(error) from None
        self._put(user_key, stored)

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store every item of a mapping; if one is refused, nothing is stored.

        Raises:
            StateValueError: A key is None, or a key or value does not fit its type.
        """
        if dict_value is None:
            return
        pairs = dict_value.items() if isinstance(dict_value, Mapping) else dict_value
        # Freeze all before the first is stored, so that one bad item leaves the state as it was.
        self._table.multi_put([(self._frozen_key(k), self._frozen(v)) for k, v in pairs])

    def remove(self, key: K) -> None:
        """Remove a user key; if it is missing, this does nothing."""
        self._table.delete(self._frozen_key(key))

    def contains(self, key: K) -> bool:
        """Return whether there is an entry under a user key, even if its value is None."""
        return self._get(self._frozen_key(key)) is not MISSING

    def items(self) -> Iterable[tuple[K, V]]:
        """Return the entries, read from the table when they are iterated, in no specified order."""
        return _Items(self._table, self._thaw_key, self._thaw)

    def keys(self) -> Iterable[K]:
        """Return the user keys, read when they are iterated."""
        return _Part(self.items(), 0)

    def values(self) -> Iterable[V]:
        """Return the values, read when they are iterated."""
        return _Part(self.items(), 1)

    def is_empty(self) -> bool:
        """Return whether no entry is stored; expired entries that are still stored count."""
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
            raise self._refusal(error) from None


class _Items:
    """Map entries, read from the table each time they are iterated."""

    def __init__(
        self,
        table: Table,
        thaw_key: Callable[[Any], Any] | None,
        thaw: Callable[[Any], Any] | None,
    ) -> None:
        self._table = table
        self._thaw_key = thaw_key
        self._thaw = thaw

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        if self._thaw_key is None and self._thaw is None:
            return iter(self._table.items())
        thaw_key, thaw = self._thaw_key or _identity, self._thaw or _identity
        return ((thaw_key(key), thaw(stored)) for key, stored in self._table.items())


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


ITERABLES = (_Elements, _Items, _Part)
"""The classes of the iterables that states return."""


class _FoldingState(MergingState[IN, OUT]):
    """A state of one value for each key, with a way to merge two values."""

    __slots__ = ()

    def _store(self, prepared: Any) -> None:
        self._put(None, prepared)

    def _merge(self, first: Any, second: Any) -> Any:
        """Merge two values, in the user's form."""
        raise NotImplementedError

    def _no_merger(self) -> StateValueError:
        """Return the error for a merger that returned None."""
        raise NotImplementedError

    def _merge_namespaces(
        self, table: Table, current: CurrentKey, target: Hashable, sources: Iterable[Hashable]
    ) -> None:
        found = []
        for current.namespace in sources:
            found.append(self._get(None))
            table.delete(None)
        current.namespace = target
        parts = [each for each in found if each is not MISSING]
        if not parts:
            return
        # As in Flink, moved values are folded with each other before they meet the target's own.
        moved = reduce(self._merge_stored, parts)
        there = self._get(None)
        self._put(None, moved if there is MISSING else self._merge_stored(there, moved))

    def _merge_stored(self, first: Any, second: Any) -> Any:
        thaw = self._thaw or (lambda stored: stored)
        try:
            merged = self._merge(thaw(first), thaw(second))
        except Exception as error:
            _blame(self, error)
            raise
        if merged is None:
            raise self._refusal(self._no_merger())
        return self._frozen(merged)


class ReducingState(_FoldingState[T, T | None]):
    """One value for each key into which elements are folded, as Flink's ReducingState."""

    __slots__ = ("_reduce",)

    def __init__(
        self, name: str, table: Table, type_info: TypeInformation, reduce: Callable[[T, T], T]
    ) -> None:
        super().__init__(name, table, type_info)
        self._reduce = reduce

    def get(self) -> T | None:
        """Return the elements reduced so far, or None if the state is empty."""
        stored = self._get(None)
        if stored is MISSING:
            return None
        return stored if self._thaw is None else self._thaw(stored)  # type: ignore[no-any-return]

    def add(self, value: T) -> None:
        """Fold an element in: `reduce(current, value)`; the first element is stored as it is.

        Raises:
            StateValueError: The element or the result is None, or does not fit the declared type.
        """
        if value is None:
            raise self._none_refusal("an element")
        try:
            frozen = self._freeze(value)
        except StateValueError as error:
            raise self._refusal(error) from None
        stored = self._get(None)
        if stored is not MISSING:
            current = stored if self._thaw is None else self._thaw(stored)
            try:
                reduced = self._reduce(current, value)
            except Exception as error:
                _blame(self, error)
                raise
            if reduced is None:
                raise self._refusal(not_returned("reduce", self._reduce))
            try:
                frozen = self._freeze(reduced)
            except StateValueError as error:
                raise self._refusal(error) from None
        self._put(None, frozen)

    def _prepare(self, values: Iterable[T], fold: Callable[[T, T], T | None] | None) -> Any:
        freeze, thaw, stored = self._freeze, self._thaw, self._get(None)
        assert fold is not None
        for value in values:
            if value is None:
                raise self._none_refusal("an element")
            frozen = freeze(value)  # also refuses an element that does not fit
            if stored is not MISSING:
                # Freeze and thaw at each step, as `add` does: the function may keep and change an
                # object that it returned, so it must get a copy of it.
                reduced = fold(stored if thaw is None else thaw(stored), value)
                if reduced is None:
                    raise self._refusal(not_returned("reduce", self._reduce))
                frozen = freeze(reduced)
            stored = frozen
        return stored

    def _prepare_stored(self, values: Sequence[T], fold: Callable[[Sequence[T]], T]) -> Any:
        """Do as `_prepare`, for elements whose stored form is the user's form.

        Args:
            values: At least one element.
            fold: A function that folds many at once, from `ReduceFunction.make_stored_fold`.
        """
        stored = self._get(None)
        if stored is not MISSING:
            values = [stored, *values]
        return values[0] if len(values) == 1 else self._freeze(fold(values))

    def _merge(self, first: T, second: T) -> T:
        return self._reduce(first, second)

    def _no_merger(self) -> StateValueError:
        return not_returned("reduce", self._reduce)


class AggregatingState(_FoldingState[IN, OUT | None]):
    """An accumulator for each key, and a result made from it, as Flink's AggregatingState."""

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

    def get(self) -> OUT | None:
        """Return `get_result` of the accumulator, or None if nothing was added."""
        stored = self._get(None)
        if stored is MISSING:
            return None
        accumulator = stored if self._thaw is None else self._thaw(stored)
        try:
            return self._function.get_result(accumulator)  # type: ignore[no-any-return]
        except Exception as error:
            _blame(self, error)
            self._blame_another(error, stored)
            raise

    def _blame_another(self, error: Exception, stored: Any) -> None:
        """Note in an error that the accumulator looks like another function's, if it does.

        All pickled accumulators have the same type to us, so a restore cannot notice that another
        function made one.  Only the call of the function fails.
        """
        try:
            accumulator = stored if self._thaw is None else self._thaw(stored)
            new = self._function.create_accumulator()
        except Exception:  # report the first error and not this one
            return
        numbers = isinstance(accumulator, (int, float)) and isinstance(new, (int, float))
        if not numbers and new is not None and type(accumulator) is not type(new):
            hint = (
                f"; the stored accumulator is {short_repr(accumulator)}, but create_accumulator returns "
                f"{short_repr(new)}: if another aggregate stored it, give this one its own uid or "
                "state name, and give both an accumulator_type, so that a restore checks it"
            )
            with suppress(Exception):
                error.state_hint = hint  # type: ignore[attr-defined]

    def add(self, value: IN) -> None:
        """Store `add(value, accumulator)`, starting from `create_accumulator()`.

        Raises:
            StateValueError: The element is None, or the accumulator is None or does not fit its
                type.
        """
        if value is None:
            raise self._none_refusal("an element")
        stored = self._get(None)
        try:
            if stored is MISSING:
                accumulator = self._function.create_accumulator()
            else:
                accumulator = stored if self._thaw is None else self._thaw(stored)
            accumulator = self._function.add(value, accumulator)
        except Exception as error:
            _blame(self, error)
            if stored is not MISSING:
                self._blame_another(error, stored)
            raise
        if accumulator is None:
            raise self._refusal(not_returned("add", self._function))
        try:
            frozen = self._freeze(accumulator)
        except StateValueError as error:
            raise self._refusal(error) from None
        self._put(None, frozen)

    def _prepare(self, values: Iterable[IN], fold: Callable[[IN, Any], Any] | None) -> Any:
        freeze, thaw, stored = self._freeze, self._thaw, self._get(None)
        assert fold is not None
        if stored is MISSING:
            accumulator = self._function.create_accumulator()
        else:
            accumulator = stored if thaw is None else thaw(stored)
        is_first = True
        for value in values:
            if value is None:
                raise self._none_refusal("an element")
            # Frozen and thawed at each step, as by `ReducingState`.
            if thaw is not None and not is_first:
                accumulator = thaw(accumulator)
            accumulator = fold(value, accumulator)
            if accumulator is None:
                raise self._refusal(not_returned("add", self._function))
            accumulator = freeze(accumulator)
            is_first = False
        return accumulator

    def _merge(self, first: Any, second: Any) -> Any:
        return self._function.merge(first, second)

    def _no_merger(self) -> StateValueError:
        return not_returned("merge", self._function)


def _blame(state: State, error: Exception) -> None:
    """Note the state's name in an error that its function raised."""
    # Some classes of errors refuse attributes, such as a frozen dataclass.
    with suppress(Exception):
        if not hasattr(error, "state_name"):
            error.state_name = state.name  # type: ignore[attr-defined]


def field_of_fold(function: ReduceFunction[Any], type_info: TypeInformation) -> tuple[Setting, ...]:
    """Return the field that a function folds as a setting, if it knows the field by position only.

    If elements are rows and the user reorders their fields, another field is at that position.
    Stored as a setting, the name shows it.

    Args:
        function: The function that folds.
        type_info: The type of the elements.
    """
    names = type_info.get_field_names() if isinstance(type_info, RowTypeInfo) else ()
    field = function.folded_field(names)
    if field is None:
        return ()
    remedy = "put the fields back into their order, or begin a new checkpoint"
    return (Setting("the field that is folded", field, remedy=remedy),)
