# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of a query's driver while replicas in this process follow its checkpoint.

The query has every kind of state and store.  It keeps three batches only, changes its backend, and
how its logs are compacted, from one life to the next.  Whatever a replica is asked, it answers what
a harness says of the records up to the batch it names, whole batches only.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from all_states import HEAVY, SCHEMA, answers, model
from asgi_support import serving
from fault_ledger import await_that
from fault_lives import SETTINGS, kill, program
from spark_support import Feed

from pyflinklike.queryable_state import QueryableState
from pyflinklike.queryable_state.http import app
from pyflinklike.state_processor import read_heads

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

USERS = [f"u{number}" for number in range(6)]
LIVES = [("heap", 0), ("rocksdb", 1), ("heap", 0)]
"""Of each life: the backend, and after how many ms logs are compacted for their age."""
FILES, SPARED = 8, 2
"""What is fed to a life, and how much of it is left when it is killed, or is being read."""
SMALL = {
    "spark.master": "local[1]",
    "spark.sql.streaming.minBatchesToRetain": "3",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
}


def records(number: int) -> list[tuple[str, int]]:
    """Of a file: the heavy user has one in each, the others in most."""
    users = [user for at, user in enumerate(USERS) if user == HEAVY or (at + number) % 3]
    return [(user, number + 1) for user in users]


@functools.cache
def expected(files: int) -> object:
    """What a harness says after so many files."""
    return model([records(number) for number in range(files)], USERS)


class Seen:
    """How many files each batch was seen to have read, and what went wrong on the way."""

    def __init__(self) -> None:
        self.files: dict[int, set[int]] = {}
        self.failures: list[BaseException] = []
        self.done = threading.Event()

    def check(self, at: object) -> None:
        """Compare all that a snapshot says."""
        files = at.store("shared").get(HEAVY)
        assert expected(files) == answers(at, USERS), at.position
        self.files.setdefault(at.position.batch_id, set()).add(files)

    def again(self, act: Callable[[], object], pause: float) -> None:
        """Until it is over or fails."""
        try:
            while not self.done.wait(pause):
                act()
        except BaseException as error:
            self.failures.append(error)


@contextlib.contextmanager
def reading(seen: Seen, state: object) -> Iterator[None]:
    """Within it eight threads ask a replica, and one over HTTP."""

    def read() -> None:
        with state.snapshot() as at:
            seen.check(at)

    with serving(app(state)) as address:

        def fetch() -> None:
            with urllib.request.urlopen(f'{address}/states/mean?key="{HEAVY}"') as answer:
                total, files = json.load(answer)["value"]
                batch_id = int(answer.headers["X-Batch-Id"])
            assert files * (files + 1) // 2 == total
            seen.files.setdefault(batch_id, set()).add(files)

        threads = [threading.Thread(target=seen.again, args=(read, 0.4)) for _ in range(8)]
        threads.append(threading.Thread(target=seen.again, args=(fetch, 0.1)))
        for each in threads:
            each.start()
        try:
            yield
        finally:
            seen.done.set()
            for each in threads:
                each.join()


def test_replicas_of_a_query_that_is_killed_answer_as_a_harness(spark, tmp_path):
    """From another process, over purged batches and both reasons to compact, and over HTTP."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    checkpoint, log, seen = tmp_path / "checkpoint", tmp_path / "log", Seen()

    def committed() -> int:
        return max((int(each.name) for each in checkpoint.glob("commits/[0-9]*")), default=-1)

    with contextlib.ExitStack() as open_ones:
        for life, (backend, compacted_every) in enumerate(LIVES):
            fed = list(map(records, range(FILES * life, FILES * (life + 1))))
            feed.add(*fed[:2])
            is_last = life == len(LIVES) - 1
            job = {
                "input": tmp_path / "input",
                "checkpoint": checkpoint,
                "backend": backend,
                "compacted_every": compacted_every,
                "ends": is_last,
                "settings": SETTINGS | SMALL,
            }
            with program("replica_driver.py", job, log) as process:
                goal = committed() + FILES - SPARED
                if life == 0:
                    await_that(lambda: process.poll() is not None or committed() > 0)
                    enter = open_ones.enter_context
                    slow = enter(
                        QueryableState.open(spark, checkpoint, refresh=None, allow_scan=True)
                    )
                    fast = enter(
                        QueryableState.open(spark, checkpoint, refresh=50, allow_scan=True)
                    )
                    first = enter(slow.snapshot())
                    seen.check(first)
                    enter(reading(seen, fast))
                feed.add(*fed[2:])
                if not is_last:
                    await_that(lambda g=goal: process.poll() is not None or committed() >= g)
                    assert process.poll() is None, log.read_text()[-3_000:]
                    kill(process)
                else:
                    assert process.wait(240) == 0, log.read_text()[-3_000:]
            # What it needs to follow is gone by now.
            assert slow.refresh()
            with slow.snapshot() as at:
                seen.check(at)
        await_that(lambda: seen.failures or fast.position.batch_id == committed())
        seen.check(first)
        with fast.snapshot(max_age=0) as at:
            seen.check(at)
        assert [] == seen.failures
    assert all(len(each) == 1 for each in seen.files.values()), seen.files
    told = [max(files) for _, files in sorted(seen.files.items())]
    assert told == sorted(told)
    assert told[-1] == FILES * len(LIVES)
    assert slow.metrics.reopens == len(LIVES)
    heads = read_heads(spark, checkpoint).collect()
    assert all(head.snapshot_bytes for head in heads)
