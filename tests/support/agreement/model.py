# SPDX-License-Identifier: Apache-2.0
"""The model: what a worker's states must hold by Flink's rules, written once more and simply.

It is compared with three replicas of each backend, at each step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from agreement.replica import FiveStates, Mode, Replica
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.state.current_key import NO_KEY
from pyflinklike.state.ttl_config import StateTtlConfig

__all__ = ["Comparison", "Model", "whiles"]


@attrs.define
class Model:
    """The contents that five states and the timers of all keys must have.

    An entry is `(stamp, value)`.  `single` holds the value, reducing and aggregating states under
    `(state, key)`.
    """

    ttl: int | None = None
    on_read: bool = False
    return_expired: bool = False
    now: int = 0
    single: dict[tuple[str, str], tuple[int, Any]] = attrs.field(factory=dict)
    maps: dict[str, dict[str, tuple[int, Any]]] = attrs.field(factory=lambda: {"a": {}, "b": {}})
    lists: dict[str, list[tuple[int, Any]]] = attrs.field(factory=lambda: {"a": [], "b": []})
    timers: set[tuple[str, int]] = attrs.field(factory=set)

    def is_alive(self, entry: tuple[int, Any]) -> bool:
        """Return whether an entry is younger than the TTL."""
        return self.ttl is None or self.now < entry[0] + self.ttl

    def read(self, entries: dict[Any, tuple[int, Any]], at: Any) -> list[Any]:
        """Return the value under `at` in a list, or an empty list."""
        if at not in entries:
            return []
        entry = entries[at]
        if not self.is_alive(entry):
            del entries[at]
            return [entry[1]] if self.return_expired else []
        if self.on_read:
            entries[at] = (self.now, entry[1])
        return [entry[1]]

    def read_list(self, key: str) -> list[Any]:
        """Return the elements shown; the list is emptied when none of them is alive."""
        entries = self.lists[key]
        alive = [entry for entry in entries if self.is_alive(entry)]
        if not alive:
            self.lists[key] = []
        elif self.on_read:
            self.lists[key] = [(self.now, value) for _, value in alive]
        return [value for _, value in (entries if self.return_expired else alive)]

    def merge(self, state: str, target: str, source: str) -> None:
        """Move the contents of one namespace into another one; elements keep their age."""
        if state == "list":
            self.lists[target] += self.lists[source]
            self.lists[source] = []
            return
        moved = self.read(self.single, (state, source))
        self.single.pop((state, source), None)
        if moved:
            there = self.read(self.single, (state, target))
            parts = [*there, *moved]
            if state == "reducing":
                merged: Any = "".join(parts)
            else:
                merged = sorted(number for part in parts for number in part)
            self.single[state, target] = (self.now, merged)

    def counts(self) -> dict[str, int]:
        """Count the entries that are stored, by state."""
        found = {"value": 0, "reducing": 0, "aggregating": 0}
        for state, _ in self.single:
            found[state] += 1
        found["map"] = sum(map(len, self.maps.values()))
        found["list"] = sum(map(len, self.lists.values()))
        return found


whiles = st.integers(0, 3)


class Comparison(RuleBasedStateMachine):
    """A machine that declares the states and compares them; subclasses say what is done to them."""

    backends: tuple[StateBackend, ...] = ()
    background = False
    namespaced = False

    @initialize(ttl=st.none() | whiles.filter(bool), on_read=st.booleans(), show=st.booleans())
    def declare(self, ttl: int | None, on_read: bool, show: bool) -> None:
        """Declare the states without TTL, or with any pair of update type and visibility."""
        show = show and not self.background
        config = None if ttl is None else self._config(ttl, on_read, show)
        self.model = Model(ttl, on_read and ttl is not None, show)
        self.committed = copy.deepcopy(self.model)
        self.replicas = [
            Replica(backend, config, mode, namespaced=self.namespaced)
            for backend in self.backends
            for mode in Mode
        ]

    def _config(self, ttl: int, on_read: bool, show: bool) -> StateTtlConfig:
        builder = StateTtlConfig.new_builder(ttl)
        if on_read:
            builder.update_ttl_on_read_and_write()
        if show:
            builder.return_expired_if_not_cleaned_up()
        if self.background:
            builder.cleanup_incrementally(1, True)
        else:
            builder.disable_cleanup_in_background()
        return builder.build()

    def teardown(self) -> None:
        """Close the replicas."""
        for replica in getattr(self, "replicas", []):
            replica.close()

    def each(self, key: Any, operation: Callable[[FiveStates], Any]) -> list[Any]:
        """Run an operation on every replica, under a key; return the results."""
        results = []
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            self.select(replica, key)
            results.append(operation(replica.states))
            replica.operator.current.key = NO_KEY
            replica.step()
        return results

    def select(self, replica: Replica, key: Any) -> None:
        """Make a key current; with namespaces, that is a namespace of the only key."""
        current = replica.operator.current
        current.key = key
        if self.namespaced:
            current.key, current.namespace = "k", ord(key)

    def agree(self, expected: Any, key: Any, operation: Callable[[FiveStates], Any]) -> None:
        """Run an operation on every replica; each must return and store what the model does."""
        for replica, actual in zip(self.replicas, self.each(key, operation)):
            assert expected == actual, (replica.operator.backend, replica.mode)
            if isinstance(actual, list):
                _scribble(actual)  # what was read is the reader's own
        self.agree_on_counts()

    def agree_on_counts(self) -> None:
        """Check that replicas store as many entries as the model, unless cleanup runs meanwhile."""
        if not self.background:
            expected = self.model.counts()
            for replica in self.replicas:
                assert expected == replica.counts(), (replica.operator.backend, replica.mode)


def _scribble(mine: list[Any]) -> None:
    for element in mine:
        if isinstance(element, list):
            element.append(99)
    mine.append(99)
