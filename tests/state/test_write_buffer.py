# SPDX-License-Identifier: Apache-2.0
"""Writes of a call wait until it has succeeded, and leave nothing behind if it fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Shape, TableSpec
from pyflinklike.state.write_buffer import BufferedTables
from pyflinklike.types import Types

SINGLE = TableSpec("single", Shape.SINGLE, "value", Types.LONG())
MAP = TableSpec("map", Shape.MAP, "map", Types.LONG(), Types.LONG())
LIST = TableSpec("list", Shape.LIST, "list", Types.LONG())
ORDERED = TableSpec(
    "ordered", Shape.MAP, "ordered", Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE()), ordered=True
)
NAMESPACED = attrs.evolve(MAP, name="namespaced", namespace_type=Types.LONG())
OF_GROUP = attrs.evolve(MAP, name="of group", per_group=True)
SPECS = [SINGLE, MAP, LIST, ORDERED, NAMESPACED, OF_GROUP]

_NAMES = {
    "single": [None],
    "list": [0, 1, 2, 3],
    "ordered": [b"a", b"b", b"c"],
}


@attrs.define
class Tables:
    """A backend with tables of every kind, behind a write buffer or not."""

    backend: Any
    tables: Any
    write_buffer: Any = None

    @classmethod
    def of(cls, backend: StateBackend, *, buffered: bool) -> Tables:
        """Open a backend in key group 0."""
        made = backend.create_keyed_state_backend(CurrentKey(), "tested")
        maker = BufferedTables(made) if buffered else made
        opened = cls(made, {spec.name: maker.table(spec) for spec in SPECS})
        made.enter(0, {})
        if buffered:
            opened.write_buffer = maker.write_buffer
        return opened

    def do(self, step: tuple[Any, ...]) -> Any:
        """Take one step of a call, and return what it reads."""
        key, namespace, name, verb, at, value = step
        current = self.backend.current
        current.key, current.namespace = key, namespace
        table = self.tables[name]
        if name == "list" and verb in ("put", "multi_put") and table.get(at) is MISSING:
            return None  # only what was read is put anew
        if verb == "put":
            return table.put(at, value)
        if verb == "append":
            return table.append(value) if name == "list" else table.put(at, value)
        if verb == "multi_put":
            return table.multi_put([(at, value), (at, value + 1)])
        if verb == "delete":
            return table.delete(at)
        if verb == "clear":
            return table.clear()
        if verb == "get":
            return table.get(at), table.multi_get([at])
        if verb == "range" and name == "ordered":
            return list(table.range(at, None, limit=1)), list(table.range(None, at, backwards=True))
        if verb == "scan":
            return sorted(table.scan(), key=repr), table.count()
        # The order of a map is its own affair; that of a list is told.
        items = list(table.items())
        return items if name == "list" else sorted(items, key=repr), table.is_empty()


def contents(tables: Tables) -> Any:
    """Return all entries of the backend, by table."""
    return {
        each.spec.name: sorted(zip(each.keys, each.user_keys, each.entries), key=repr)
        for each in tables.backend.contents()
        if len(each)
    }


def logged(tables: Tables) -> Counter[Any]:
    """Count the entries that the next commit would log."""
    return Counter(
        (each.spec.name, *row)
        for each in tables.backend.drain()
        for row in zip(each.keys, each.user_keys, each.entries)
    )


@st.composite
def steps(draw: Any) -> tuple[Any, ...]:
    """Draw a step of a call."""
    name = draw(st.sampled_from([each.name for each in SPECS]))
    verbs = ["put", "put", "append", "append", "multi_put", "delete", "delete", "clear"]
    reads = ["get", "items", "items", "range", "scan"]
    return (
        draw(st.sampled_from("ab")),
        draw(st.integers(0, 1)),
        name,
        draw(st.sampled_from(verbs + reads)),
        draw(st.sampled_from(_NAMES.get(name, [0, 1, 2]))),
        draw(st.integers(0, 9)),
    )


def backends() -> list[StateBackend]:
    """Return both backends."""
    return [HashMapStateBackend(), EmbeddedRocksDBStateBackend()]


PUT, DELETE = (("a", 0, "map", verb, 0, 0) for verb in ("put", "delete"))


@pytest.mark.parametrize("backend", backends(), ids=["heap", "rocksdb"])
@settings(deadline=None)
@given(calls=st.lists(st.tuples(st.lists(steps(), max_size=8), st.booleans()), max_size=8))
@example(calls=[([PUT, DELETE], True), ([PUT], True), ([DELETE], True)])
def test_calls_that_fail_are_as_if_they_had_not_been(backend, calls):
    """What is read, kept and logged is that of the calls that succeeded."""
    buffered, plain = Tables.of(backend, buffered=True), Tables.of(backend, buffered=False)
    write_buffer = buffered.write_buffer
    try:
        for made, succeeds in calls:
            write_buffer.is_open = True
            for step in made:
                got = buffered.do(step)
                if succeeds:
                    assert plain.do(step) == got
            if succeeds:
                write_buffer.commit()
            else:
                write_buffer.drop()
        write_buffer.is_open = False
        assert contents(plain) == contents(buffered)
        told, expected = logged(buffered), logged(plain)
        assert told <= expected
        # If a call puts an entry and deletes it again, the buffer need not log the deletion.
        assert {entry for *_, entry in expected - told} <= {MISSING}
    finally:
        buffered.backend.close()
        plain.backend.close()


def test_nothing_is_staged_outside_a_call():
    """Whoever writes between calls, as a flush of stores does, writes at once."""
    buffered = Tables.of(HashMapStateBackend(), buffered=True)
    buffered.do(("a", 0, "single", "put", None, 1))
    assert {"single": [("a", None, 1)]} == contents(buffered)


def test_changes_beside_tables_wait():
    """A change that waits is made when the call has succeeded, and never for a call that fails."""
    write_buffer = Tables.of(HashMapStateBackend(), buffered=True).write_buffer
    made: list[str] = []
    for name, succeeds in (("first", True), ("second", False), ("third", True)):
        write_buffer.is_open = True
        write_buffer.do_later(lambda name=name: made.append(name))
        write_buffer.commit() if succeeds else write_buffer.drop()
    assert ["first", "third"] == made
