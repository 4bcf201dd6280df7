# SPDX-License-Identifier: Apache-2.0
"""Windows by groups of a micro-batch over record by record, in one process without Spark.

    python bench/window_groups.py              # some two minutes
    python bench/window_groups.py --keys 500 --rounds 3

Both ways serve the same micro-batches in turns, on a log in memory; the time is of the CPU.
`records` is what putting records into windows takes, `batch` a whole micro-batch of the key group:
load, timers, records, and the commit.
"""

from __future__ import annotations

import argparse
import gc
import uuid
from functools import partial
from statistics import median
from time import process_time
from typing import Any

from windowed import Count

from pyflinklike import HashMapStateBackend, Row, Types
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.invokers import UserFunctionInvoker
from pyflinklike._runtime.micro_batch import Records, serve
from pyflinklike.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    window,
)

PANES = 10
FIRST = 1_700_000_000_000
_ROW = Types.ROW_NAMED(["user", "ts"], [Types.STRING(), Types.LONG()])


class Length(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [(key, len(elements))]


def _assigner(kind: str, span: int, keys: int) -> Any:
    """Windows that have all records of a key in a micro-batch, which takes `span` ms."""
    if kind == "tumbling":
        return TumblingEventTimeWindows.of(span, FIRST % span)
    if kind == "sliding":
        return SlidingEventTimeWindows.of(PANES * span, span, FIRST % span)
    return EventTimeSessionWindows.with_gap(2 * keys)


def _function(kind: str, contents: str, span: int, keys: int) -> Any:
    windowed = window(_assigner(kind, span, keys), _ROW)
    if contents == "elements":
        return windowed.process(Length())
    return windowed.aggregate(Count(), accumulator_type=Types.LONG())


class Way:
    """One key group, served in one way.

    Args:
        function: The windows.
        together: Whether records go into windows together.
    """

    def __init__(self, function: Any, *, together: bool) -> None:
        self.operator = make_keyed_operator(
            OperatorDeclaration(
                function,
                HashMapStateBackend(),
                Types.STRING(),
                TaskInfo("windows", max_parallelism=1),
                str(uuid.uuid4()),
            )
        )
        self.operator.open()
        self.store = InMemoryLogStorage()
        operator: Any = self.operator
        calls = operator._calls
        process = calls.process if together else partial(UserFunctionInvoker.process, calls)
        self.spent = 0.0

        def timed(*records: Any) -> None:
            began = process_time()
            process(*records)
            self.spent += process_time() - began

        operator.process = timed

    def serve(self, records: Records) -> tuple[float, float, list[Any]]:
        """Serve a micro-batch; return the seconds of its records, of all, and the outputs."""
        (first, *_) = records.timestamps
        assert first is not None
        self.operator.clock.watermark = first - 1
        self.spent, began = 0.0, process_time()
        serve(self.operator, self.store, 0, records)
        self.operator.group.cache()
        spent = process_time() - began
        return self.spent, spent, sorted(self.operator.outputs.take().main)


def _records(batch: int, keys: int, each: int) -> Records:
    count = keys * each
    names = [f"user{number % keys}" for number in range(count)]
    times = [FIRST + batch * count + number for number in range(count)]
    return Records(names, [Row(user=name, ts=at) for name, at in zip(names, times)], times)


def measure(kind: str, contents: str, keys: int, each: int, rounds: int) -> None:
    """Print the line of one kind of windows."""
    make = partial(_function, kind, contents, keys * each, keys)
    ways = [Way(make(), together=together) for together in (True, False)]
    records: list[list[float]] = [[], []]
    whole: list[list[float]] = [[], []]
    for batch in range(rounds + PANES + 1):
        given = _records(batch, keys, each)
        order = (0, 1) if batch % 2 else (1, 0)
        outputs: dict[int, Any] = {}
        for way in order:
            one, all_of_it, outputs[way] = ways[way].serve(given)
            if batch > PANES:  # until then there are fewer windows than later
                records[way].append(one / len(given.keys) * 1e6)
                whole[way].append(all_of_it / len(given.keys) * 1e6)
        assert outputs[0] == outputs[1], "both ways give the same"
    shown = []
    for name, (together, single) in (("records", records), ("batch", whole)):
        ratios = sorted(one / other for one, other in zip(single, together))
        shown.append(
            f"{name} {median(single):6.2f} us / {median(together):5.2f} us = {median(ratios):5.2f}x "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )
    print(f"{kind:9} {contents:8} {'   '.join(shown)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--each", type=int, default=20, help="records of a key in a micro-batch")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    gc.disable()  # as pyflinklike does while it serves a key group
    print("a record by itself / together, CPU a record; median of the ratios (least to greatest)")
    for kind in ("tumbling", "sliding", "session"):
        for contents in ("count", "elements"):
            measure(kind, contents, given.keys, given.each, given.rounds)


if __name__ == "__main__":
    main()
