# SPDX-License-Identifier: Apache-2.0
"""The context of a function whose states may belong to a key and a namespace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import attrs

from pyflinklike.api.namespaces import NamespacedRuntimeContext, NamespacedTimerService
from pyflinklike.clock import Clock
from pyflinklike.errors import DeclarationValueError
from pyflinklike.runtime.contexts import OperatorRuntimeContext, TaskInfo
from pyflinklike.runtime.extension import Extension
from pyflinklike.state.assembly import Assembled
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.state.merging import merge_namespaces
from pyflinklike.state.table import Setting, Tables, TableSpec
from pyflinklike.types import TypeInformation

__all__ = ["NamespacedOperatorContext"]

S = TypeVar("S")


class NamespacedOperatorContext(OperatorRuntimeContext, NamespacedRuntimeContext):
    """An `OperatorRuntimeContext` that also has states of namespaces.

    Args:
        namespace_type: The type of the namespaces.
        timers: The timer service of the current key and namespace.
    """

    def __init__(
        self,
        task: TaskInfo,
        backend: Tables,
        clock: Clock,
        assembled: dict[str, Assembled[Any]],
        on_table: Callable[[TableSpec], None],
        stores: Extension,
        *,
        namespace_type: TypeInformation,
        timers: NamespacedTimerService,
    ) -> None:
        super().__init__(task, backend, clock, assembled, on_table, stores)
        self.current = backend.current
        self.timers = timers
        self._namespace_type = namespace_type
        self._reserved: dict[str, StateDescriptor[Any]] = {}

    def get_partitioned_state(
        self,
        name: str,
        state_descriptor: StateDescriptor[S],
        kind: str | None = None,
        settings: Sequence[Setting] = (),
    ) -> S:
        """Return a state of the current key and the current namespace."""
        made = self.assembled.get(name)
        if made is not None:
            return made.checked(state_descriptor)
        own = state_descriptor.spec()
        spec = attrs.evolve(
            own,
            name=name,
            kind=kind or state_descriptor.kind,
            namespace_type=self._namespace_type,
            settings=(*own.settings, *settings),
        )
        return self._made(state_descriptor, spec)

    def reserve(self, state_descriptor: StateDescriptor[Any]) -> None:
        """Reserve a state's name for the program, so that the user's function cannot declare it."""
        self._reserved[state_descriptor.name] = state_descriptor

    def _get(self, descriptor: StateDescriptor[S], wanted: type[StateDescriptor[Any]]) -> S:
        if isinstance(descriptor, StateDescriptor):
            owner = self._reserved.get(descriptor.name)
            if owner is not None and owner is not descriptor:
                msg = f"{descriptor.name!r} is the name of a state of the windows' own, got a state"
                raise DeclarationValueError(f"{msg} of that name; choose another name")
        return super()._get(descriptor, wanted)

    def merge_namespaces(self, name: str, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move the entries of the current key from some namespaces of a state into another one."""
        merge_namespaces(self.assembled[name], self.current, target, sources)
