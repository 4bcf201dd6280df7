# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of the driver, ten times, each followed by a restart from the checkpoint."""

from __future__ import annotations

import time
from itertools import chain
from random import Random

import pytest
from fault_ledger import await_that, batches_of, golden
from fault_lives import Job, driver, kill, run
from fault_support import Place

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

SEED = 9
KILLS = 10


def _let_live(process, place, what, more, delay):
    """Wait until so many batches more are begun, in the sink or committed; and then a little longer."""
    goal = place.entries(what) + more
    await_that(lambda: process.poll() is not None or place.entries(what) >= goal)
    moment = time.monotonic() + delay
    await_that(lambda: time.monotonic() >= moment)


@pytest.mark.spark
def test_a_driver_killed_ten_times_loses_nothing_and_doubles_nothing(tmp_path):
    """Whatever a driver was at when it was killed, and on whatever backend it goes on, the sink ends with each record once."""
    random = Random(SEED)
    batches = batches_of(SEED, count=3 * KILLS)
    place = Place(tmp_path / "place")
    place.feed(*batches)
    log, moments = tmp_path / "log", []

    def job():
        backend = random.choice(["heap", "rocksdb"])
        moments.append(backend)
        return Job([(place.root, backend)], {"spark.master": "local[1]"})

    for _ in range(KILLS):
        with driver(job(), log) as process:
            what, more = random.choice(["offsets", "sink", "commits"]), random.randint(1, 2)
            delay = random.choice([0, random.uniform(0, 0.2), random.uniform(0, 1)])
            moments.append(f"{what} + {more}, {delay:.3f} s later")
            _let_live(process, place, what, more, delay)
            ended = process.poll()
            kill(process)
        assert ended is None, f"it ended by itself: {moments}\n{log.read_text()[-3_000:]}"
    run(job(), log)

    run_batches = place.as_run(batches)
    assert sorted(chain(*batches)) == sorted(chain(*run_batches))
    assert golden(run_batches) == place.sunk(), f"seed {SEED}: {moments}"
