# SPDX-License-Identifier: Apache-2.0
"""What a state backend is: frozen configuration that makes keyed state backends.

A `StateBackend` is chosen once per operator, pickled to the workers and shared
by their threads, so it holds settings and no state.  A backend of your own is a
subclass whose `create_keyed_state_backend` gives a `KeyedStateBackend` that
passes `pyflinklike.testing.conformance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyflinklike.log.backend import KeyedStateBackend
from pyflinklike.state.table import Scope

__all__ = ["StateBackend"]


class StateBackend(ABC):
    """Chooses where working state is kept; immutable, picklable and thread-safe."""

    @abstractmethod
    def create_keyed_state_backend(self, scope: Scope, owner: str) -> KeyedStateBackend:
        """A backend for one operator instance.

        Args:
            scope: Tells its tables the current key.
            owner: Names the operator of one query: what is kept warm is its own.
        """

    def __str__(self) -> str:
        return type(self).__name__
