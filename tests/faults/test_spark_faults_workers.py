# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of Python workers in the middle of a batch: Spark tries again, and nothing shows."""

from __future__ import annotations

import json

import pytest
from fault_ledger import batches_of, golden, with_fault
from fault_lives import Job, run
from fault_support import Place

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

SEED = 5


@pytest.mark.spark
def test_a_worker_killed_in_mid_batch_is_made_good_by_the_next_attempt(tmp_path):
    """Killed once, and then as often as Spark tries, on both backends: the sink holds every record once."""
    batches = batches_of(SEED, count=6)
    batches[1] = with_fault(batches[1], "kill:once:1")
    # Two tasks die; one of them for the fourth time, which is the last that Spark allows.  Each
    # attempt takes two kills: after its keeper the worker itself goes on.
    batches[3] = with_fault(batches[3], "kill:fifteen:15")
    places = {name: Place(tmp_path / name) for name in ("heap", "rocksdb")}
    for place in places.values():
        place.feed(*batches)
    run(
        Job(
            [(place.root, name) for name, place in places.items()],
            {"spark.master": "local[2,4]"},
            tries=2,
        ),
        tmp_path / "log",
    )

    for place in places.values():
        assert golden(batches) == place.sunk()
        # More than one kill of the second kind was survived before that.
        assert {"once.0", *(f"fifteen.{time}" for time in range(8))} <= {
            marker.name for marker in place.markers.iterdir()
        }
        (error,) = map(json.loads, (place.root / "errors").read_text().splitlines())
        assert "failed 4 times" in error
        assert "worker" in error
