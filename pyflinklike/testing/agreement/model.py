# SPDX-License-Identifier: Apache-2.0
"""The contents that a worker's states must have: Flink's rules once more, and simply."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Model"]


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
