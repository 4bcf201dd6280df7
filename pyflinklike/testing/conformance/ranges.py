# SPDX-License-Identifier: Apache-2.0
"""Rule 6 of `pyflinklike.state.table`: ranges of an ordered table; and tables of a key group."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from pyflinklike.errors import StateAccessError
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY
from pyflinklike.state.table import MISSING, OrderedTable, Shape, TableSpec
from pyflinklike.testing.conformance.instances import ConformanceTests, Instance, through_bytes
from pyflinklike.types import Types

__all__ = ["RangesConformance"]

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_OF_KEY = TableSpec("ordered", Shape.MAP, "ordered", Types.STRING(), _BYTES, ordered=True)
_OF_GROUP = TableSpec(
    "ordered of group", Shape.MAP, "ordered", Types.STRING(), _BYTES, ordered=True, per_group=True
)
_USER_KEYS = [b"", b"\x00", b"\x00\x00", b"\x00\xff", b"\x01", b"a", b"a\x00", b"aa", b"b", b"\xff"]
_of_each = pytest.mark.parametrize("spec", [_OF_KEY, _OF_GROUP], ids=lambda spec: spec.name)


def _table(instance: Instance, spec: TableSpec) -> OrderedTable:
    return cast(OrderedTable, instance.backend.table(spec))


def _expected(
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
    """An ordered table, and the dict that it must be like, under random changes."""

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
        expected = _expected(self.model, begin, end, limit, backwards=backwards)
        assert expected == list(found), (begin, end, backwards, limit)

    def compare(self) -> None:
        everything = sorted(self.model.items())
        assert (everything, len(everything)) == (list(self.table.range()), self.table.count())


class RangesConformance(ConformanceTests):
    """The rules that stores need of a backend."""

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
            changes = instance.drained()
            if instance is one:
                other.apply(map(through_bytes, changes))
                # So that `other` has sorted what the next changes are applied to.
                assert sorted(twin.model.items()) == list(_table(other, spec).range())
            if step > 80:
                instance, twin.table = other, _table(other, spec)
        twin.compare()

    @_of_each
    def test_a_range_is_what_was_there_when_it_was_called(
        self, one: Instance, spec: TableSpec
    ) -> None:
        """Changes while it is read are allowed and not seen."""
        table = _table(one, spec)
        table.multi_put([(b"a", "1"), (b"b", "2"), (b"c", "3")])
        seen = []
        for user_key, entry in table.range():
            seen.append((user_key, entry))
            table.delete(b"b")
            table.put(b"d", "4")

        assert [(b"a", "1"), (b"b", "2"), (b"c", "3")] == seen

    def test_keys_do_not_see_each_others_ranges(self, one: Instance) -> None:
        """A range ends where the current key's entries do."""
        table = _table(one, _OF_KEY)
        for key in ("a", "a\x00", "b"):
            one.at(key)
            table.put(b"x", key)
        one.drained()
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
        """Entries of the group are not lost when another group was entered."""
        table = _table(one, _OF_GROUP)
        table.put(b"x", "of 0")
        one.enter(1)
        elsewhere = table.get(b"x")
        one.enter(0)

        assert (MISSING, "of 0") == (elsewhere, table.get(b"x"))

    @pytest.mark.parametrize("verb", ["get", "put", "delete", "range", "clear", "items"])
    @_of_each
    def test_no_key_no_access(self, one: Instance, spec: TableSpec, verb: str) -> None:
        """Every verb refuses, also where the entries belong to the group, empty or not."""
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
