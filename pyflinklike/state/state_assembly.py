# SPDX-License-Identifier: Apache-2.0
"""States made of a descriptor, a backend and a clock.

This is the one place where a TTL is put around a table.

If windows merge, the contents of several namespaces of a state move into one.  As in Flink's
`InternalMergingState.mergeNamespaces`, lists are joined, and folded values are folded once more.
The target's own contents come first, then the contents of the sources in their order.  The sources
are empty afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar, cast

import attrs

from pyflinklike._clock import Clock
from pyflinklike._type_vars import T_co
from pyflinklike.errors import DeclarationError, DeclarationTypeError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.state.keyed_states import MergingState
from pyflinklike.state.table import Table, Tables, TableSpec
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state.ttl_table import TtlRules, TtlTable

S = TypeVar("S")


@attrs.frozen
class Assembled(Generic[T_co]):
    """A state with the parts that it was made of.

    Args:
        kind: Class of the descriptor.
        declaration: The descriptor's declaration at that time; the user may have changed it since.
        state: The state that the user's function gets.
        ttl: The layer that expires its entries, or None.
        table: The table of its entries, below that layer.
    """

    kind: type[StateDescriptor]
    declaration: tuple[Any, ...]
    state: T_co
    ttl: TtlRules | None
    table: Table

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """The TTL that the state was declared with, or None."""
        ttl_config: StateTtlConfig | None = self.declaration[3]
        return ttl_config

    def check(self, descriptor: StateDescriptor[S]) -> S:
        """Return the state for a second declaration under its name.

        Raises:
            DeclarationError: The second declaration differs from the first.
        """
        if descriptor._declaration() != self.declaration:
            msg = (
                f"state {descriptor.name!r} is already declared as "
                f"{self.kind.__name__} of {_describe(self.declaration)}, got "
                f"{type(descriptor).__name__} of {_describe(descriptor._declaration())}; "
                "use another name or the same descriptor"
            )
            raise DeclarationError(msg)
        # Equal declarations are of one kind and of the same types.
        return cast("S", self.state)


def _describe(declaration: tuple[Any, ...]) -> str:
    return f"{declaration[2]!r} with ttl={declaration[3]!r}"


def assemble(
    descriptor: StateDescriptor[S], tables: Tables, clock: Clock, spec: TableSpec | None = None
) -> Assembled[S]:
    """Make the state that a descriptor declares.

    Args:
        descriptor: The user's declaration of the state.
        tables: The backend that keeps the entries.
        clock: The clock by which entries expire.
        spec: Declaration of the table.  None means `descriptor.spec()`.
    """
    stored = table = tables.table(spec or descriptor.spec())
    ttl = None
    if descriptor.ttl_config is not None:
        table = ttl = TtlTable(table, descriptor.ttl_config, clock)
    state = descriptor.state(table)
    return Assembled(type(descriptor), descriptor._declaration(), state, ttl, stored)


def merge_namespaces(
    made: Assembled, current: CurrentKey, target: Hashable, sources: Iterable[Hashable]
) -> None:
    """Move the current key's contents of some namespaces into another one.

    Args:
        made: The state, over a namespaced table.
        current: The current key; its namespace is the same afterwards.
        target: Frozen namespace that gets the contents.
        sources: Frozen namespaces that lose them.

    Raises:
        DeclarationTypeError: Contents of this kind of state cannot be merged.
    """
    state = made.state
    if not isinstance(state, MergingState):
        msg = (
            "state that is merged must be a list, reducing or aggregating state, "
            f"got {state!r}; declare it as one of these"
        )
        raise DeclarationTypeError(msg)
    former = current.namespace
    try:
        state._merge_namespaces(made.table, current, target, sources)
    finally:
        current.namespace = former
