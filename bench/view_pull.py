# SPDX-License-Identifier: Apache-2.0
"""How long a pull query by key takes on a view of a million rows.

Random keys are pulled one at a time by one thread: of a quiet view, while a writer applies
batches as fast as it can, with more threads beside it, and as of an earlier batch.
Then the batches themselves: how long one takes from `apply` to its return, the sync of the
disk included.

    python bench/view_pull.py                        # under a minute
    python bench/view_pull.py --rows 100000 --pulls 2000
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyflinklike.views import MaterializedView


def row(key: int, number: int) -> dict[str, Any]:
    """About 100 bytes: a few columns as a serving view has them."""
    return {
        "user": f"user-{key:08}",
        "orders": number,
        "spent": number * 1.25,
        "city": "Copenhagen",
        "last_seen": 1_700_000_000_000 + number,
    }


def pulls(get: Callable[[str], Any], rows: int, count: int, seed: int) -> list[float]:
    """The times of so many pulls, in ms."""
    choice = random.Random(seed)
    times = []
    for _ in range(count):
        key = f"user-{choice.randrange(rows):08}"
        begin = time.perf_counter()
        found = get(key)
        times.append((time.perf_counter() - begin) * 1_000)
        if found["user"] != key:
            raise AssertionError(found)
    return times


class Batches(threading.Thread):
    """Applies batches of random updates until it is stopped."""

    def __init__(self, view: MaterializedView, rows: int, size: int) -> None:
        super().__init__()
        self.view, self.rows, self.size = view, rows, size
        self.times: list[float] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        choice = random.Random(7)
        number = (self.view.freshness.batch_id or 0) + 1
        while not self.stopping.is_set():
            batch = [row(choice.randrange(self.rows), number) for _ in range(self.size)]
            begin = time.perf_counter()
            self.view.apply(batch, number)
            self.times.append((time.perf_counter() - begin) * 1_000)
            number += 1

    def __enter__(self) -> Batches:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.join()


def figures(what: str, times: list[float]) -> str:
    """One line: the least, the median and the 99th percentile."""
    ordered = sorted(times)
    median, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    return f"{what:<42}{ordered[0]:>9.3f}{median:>9.3f}{p99:>9.3f}{len(ordered):>9}"


def readers(view: MaterializedView, rows: int, count: int, threads: int) -> list[float]:
    """Pulls by several threads at once."""
    found: list[list[float]] = [[] for _ in range(threads)]

    def read(number: int) -> None:
        found[number] = pulls(view.get, rows, count, number)

    started = [threading.Thread(target=read, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return [each for times in found for each in times]


def measured(directory: Path, rows: int, count: int, batch: int) -> Iterator[str]:
    """The lines of the report."""
    with MaterializedView("pulled", key="user", path=directory) as view:
        begin = time.perf_counter()
        view.apply((row(key, 0) for key in range(rows)), 0)
        seconds = time.perf_counter() - begin
        size = view.path.stat().st_size / 1_000_000
        yield f"{rows:,} rows in one batch: {seconds:.1f} s, {size:.0f} MB"
        yield f"{'ms':<42}{'min':>9}{'median':>9}{'p99':>9}{'n':>9}"
        yield figures("get, quiet", pulls(view.get, rows, count, 1))
        with Batches(view, rows, batch) as writer:
            yield figures("get, while batches are applied", pulls(view.get, rows, count, 2))
            yield figures("get, 4 threads beside the writer", readers(view, rows, count // 4, 4))
            while len(writer.times) < 3:
                time.sleep(0.1)
        before = view.freshness.batch_id or 0
        past = view.as_of(max(before - 2, 0))
        yield figures("as_of(two batches ago).get", pulls(past.get, rows, count, 3))
        yield figures(f"apply, {batch:,} random updates", writer.times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pull queries by key, measured.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pulls", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--path", type=Path, help="where to put the view; a temporary directory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.path) as directory:
        for line in measured(Path(directory), given.rows, given.pulls, given.batch):
            print(line, flush=True)


if __name__ == "__main__":
    main()
