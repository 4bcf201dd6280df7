# SPDX-License-Identifier: Apache-2.0
"""A replica of a query's state: opened, asked and refreshed.

A running count over 1 M string keys in 100 key groups, so that one has 10,000 entries: ten batches,
then one that changes 10,000 keys.  Every figure is of one run, so they are to be compared with each
other only.

    python bench/replica.py                         # 1 M keys, some three minutes on 2 quiet cores
    python bench/replica.py --keys 100000
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
import state_as_data
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from state_as_data import Clock, run, session, write_input

from pyflinklike.queryable_state import QueryableState
from pyflinklike.state_processor import read_state
from pyflinklike.state_processor._checkpoints.checkpoint import OperatorAt

_GROUPS = 100
_CHANGED = 10_000
_LOOKUPS = 20_000


def microseconds(call: Callable[[], Any]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def lookups(state: QueryableState, keys: int) -> dict[str, float]:
    """First touches of key groups, then lookups in groups that are decoded."""
    get = state["count"].get
    touched: list[float] = []
    for at in range(50 * _GROUPS):
        loads = state.metrics.cold_loads
        took = microseconds(partial(get, f"user-{at * 7919 % keys}"))
        if state.metrics.cold_loads > loads:
            touched.append(took)
    one = [microseconds(lambda: get("user-1")) for _ in range(_LOOKUPS)]
    any_ = [microseconds(partial(get, f"user-{at * 7919 % keys}")) for at in range(_LOOKUPS)]
    many = [f"user-{at * 7919 % keys}" for at in range(1000)]
    return {
        "first touch of a key group, median ms": round(statistics.median(touched) / 1000, 2),
        "first touch of a key group, max ms": round(max(touched) / 1000, 2),
        "get of one key, median us": round(statistics.median(one), 1),
        "get of any key, median us": round(statistics.median(any_), 1),
        "get of any key, 99th percentile us": round(statistics.quantiles(any_, n=100)[98], 1),
        "get_many of 1000, us a key": round(
            microseconds(lambda: state["count"].get_many(many)) / 1000, 1
        ),
    }


def beyond(spark: SparkSession, checkpoint: Path, keys: int, needed: int) -> dict[str, float]:
    """Lookups where half of what is decoded has room, and a quarter, and a tenth."""
    figures = {}
    for share in (0.5, 0.25, 0.1):
        bytes_ = int(needed * share)
        with QueryableState.open(spark, checkpoint, refresh=None, cache_bytes=bytes_) as state:
            get = state["count"].get
            for at in range(10 * _GROUPS):
                get(f"user-{at * 7919 % keys}")
            some = [
                microseconds(partial(get, f"user-{at * 104729 % keys}")) / 1000
                for at in range(_LOOKUPS // 10)
            ]
            name = f"get of any key, {share} of the bytes it needs"
            figures[f"{name}, median ms"] = round(statistics.median(some), 2)
            figures[f"{name}, mean ms"] = round(statistics.mean(some), 2)
            figures[f"{name}, max ms"] = round(max(some), 1)
    return figures


def change_some(spark: SparkSession, root: Path) -> None:
    """One more file, with 10,000 keys."""
    rows = spark.range(_CHANGED).select(F.concat(F.lit("user-"), F.col("id") * 97).alias("user"))
    rows.coalesce(1).write.parquet(str(root / "more"))
    (part,) = (root / "more").glob("part-*.parquet")
    part.rename(root / "in" / "99.parquet")


def measured(spark: SparkSession, root: Path, keys: int) -> dict[str, Any]:
    """All figures."""
    clock, source, checkpoint = Clock(), root / "in", root / "checkpoint"
    source.mkdir()
    write_input(spark, source, keys)
    clock.of(
        "the query, ten batches", lambda: run(spark, source, checkpoint, max_parallelism=_GROUPS)
    )
    for turn in ("warm up", "1", "2", "3"):
        clock.of(
            f"read_state as Arrow ({turn})",
            lambda: read_state(spark, checkpoint, "count").toArrow(),
        )
        opened = clock.of(
            f"QueryableState.open ({turn})",
            lambda: QueryableState.open(spark, checkpoint, refresh=None, cache_bytes=2**31),
        )
        if turn != "3":
            opened.close()
    found = lookups(opened, keys)
    clock.of("refresh, nothing new", opened.refresh)
    change_some(spark, root)
    run(spark, source, checkpoint, max_parallelism=_GROUPS)
    before = opened.position.batch_id
    clock.of(f"refresh, {_CHANGED} keys changed", opened.refresh)
    last = opened.position.batch_id
    assert last == before + 1
    feed = OperatorAt(spark, str(checkpoint), 0, last).changes(last)
    clock.of("of that, Spark's change feed alone", feed.toArrow)
    caught_up = microseconds(
        lambda: opened["count"].get_many(f"user-{at * 97}" for at in range(1000))
    )
    figures = {
        "keys": keys,
        "seconds": clock.seconds,
        **found,
        "1000 keys asked after the refresh, ms": round(caught_up / 1000, 1),
        "reopens": opened.metrics.reopens,
        "stored_bytes": opened.metrics.stored_bytes,
        "decoded_bytes": opened.metrics.decoded_bytes,
    }
    needed = opened.metrics.decoded_bytes
    opened.close()
    return figures | beyond(spark, checkpoint, keys, needed)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--driver-memory", default="2g", help="of the JVM, executors included")
    given = parser.parse_args()
    cloudpickle.register_pickle_by_value(state_as_data)  # type: ignore[no-untyped-call]
    spark = session(given.driver_memory)
    root = Path(tempfile.mkdtemp(prefix="replica-"))
    try:
        print(json.dumps(measured(spark, root, given.keys), indent=1))
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
