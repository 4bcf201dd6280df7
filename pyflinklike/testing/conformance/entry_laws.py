# SPDX-License-Identifier: Apache-2.0
"""One entry: absent or there, handed back as it was, one by one or many at once."""

from __future__ import annotations

from typing import Any

import pytest

from pyflinklike.state.table import MISSING, Shape, TableSpec
from pyflinklike.testing.conformance.instances import (
    SOME_USER_KEY,
    ConformanceTests,
    Instance,
    of_each_shape,
)
from pyflinklike.types import Instant, TypeInformation, Types
from pyflinklike.types.row import Row

__all__ = ["EntriesConformance"]

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
    """Rules 1 and 2 of `pyflinklike.state.table`."""

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
        """The last put stays."""
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
        """Nothing happens, and nothing is logged."""
        one.tables[spec.name].delete(SOME_USER_KEY[spec.name])

        assert [] == one.drained()

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

    # Rule 2: entries are handed back equal, of the same types

    @_of_each_value
    def test_a_value_is_handed_back_as_it_was(
        self, one: Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """Values are equal and of the same types, within the group and after leaving it."""
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
        self, one: Instance, type_info: TypeInformation, value: Any
    ) -> None:
        """A stamp and a value make an entry like any other."""
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
        """Both are the single verbs, many times."""
        table, at = one.tables[spec.name], SOME_USER_KEY[spec.name]
        table.multi_put([(at, "x")])

        assert (["x"], "x") == (table.multi_get([at]), table.get(at))

    def test_multi_get_answers_in_the_order_it_was_asked(self, one: Instance) -> None:
        """There is MISSING for each user key without an entry, as often as it was asked for."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, None)])

        assert [None, MISSING, "a", None] == table.multi_get([2, 3, 1, 2])

    def test_of_equal_user_keys_multi_put_keeps_the_last(self, one: Instance) -> None:
        """The result is that of single puts in the same order."""
        table = one.tables["map"]
        table.multi_put([(1, "a"), (2, "b"), (1, "c")])

        assert ({1: "c", 2: "b"}, 2) == (dict(table.items()), table.count())

    def test_multi_put_takes_any_iterable(self, one: Instance) -> None:
        """A generator is an iterable, too."""
        table = one.tables["map"]
        table.multi_put((number, "x") for number in range(3))

        assert 3 == table.count()
