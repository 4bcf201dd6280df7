# SPDX-License-Identifier: Apache-2.0
"""Sweeps look at every entry and delete the expired ones."""

from __future__ import annotations

from pyflinklike.state.table import TableSpec
from pyflinklike.testing.conformance.instances import ConformanceTests, Instance, of_each_shape

__all__ = ["CleanupConformance"]


class CleanupConformance(ConformanceTests):
    """The rules that TTL needs of a backend."""

    @of_each_shape
    def test_sweep_all_deletes_the_dead(self, one: Instance, spec: TableSpec) -> None:
        """`sweep_all` deletes the dead entries and no others."""
        one.fill(spec, "a", "b", "c")
        deleted = one.tables[spec.name].sweep_all(lambda entry: entry == "b")

        assert (1, ["a", "c"]) == (deleted, sorted(one.contents()[spec.name]))

    @of_each_shape
    def test_swept_entries_are_drained(
        self, one: Instance, other: Instance, spec: TableSpec
    ) -> None:
        """Cleanup is a change like any other."""
        one.fill(spec, "a", "b", "c")
        other.apply(one.drained())
        one.tables[spec.name].sweep_all(lambda entry: entry == "b")
        other.apply(one.drained())

        assert one.contents() == other.contents()

    @of_each_shape
    def test_repeated_sweeps_come_by_every_entry(
        self, one: Instance, other: Instance, spec: TableSpec
    ) -> None:
        """Two passes come by every entry, and their deletions are drained, too."""
        one.fill(spec, *"abcdefgh")
        other.apply(one.drained())
        sweep = one.tables[spec.name].sweep
        deleted = sum(sweep(2, lambda entry: entry in "aceh") for _ in range(12))
        other.apply(one.drained())

        assert (4, ["b", "d", "f", "g"]) == (deleted, sorted(other.contents()[spec.name]))

    @of_each_shape
    def test_a_sweep_begins_anew(self, one: Instance, spec: TableSpec) -> None:
        """Entries that die after a pass are found by the next one."""
        one.fill(spec, *"abcd")
        sweep = one.tables[spec.name].sweep
        for _ in range(3):
            sweep(2, lambda _: False)
        deleted = sum(sweep(2, lambda _: True) for _ in range(8))

        assert (4, {}) == (deleted, one.contents())

    @of_each_shape
    def test_a_sweep_stands_changes_between_its_steps(self, one: Instance, spec: TableSpec) -> None:
        """Entries deleted or put meanwhile do not disturb it."""
        one.fill(spec, *"abcd")
        table = one.tables[spec.name]
        for key in "abcd":
            table.sweep(1, lambda _: False)
            one.at(key)
            table.clear()
            one.fill(spec, key.upper())
        deleted = sum(table.sweep(2, lambda _: True) for _ in range(8))

        assert (4, 0) == (deleted, table.count())

    def test_a_sweep_deletes_single_elements(self, one: Instance) -> None:
        """A sweep deletes single elements, not the whole list, and the others keep their order."""
        table = one.tables["list"]
        for element in "abcde":
            table.append(element)
        for _ in range(4):
            table.sweep(5, lambda entry: entry in "bd")

        assert ["a", "c", "e"] == list(table.elements())
