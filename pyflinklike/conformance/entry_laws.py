# SPDX-License-Identifier: Apache-2.0
"""The laws of entries under one key: alone, as a map or list, and in ranges of an ordered table."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from pyflinklike.conformance.instances import (
    SOME_USER_KEY,
    ConformanceTests,
    Instance,
    of_each_shape,
    through_bytes,
)
from pyflinklike.errors import StateAccessError
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY
from pyflinklike.state.table import MISSING, OrderedTable, Shape, TableSpec
from pyflinklike.types import Instant, TypeInformation, Types
from pyflinklike.types.row import Row

_ROW = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LIST(Types.STRING())])
_VALUES: list[tuple[TypeInformation, Any]] = [
    (Types.BOOLEAN(), True),
    (Types.LONG(), -(2**63)),
    (Types.DOUBLE(), float("nan")),
    (Types.DOUBLE(), -0.0),
    (Types.STRING(), ""),
    (Types.STRING(), "\x00\N{SNOWMAN}"),
    (Types.STRING(), None),
    (Types.BIG_INT(), 10**40),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    (Types.INSTANT(), Instant(-1, 999)),
    (Types.LIST(Types.LONG()), [1, 2]),
    (Types.MAP(Types.STRING(), Types.LONG()), {"b": 1, "a": 2}),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, None)),
    (_ROW, Row(a=None, b=["x"])),
    (Types.PICKLED_BYTE_ARRAY(), True),
    (Types.PICKLED_BYTE_ARRAY(), b"\x80"),
    (Types.PICKLED_BYTE_ARRAY(), {"a": [1, 1.0]}),
    (Types.PICKLED_BYTE_ARRAY(), None),
]

_of_each_value = pytest.mark.parametrize(
    ("type_info", "value"), _VALUES, ids=[f"{kind!r}-{value!r}" for kind, value in _VALUES]
)


class EntriesConformance(ConformanceTests):
    """Tests of rules 1 and 2 of `pyflinklike.state.table`."""

    # Rule 1: absence is MISSING, None is data

    @of_each_shape
    def test_an_entry_never_put_is_missing(self, one: Instance, spec: TableSpec) -> None:
        """`get` returns MISSING for an entry that was never put."""
        assert MISSING is one.tables[spec.name].get(SOME_USER_KEY[spec.name])

    @of_each_shape
    def test_none_is_an_entry(self, one: Instance, spec: TableSpec) -> None:
        """An entry of None is there, and is not MISSING."""
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        table.put(at, None)

        assert (None, False) == (table.get(at), table.is_empty())

    @of_each_shape
    def test_an_entry_put_again_is_replaced(self, one: Instance, spec: TableSpec) -> None:
        """The entry of the last `put` stays."""
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        table.put(at, "old")
        table.put(at, "new")

        assert [(at, "new")] == list(table.items())

    @of_each_shape
    def test_a_deleted_entry_is_missing(self, one: Instance, spec: TableSpec) -> None:
        """`delete` removes an entry."""
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        table.put(at, "x")
        table.delete(at)

        assert (MISSING, True, 0) == (table.get(at), table.is_empty(), table.count())

    @of_each_shape
    def test_deleting_nothing_is_no_change(self, one: Instance, spec: TableSpec) -> None:
        """Deleting an entry that is missing changes no entry and logs no change."""
        one.tables[spec.name].delete(SOME_USER_KEY[spec.name])

        assert [] == one.drain()

    @of_each_shape
    def test_an_entry_put_after_its_deletion_is_there(self, one: Instance, spec: TableSpec) -> None:
        """A deletion has no lasting effect."""
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        table.put(at, "old")
        table.delete(at)
        table.put(at, "new")

        assert "new" == table.get(at)

    @of_each_shape
    def test_a_cleared_key_has_no_entries(self, one: Instance, spec: TableSpec) -> None:
        """`clear` removes all entries of the current key."""
        table = one.tables[spec.name]
        one.fill(spec, "k")
        table.clear()

        assert ([], True, 0) == (list(table.items()), table.is_empty(), table.count())

    def test_one_user_key_of_many_is_deleted_alone(self, one: Instance) -> None:
        """The other entries of a map stay."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b"), (3, "c")])
        table.delete(2)

        assert {1: "a", 3: "c"} == dict(table.items())

    # Rule 2: a table returns entries that are equal and of the same types

    @_of_each_value
    def test_a_value_is_handed_back_as_it_was(
        self, one: Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """Values are equal and of the same types, within the group and after leaving it."""
        stored = type_info.freeze(value)
        spec = TableSpec(f"value of {type_info!r}", Shape.SINGLE, "value", type_info)
        table = one.backend.table(spec)
        table.put(None, stored)
        # Leave the group once, so that a cache of objects cannot hide the stored form.
        one.enter(1)
        one.enter(0)
        actual = table.get(None)

        assert (repr(stored), type(stored)) == (repr(actual), type(actual))

    @_of_each_value
    def test_a_stamped_value_is_handed_back_as_it_was(
        self, one: Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """A stamp and a value make an entry like any other."""
        # The least stamp, because a backend that packs stamps as unsigned numbers would change it.
        entry = (-(2**63), type_info.freeze(value))
        spec = TableSpec(f"l {type_info!r}", Shape.LIST, "list", type_info, paired=True)
        table = one.backend.table(spec)
        table.append(entry)

        assert [repr(entry)] == [repr(actual) for actual in table.elements()]

    @_of_each_value
    def test_a_user_key_is_handed_back_as_it_was(
        self, one: Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """User keys are equal and of the same types."""
        if value is None:
            pytest.skip("None is no user key")
        user_key = type_info.freeze_key(value)
        spec = TableSpec(f"map by {type_info!r}", Shape.MAP, "map", Types.LONG(), type_info)
        table = one.backend.table(spec)
        table.put(user_key, 1)
        (actual, _), *_ = table.items()

        assert (repr(user_key), 1) == (repr(actual), table.get(user_key))

    def test_a_table_without_values_keeps_its_user_keys(self, one: Instance) -> None:
        """A timer is an entry of None in a table that has no value type."""
        spec = TableSpec("timers", Shape.MAP, "timers", user_key_type=Types.LONG())
        table = one.backend.table(spec)
        table.put(5, None)

        assert ([(5, None)], MISSING) == (list(table.items()), table.get(6))

    # Many at once

    @of_each_shape
    def test_multi_get_finds_what_multi_put_stored(self, one: Instance, spec: TableSpec) -> None:
        """`multi_put` and `multi_get` do the same as many calls of `put` and `get`."""
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        table.multi_put([(at, "x")])

        assert (["x"], "x") == (table.multi_get([at]), table.get(at))

    def test_multi_get_answers_in_the_order_it_was_asked(self, one: Instance) -> None:
        """The result has one MISSING for each requested user key without an entry."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, None)])

        assert [None, MISSING, "a", None] == table.multi_get([2, 3, 1, 2])

    def test_of_equal_user_keys_multi_put_keeps_the_last(self, one: Instance) -> None:
        """The last of equal user keys stays, as with single puts in the same order."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b"), (1, "c")])

        assert ({1: "c", 2: "b"}, 2) == (dict(table.items()), table.count())

    def test_multi_put_takes_any_iterable(self, one: Instance) -> None:
        """A generator is an iterable, too."""
        table = one.tables["map"]
        table.multi_put((number, "x") for number in range(3))

        assert 3 == table.count()


class IterationConformance(ConformanceTests):
    """Tests of rules 3 and 5 of `pyflinklike.state.table`."""

    # Rule 3: changes while reading

    @of_each_shape
    def test_items_may_be_deleted_while_they_are_read(self, one: Instance, spec: TableSpec) -> None:
        """The iteration still returns all entries from before the change."""
        table = one.tables[spec.name]
        user_keys = [None] if spec.shape is Shape.SINGLE else [0, 1, 2]
        table.multi_put([(user_key, "x") for user_key in user_keys])
        read = []
        for item in table.items():
            read.append(item[0])
            table.delete(item[0])

        assert (user_keys, True) == (read, table.is_empty())

    def test_entries_put_while_items_are_read_do_not_appear(self, one: Instance) -> None:
        """`items` returns the entries at the time of the call."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b")])
        read: list[tuple[Any, Any]] = []
        for user_key, entry in table.items():
            read.append((user_key, entry))
            table.multi_put([(user_key + 10, "new"), (1, "changed"), (2, "changed")])

        assert [(1, "a"), (2, "b")] == sorted(read)

    def test_a_list_may_be_cleared_while_its_elements_are_read(self, one: Instance) -> None:
        """`elements` returns the elements at the time of the call."""
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
        """`scan` returns the entries at the time of the call, even if they change later."""
        one.fill(spec, "a", "b", "c")
        read: list[Any] = []
        for key, *_ in one.tables[spec.name].scan():
            read.append(key)
            one.at(key)
            one.tables[spec.name].clear()

        assert (["a", "b", "c"], 0) == (sorted(read), one.tables[spec.name].count())

    # Rule 5: order

    def test_a_list_keeps_the_order_of_its_elements(self, one: Instance) -> None:
        """More than ten elements stay in order; positions that are stored as text would fail."""
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
        """`put` at an existing position replaces the element."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        table.put(1, "B")

        assert ["a", "B", "c"] == list(table.elements())

    @pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (2, 1), (1, 2), (0, 1, 2)])
    def test_an_element_appended_to_a_list_with_gaps_is_the_last(
        self, one: Instance, gone: tuple[int, ...]
    ) -> None:
        """A new element is the last, even if others were deleted before."""
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


_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_OF_KEY = TableSpec("ordered", Shape.MAP, "ordered", Types.STRING(), _BYTES, ordered=True)
_OF_GROUP = TableSpec(
    "ordered of group", Shape.MAP, "ordered", Types.STRING(), _BYTES, ordered=True, per_group=True
)
# Prefixes of each other, zero bytes and FF: here a wrong comparison of bytes shows.
_USER_KEYS = [b"", b"\x00", b"\x00\x00", b"\x00\xff", b"\x01", b"a", b"a\x00", b"aa", b"b", b"\xff"]
_of_each = pytest.mark.parametrize("spec", [_OF_KEY, _OF_GROUP], ids=lambda spec: spec.name)


def _table(instance: Instance, spec: TableSpec) -> OrderedTable:
    return cast(OrderedTable, instance.backend.table(spec))


def _expect(
    model: dict[bytes, str],
    begin: bytes | None,
    end: bytes | None,
    limit: int | None,
    *,
    backwards: bool,
) -> list[tuple[bytes, str]]:
    items = [
        (user_key, entry)
        for user_key, entry in sorted(model.items(), reverse=backwards)
        if (begin is None or begin <= user_key) and (end is None or user_key < end)
    ]
    return items[:limit]


class _Twin:
    """An ordered table and a dict, which must agree under random changes."""

    def __init__(self, table: OrderedTable, choice: random.Random) -> None:
        self.table = table
        self.model: dict[bytes, str] = {}
        self._choice = choice

    def put(self) -> None:
        user_key, entry = self._choice.choice(_USER_KEYS), str(self._choice.random())
        self.table.put(user_key, entry)
        self.model[user_key] = entry

    def delete(self) -> None:
        user_key = self._choice.choice(_USER_KEYS)
        self.table.delete(user_key)
        self.model.pop(user_key, None)

    def clear(self) -> None:
        if self._choice.random() < 0.3:
            self.table.clear()
            self.model.clear()

    def range(self) -> None:
        begin, end = self._choice.choices([None, *_USER_KEYS], k=2)
        backwards, limit = self._choice.random() < 0.5, self._choice.choice([None, 0, 1, 3])
        found = self.table.range(begin, end, backwards=backwards, limit=limit)
        expected = _expect(self.model, begin, end, limit, backwards=backwards)
        assert expected == list(found), (begin, end, backwards, limit)

    def compare(self) -> None:
        everything = sorted(self.model.items())
        assert (everything, len(everything)) == (list(self.table.range()), self.table.count())


class RangesConformance(ConformanceTests):
    """Tests of rule 6 of `pyflinklike.state.table`, and of tables per group; stores need both."""

    @_of_each
    @pytest.mark.parametrize("seed", range(12))
    def test_ranges_are_those_of_a_sorted_dict(
        self, one: Instance, other: Instance, spec: TableSpec, seed: int
    ) -> None:
        """Ranges agree through puts, deletions, clears, commits and a rebuild through bytes."""
        choice = random.Random(seed)
        instance, twin = one, _Twin(_table(one, spec), choice)
        _table(other, spec)
        for step in range(120):
            verb = choice.choices(["put", "delete", "clear", "drain", "range"], [8, 4, 1, 4, 12])[0]
            if verb != "drain":
                getattr(twin, verb)()
                continue
            changes = instance.drain()
            if instance is one:
                other.apply(map(through_bytes, changes))
                # `other` sorts its keys at the first `range`; the next changes must keep the order.
                assert sorted(twin.model.items()) == list(_table(other, spec).range())
            # Go on with the rebuilt table, which must behave like the first.
            if step > 80:
                instance, twin.table = other, _table(other, spec)
        twin.compare()

    @_of_each
    def test_a_range_is_what_was_there_when_it_was_called(
        self, one: Instance, spec: TableSpec
    ) -> None:
        """The table may change during iteration, and the result does not show it."""
        table = _table(one, spec)
        table.multi_put([(b"a", "1"), (b"b", "2"), (b"c", "3")])
        seen = []
        for user_key, entry in table.range():
            seen.append((user_key, entry))
            table.delete(b"b")
            table.put(b"d", "4")

        assert [(b"a", "1"), (b"b", "2"), (b"c", "3")] == seen

    def test_keys_do_not_see_each_others_ranges(self, one: Instance) -> None:
        """A range has only entries of the current key."""
        table = _table(one, _OF_KEY)
        # No key comes between "a" and "a\x00", so a range that ends too late finds its entry.
        for key in ("a", "a\x00", "b"):
            one.at(key)
            table.put(b"x", key)
        one.drain()
        one.at("a")

        assert [(b"x", "a")] == list(table.range()) == list(table.range(backwards=True))

    # Entries that belong to the key group

    def test_every_key_sees_the_entries_of_the_group(self, one: Instance) -> None:
        """Entries of the group belong to no key."""
        table = _table(one, _OF_GROUP)
        one.at("a")
        table.put(b"x", "put by a")
        one.at("b")

        assert ("put by a", [(GROUP_KEY, b"x", "put by a")]) == (
            table.get(b"x"),
            list(table.scan()),
        )

    def test_groups_do_not_see_each_others_entries(self, one: Instance) -> None:
        """Entries of the group are still there after a visit of another group."""
        table = _table(one, _OF_GROUP)
        table.put(b"x", "of 0")
        one.enter(1)
        elsewhere = table.get(b"x")
        one.enter(0)

        assert (MISSING, "of 0") == (elsewhere, table.get(b"x"))

    @pytest.mark.parametrize("verb", ["get", "put", "delete", "range", "clear", "items"])
    @_of_each
    def test_no_key_no_access(self, one: Instance, spec: TableSpec, verb: str) -> None:
        """Every method refuses, even if the entries belong to the group, empty or not."""
        arguments: dict[str, tuple[Any, ...]] = {
            "get": (b"x",),
            "put": (b"x", "y"),
            "delete": (b"x",),
        }
        table = _table(one, spec)
        for entries in ([], [(b"x", "1")]):
            one.at("k")
            table.multi_put(entries)
            one.at(NO_KEY)
            with pytest.raises(StateAccessError):
                getattr(table, verb)(*arguments.get(verb, ()))
