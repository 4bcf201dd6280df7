# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of a driver that runs operators behind each other: nothing is late that was not, and nothing is lost."""

from __future__ import annotations

import time
from random import Random

import pytest
from fault_ledger import await_that, batches_of
from fault_lives import SETTINGS, kill, program
from fault_support import Place
from host_models import model_stream
from relay import Relay, milliseconds, relays
from spark_support import at

from pyflinklike import Row

SEED = 11
KILLS = 6


@pytest.mark.spark
def test_a_chain_whose_driver_is_killed_gives_what_it_gives_element_by_element(tmp_path):
    """Whatever the driver was at, with the watermark under which each record was processed."""
    random = Random(SEED)
    batches = batches_of(SEED, count=3 * KILLS, size=30)
    place = Place(tmp_path / "place")
    place.feed(*batches)
    log = tmp_path / "log"
    job = {"root": place.root, "settings": {**SETTINGS, "spark.master": "local[2]"}}
    for _ in range(KILLS):
        with program("fault_chain_driver.py", job, log) as process:
            _let_live(process, place, random)
            ended = process.poll()
            kill(process)
        assert ended is None, f"it ended by itself\n{log.read_text()[-3_000:]}"
    with program("fault_chain_driver.py", job, log) as process:
        assert 0 == process.wait(300), log.read_text()[-3_000:]

    assert _expected(place.as_run(batches)) == place.sunk()


def _let_live(process, place, random):
    """Wait until a batch or two more are begun, in the sink or committed; and then a little longer."""
    what, delay = random.choice(["offsets", "sink", "commits"]), random.uniform(0, 1)
    goal = place.entries(what) + random.randint(1, 2)
    await_that(lambda: process.poll() is not None or place.entries(what) >= goal)
    moment = time.monotonic() + delay
    await_that(lambda: time.monotonic() >= moment)


def _expected(batches):
    rows = [[Row(key=r.key, ts=at(r.ts), n=r.n, trace="") for r in batch] for batch in batches]
    outputs = model_stream(relays([Relay(4), Relay(4)]), rows, "ts").output
    return sorted((key, milliseconds(time), n, trace) for key, time, n, trace in outputs)
