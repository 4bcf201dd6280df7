# SPDX-License-Identifier: Apache-2.0
"""A backend of one's own, made from `KeyedBackend` with as little as the how-to page says."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import settings

pytest.register_assert_rewrite("pyflinklike.conformance", "agreement")

from agreement import agreement_machine  # noqa: E402

from pyflinklike import HashMapStateBackend, StateBackend  # noqa: E402
from pyflinklike._changelog.key_group_state import (  # noqa: E402
    KeyedStateBackend,
    KeyGroupState,
    LocalStateBackend,
)
from pyflinklike.backends.heap.dict_tables import HeapTableData  # noqa: E402
from pyflinklike.backends.heap.ordered_tables import new_table  # noqa: E402
from pyflinklike.backends.state_backend import KeyedBackend  # noqa: E402
from pyflinklike.conformance import StateBackendConformance  # noqa: E402
from pyflinklike.state.current_key import CurrentKey  # noqa: E402
from pyflinklike.state.table import Shape, TableSpec  # noqa: E402
from pyflinklike.types import Types  # noqa: E402

VALUE = TableSpec("value", Shape.SINGLE, "value", Types.STRING())


class ColdKeyedBackend(KeyedBackend):
    """Tables over dicts, of which nothing is kept between batches."""

    def new_table(self, spec):
        return new_table(spec, self.current)

    def new_data(self, spec):
        return HeapTableData(spec)

    def point(self, table, index, data):
        table.point_at(data)


@attrs.frozen
class ColdStateBackend(StateBackend):
    """Makes these."""

    def create_keyed_state_backend(self, current, owner):
        return ColdKeyedBackend(current, owner)


class TestColdStateBackend(StateBackendConformance):
    """It is a backend in every respect."""

    def state_backend(self) -> StateBackend:
        """The smallest there is."""
        return ColdStateBackend()


TestAgreement = agreement_machine(HashMapStateBackend(), ColdStateBackend()).TestCase
# The tables are those of the heap, which has a machine of its own.
TestAgreement.settings = settings(
    stateful_step_count=40, max_examples=max(settings().max_examples // 5, 3)
)


@pytest.fixture
def backend() -> KeyedStateBackend:
    """One in key group 5."""
    backend = ColdKeyedBackend(CurrentKey("k"), "query/0")
    backend.enter(5, {})
    return backend


def test_nothing_is_kept_warm_unless_a_backend_says_so(backend):
    """Each batch rebuilds its groups from the log."""
    backend.cache(KeyGroupState(5, bytes(16)))

    assert None is backend.pop_cached(5)


def test_working_state_is_in_memory_unless_a_backend_says_so(backend):
    """And cannot be damaged."""
    assert (False, False) == (backend.is_persistent, isinstance(backend, LocalStateBackend))


def test_data_is_put_where_the_runtime_keeps_it(backend):
    """Under the name of each table, also of one that is declared after the group was entered."""
    tables = {}
    backend.enter(6, tables)
    backend.table(VALUE).put(None, "v")

    assert ["value"] == list(tables)
    assert {"k": "v"} == tables["value"].entries


def test_a_table_is_made_once(backend):
    """Whoever asks for it again gets the same one."""
    assert backend.table(VALUE) is backend.table(VALUE)
