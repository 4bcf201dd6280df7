# SPDX-License-Identifier: Apache-2.0
"""Gets over HTTP from a savepoint: beside clients that wait, and with a cache that is too small.

    python bench/http_serve.py [KEYS]

It needs neither Spark nor Java.  The server is uvicorn, as in `pyflinklike state serve`, in a
thread of this process, so the figures include the client's time.  A savepoint has one key group,
which stays decoded.  So the second part asks the tests' query of 32 key groups, which runs without
Spark, through the application and without a socket.
"""

from __future__ import annotations

import asyncio
import http.client
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.queryable_state import QueryableState
from pyflinklike.queryable_state.http import app
from pyflinklike.state_processor import write_savepoint
from pyflinklike.testing import KeyedProcessHarness

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from asgi_support import answer_of, serving
from replica_support import FollowedQuery, replica_of

GETS, WAITING = 2_000, 50


class Total(KeyedProcessFunction):
    """A sum of each key."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + 1)
        return []


def shown(what: str, times: list[float]) -> None:
    """Print the middle and the slow end, in ms."""
    cuts = quantiles(times, n=100)
    sys.stdout.write(f"{what:<44} p50 {cuts[49] * 1000:8.2f} ms  p99 {cuts[98] * 1000:8.2f} ms\n")


def asked(port: int, count: int, keys: int, path: str = "/states/total?key=k{}") -> list[float]:
    """How long each of some gets takes, over one connection each."""
    times = []
    for at in range(count):
        begun = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", path.format(at % keys))
        connection.getresponse().read()
        connection.close()
        times.append(time.perf_counter() - begun)
    return times


def waiting(port: int, done: threading.Event, answers: list[int]) -> None:
    """A client that waits for a batch that never comes, again and again."""
    while not done.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/states/total?key=k1&at_least_batch=9&timeout=1000")
        answers.append(connection.getresponse().status)
        connection.close()
        done.wait(0.2)


def beside(path: Path, keys: int, max_waiting: int) -> None:
    """Gets with and without clients that wait."""
    with (
        QueryableState.open_savepoint(path) as state,
        serving(app(state, max_waiting=max_waiting)) as address,
    ):
        port = int(address.rpartition(":")[2])
        asked(port, 100, keys)
        shown("gets alone", asked(port, GETS, keys))
        done = threading.Event()
        answers: list[int] = []
        clients = [
            threading.Thread(target=waiting, args=(port, done, answers)) for _ in range(WAITING)
        ]
        for each in clients:
            each.start()
        shown(f"beside {WAITING} waiting, max_waiting={max_waiting}", asked(port, GETS, keys))
        done.set()
        for each in clients:
            each.join()


def of_cache(keys: int) -> None:
    """Gets with all key groups decoded, and with room for half of them, in turn and at random."""
    query = FollowedQuery([ValueStateDescriptor("total", Types.LONG())], max_parallelism=32)
    query.batch([(f"k{at}", lambda on: on["total"].update(1)) for at in range(keys)])
    groups = [
        next(f"k{at}" for at in range(keys) if query.group_of(f"k{at}") == g) for g in range(32)
    ]
    in_turn = [groups[at % 32] for at in range(GETS // 4)]
    chosen = Random(1)
    at_random = [chosen.choice(groups) for _ in in_turn]
    with replica_of(query) as whole:
        called(app(whole), groups)
        size = whole.metrics.decoded_bytes
        shown("cache large enough", called(app(whole), in_turn))
    for what, some in (("in turn", in_turn), ("at random", at_random)):
        with replica_of(query, cache_bytes=size // 2) as half:
            called(app(half), groups)
            shown(f"cache too small by half, {what}", called(app(half), some))


def called(application: Any, keys: list[str]) -> list[float]:
    """How long each of these gets takes."""

    async def call() -> list[float]:
        times = []
        for key in keys:
            begun = time.perf_counter()
            await answer_of(application, "/states/total", f"key={key}".encode())
            times.append(time.perf_counter() - begun)
        return times

    return asyncio.run(call())


def main() -> None:
    """All figures."""
    keys = int(sys.argv[1]) if sys.argv[1:] else 20_000
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "saved")
        with KeyedProcessHarness(Total(), lambda each: each, key_type=Types.STRING()) as harness:
            harness.process_elements([(f"k{at}", None) for at in range(keys)])
            write_savepoint(harness, path)
        beside(path, keys, 16)
        beside(path, keys, WAITING)
    of_cache(keys)


if __name__ == "__main__":
    main()
