# SPDX-License-Identifier: Apache-2.0
"""The log of a key group in Spark's map state: the round trips of a read, and what Spark warns of."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.streaming.stateful_processor")

from pyflinklike.spark._host.blob_map import SparkLogStorage


class WarningMap:
    """Spark's map state of one grouping key: a dict that notes each call, and warns as Spark does."""

    def __init__(self):
        self.rows, self.calls, self.warnings = {}, [], []

    def getMapState(self, *_):
        """Be the handle as well."""
        return self

    def containsKey(self, key):
        self.calls.append("containsKey")
        return key in self.rows

    def getValue(self, key):
        self.calls.append("getValue")
        if key not in self.rows:
            self.warnings.append(f"Map state log doesn't contain key [{key[0]}].")
        return self.rows.get(key)

    def updateValue(self, key, value):
        self.rows[key] = value


@pytest.fixture
def state():
    """Of a key group without records."""
    return WarningMap()


def test_a_number_that_is_not_there_costs_one_round_trip_and_no_warning(state):
    """In the first micro-batch of a checkpoint each key group asks for its head."""
    storage = SparkLogStorage(state, plan_id="absent")

    assert (None, ["containsKey"], []) == (storage.read_segment(-1), state.calls, state.warnings)


@pytest.mark.parametrize("number", [-1, 7])
def test_what_a_worker_has_written_costs_it_one_round_trip(state, number):
    """Also in the next task of the query, which has another storage."""
    SparkLogStorage(state, plan_id=f"written {number}").write_segment(number, b"x")
    storage = SparkLogStorage(state, plan_id=f"written {number}")

    assert (b"x", ["getValue"]) == (storage.read_segment(number), state.calls)


def test_a_worker_asks_once_whether_a_number_is_there_that_another_wrote(state):
    """For each grouping key on its own."""
    state.rows[-1,] = (b"x",)
    storage = SparkLogStorage(state, plan_id="found")
    read = [storage.read_segment(-1), storage.read_segment(-1)]
    storage.grouping_key = 1
    read.append(storage.read_segment(-1))
    once = ["containsKey", "getValue"]

    assert ([b"x"] * 3, [*once, "getValue", *once]) == (read, state.calls)
