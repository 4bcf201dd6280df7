# SPDX-License-Identifier: Apache-2.0
"""The suite that every state backend must pass, yours included.

    # tests/test_my_backend.py
    from pyflinklike.testing.conformance import StateBackendConformance

    class TestMyStateBackend(StateBackendConformance):
        def state_backend(self):
            return MyStateBackend()

It states the rules of `pyflinklike.table` as tests, for every shape of table:
absence, values, iteration, access without a key, and what a backend owes the
runtime: key groups kept apart, changes drained once, contents that can be taken
over by any other backend, sweeps that come by every entry.

Keys are of `Types.STRING()`.  Entries are what the tables' types keep, in their
frozen form.  `pytest.register_assert_rewrite("pyflinklike.testing.conformance")`
before the import makes failures tell what was compared.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pytest

from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap import HashMapStateBackend
from pyflinklike.changelog import Declaration, Section, decode_entries, encode_entries
from pyflinklike.errors import StateAccessError
from pyflinklike.key_group import KeyGroup
from pyflinklike.row import Row
from pyflinklike.table import (
    MISSING,
    NO_KEY,
    KeyedStateBackend,
    Scope,
    Shape,
    Table,
    TableChanges,
    TableSpec,
)
from pyflinklike.types import Instant, TypeInformation, Types

__all__ = ["StateBackendConformance"]

_KEY_TYPE = Types.STRING()
_SINGLE = TableSpec("single", Shape.SINGLE, "value", Types.STRING())
_MAP = TableSpec("map", Shape.MAP, "map", Types.STRING(), Types.LONG())
_LIST = TableSpec("list", Shape.LIST, "list", Types.STRING())
_SPECS = [_SINGLE, _MAP, _LIST]

_SOME_USER_KEY = {"single": None, "map": 7, "list": 0}

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
    for spec in _SPECS
    for verb in _VERBS
    if verb != "append" or spec.shape is Shape.LIST
]

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

_of_each_shape = pytest.mark.parametrize("spec", _SPECS, ids=lambda spec: spec.name)
_of_each_value = pytest.mark.parametrize(
    ("type_info", "value"), _VALUES, ids=[f"{kind!r}-{value!r}" for kind, value in _VALUES]
)


@attrs.define
class _Instance:
    """One keyed state backend with the working state of its groups."""

    backend: KeyedStateBackend
    tables: dict[str, Table]
    groups: dict[int, dict[str, Any]] = attrs.field(factory=dict)

    def enter(self, index: int) -> None:
        """Turn to a key group, to its former working state if there is one."""
        self.backend.enter(index, self.groups.setdefault(index, {}))

    def at(self, key: Any) -> None:
        """Make a key current."""
        self.backend.scope.key = key

    def fill(self, spec: TableSpec, *keys: str) -> None:
        """Put one entry, named as its key, under each key."""
        for key in keys:
            self.at(key)
            self.tables[spec.name].put(_SOME_USER_KEY[spec.name], key)

    def drained(self) -> list[TableChanges]:
        """What changed, without the tables in which nothing did."""
        return [changes for changes in self.backend.drain() if len(changes)]

    def apply(self, changes: Iterable[TableChanges]) -> None:
        """Take over changes."""
        for each in changes:
            self.backend.apply(each)

    def contents(self) -> dict[str, dict[str, dict[Any, Any]]]:
        """Every entry of the group by table, key and user key; their order does not count."""
        found: dict[str, dict[str, dict[Any, Any]]] = {}
        for changes in self.backend.contents():
            assert [] == changes.cleared
            for key, user_key, entry in zip(changes.keys, changes.user_keys, changes.entries):
                entries = found.setdefault(changes.spec.name, {}).setdefault(key, {})
                assert user_key not in entries
                entries[user_key] = entry
        return found


class StateBackendConformance:
    """Subclass it as `Test...` and say which backend to test."""

    def state_backend(self) -> StateBackend:
        """A new configuration of the backend under test, equal at every call."""
        raise NotImplementedError

    def _open(self, specs: Iterable[TableSpec] = _SPECS) -> _Instance:
        backend = self.state_backend().create_keyed_state_backend(Scope(), "tested")
        instance = _Instance(backend, {spec.name: backend.table(spec) for spec in specs})
        instance.enter(0)
        return instance

    @pytest.fixture
    def one(self) -> Iterator[_Instance]:
        """A backend with a table of each shape, in key group 0, under the key "k"."""
        instance = self._open()
        instance.at("k")
        yield instance
        instance.backend.close()

    @pytest.fixture
    def other(self) -> Iterator[_Instance]:
        """Another such backend, independent of the first."""
        instance = self._open()
        instance.at("k")
        yield instance
        instance.backend.close()

    # The configuration

    def test_a_state_backend_survives_pickling(self) -> None:
        """It is sent to the workers, and equal by value there."""
        before = self.state_backend()

        assert before == pickle.loads(pickle.dumps(before))

    def test_equal_state_backends_have_one_hash(self) -> None:
        """It can be a key, as immutable values can."""
        assert hash(self.state_backend()) == hash(self.state_backend())

    def test_state_backends_of_equal_settings_are_equal(self) -> None:
        """It is a value, not an identity."""
        assert self.state_backend() == self.state_backend()

    def test_making_a_keyed_state_backend_leaves_the_configuration_as_it_was(self) -> None:
        """It holds settings and no state."""
        state_backend = self.state_backend()
        before = copy.deepcopy(state_backend)
        state_backend.create_keyed_state_backend(Scope(), "tested").close()

        assert before == state_backend

    def test_what_is_taken_warm_is_kept_no_more(self, one: _Instance) -> None:
        """A group whose batch fails after it was taken must be gone."""
        one.backend.keep_warm(KeyGroup(3, nonce=bytes(16)))
        taken = one.backend.take_warm(3)

        assert taken is None or taken.nonce == bytes(16)
        assert one.backend.take_warm(3) is None

    # Rule 1: absence is MISSING, None is data

    @_of_each_shape
    def test_an_entry_never_put_is_missing(self, one: _Instance, spec: TableSpec) -> None:
        """`get` of nothing is MISSING."""
        assert MISSING is one.tables[spec.name].get(_SOME_USER_KEY[spec.name])

    @_of_each_shape
    def test_none_is_an_entry(self, one: _Instance, spec: TableSpec) -> None:
        """An entry of None is there and is not MISSING."""
        table, at = one.tables[spec.name], _SOME_USER_KEY[spec.name]
        table.put(at, None)

        assert (None, False) == (table.get(at), table.is_empty())

    @_of_each_shape
    def test_an_entry_put_again_is_replaced(self, one: _Instance, spec: TableSpec) -> None:
        """The last put stays."""
        table, at = one.tables[spec.name], _SOME_USER_KEY[spec.name]
        table.put(at, "old")
        table.put(at, "new")

        assert [(at, "new")] == list(table.items())

    @_of_each_shape
    def test_a_deleted_entry_is_missing(self, one: _Instance, spec: TableSpec) -> None:
        """`delete` removes."""
        table, at = one.tables[spec.name], _SOME_USER_KEY[spec.name]
        table.put(at, "x")
        table.delete(at)

        assert (MISSING, True, 0) == (table.get(at), table.is_empty(), table.count())

    @_of_each_shape
    def test_deleting_nothing_is_no_change(self, one: _Instance, spec: TableSpec) -> None:
        """Nothing happens, and nothing is logged."""
        one.tables[spec.name].delete(_SOME_USER_KEY[spec.name])

        assert [] == one.drained()

    @_of_each_shape
    def test_an_entry_put_after_its_deletion_is_there(
        self, one: _Instance, spec: TableSpec
    ) -> None:
        """A deletion has no lasting effect."""
        table, at = one.tables[spec.name], _SOME_USER_KEY[spec.name]
        table.put(at, "old")
        table.delete(at)
        table.put(at, "new")

        assert "new" == table.get(at)

    @_of_each_shape
    def test_a_cleared_key_has_no_entries(self, one: _Instance, spec: TableSpec) -> None:
        """`clear` removes all entries of the current key."""
        table = one.tables[spec.name]
        one.fill(spec, "k")
        table.clear()

        assert ([], True, 0) == (list(table.items()), table.is_empty(), table.count())

    def test_one_user_key_of_many_is_deleted_alone(self, one: _Instance) -> None:
        """The other entries of a map stay."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b"), (3, "c")])
        table.delete(2)

        assert {1: "a", 3: "c"} == dict(table.items())

    # Rule 2: entries are handed back equal, of the same types

    @_of_each_value
    def test_a_value_is_handed_back_as_it_was(
        self, one: _Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """Equal and of the same types, within the group and after leaving it."""
        stored = type_info.freeze(value)
        spec = TableSpec(f"value of {type_info!r}", Shape.SINGLE, "value", type_info)
        table = one.backend.table(spec)
        table.put(None, stored)
        one.enter(1)
        one.enter(0)
        actual = table.get(None)

        assert (repr(stored), type(stored)) == (repr(actual), type(actual))

    @_of_each_value
    def test_a_stamped_value_is_handed_back_as_it_was(
        self, one: _Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """A stamp and a value make an entry like any other."""
        entry = (-(2**63), type_info.freeze(value))
        spec = TableSpec(f"l {type_info!r}", Shape.LIST, "list", type_info, stamped=True)
        table = one.backend.table(spec)
        table.append(entry)

        assert [repr(entry)] == [repr(actual) for actual in table.elements()]

    @_of_each_value
    def test_a_user_key_is_handed_back_as_it_was(
        self, one: _Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """Equal and of the same types."""
        if value is None:
            pytest.skip("None is no user key")
        user_key = type_info.freeze_key(value)
        spec = TableSpec(f"map by {type_info!r}", Shape.MAP, "map", Types.LONG(), type_info)
        table = one.backend.table(spec)
        table.put(user_key, 1)
        (actual, _), *_ = table.items()

        assert (repr(user_key), 1) == (repr(actual), table.get(user_key))

    def test_a_table_without_values_keeps_its_user_keys(self, one: _Instance) -> None:
        """A timer is an entry of None in a table that has no value type."""
        spec = TableSpec("timers", Shape.MAP, "timers", user_key_type=Types.LONG())
        table = one.backend.table(spec)
        table.put(5, None)

        assert ([(5, None)], MISSING) == (list(table.items()), table.get(6))

    # Rule 3: changes while reading

    @_of_each_shape
    def test_items_may_be_deleted_while_they_are_read(
        self, one: _Instance, spec: TableSpec
    ) -> None:
        """All that was there is still given."""
        table = one.tables[spec.name]
        user_keys = [None] if spec.shape is Shape.SINGLE else [0, 1, 2]
        table.multi_put([(user_key, "x") for user_key in user_keys])
        read = []
        for item in table.items():
            read.append(item[0])
            table.delete(item[0])

        assert (user_keys, True) == (read, table.is_empty())

    def test_entries_put_while_items_are_read_do_not_appear(self, one: _Instance) -> None:
        """`items` gives what was there at the call."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b")])
        read: list[tuple[Any, Any]] = []
        for user_key, entry in table.items():
            read.append((user_key, entry))
            table.multi_put([(user_key + 10, "new"), (1, "changed"), (2, "changed")])

        assert [(1, "a"), (2, "b")] == sorted(read)

    def test_a_list_may_be_cleared_while_its_elements_are_read(self, one: _Instance) -> None:
        """`elements` gives what was there at the call."""
        table = one.tables["list"]
        table.multi_put([(0, "a"), (1, "b")])
        read = []
        for element in table.elements():
            table.clear()
            table.append("new")
            read.append(element)

        assert (["a", "b"], ["new"]) == (read, list(table.elements()))

    def test_a_list_read_before_a_change_gives_the_old_elements(self, one: _Instance) -> None:
        """Reading starts at the call, not at the first element."""
        table = one.tables["list"]
        table.append("a")
        elements = table.elements()
        table.append("b")

        assert ["a"] == list(elements)

    @_of_each_shape
    def test_a_scan_stands_changes(self, one: _Instance, spec: TableSpec) -> None:
        """`scan` gives what was there at the call, whatever happens to it."""
        one.fill(spec, "a", "b", "c")
        read: list[Any] = []
        for key, *_ in one.tables[spec.name].scan():
            read.append(key)
            one.at(key)
            one.tables[spec.name].clear()

        assert (["a", "b", "c"], 0) == (sorted(read), one.tables[spec.name].count())

    # Rule 4: no current key

    @pytest.mark.parametrize(("spec", "verb"), _VERBS_OF)
    def test_an_empty_table_is_not_accessed_without_a_key(
        self, one: _Instance, spec: TableSpec, verb: str
    ) -> None:
        """Every verb refuses, also where there is nothing to find."""
        one.at(NO_KEY)

        with pytest.raises(StateAccessError):
            _VERBS[verb](one.tables[spec.name], _SOME_USER_KEY[spec.name])

    @pytest.mark.parametrize(("spec", "verb"), _VERBS_OF)
    def test_a_table_is_not_accessed_without_a_key(
        self, one: _Instance, spec: TableSpec, verb: str
    ) -> None:
        """Every verb refuses, and nothing changes."""
        one.fill(spec, "k")
        before = one.contents()
        one.at(NO_KEY)
        with pytest.raises(StateAccessError):
            _VERBS[verb](one.tables[spec.name], _SOME_USER_KEY[spec.name])

        assert before == one.contents()

    @_of_each_shape
    def test_the_verbs_across_keys_need_no_key(self, one: _Instance, spec: TableSpec) -> None:
        """`scan`, `sweep_all` and `count` serve the runtime between calls."""
        one.fill(spec, "a", "b")
        one.at(NO_KEY)
        table = one.tables[spec.name]

        assert (2, 2, 2) == (
            len(list(table.scan())),
            table.count(),
            table.sweep_all(lambda _: True),
        )

    # Rule 5: order

    def test_a_list_keeps_the_order_of_its_elements(self, one: _Instance) -> None:
        """More than ten, for positions written as text would go wrong there."""
        table = one.tables["list"]
        for number in range(300):
            table.append(str(number))

        assert [str(number) for number in range(300)] == list(table.elements())

    def test_a_list_gives_its_positions_ascending(self, one: _Instance) -> None:
        """`items` of a list are positions and elements."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)

        assert [(0, "a"), (1, "b"), (2, "c")] == list(table.items())

    def test_an_element_put_again_keeps_its_position(self, one: _Instance) -> None:
        """`put` on a position that is taken replaces the element."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        table.put(1, "B")

        assert ["a", "B", "c"] == list(table.elements())

    @pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (2, 1), (1, 2), (0, 1, 2)])
    def test_an_element_appended_to_a_list_with_gaps_is_the_last(
        self, one: _Instance, gone: tuple[int, ...]
    ) -> None:
        """Whatever was deleted before."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        for position in gone:
            table.delete(position)
        table.append("x")
        table.append("y")
        left = [element for position, element in enumerate("abc") if position not in gone]

        assert [*left, "x", "y"] == list(table.elements())

    def test_a_cleared_list_begins_anew(self, one: _Instance) -> None:
        """What is appended after a clear stands alone."""
        table = one.tables["list"]
        table.append("a")
        table.clear()
        table.append("b")

        assert ["b"] == list(table.elements())

    # Many at once

    @_of_each_shape
    def test_multi_get_finds_what_multi_put_stored(self, one: _Instance, spec: TableSpec) -> None:
        """Both are the single verbs, many times."""
        table, at = one.tables[spec.name], _SOME_USER_KEY[spec.name]
        table.multi_put([(at, "x")])

        assert (["x"], "x") == (table.multi_get([at]), table.get(at))

    def test_multi_get_answers_in_the_order_it_was_asked(self, one: _Instance) -> None:
        """With MISSING for what is not there, and as often as it was asked for."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, None)])

        assert [None, MISSING, "a", None] == table.multi_get([2, 3, 1, 2])

    def test_of_equal_user_keys_multi_put_keeps_the_last(self, one: _Instance) -> None:
        """As single puts in that order would."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b"), (1, "c")])

        assert ({1: "c", 2: "b"}, 2) == (dict(table.items()), table.count())

    def test_multi_put_takes_any_iterable(self, one: _Instance) -> None:
        """A generator too."""
        table = one.tables["map"]
        table.multi_put((number, "x") for number in range(3))

        assert 3 == table.count()

    # Keys and tables

    @_of_each_shape
    def test_keys_do_not_see_each_other(self, one: _Instance, spec: TableSpec) -> None:
        """Clearing one key leaves the entries of the others."""
        one.fill(spec, "a", "b")
        one.at("a")
        one.tables[spec.name].clear()
        one.at("b")

        assert ["b"] == list(one.tables[spec.name].elements())

    def test_tables_do_not_see_each_other(self, one: _Instance) -> None:
        """The same key and user key in two tables are two entries."""
        twin = one.backend.table(attrs.evolve(_MAP, name="twin"))
        one.tables["map"].put(7, "x")

        assert MISSING is twin.get(7)

    def test_a_name_stands_for_one_table(self, one: _Instance) -> None:
        """Asking again gives the same entries."""
        one.tables["map"].put(7, "x")

        assert "x" == one.backend.table(_MAP).get(7)

    @_of_each_shape
    def test_a_scan_gives_the_entries_of_all_keys(self, one: _Instance, spec: TableSpec) -> None:
        """Each with its key and user key."""
        one.fill(spec, "a", "b")
        at = _SOME_USER_KEY[spec.name]

        assert [("a", at, "a"), ("b", at, "b")] == sorted(one.tables[spec.name].scan())

    def test_entries_are_counted_over_keys_and_tables(self, one: _Instance) -> None:
        """One per user key or position; an entry put again counts once."""
        one.fill(_SINGLE, "a", "b")
        one.fill(_MAP, "a", "b", "a")
        one.tables["map"].put(8, "x")
        for _ in range(3):
            one.tables["list"].append("x")
        counts = [one.tables[spec.name].count() for spec in _SPECS]

        assert ([2, 3, 3], 8) == (counts, one.backend.count())

    # Key groups

    @_of_each_shape
    def test_key_groups_do_not_see_each_other(self, one: _Instance, spec: TableSpec) -> None:
        """A group that is entered for the first time is empty."""
        one.fill(spec, "k")
        one.enter(1)
        table = one.tables[spec.name]

        assert (True, 0, {}) == (table.is_empty(), table.count(), one.contents())

    @_of_each_shape
    def test_a_key_group_is_found_as_it_was_left(self, one: _Instance, spec: TableSpec) -> None:
        """Working state outlives the visit of another group."""
        one.fill(spec, "k")
        one.enter(1)
        one.tables[spec.name].clear()
        one.enter(0)

        assert {spec.name: {"k": {_SOME_USER_KEY[spec.name]: "k"}}} == one.contents()

    @_of_each_shape
    def test_a_key_group_without_working_state_is_empty(
        self, one: _Instance, spec: TableSpec
    ) -> None:
        """Whatever a former visit left, if the caller did not keep it."""
        one.fill(spec, "k")
        one.groups.clear()
        one.enter(0)

        assert (MISSING, {}) == (
            one.tables[spec.name].get(_SOME_USER_KEY[spec.name]),
            one.contents(),
        )

    def test_a_table_may_be_declared_inside_a_group(self, one: _Instance) -> None:
        """It is then of that group, and empty in the others."""
        table = one.backend.table(attrs.evolve(_MAP, name="late"))
        table.put(1, "x")
        one.enter(1)
        there = table.get(1)
        one.enter(0)

        assert (MISSING, "x") == (there, table.get(1))

    # Changes

    @_of_each_shape
    def test_a_put_is_drained_once(self, one: _Instance, spec: TableSpec) -> None:
        """As one final entry, however often it was put; then there is no change any more."""
        one.fill(spec, "a", "a", "b")
        (changes,) = one.drained()
        drained = dict(zip(changes.keys, changes.entries))

        assert ({"a": "a", "b": "b"}, 2, []) == (drained, len(changes), one.drained())

    @_of_each_shape
    def test_reading_is_no_change(self, one: _Instance, spec: TableSpec) -> None:
        """Only what was written is logged."""
        one.fill(spec, "k")
        one.drained()
        table = one.tables[spec.name]
        table.get(_SOME_USER_KEY[spec.name])
        list(table.items())
        table.is_empty()

        assert [] == one.drained()

    @_of_each_shape
    def test_discarded_changes_are_not_drained(self, one: _Instance, spec: TableSpec) -> None:
        """And the entries stay."""
        one.fill(spec, "k")
        one.backend.discard_changes()

        assert ([], ["k"]) == (one.drained(), list(one.tables[spec.name].elements()))

    @_of_each_shape
    def test_applied_entries_are_no_change(
        self, one: _Instance, other: _Instance, spec: TableSpec
    ) -> None:
        """What a restore read is in the log already."""
        one.fill(spec, "k")
        other.apply(one.drained())

        assert ([], one.contents()) == (other.drained(), other.contents())

    @_of_each_shape
    def test_changes_stay_with_their_key_group(self, one: _Instance, spec: TableSpec) -> None:
        """A drain takes those of the group that is entered."""
        one.fill(spec, "a")
        one.drained()
        one.enter(1)
        one.fill(spec, "b")
        (changes,) = one.drained()

        assert ["b"] == changes.keys

    @_of_each_shape
    @pytest.mark.parametrize("through", ["objects", "bytes"])
    def test_drained_changes_give_equal_contents_elsewhere(
        self, one: _Instance, other: _Instance, spec: TableSpec, through: str
    ) -> None:
        """Puts, deletions, clears and puts after them, drained in steps."""
        for step in _STEPS:
            for key, verb, user_key in step:
                one.at(key)
                at = None if spec.shape is Shape.SINGLE else user_key
                _CHANGE[verb](one.tables[spec.name], at)
            drained = one.drained()
            other.apply(drained if through == "objects" else map(_through_bytes, drained))

            assert one.contents() == other.contents()
            assert one.backend.count() == other.backend.count()

    @_of_each_shape
    def test_contents_rebuild_the_group(
        self, one: _Instance, other: _Instance, spec: TableSpec
    ) -> None:
        """Applied to an empty group, here and through bytes."""
        one.fill(spec, "a", "b")
        other.apply(map(_through_bytes, one.backend.contents()))

        assert (one.contents(), 2) == (other.contents(), other.backend.count())

    @_of_each_shape
    def test_contents_move_to_and_from_the_heap(self, one: _Instance, spec: TableSpec) -> None:
        """What any backend wrote, any other one reads."""
        one.fill(spec, "a", "b")
        before = one.contents()
        heap = HashMapStateBackend().create_keyed_state_backend(Scope(), "tested")
        heap.table(spec)
        for changes in one.backend.contents():
            if len(changes):
                heap.apply(_through_bytes(changes))
        one.enter(1)
        one.apply(map(_through_bytes, heap.contents()))

        assert before == one.contents()

    def test_contents_tell_a_snapshot_without_taking_changes(self, one: _Instance) -> None:
        """A savepoint leaves the next commit as it is."""
        one.fill(_MAP, "k")
        one.backend.contents()

        assert 1 == sum(map(len, one.drained()))

    @pytest.mark.parametrize("gone", [(0,), (1,), (2,), (2, 1), (1, 2), (0, 1, 2)])
    def test_a_rebuilt_list_has_the_order_of_the_working_one(
        self, one: _Instance, other: _Instance, gone: tuple[int, ...]
    ) -> None:
        """Also where positions were deleted and used again."""
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

    def test_a_list_grows_at_its_end_after_a_rebuild(
        self, one: _Instance, other: _Instance
    ) -> None:
        """The next position follows from the restored ones."""
        for element in "abc":
            one.tables["list"].append(element)
        other.apply(map(_through_bytes, one.drained()))
        other.tables["list"].append("d")

        assert ["a", "b", "c", "d"] == list(other.tables["list"].elements())

    def test_appending_drains_the_new_elements_only(self, one: _Instance) -> None:
        """A list of any length costs what is added to it."""
        table = one.tables["list"]
        for element in "abc":
            table.append(element)
        one.drained()
        table.append("d")
        (changes,) = one.drained()

        assert (["k"], [3], ["d"]) == (changes.keys, changes.user_keys, changes.entries)

    # Cleanup

    @_of_each_shape
    def test_sweep_all_deletes_the_dead(self, one: _Instance, spec: TableSpec) -> None:
        """And only them."""
        one.fill(spec, "a", "b", "c")
        deleted = one.tables[spec.name].sweep_all(lambda entry: entry == "b")

        assert (1, ["a", "c"]) == (deleted, sorted(one.contents()[spec.name]))

    @_of_each_shape
    def test_swept_entries_are_drained(
        self, one: _Instance, other: _Instance, spec: TableSpec
    ) -> None:
        """Cleanup is a change like any other."""
        one.fill(spec, "a", "b", "c")
        other.apply(one.drained())
        one.tables[spec.name].sweep_all(lambda entry: entry == "b")
        other.apply(one.drained())

        assert one.contents() == other.contents()

    @_of_each_shape
    def test_repeated_sweeps_come_by_every_entry(
        self, one: _Instance, other: _Instance, spec: TableSpec
    ) -> None:
        """Within two passes, and their deletions are drained too."""
        one.fill(spec, *"abcdefgh")
        other.apply(one.drained())
        sweep = one.tables[spec.name].sweep
        deleted = sum(sweep(2, lambda entry: entry in "aceh") for _ in range(12))
        other.apply(one.drained())

        assert (4, ["b", "d", "f", "g"]) == (deleted, sorted(other.contents()[spec.name]))

    @_of_each_shape
    def test_a_sweep_begins_anew(self, one: _Instance, spec: TableSpec) -> None:
        """Entries that die after a pass are found by the next one."""
        one.fill(spec, *"abcd")
        sweep = one.tables[spec.name].sweep
        for _ in range(3):
            sweep(2, lambda _: False)
        deleted = sum(sweep(2, lambda _: True) for _ in range(8))

        assert (4, {}) == (deleted, one.contents())

    @_of_each_shape
    def test_a_sweep_stands_changes_between_its_steps(
        self, one: _Instance, spec: TableSpec
    ) -> None:
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

    def test_a_sweep_deletes_single_elements(self, one: _Instance) -> None:
        """Not the whole list, and the order of the others stays."""
        table = one.tables["list"]
        for element in "abcde":
            table.append(element)
        for _ in range(4):
            table.sweep(5, lambda entry: entry in "bd")

        assert ["a", "c", "e"] == list(table.elements())

    # The end

    def test_a_backend_can_be_closed(self) -> None:
        """With changes that nobody drained."""
        instance = self._open()
        instance.fill(_MAP, "k")

        assert None is instance.backend.close()  # type: ignore[func-returns-value]

    def test_backends_do_not_see_each_other(self, one: _Instance, other: _Instance) -> None:
        """One operator's state is nobody else's."""
        one.fill(_MAP, "k")

        assert {} == other.contents()


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


def _through_bytes(changes: TableChanges) -> TableChanges:
    section = Section(Declaration.of(changes.spec, _KEY_TYPE), encode_entries(changes, _KEY_TYPE))
    return decode_entries(section, changes.spec, _KEY_TYPE, 0, "conformance")
