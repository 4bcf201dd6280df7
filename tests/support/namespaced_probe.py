# SPDX-License-Identifier: Apache-2.0
"""A `Probe` whose states and timers belong to a key and a namespace."""

from __future__ import annotations

from typing import Any, NamedTuple

from probe import Probe

from pyflinklike import Types
from pyflinklike.functions.process_functions import NamespacedFunction

__all__ = ["NamespacedProbe", "NamespacedRecord"]


class NamespacedRecord(NamedTuple):
    """An element: its key, its namespace, and what the function shall do."""

    key: Any
    namespace: Any
    script: Any


class NamespacedProbe(Probe, NamespacedFunction):
    """Does what each record says, in the record's namespace."""

    namespace_type = Types.LONG()

    def open(self, runtime_context: Any) -> None:
        self.runtime_context = runtime_context
        self.current = runtime_context.current
        states = tuple(
            runtime_context.get_partitioned_state(f"of pairs:{each.name}", each)
            for each in self.descriptors
        )
        self.state = states[0] if len(states) == 1 else states

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.current.namespace = value.namespace
        yield self._told(value.script(self.state, ctx))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield self._told(self.script_on_timer(self.state, timestamp, ctx))

    def _told(self, result: Any) -> Any:
        """A script's result, whose first part is the key: made the pair."""
        if not isinstance(result, tuple):
            return result
        return f"{result[0]}/{self.current.namespace}", *result[1:]

    def merge(self, name: str, target: int, *sources: int) -> Any:
        """A script that merges namespaces of a state."""

        def script(*_: Any) -> None:
            self.runtime_context.merge_namespaces(f"of pairs:{name}", target, sources)

        return script
