# SPDX-License-Identifier: Apache-2.0
"""The laws of key groups: keys apart, changes drained once, sweeps, and the life of a backend."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.conformance.instances import (
    MAP,
    SINGLE,
    SOME_USER_KEY,
    SPECS,
    ConformanceTests,
    Instance,
    of_each_shape,
    through_bytes,
)
from pyflinklike.errors import StateAccessError
from pyflinklike.state.current_key import NO_KEY, CurrentKey
from pyflinklike.state.table import MISSING, Shape, Table, TableSpec

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
    """Tests of rule 4 of `pyflinklike.state.table`, and that keys, tables and groups are apart."""

    # Rule 4: no current key

    @pytest.mark.parametrize(("spec", "verb"), _VERBS_OF)
    def test_an_empty_table_is_not_accessed_without_a_key(
        self, one: Instance, spec: TableSpec, verb: str
    ) -> None:
        """Every method refuses, even if the table is empty."""
        one.at(NO_KEY)

        with pytest.raises(StateAccessError):
            _VERBS[verb](one.tables[spec.name], SOME_USER_KEY[spec.name])

    @pytest.mark.parametrize(("spec", "verb"), _VERBS_OF)
    def test_a_table_is_not_accessed_without_a_key(
        self, one: Instance, spec: TableSpec, verb: str
    ) -> None:
        """Every method refuses, and no entry changes."""
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
        """An entry counts once for each user key or position, even if it was put many times."""
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
        """If the caller did not keep the working state of a visit, the next visit finds none."""
        one.fill(spec, "k")
        one.groups.clear()
        one.enter(0)

        assert (MISSING, {}) == (
            one.tables[spec.name].get(SOME_USER_KEY[spec.name]),
            one.contents(),
        )

    def test_a_table_may_be_declared_inside_a_group(self, one: Instance) -> None:
        """The new table belongs to that group, and is empty in the others."""
        table = one.backend.table(attrs.evolve(MAP, name="late"))
        table.put(1, "x")
        one.enter(1)
        there = table.get(1)
        one.enter(0)

        assert (MISSING, "x") == (there, table.get(1))


_CHANGE: dict[str, Callable[[Table, Any], Any]] = {
    "put": lambda table, at: table.put(at, "put"),
    "again": lambda table, at: table.put(at, "again"),
    "none": lambda table, at: table.put(at, None),
    "delete": lambda table, at: table.delete(at),
    "clear": lambda table, _: table.clear(),
}
# Each list is one commit: changes that cancel each other, and keys that are cleared and come back.
_STEPS = [
    [("a", "put", 0), ("a", "put", 1), ("b", "put", 0), ("c", "put", 0), ("c", "delete", 0)],
    [("a", "delete", 0), ("b", "none", 0), ("c", "put", 1)],
    [("a", "again", 1), ("b", "clear", 0), ("c", "clear", 0), ("c", "again", 0)],
    [("b", "put", 0), ("b", "put", 1), ("b", "clear", 0)],
    [("a", "delete", 1), ("a", "put", 1), ("c", "delete", 0), ("c", "clear", 0)],
    [("a", "clear", 0), ("b", "put", 0)],
]


class ChangesConformance(ConformanceTests):
    """Tests of the rules on which the log relies."""

    @of_each_shape
    def test_a_put_is_drained_once(self, one: Instance, spec: TableSpec) -> None:
        """A drain has one final entry, even after many puts; the next drain is empty."""
        one.fill(spec, "a", "a", "b")
        (changes,) = one.drain()
        drained = dict(zip(changes.keys, changes.entries))

        assert ({"a": "a", "b": "b"}, 2, []) == (drained, len(changes), one.drain())

    @of_each_shape
    def test_reading_is_no_change(self, one: Instance, spec: TableSpec) -> None:
        """A drain has only entries that were written, and none that were only read."""
        one.fill(spec, "k")
        one.drain()
        table = one.tables[spec.name]
        table.get(SOME_USER_KEY[spec.name])
        list(table.items())
        table.is_empty()

        assert [] == one.drain()

    @of_each_shape
    def test_expecting_keys_is_no_change(self, one: Instance, spec: TableSpec) -> None:
        """Expected keys change no entry, whether calls use them or not."""
        one.fill(spec, "a", "b", "c")
        one.drain()
        one.backend.expect(["a", "b", "a", "absent", "c"])
        one.at("absent")
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        absent = table.get(at)
        one.at("b")
        table.clear()
        one.at("c")
        table.put(at, "after")
        (changes,) = one.drain()

        assert MISSING is absent
        assert {"b", "c"} == {*changes.cleared, *changes.keys}
        assert {"a": {at: "a"}, "c": {at: "after"}} == one.contents()[spec.name]
        assert 2 == one.backend.count()

    @of_each_shape
    def test_keys_are_expected_in_one_group_only(self, one: Instance, spec: TableSpec) -> None:
        """Another group does not find the entries that were read ahead."""
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        one.enter(1)
        one.fill(spec, "a")
        one.drain()
        one.enter(0)
        one.fill(spec, "a", "b")
        one.drain()
        one.backend.expect(["a", "b"])
        one.at("a")
        mine = table.get(at)
        one.enter(1)
        one.at("b")

        assert ("a", MISSING) == (mine, table.get(at))

    @of_each_shape
    def test_discarded_changes_are_not_drained(self, one: Instance, spec: TableSpec) -> None:
        """`discard_changes` forgets the changes and keeps the entries."""
        one.fill(spec, "k")
        one.backend.discard_changes()

        assert ([], ["k"]) == (one.drain(), list(one.tables[spec.name].elements()))

    @of_each_shape
    def test_applied_entries_are_no_change(
        self, one: Instance, other: Instance, spec: TableSpec
    ) -> None:
        """A drain has no restored entries, because the log has them already."""
        one.fill(spec, "k")
        other.apply(one.drain())

        assert ([], one.contents()) == (other.drain(), other.contents())

    @of_each_shape
    def test_changes_stay_with_their_key_group(self, one: Instance, spec: TableSpec) -> None:
        """A drain takes the changes of the group that is entered."""
        one.fill(spec, "a")
        one.drain()
        one.enter(1)
        one.fill(spec, "b")
        (changes,) = one.drain()

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
            drained = one.drain()
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
        """The heap backend reads the contents of this backend, and this one the heap's."""
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

        assert 1 == sum(map(len, one.drain()))

    @pytest.mark.parametrize("gone", [(0,), (1,), (2,), (2, 1), (1, 2), (0, 1, 2)])
    def test_a_rebuilt_list_has_the_order_of_the_working_one(
        self, one: Instance, other: Instance, gone: tuple[int, ...]
    ) -> None:
        """The order stays, even if positions were deleted and used again."""
        table, rebuilt = one.tables["list"], other.tables["list"]
        for element in "abc":
            table.append(element)
        other.apply(one.drain())
        table.delete(1)
        other.apply(one.drain())
        for position in gone:
            table.delete(position)
        table.append("x")
        table.append("y")
        other.apply(one.drain())
        # Appending afterwards compares the next positions, too.
        for each in (table, rebuilt):
            each.append("z")

        assert list(table.items()) == list(rebuilt.items())

    def test_a_list_grows_at_its_end_after_a_rebuild(self, one: Instance, other: Instance) -> None:
        """The next position follows from the restored ones."""
        for element in "abc":
            one.tables["list"].append(element)
        other.apply(map(through_bytes, one.drain()))
        other.tables["list"].append("d")

        assert ["a", "b", "c", "d"] == list(other.tables["list"].elements())

    def test_appending_drains_the_new_elements_only(self, one: Instance) -> None:
        """A commit of a long list has only the elements that were added."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        one.drain()
        table.append("d")
        (changes,) = one.drain()

        assert (["k"], [3], ["d"]) == (changes.keys, changes.user_keys, changes.entries)


class CleanupConformance(ConformanceTests):
    """Tests of the rules on which TTL relies."""

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
        other.apply(one.drain())
        one.tables[spec.name].sweep_all(lambda entry: entry == "b")
        other.apply(one.drain())

        assert one.contents() == other.contents()

    @of_each_shape
    def test_repeated_sweeps_come_by_every_entry(
        self, one: Instance, other: Instance, spec: TableSpec
    ) -> None:
        """Two passes reach every entry, and a drain has their deletions."""
        one.fill(spec, *"abcdefgh")
        other.apply(one.drain())
        sweep = one.tables[spec.name].sweep
        deleted = sum(sweep(2, lambda entry: entry in "aceh") for _ in range(12))
        other.apply(one.drain())

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
        """A sweep still reaches every entry if others are deleted or put meanwhile."""
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


class LifecycleConformance(ConformanceTests):
    """A configuration is a value; the tables made from it are opened, closed and independent."""

    # The configuration

    def test_a_state_backend_survives_pickling(self) -> None:
        """The configuration is sent to the workers, and equal by value there."""
        before = self.state_backend()

        assert before == pickle.loads(pickle.dumps(before))

    def test_equal_state_backends_have_one_hash(self) -> None:
        """A configuration can be a key, as immutable values can."""
        assert hash(self.state_backend()) == hash(self.state_backend())

    def test_state_backends_of_equal_settings_are_equal(self) -> None:
        """A configuration is a value, not an identity."""
        assert self.state_backend() == self.state_backend()

    def test_making_a_keyed_state_backend_leaves_the_configuration_as_it_was(self) -> None:
        """A configuration holds settings and no state."""
        state_backend = self.state_backend()
        before = copy.deepcopy(state_backend)
        state_backend.create_keyed_state_backend(CurrentKey(), "tested").close()

        assert before == state_backend

    def test_what_is_taken_warm_is_kept_no_more(self, one: Instance) -> None:
        """`pop_cached` removes the group, so that a failed batch leaves none behind."""
        one.backend.cache(KeyGroupState(3, nonce=bytes(16)))
        taken = one.backend.pop_cached(3)

        assert taken is None or taken.nonce == bytes(16)
        assert one.backend.pop_cached(3) is None

    def test_released_tables_serve_the_next_task_of_another_owner(self) -> None:
        """After a change of owner, each owner finds only the groups that it cached itself."""
        one, other = self._open(), self._open()
        one.backend.owner = other.backend.owner = "former"
        one.enter(3)
        one.fill(MAP, "k")
        one.backend.drain()
        one.backend.cache(KeyGroupState(3, nonce=b"f" * 16, tables=one.groups[3]))
        one.backend.release()

        one.backend.owner = "later"
        assert one.backend.pop_cached(3) is None
        one.groups.clear()
        one.enter(3)
        assert {} == one.contents()
        one.fill(MAP, "l")
        assert {"map": {"l": {7: "l"}}} == one.contents()

        taken = other.backend.pop_cached(3)
        assert taken is None or taken.nonce == b"f" * 16
        one.backend.close()
        other.backend.close()

    # The end

    def test_a_backend_can_be_closed(self) -> None:
        """A backend may be closed with changes that were not drained."""
        instance = self._open()
        instance.fill(MAP, "k")

        assert None is instance.backend.close()  # type: ignore[func-returns-value]

    def test_backends_do_not_see_each_other(self, one: Instance, other: Instance) -> None:
        """Two operators with one configuration do not see each other's state."""
        one.fill(MAP, "k")

        assert {} == other.contents()
