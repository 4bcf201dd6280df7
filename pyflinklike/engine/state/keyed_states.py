# SPDX-License-Identifier: Apache-2.0
"""Reducing and aggregating state: elements folded into one value for each key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import reduce
from typing import Any

from pyflinklike.errors import StateValueError
from pyflinklike.functions import AggregateFunction, ReduceFunction
from pyflinklike.shown import shown
from pyflinklike.state.base import MergingState, State
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Setting, Table
from pyflinklike.type_vars import IN, OUT, T
from pyflinklike.types import RowTypeInfo, TypeInformation

__all__ = ["AggregatingState", "ReducingState", "field_of_fold"]


def field_of_fold(function: ReduceFunction[Any], type_info: TypeInformation) -> tuple[Setting, ...]:
    """What may not come to be another field, though it keeps its position, as a setting.

    Args:
        function: That folds.
        type_info: Of the elements: one of rows may have its fields in another order some day.
    """
    names = type_info.get_field_names() if isinstance(type_info, RowTypeInfo) else ()
    field = function.folded_field(names)
    if field is None:
        return ()
    remedy = "put the fields back into their order, or begin a new checkpoint"
    return (Setting("the field that is folded", field, remedy=remedy),)


class _FoldingState(MergingState[IN, OUT]):
    """A state of one value for each key, two of which can be made one."""

    __slots__ = ()

    def _merged(self, first: Any, second: Any) -> Any:
        """Return the value that two stored values make, in the user's form."""
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
            merged = self._merged(thaw(first), thaw(second))
        except Exception as error:
            _blame(self, error)
            raise
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
        """Return the elements reduced so far, or None where there are none."""
        stored = self._get(None)
        if stored is MISSING:
            return None
        return stored if self._thaw is None else self._thaw(stored)  # type: ignore[no-any-return]

    def add(self, value: T) -> None:
        """Fold an element in: `reduce(current, value)`; the first element is stored as it is.

        A result of None removes what is stored.

        Raises:
            StateValueError: The element is None or does not fit the declared type.
        """
        if value is None:
            raise self._refuse_none("an element")
        try:
            frozen = self._freeze(value)
        except StateValueError as error:
            raise self._refuse(error) from None
        stored = self._get(None)
        if stored is not MISSING:
            current = stored if self._thaw is None else self._thaw(stored)
            try:
                reduced = self._reduce(current, value)
            except Exception as error:
                _blame(self, error)
                raise
            if reduced is None:
                self._table.delete(None)
                return
            try:
                frozen = self._freeze(reduced)
            except StateValueError as error:
                raise self._refuse(error) from None
        self._put(None, frozen)

    def _merged(self, first: T, second: T) -> T:
        return self._reduce(first, second)


class AggregatingState(_FoldingState[IN, OUT | None]):
    """An accumulator for each key with a result of its own, as Flink's AggregatingState."""

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
        """Return `get_result` of the accumulator, or None where nothing was added."""
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

        A pickled accumulator of any function can be restored by any other: only the function fails.
        """
        try:
            kept = stored if self._thaw is None else self._thaw(stored)
            new = self._function.create_accumulator()
        except Exception:  # the error at hand is the one to report
            return
        numbers = isinstance(kept, (int, float)) and isinstance(new, (int, float))
        if not numbers and new is not None and type(kept) is not type(new):
            error.state_hint = (  # type: ignore[attr-defined]
                f"; the accumulator that was kept is {shown(kept)}, and create_accumulator gives "
                f"{shown(new)}: if another aggregate kept it, give this one a uid or state name "
                "of its own, and both an accumulator_type, so that this is refused at the start"
            )

    def add(self, value: IN) -> None:
        """Store `add(value, accumulator)`, starting from `create_accumulator()`; None removes it.

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
            if stored is not MISSING:
                self._blame_another(error, stored)
            raise
        if accumulator is None:
            self._table.delete(None)
            return
        try:
            frozen = self._freeze(accumulator)
        except StateValueError as error:
            raise self._refuse(error) from None
        self._put(None, frozen)

    def _merged(self, first: Any, second: Any) -> Any:
        return self._function.merge(first, second)


def _blame(state: State, error: Exception) -> None:
    """Note in the error of a state's function which state it is."""
    if not hasattr(error, "state_name"):
        error.state_name = state.name  # type: ignore[attr-defined]
