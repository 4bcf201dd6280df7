# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of a driver whose function has columns, and goes on as one of elements, and back."""

from __future__ import annotations

import time
from random import Random

import pytest
from fault_ledger import await_that, batches_of
from fault_lives import SETTINGS, kill, program
from fault_support import Place
from host_models import model_stream
from parity import ParityByElement
from spark_support import at

from pyflinklike import Row
from pyflinklike.testing import KeyedProcessHarness

SEED = 15
KILLS = 4


@pytest.mark.spark
def test_killed_drivers_of_both_kinds_of_functions_give_what_one_gives_element_by_element(
    tmp_path,
):
    """Timers and maps of one kind go on in the other, whatever the driver was at when it was killed."""
    random = Random(SEED)
    batches = batches_of(SEED, count=3 * KILLS, size=30)
    place = Place(tmp_path / "place")
    place.feed(*batches)
    log = tmp_path / "log"
    settings = {**SETTINGS, "spark.master": "local[2]"}
    for number in range(KILLS):
        job = {"root": place.root, "settings": settings, "in_columns": number % 2 == 0}
        with program("fault_columns_driver.py", job, log) as process:
            _let_live(process, place, random)
            ended = process.poll()
            kill(process)
        assert ended is None, f"it ended by itself\n{log.read_text()[-3_000:]}"
    job = {"root": place.root, "settings": settings, "in_columns": True}
    with program("fault_columns_driver.py", job, log) as process:
        assert 0 == process.wait(300), log.read_text()[-3_000:]

    expected = _expected(place.as_run(batches))
    assert (True, expected) == (len(expected) > 200, place.sunk())


def _let_live(process, place, random):
    """Wait until a batch or two more are begun, in the sink or committed; and then a little longer."""
    what, delay = random.choice(["offsets", "sink", "commits"]), random.uniform(0, 1)
    goal = place.entries(what) + random.randint(1, 2)
    await_that(lambda: process.poll() is not None or place.entries(what) >= goal)
    moment = time.monotonic() + delay
    await_that(lambda: time.monotonic() >= moment)


def _expected(batches):
    rows = [[Row(key=r.key, ts=at(r.ts), n=r.n) for r in batch] for batch in batches]
    with KeyedProcessHarness(ParityByElement(), lambda row: row.key) as harness:
        return sorted(model_stream(harness, rows, "ts").output)
