# SPDX-License-Identifier: Apache-2.0
"""`UpsertState` on every backend in turn."""

import pytest
from index_support import MAKERS, needs_rocksdict

from pyflinklike.upsert.upsert_state import _Entries


@pytest.fixture
def nothing_stays_in_memory(monkeypatch):
    """A backend on disk reads from there whatever was used before."""
    monkeypatch.setattr(_Entries, "most_used", 0)


@pytest.fixture(
    params=["memory", *(pytest.param(n, marks=needs_rocksdict) for n in list(MAKERS)[1:])]
)
def state(request, tmp_path, nothing_stays_in_memory):
    """An empty `UpsertState` on each backend."""
    state = MAKERS[request.param](tmp_path)
    yield state
    state.close()
