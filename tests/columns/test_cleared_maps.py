# SPDX-License-Identifier: Apache-2.0
"""What the log is told of maps that are cleared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyflinklike import KeyedProcessFunction, MapStateDescriptor, Types
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.columns.cuts import check_alternating

WORDS = MapStateDescriptor("words", Types.STRING(), Types.LONG())


class RemovingByElement(KeyedProcessFunction):
    """Puts a word; the second time the key "b" removes it, and all clear their map."""

    def open(self, ctx):
        self.words = ctx.get_map_state(WORDS)

    def process_element(self, value, ctx):
        if value.at < 2:
            self.words.put(value.word, value.at)
            return
        if value.key == "b":
            self.words.remove(value.word)
        self.words.clear()


class RemovingInColumns(KeyedBatchFunction):
    """The same."""

    def open(self, ctx):
        self.words = ctx.get_column_map_state(WORDS)

    def process_batch(self, batch, ctx):
        words, at = self.words.at(batch["word"]), batch.numpy("at")
        if at[0] < 2:
            words.put(at)
            return
        words.remove(np.array(batch["key"].to_pylist()) == "b")
        self.words.clear()


def test_what_was_removed_before_others_are_cleared_stays_removed():
    """A key that has nothing left is cleared together with one that has."""
    records = pa.table({"key": ["a", "b"] * 2, "word": ["x", "y"] * 2, "at": range(4)})

    check_alternating(RemovingInColumns, RemovingByElement, records, "key", [2], event_time="at")
