# SPDX-License-Identifier: Apache-2.0
"""The common part of all states: a name, a table, and the two forms of a value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic

from pyflinklike.errors import StateValueError
from pyflinklike.shown import shown_state
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Table
from pyflinklike.type_vars import IN, OUT
from pyflinklike.types import TypeInformation

__all__ = ["AppendingState", "MergingState", "State"]


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
        # Looked up once: these are called for every record.
        self._get = table.get
        self._put = table.put
        self._freeze = type_info.freeze
        # None where both forms are one object, as of ints and strings: a read is a call less.
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
        refusal = StateValueError(f"{shown_state(self.name)}: {error}")
        refusal.__cause__ = error.__cause__
        return refusal

    def _refuse_none(self, what: str) -> StateValueError:
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


class MergingState(AppendingState[IN, OUT]):
    """An appending state whose contents can be merged, as Flink's MergingState."""

    __slots__ = ()

    def _merge_namespaces(
        self, table: Table, current: CurrentKey, target: Hashable, sources: Iterable[Hashable]
    ) -> None:
        """Move the contents of some namespaces into another one.

        Args:
            table: The state's table without the layer of its TTL: what a list holds keeps its age.
            current: Gets other namespaces.
            target: Namespace that gets the contents.
            sources: Namespaces that lose them.
        """
        raise NotImplementedError
