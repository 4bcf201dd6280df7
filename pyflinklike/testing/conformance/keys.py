# SPDX-License-Identifier: Apache-2.0
"""Keys, tables and key groups: no access without a key, and none sees another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pyflinklike.errors import StateAccessError
from pyflinklike.state.current_key import NO_KEY
from pyflinklike.state.table import MISSING, Shape, Table, TableSpec
from pyflinklike.testing.conformance.instances import (
    MAP,
    SINGLE,
    SOME_USER_KEY,
    SPECS,
    ConformanceTests,
    Instance,
    of_each_shape,
)

__all__ = ["KeysConformance"]

_VERBS: dict[str, Callable[[Table, Any], Any]] = {
    "get": lambda table, at: table.get(at),
    "put": lambda table, at: table.put(at, "x"),
    "delete": lambda table, at: table.delete(at),
    "append": lambda table, _: table.append("x"),
    "items": lambda table, _: list(table.items()),
    "elements": lambda table, _: list(table.elements()),
    "is_empty": lambda table, _: table.is_empty(),
    "clear": lambda table, _: table.clear(),
    "multi_get": lambda table, at: table.multi_get([at]),
    "multi_put": lambda table, at: table.multi_put([(at, "x")]),
}
_VERBS_OF = [
    pytest.param(spec, verb, id=f"{spec.name}-{verb}")
    for spec in SPECS
    for verb in _VERBS
    if verb != "append" or spec.shape is Shape.LIST
]


class KeysConformance(ConformanceTests):
    """Rule 4 of `pyflinklike.state.table`, and the separation of keys, tables and key groups."""

    # Rule 4: no current key

    @pytest.mark.parametrize(("spec", "verb"), _VERBS_OF)
    def test_an_empty_table_is_not_accessed_without_a_key(
        self, one: Instance, spec: TableSpec, verb: str
    ) -> None:
        """Every verb refuses, also where there is nothing to find."""
        one.at(NO_KEY)

        with pytest.raises(StateAccessError):
            _VERBS[verb](one.tables[spec.name], SOME_USER_KEY[spec.name])

    @pytest.mark.parametrize(("spec", "verb"), _VERBS_OF)
    def test_a_table_is_not_accessed_without_a_key(
        self, one: Instance, spec: TableSpec, verb: str
    ) -> None:
        """Every verb refuses, and nothing changes."""
        one.fill(spec, "k")
        before = one.contents()
        one.at(NO_KEY)
        with pytest.raises(StateAccessError):
            _VERBS[verb](one.tables[spec.name], SOME_USER_KEY[spec.name])

        assert before == one.contents()

    @of_each_shape
    def test_the_verbs_across_keys_need_no_key(self, one: Instance, spec: TableSpec) -> None:
        """`scan`, `sweep_all` and `count` serve the runtime between calls."""
        one.fill(spec, "a", "b")
        one.at(NO_KEY)
        table = one.tables[spec.name]

        assert (2, 2, 2) == (
            len(list(table.scan())),
            table.count(),
            table.sweep_all(lambda _: True),
        )

    # Keys and tables

    @of_each_shape
    def test_keys_do_not_see_each_other(self, one: Instance, spec: TableSpec) -> None:
        """Clearing one key leaves the entries of the others."""
        one.fill(spec, "a", "b")
        one.at("a")
        one.tables[spec.name].clear()
        one.at("b")

        assert ["b"] == list(one.tables[spec.name].elements())

    def test_tables_do_not_see_each_other(self, one: Instance) -> None:
        """The same key and user key in two tables are two entries."""
        twin = one.backend.table(attrs.evolve(MAP, name="twin"))
        one.tables["map"].put(7, "x")

        assert MISSING is twin.get(7)

    def test_a_name_stands_for_one_table(self, one: Instance) -> None:
        """Asking for a table again gives the same entries."""
        one.tables["map"].put(7, "x")

        assert "x" == one.backend.table(MAP).get(7)

    @of_each_shape
    def test_a_scan_gives_the_entries_of_all_keys(self, one: Instance, spec: TableSpec) -> None:
        """Each entry comes with its key and user key."""
        one.fill(spec, "a", "b")
        at = SOME_USER_KEY[spec.name]

        assert [("a", at, "a"), ("b", at, "b")] == sorted(one.tables[spec.name].scan())

    def test_entries_are_counted_over_keys_and_tables(self, one: Instance) -> None:
        """An entry counts once for each user key or position, however often it was put."""
        one.fill(SINGLE, "a", "b")
        one.fill(MAP, "a", "b", "a")
        one.tables["map"].put(8, "x")
        for _ in range(3):
            one.tables["list"].append("x")
        counts = [one.tables[spec.name].count() for spec in SPECS]

        assert ([2, 3, 3], 8) == (counts, one.backend.count())

    # Key groups

    @of_each_shape
    def test_key_groups_do_not_see_each_other(self, one: Instance, spec: TableSpec) -> None:
        """A group that is entered for the first time is empty."""
        one.fill(spec, "k")
        one.enter(1)
        table = one.tables[spec.name]

        assert (True, 0, {}) == (table.is_empty(), table.count(), one.contents())

    @of_each_shape
    def test_a_key_group_is_found_as_it_was_left(self, one: Instance, spec: TableSpec) -> None:
        """Working state outlives the visit of another group."""
        one.fill(spec, "k")
        one.enter(1)
        one.tables[spec.name].clear()
        one.enter(0)

        assert {spec.name: {"k": {SOME_USER_KEY[spec.name]: "k"}}} == one.contents()

    @of_each_shape
    def test_a_key_group_without_working_state_is_empty(
        self, one: Instance, spec: TableSpec
    ) -> None:
        """A former visit leaves nothing, if the caller did not keep it."""
        one.fill(spec, "k")
        one.groups.clear()
        one.enter(0)

        assert (MISSING, {}) == (
            one.tables[spec.name].get(SOME_USER_KEY[spec.name]),
            one.contents(),
        )

    def test_a_table_may_be_declared_inside_a_group(self, one: Instance) -> None:
        """The table is then of that group, and empty in the others."""
        table = one.backend.table(attrs.evolve(MAP, name="late"))
        table.put(1, "x")
        one.enter(1)
        there = table.get(1)
        one.enter(0)

        assert (MISSING, "x") == (there, table.get(1))
