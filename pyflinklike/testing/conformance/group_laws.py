# SPDX-License-Identifier: Apache-2.0
"""Changes: drained once, taken over by any backend, through bytes too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, Table, TableSpec
from pyflinklike.testing.conformance.instances import (
    MAP,
    SOME_USER_KEY,
    ConformanceTests,
    Instance,
    of_each_shape,
    through_bytes,
)

__all__ = ["ChangesConformance"]

_CHANGE: dict[str, Callable[[Table, Any], Any]] = {
    "put": lambda table, at: table.put(at, "put"),
    "again": lambda table, at: table.put(at, "again"),
    "none": lambda table, at: table.put(at, None),
    "delete": lambda table, at: table.delete(at),
    "clear": lambda table, _: table.clear(),
}
_STEPS = [
    [("a", "put", 0), ("a", "put", 1), ("b", "put", 0), ("c", "put", 0), ("c", "delete", 0)],
    [("a", "delete", 0), ("b", "none", 0), ("c", "put", 1)],
    [("a", "again", 1), ("b", "clear", 0), ("c", "clear", 0), ("c", "again", 0)],
    [("b", "put", 0), ("b", "put", 1), ("b", "clear", 0)],
    [("a", "delete", 1), ("a", "put", 1), ("c", "delete", 0), ("c", "clear", 0)],
    [("a", "clear", 0), ("b", "put", 0)],
]


class ChangesConformance(ConformanceTests):
    """The rules that the log needs of a backend."""

    @of_each_shape
    def test_a_put_is_drained_once(self, one: Instance, spec: TableSpec) -> None:
        """A drain has one final entry, however often it was put; the next drain has none."""
        one.fill(spec, "a", "a", "b")
        (changes,) = one.drained()
        drained = dict(zip(changes.keys, changes.entries))

        assert ({"a": "a", "b": "b"}, 2, []) == (drained, len(changes), one.drained())

    @of_each_shape
    def test_reading_is_no_change(self, one: Instance, spec: TableSpec) -> None:
        """Only what was written is logged."""
        one.fill(spec, "k")
        one.drained()
        table = one.tables[spec.name]
        table.get(SOME_USER_KEY[spec.name])
        list(table.items())
        table.is_empty()

        assert [] == one.drained()

    @of_each_shape
    def test_discarded_changes_are_not_drained(self, one: Instance, spec: TableSpec) -> None:
        """The changes are gone, and the entries stay."""
        one.fill(spec, "k")
        one.backend.discard_changes()

        assert ([], ["k"]) == (one.drained(), list(one.tables[spec.name].elements()))

    @of_each_shape
    def test_applied_entries_are_no_change(
        self, one: Instance, other: Instance, spec: TableSpec
    ) -> None:
        """Entries that a restore read are in the log already."""
        one.fill(spec, "k")
        other.apply(one.drained())

        assert ([], one.contents()) == (other.drained(), other.contents())

    @of_each_shape
    def test_changes_stay_with_their_key_group(self, one: Instance, spec: TableSpec) -> None:
        """A drain takes the changes of the group that is entered."""
        one.fill(spec, "a")
        one.drained()
        one.enter(1)
        one.fill(spec, "b")
        (changes,) = one.drained()

        assert ["b"] == changes.keys

    @of_each_shape
    @pytest.mark.parametrize("through", ["objects", "bytes"])
    def test_drained_changes_give_equal_contents_elsewhere(
        self, one: Instance, other: Instance, spec: TableSpec, through: str
    ) -> None:
        """Puts, deletions, clears and puts after them arrive, drained in steps."""
        for step in _STEPS:
            for key, verb, user_key in step:
                one.at(key)
                at = None if spec.shape is Shape.SINGLE else user_key
                _CHANGE[verb](one.tables[spec.name], at)
            drained = one.drained()
            other.apply(drained if through == "objects" else map(through_bytes, drained))

            assert one.contents() == other.contents()
            assert one.backend.count() == other.backend.count()

    @of_each_shape
    def test_contents_rebuild_the_group(
        self, one: Instance, other: Instance, spec: TableSpec
    ) -> None:
        """Contents are applied to an empty group, here and through bytes."""
        one.fill(spec, "a", "b")
        other.apply(map(through_bytes, one.backend.contents()))

        assert (one.contents(), 2) == (other.contents(), other.backend.count())

    @of_each_shape
    def test_contents_move_to_and_from_the_heap(self, one: Instance, spec: TableSpec) -> None:
        """Every backend reads what any other one wrote."""
        one.fill(spec, "a", "b")
        before = one.contents()
        heap = HashMapStateBackend().create_keyed_state_backend(CurrentKey(), "tested")
        heap.table(spec)
        for changes in one.backend.contents():
            if len(changes):
                heap.apply(through_bytes(changes))
        one.enter(1)
        one.apply(map(through_bytes, heap.contents()))

        assert before == one.contents()

    def test_contents_tell_a_snapshot_without_taking_changes(self, one: Instance) -> None:
        """A savepoint leaves the next commit as it is."""
        one.fill(MAP, "k")
        one.backend.contents()

        assert 1 == sum(map(len, one.drained()))

    @pytest.mark.parametrize("gone", [(0,), (1,), (2,), (2, 1), (1, 2), (0, 1, 2)])
    def test_a_rebuilt_list_has_the_order_of_the_working_one(
        self, one: Instance, other: Instance, gone: tuple[int, ...]
    ) -> None:
        """The order is kept also where positions were deleted and used again."""
        table, rebuilt = one.tables["list"], other.tables["list"]
        for element in "abc":
            table.append(element)
        other.apply(one.drained())
        table.delete(1)
        other.apply(one.drained())
        for position in gone:
            table.delete(position)
        table.append("x")
        table.append("y")
        other.apply(one.drained())
        for each in (table, rebuilt):
            each.append("z")

        assert list(table.items()) == list(rebuilt.items())

    def test_a_list_grows_at_its_end_after_a_rebuild(self, one: Instance, other: Instance) -> None:
        """The next position follows from the restored ones."""
        for element in "abc":
            one.tables["list"].append(element)
        other.apply(map(through_bytes, one.drained()))
        other.tables["list"].append("d")

        assert ["a", "b", "c", "d"] == list(other.tables["list"].elements())

    def test_appending_drains_the_new_elements_only(self, one: Instance) -> None:
        """A commit of a list of any length costs what was added to it."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        one.drained()
        table.append("d")
        (changes,) = one.drained()

        assert (["k"], [3], ["d"]) == (changes.keys, changes.user_keys, changes.entries)
