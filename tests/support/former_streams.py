# SPDX-License-Identifier: Apache-2.0
"""A query of every kind of operator, whose checkpoint an earlier commit wrote.

    python tests/support/former_streams.py <folder>     # with that commit's pyflinklike on PYTHONPATH

The folder gets a zip for each backend: the checkpoint after two micro-batches, and what two more
gave that went on from it.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import all_states
from all_states import AllStates
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_support import Feed, at, drain, pickle_by_value, rows_of
from surroundings import SPARK_SETTINGS
from two_input_support import Enrich

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike.joins import ProcessJoinFunction
from pyflinklike.spark import connect, key_by
from pyflinklike.windows import EventTimeSessionWindows, ProcessWindowFunction

__all__ = ["BACKENDS", "BATCHES", "SCHEMA", "expected_of", "lines", "outputs_after", "restored"]

SCHEMA = "user string, ts timestamp, n long"
BACKENDS: dict[str, Callable[[], Any]] = {
    "heap": HashMapStateBackend,
    "rocksdb": EmbeddedRocksDBStateBackend,
}
BATCHES: list[list[tuple[Any, ...]]] = [
    [(f"u{n % 3 + 1}", at(n * 400), n) for n in range(first, first + 9)] for first in (0, 9, 18, 27)
]
"""The first two come before the checkpoint is taken, the others behind it."""

for _module in (__name__, all_states.__name__, Enrich.__module__):
    pickle_by_value(_module)


class Told(AllStates):
    """Tells all that it has of a user after each record, as text."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        for _ in super().process_element(value, ctx):
            yield value.user, repr(self._read(value.user))


class Session(ProcessWindowFunction):
    """What is in a session."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (repr([each.n for each in elements]),)


class Named(Enrich):
    """Of rows, as one line of text."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        for each in super().process_element1((value.user, value.n), ctx) or ():
            yield (repr(each),)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        for each in super().process_element2((value.user, f"name {value.n}"), ctx) or ():
            yield (repr(each),)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for each in super().on_timer(timestamp, ctx) or ():
            yield (repr(each),)


class Pairs(ProcessJoinFunction):
    """The numbers of both."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield (f"{left and left.n} {right and right.n}",)


def lines(records: DataFrame, backend: str) -> DataFrame:
    """The query: lines of text, each with the operator that it is from."""
    of_backend = {"state_backend": BACKENDS[backend](), "max_parallelism": 4}
    records = records.withWatermark("ts", "0 seconds")
    keyed = key_by(records, "user")
    told = keyed.process(
        Told(), "user string, line string", event_time="ts", uid="states", **of_backend
    )
    sessions = keyed.window(EventTimeSessionWindows.with_gap(1_000)).process(
        Session(), "line string", event_time="ts", uid="sessions", **of_backend
    )
    named = (
        connect(records, records.where("n % 4 = 0"))
        .key_by("user", "user")
        .process(Named(), "line string", event_time="ts", uid="named", **of_backend)
    )
    pairs = (
        keyed.interval_join(key_by(records.where("n % 5 = 0"), "user"), "full_outer")
        .between(-900, 900)
        .process(Pairs(), "line string", event_time="ts", uid="pairs", **of_backend)
    )
    sums = keyed.sum("n", event_time="ts", uid="sums", **of_backend)
    frames = {
        "states": told,
        "sessions": sessions,
        "named": named,
        "pairs": pairs,
        "sums": sums.select(F.concat_ws(" ", "user", "n").alias("line")),
    }
    taken = [frame.select(F.lit(name).alias("of"), "line") for name, frame in frames.items()]
    return reduce(DataFrame.union, taken)


_WRITTEN_AT = re.compile(r'file:[^"]*?/checkpoint(?=/state/)')


def restored(archive: Path, folder: Path) -> Path:
    """The checkpoint of an archive in a folder.

    Spark notes in a checkpoint where it was written, which is nowhere on another machine.
    """
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    checkpoint = folder / "checkpoint"
    for note in checkpoint.glob("state/*/_metadata/**/*"):
        if note.is_file() and not note.name.endswith(".crc"):
            text = note.read_text(encoding="utf-8")
            note.write_text(_WRITTEN_AT.sub(f"file:{checkpoint}", text), encoding="utf-8")
            note.with_name(f".{note.name}.crc").unlink(missing_ok=True)
    return checkpoint


def expected_of(archive: Path) -> list[str]:
    """What came after it, sorted."""
    with zipfile.ZipFile(archive) as packed:
        return packed.read("outputs").decode().splitlines()


def outputs_after(spark: SparkSession, checkpoint: Path, folder: Path, backend: str) -> list[str]:
    """What the last two micro-batches give, sorted."""
    feed = Feed(spark, folder / "after", SCHEMA)
    feed.add(*BATCHES[2:])
    return [repr(row) for row in rows_of(drain(lines(feed.stream(), backend), checkpoint))]


def main(folder: Path) -> None:
    """Write what the pyflinklike that is imported makes of the query."""
    folder.mkdir(parents=True, exist_ok=True)
    spark = SparkSession.builder.master("local[2]").config(map=SPARK_SETTINGS).getOrCreate()
    for backend in BACKENDS:
        work = Path(tempfile.mkdtemp())
        feed = Feed(spark, work / "before", SCHEMA)
        feed.add(*BATCHES[:2])
        drain(lines(feed.stream(), backend), work / "checkpoint")
        archive = folder / f"checkpoint-{backend}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted((work / "checkpoint").rglob("*")):
                packed.write(path, path.relative_to(work))
        again = Path(tempfile.mkdtemp())
        outputs = outputs_after(spark, restored(archive, again), again, backend)
        with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("outputs", "\n".join(outputs))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
