# SPDX-License-Identifier: Apache-2.0
"""Streams of two inputs: a join, and rules that are broadcast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import broadcast_support
import two_input_support
from broadcast_support import APPLIED, LIMITS, Alert, Flag
from pyspark.sql import DataFrame, SparkSession
from spark_support import Feed, at, pickle_by_value, rows_of
from two_input_support import Enrich

from pyflinklike.spark import broadcast, connect, key_by

__all__ = [
    "BATCHES",
    "EVENTS",
    "EXPECTED",
    "JOINED",
    "NAMES",
    "OUTPUT",
    "PARTITIONS",
    "RULES",
    "SIDES",
    "EventFeeds",
    "Joined",
    "Number",
    "RuleFeeds",
    "alerts_of",
    "applied_of",
]

pickle_by_value(__name__)
pickle_by_value(two_input_support.__name__)
pickle_by_value(broadcast_support.__name__)

EVENTS = "user string, number long, at timestamp"
NAMES = "name string, who string, seen timestamp"
JOINED = "user string, number long, name string"
RULES = "name string, limit long"
OUTPUT = "user string, total long, broken string"
SIDES = {APPLIED: "name string"}
PARTITIONS = 2
"""Of the session's shuffles."""


class Joined(Enrich):
    """`Enrich` over the columns of two DataFrames."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield from super().process_element1((value.user, value.number), ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield from super().process_element2((value.who, value.name), ctx)


class EventFeeds:
    """Two directories, of which a micro-batch reads a file each."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.events = Feed(spark, directory / "events", EVENTS)
        self.names = Feed(spark, directory / "names", NAMES)

    def add(self, events: list[Any], names: list[Any]) -> None:
        """Add the records of a micro-batch, with times in ms."""
        self.events.add([(user, number, at(ms)) for user, number, ms in events])
        self.names.add([(name, who, at(ms)) for name, who, ms in names])

    def joined(self, **options: Any) -> DataFrame:
        """The join of both streams."""
        connected = connect(self.events.stream(), self.names.stream()).key_by("user", "who")
        return connected.process(Joined(), JOINED, event_time=("at", "seen"), **options)


# Of "a" the name comes later, of "b" before, of "c" too late and of "d" never.
BATCHES = [
    ([("a", 1, 1_000), ("c", 2, 1_000)], [("Bob", "b", 900)]),
    ([("b", 3, 2_000), ("d", 4, 2_001)], [("Ann", "a", 1_001)]),
    ([("a", 5, 3_000)], [("Cid", "c", 3_000)]),
    ([("z", 6, 9_000)], [("Zoe", "z", 8_000)]),
    ([("z", 7, 9_001)], [("Zoe", "z", 8_001)]),
]
EXPECTED = [
    ("a", 1, "Ann"),
    ("a", 5, "Ann"),
    ("b", 3, "Bob"),
    ("c", 2, "Cid"),
    ("d", 4, None),
    ("z", 6, "Zoe"),
    ("z", 7, "Zoe"),
]


class RuleFeeds:
    """Two directories, of which a micro-batch reads a file each."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.events = Feed(spark, directory / "events", EVENTS)
        self.rules = Feed(spark, directory / "rules", RULES)

    def add(self, events: list[Any], rules: list[Any]) -> None:
        """Add the records of a micro-batch, with times in ms."""
        self.events.add([(user, number, at(ms)) for user, number, ms in events])
        self.rules.add(rules)

    def alerts(self, **options: Any) -> DataFrame:
        """`Alert` over both streams."""
        keyed = key_by(self.events.stream(), "user")
        connected = keyed.connect(broadcast(self.rules.stream(), LIMITS))
        return connected.process(Alert(), OUTPUT, event_time="at", side_outputs=SIDES, **options)


def alerts_of(*runs: Any) -> list[Any]:
    """The main outputs of runs, sorted."""
    rows = [row for run in runs for batch in run.values() for row in batch]
    return rows_of((row.user, row.total, row.broken) for row in rows if row.output_tag is None)


def applied_of(*runs: Any) -> list[str]:
    """The names of the rules that were processed, sorted."""
    rows = [row for run in runs for batch in run.values() for row in batch]
    return sorted(row[APPLIED.tag_id][0] for row in rows if row.output_tag is not None)


class Number(Flag):
    """`Flag` over the column of a DataFrame."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield from super().process_element(value.n, ctx)
