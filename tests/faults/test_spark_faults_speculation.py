# SPDX-License-Identifier: Apache-2.0
"""Two attempts of one task of one batch side by side, as Spark's speculation starts them."""

from __future__ import annotations

import pytest
from fault_ledger import batches_of, golden, with_fault
from fault_lives import Job, run
from fault_support import Place

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

SEED = 4
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
    "spark.locality.wait": "0",
    "spark.python.task.killTimeout": "100ms",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
}


@pytest.mark.spark
def test_of_two_attempts_side_by_side_one_counts(tmp_path):
    """The first wins, the second wins, or both run to their end: the sink holds every record once, on both backends."""
    batches = batches_of(SEED, count=5)
    races = ["second", "first", "both"]
    for number, winner in enumerate(races, 1):
        batches[number] = with_fault(batches[number], f"race:{winner}:{winner}", key="key 3")
    places = {name: Place(tmp_path / name) for name in ("heap", "rocksdb")}
    for place in places.values():
        place.feed(*batches)
    job = Job(
        [(place.root, name) for name, place in places.items()],
        SPECULATION,
        hosts=("127.0.0.1", "127.0.0.2"),
    )
    run(job, tmp_path / "log")

    for place in places.values():
        assert golden(batches) == place.sunk()
        # Each race was run by two.
        assert sorted(f"{race}.{one}" for race in races for one in ("first", "second")) == sorted(
            marker.name for marker in place.markers.iterdir()
        )
