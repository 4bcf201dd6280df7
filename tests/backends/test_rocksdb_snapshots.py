# SPDX-License-Identifier: Apache-2.0
"""A snapshot moves between the heap and RocksDB."""

from __future__ import annotations

import pytest
from rocksdb_tasks import Everything, in_directory

from pyflinklike import HashMapStateBackend
from pyflinklike.testing import KeyedProcessHarness


@pytest.mark.parametrize("backwards", [False, True])
def test_a_snapshot_moves_between_backends(tmp_path, backwards):
    """Both ways, and the function goes on as if nothing had happened."""
    backends = [HashMapStateBackend(), in_directory(tmp_path)]
    if backwards:
        backends.reverse()
    selector = lambda value: value % 2  # noqa: E731
    with (
        KeyedProcessHarness(Everything(), selector, state_backend=backends[0]) as before,
        KeyedProcessHarness(Everything(), selector) as model,
    ):
        for value in range(10):
            assert model.process_element(value) == before.process_element(value)
        with KeyedProcessHarness(
            Everything(), selector, state_backend=backends[1], restore=before.snapshot()
        ) as after:
            for value in range(5, 15):
                assert model.process_element(value) == after.process_element(value)
            assert sorted(model.process_watermark(99)) == sorted(after.process_watermark(99))
