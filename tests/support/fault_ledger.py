# SPDX-License-Identifier: Apache-2.0
"""A function that shows every lost or doubled record, and the same in plain Python.

A record may name a fault, which the function lets happen when it meets the record:

    kill:<id>:<times>   the worker is killed, the first so many times, once the task has committed
                        a key group and is in the middle of another
    executor:<id>:      the executor of the worker is killed, once, likewise
    fill:<id>:<path>    the disk under a path is filled, once, likewise
    late:<id>:          the first attempt waits for the marker <id>.go, however long others take
    race:<id>:<winner>  two attempts of the task wait for each other; then the "first", the
                        "second" or "both" go on, and one that shall lose waits to be killed
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from spark_support import pickle_by_value

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)

pickle_by_value(__name__)

OUTPUT = "key string, what string, count long, state string"
_WINDOW = 100
_FIRST_TIMES = 1_000_000
_POLL_SECONDS = 0.02
_PATIENCE = 120
_LONG_PATIENCE = 400


class Record(NamedTuple):
    """A record: key, time in ms, number, and the fault it brings."""

    key: str
    ts: int
    n: int
    fault: str = ""


Batch = list[Record]


def batches_of(seed: int, count: int, size: int = 60) -> list[Batch]:
    """Random micro-batches in which every key comes again and again, at different times.

    Records of one key and time come in the order of arrival, of which nothing is known where
    Spark reads two files in one micro-batch.
    """
    random = Random(seed)
    taken: set[tuple[str, int]] = set()
    batches = []
    for number in range(count):
        batch: Batch = []
        while len(batch) < size:
            key = f"key {random.randrange(12)}"
            ts = _FIRST_TIMES + number * _WINDOW + random.randrange(-_WINDOW // 2, _WINDOW)
            if (key, ts) not in taken:
                taken.add((key, ts))
                batch.append(Record(key, ts, random.randrange(100)))
        batches.append(batch)
    return batches


def with_fault(batch: Batch, fault: str, key: str | None = None) -> Batch:
    """The batch with a fault in every record, or in every one of a key."""
    return [
        record._replace(fault=fault) if key in (None, record.key) else record for record in batch
    ]


# The function, and the same in plain Python


class Ledger(KeyedProcessFunction):
    """Counts and sums per key, in four kinds of state and a timer; its rows show all of them.

    Args:
        markers: A directory that remembers which faults have struck.
    """

    groups_done = met = 0
    """Of this task: the processor of the test counts them."""

    def __init__(self, markers: Path) -> None:
        self.markers = markers

    def open(self, runtime_context: Any) -> None:
        self.attempt = runtime_context.get_attempt_number()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
        )
        self.parts = runtime_context.get_list_state(ListStateDescriptor("parts", Types.LONG()))
        self.marks = runtime_context.get_map_state(
            MapStateDescriptor("marks", Types.STRING(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.total.add(value.n)
        if count % 6 == 0:
            self.parts.clear()
        self.parts.add(value.n)
        if value.n % 4:
            self.marks.put(f"m{value.n % 4}", count)
        else:
            self.marks.remove("m1")
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + value.n)
        self.met += 1
        if value.fault and self.groups_done and self.met > 1:
            self._meet(*value.fault.split(":"))
        yield self._row(f"record {value.n}", ctx, count)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.marks.put("timer", timestamp)
        yield self._row(f"timer {timestamp}", ctx, count)

    def _row(self, what: str, ctx: Any, count: int) -> Any:
        state = self.total.get(), list(self.parts.get()), sorted(self.marks.items())
        return ctx.get_current_key(), what, count, repr(state)

    def _meet(self, kind: str, name: str, detail: str) -> None:
        if kind == "kill":
            if any(_first(self.markers / f"{name}.{time}") for time in range(int(detail))):
                os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "executor":
            if _first(self.markers / name):
                # The daemon that forks workers leads their group and that of keepers; above it is the JVM.
                os.kill(_parent_of(os.getpgrp()), signal.SIGKILL)
        elif kind == "fill":
            if _first(self.markers / name):
                fill_disk(Path(detail))
        elif kind == "late":
            if _first(self.markers / name):
                await_that((self.markers / f"{name}.go").exists, _LONG_PATIENCE)
        else:
            me, other = ("second", "first") if self.attempt else ("first", "second")
            _first(self.markers / f"{name}.{me}")
            await_that((self.markers / f"{name}.{other}").exists)
            if detail != "both" and detail != me:
                await_that(lambda: False)  # until Spark kills the attempt that lost


def golden(batches: Iterable[Batch]) -> list[tuple[Any, ...]]:
    """What `Ledger` must have put out after these batches, by plain Python; sorted."""
    rows: list[tuple[Any, ...]] = []
    counts: dict[str, int] = defaultdict(int)
    totals: dict[str, int] = defaultdict(int)
    parts: dict[str, list[int]] = defaultdict(list)
    marks: dict[str, dict[str, int]] = defaultdict(dict)
    timers: set[tuple[int, str]] = set()
    watermark = 0

    def put_out(key: str, what: str) -> None:
        state = totals[key], parts[key], sorted(marks[key].items())
        rows.append((key, what, counts[key], repr(state)))

    def fire() -> None:
        for due in sorted(timer for timer in timers if timer[0] <= watermark):
            timers.discard(due)
            timestamp, key = due
            counts[key] += 1
            marks[key]["timer"] = timestamp
            put_out(key, f"timer {timestamp}")

    for batch in [*batches, []]:
        fire()
        for key, ts, n, _ in sorted(batch, key=lambda record: record.ts):
            counts[key] += 1
            totals[key] += n
            if counts[key] % 6 == 0:
                parts[key] = []
            parts[key].append(n)
            if n % 4:
                marks[key][f"m{n % 4}"] = counts[key]
            else:
                marks[key].pop("m1", None)
            timers.add((ts + n, key))
            put_out(key, f"record {n}")
        fire()
        watermark = max([watermark, *(record.ts - 1 for record in batch)])
    return sorted(rows)


# Faults


def _first(marker: Path) -> bool:
    """Whether nobody was here before, in any process."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _parent_of(pid: int) -> int:
    # After the name, which may hold anything: state, parent.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def await_that(condition: Callable[[], object], patience: float = _PATIENCE) -> None:
    """Poll until something is so; an error where it never is."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("never happened")
        time.sleep(_POLL_SECONDS)


def fill_disk(directory: Path) -> None:
    """Leave not a byte free where a directory lies; `free_disk` undoes it."""
    with (directory / "ballast").open("ab", buffering=0) as ballast:
        for size in (65_536, 4_096, 1):
            with contextlib.suppress(OSError):
                while ballast.write(bytes(size)):
                    pass


def free_disk(directory: Path) -> None:
    """Give back what `fill_disk` took."""
    (directory / "ballast").unlink()
