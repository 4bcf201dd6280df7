# SPDX-License-Identifier: Apache-2.0
"""Maps and lists as a whole: changes while they are read, and their order."""

from __future__ import annotations

from typing import Any

import pytest

from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.testing.conformance.instances import ConformanceTests, Instance, of_each_shape

__all__ = ["IterationConformance"]


class IterationConformance(ConformanceTests):
    """Rules 3 and 5 of `pyflinklike.state.table`."""

    # Rule 3: changes while reading

    @of_each_shape
    def test_items_may_be_deleted_while_they_are_read(self, one: Instance, spec: TableSpec) -> None:
        """All entries that were there are still returned."""
        table = one.tables[spec.name]
        user_keys = [None] if spec.shape is Shape.SINGLE else [0, 1, 2]
        table.multi_put([(user_key, "x") for user_key in user_keys])
        read = []
        for item in table.items():
            read.append(item[0])
            table.delete(item[0])

        assert (user_keys, True) == (read, table.is_empty())

    def test_entries_put_while_items_are_read_do_not_appear(self, one: Instance) -> None:
        """`items` returns the entries of the moment of the call."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b")])
        read: list[tuple[Any, Any]] = []
        for user_key, entry in table.items():
            read.append((user_key, entry))
            table.multi_put([(user_key + 10, "new"), (1, "changed"), (2, "changed")])

        assert [(1, "a"), (2, "b")] == sorted(read)

    def test_a_list_may_be_cleared_while_its_elements_are_read(self, one: Instance) -> None:
        """`elements` returns the elements of the moment of the call."""
        table = one.tables["list"]
        table.multi_put([(0, "a"), (1, "b")])
        read = []
        for element in table.elements():
            table.clear()
            table.append("new")
            read.append(element)

        assert (["a", "b"], ["new"]) == (read, list(table.elements()))

    def test_a_list_read_before_a_change_gives_the_old_elements(self, one: Instance) -> None:
        """Reading starts at the call, not at the first element."""
        table = one.tables["list"]
        table.append("a")
        elements = table.elements()
        table.append("b")

        assert ["a"] == list(elements)

    @of_each_shape
    def test_a_scan_stands_changes(self, one: Instance, spec: TableSpec) -> None:
        """`scan` returns the entries of the moment of the call, whatever happens to them."""
        one.fill(spec, "a", "b", "c")
        read: list[Any] = []
        for key, *_ in one.tables[spec.name].scan():
            read.append(key)
            one.at(key)
            one.tables[spec.name].clear()

        assert (["a", "b", "c"], 0) == (sorted(read), one.tables[spec.name].count())

    # Rule 5: order

    def test_a_list_keeps_the_order_of_its_elements(self, one: Instance) -> None:
        """There are more than ten, because positions written as text would go wrong there."""
        table = one.tables["list"]
        for number in range(300):
            table.append(str(number))

        assert [str(number) for number in range(300)] == list(table.elements())

    def test_a_list_gives_its_positions_ascending(self, one: Instance) -> None:
        """`items` of a list are positions and elements."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)

        assert [(0, "a"), (1, "b"), (2, "c")] == list(table.items())

    def test_an_element_put_again_keeps_its_position(self, one: Instance) -> None:
        """`put` on a position that is taken replaces the element."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        table.put(1, "B")

        assert ["a", "B", "c"] == list(table.elements())

    @pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (2, 1), (1, 2), (0, 1, 2)])
    def test_an_element_appended_to_a_list_with_gaps_is_the_last(
        self, one: Instance, gone: tuple[int, ...]
    ) -> None:
        """The new element is the last, whatever was deleted before."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        for position in gone:
            table.delete(position)
        table.append("x")
        table.append("y")
        left = [element for position, element in enumerate("abc") if position not in gone]

        assert [*left, "x", "y"] == list(table.elements())

    def test_a_cleared_list_begins_anew(self, one: Instance) -> None:
        """An element appended after a clear stands alone."""
        table = one.tables["list"]
        table.append("a")
        table.clear()
        table.append("b")

        assert ["b"] == list(table.elements())
