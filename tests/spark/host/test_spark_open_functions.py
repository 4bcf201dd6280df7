# SPDX-License-Identifier: Apache-2.0
"""On Spark a function is opened once per worker and run of its query, not for every task."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from spark_support import Feed, drain, pickle_by_value

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.spark import key_by

pickle_by_value(__name__)


class Noting(KeyedProcessFunction):
    """Counts per key, and notes in a file that it was opened or closed, and by which process."""

    def __init__(self, notes: Path, accumulator=None):
        self.notes = notes
        self.accumulator = accumulator

    def note(self, what):
        with self.notes.open("a") as file:
            file.write(f"{what} {os.getpid()}\n")

    def open(self, runtime_context):
        self.note("open")
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        if self.accumulator is not None:
            self.accumulator.add(1)
        yield ctx.get_current_key(), self.count.value()

    def close(self):
        self.note("close")


KEYS = [f"k{i}" for i in range(20)]


def _noted(notes):
    return [tuple(line.split()) for line in notes.read_text().splitlines()]


@pytest.mark.classic(reason="accumulators need a classic session")
def test_a_function_with_an_accumulator_is_opened_for_every_task(spark, tmp_path):
    """Spark collects what an accumulator counts from the task that brought it: nothing of it is lost."""
    feed = Feed(spark, tmp_path / "input", "key string")
    notes = tmp_path / "notes"
    accumulator = spark.sparkContext.accumulator(0)
    result = key_by(feed.stream(), "key").process(
        Noting(notes, accumulator), "key string, n long", max_parallelism=4
    )

    feed.add(*[[(key,) for key in KEYS]] * 2)
    drain(result, tmp_path / "checkpoint")

    assert 2 * len(KEYS) == accumulator.value
    assert {"open": 4, "close": 4} == Counter(what for what, _ in _noted(notes))
