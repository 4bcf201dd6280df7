# SPDX-License-Identifier: Apache-2.0
"""Helpers of the suite's tests: tables of each shape, and an instance with all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import pytest

from pyflinklike._changelog.entry_codec import decode_entries, encode_entries
from pyflinklike._changelog.key_group_state import KeyedStateBackend
from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, Table, TableChanges, TableSpec
from pyflinklike.types import Types

_KEY_TYPE = Types.STRING()
SINGLE = TableSpec("single", Shape.SINGLE, "value", Types.STRING())
MAP = TableSpec("map", Shape.MAP, "map", Types.STRING(), Types.LONG())
LIST = TableSpec("list", Shape.LIST, "list", Types.STRING())
SPECS = [SINGLE, MAP, LIST]

SOME_USER_KEY = {"single": None, "map": 7, "list": 0}

of_each_shape = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)


@attrs.define
class Instance:
    """One keyed state backend with the working state of its groups."""

    backend: KeyedStateBackend
    tables: dict[str, Table]
    groups: dict[int, dict[str, Any]] = attrs.field(factory=dict)

    def enter(self, index: int) -> None:
        """Enter a key group, with its former working state if it was entered before."""
        self.backend.enter(index, self.groups.setdefault(index, {}))

    def at(self, key: Any) -> None:
        """Make a key current."""
        self.backend.current.key = key

    def fill(self, spec: TableSpec, *keys: str) -> None:
        """Put one entry under each key, whose value is the name of the key."""
        for key in keys:
            self.at(key)
            self.tables[spec.name].put(SOME_USER_KEY[spec.name], key)

    def drain(self) -> list[TableChanges]:
        """Return the changes of all tables that have changed."""
        return [changes for changes in self.backend.drain() if len(changes)]

    def apply(self, changes: Iterable[TableChanges]) -> None:
        """Apply the changes of another instance."""
        for each in changes:
            self.backend.apply(each)

    def contents(self) -> dict[str, dict[str, dict[Any, Any]]]:
        """Return every entry of the group by table, key and user key; the order does not count."""
        found: dict[str, dict[str, dict[Any, Any]]] = {}
        for changes in self.backend.contents():
            assert [] == changes.cleared
            for key, user_key, entry in zip(changes.keys, changes.user_keys, changes.entries):
                entries = found.setdefault(changes.spec.name, {}).setdefault(key, {})
                assert user_key not in entries
                entries[user_key] = entry
        return found


class ConformanceTests:
    """The base of all tests: the backend under test, and two instances of it."""

    def state_backend(self) -> StateBackend:
        """Return a new configuration of the backend under test, equal at every call."""
        raise NotImplementedError

    def _open(self, specs: Iterable[TableSpec] = SPECS) -> Instance:
        backend = self.state_backend().create_keyed_state_backend(CurrentKey(), "tested")
        instance = Instance(backend, {spec.name: backend.table(spec) for spec in specs})
        instance.enter(0)
        return instance

    @pytest.fixture
    def one(self) -> Iterator[Instance]:
        """Yield a backend with a table of each shape, in key group 0, under the key "k"."""
        instance = self._open()
        instance.at("k")
        yield instance
        instance.backend.close()

    @pytest.fixture
    def other(self) -> Iterator[Instance]:
        """Yield a second backend with the same tables, independent of the first."""
        instance = self._open()
        instance.at("k")
        yield instance
        instance.backend.close()


def through_bytes(changes: TableChanges) -> TableChanges:
    """Encode changes into a segment, and decode them again."""
    (payload,) = encode_entries(changes, _KEY_TYPE)
    section = Section(Declaration.of(changes.spec, _KEY_TYPE), payload)
    return decode_entries(section, changes.spec, _KEY_TYPE, 0, "conformance")
