# SPDX-License-Identifier: Apache-2.0
"""Drivers that read history first, killed in the batch and in the first micro-batches."""

from __future__ import annotations

import importlib.util

import pytest
from surroundings import REPOSITORY


@pytest.mark.parametrize("program", ["sessions", "chain"])
def test_a_driver_that_is_killed_gives_the_rows_of_one_pass(tmp_path, program):
    """The program is started again as it is; no row is lost, and none is there twice."""
    spec = importlib.util.spec_from_file_location(
        "history_first", REPOSITORY / "bench" / "history_first.py"
    )
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)

    found = bench.measure(tmp_path, 20_000, program, 200)

    assert found["equal"], found
    assert found["killed"][0]
