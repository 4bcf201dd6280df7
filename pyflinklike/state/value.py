# SPDX-License-Identifier: Apache-2.0
"""Value state: one value for each key."""

from __future__ import annotations

from typing import Generic

from pyflinklike.errors import StateValueError
from pyflinklike.state.base import State
from pyflinklike.state.table import MISSING
from pyflinklike.type_vars import T

__all__ = ["ValueState"]


class ValueState(State, Generic[T]):
    """One value for each key, as Flink's ValueState."""

    __slots__ = ()

    def value(self) -> T | None:
        """Return the value, or None where there is none.

        The value is the caller's own: changing it has no effect until `update`.
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
