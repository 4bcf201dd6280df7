# SPDX-License-Identifier: Apache-2.0
"""State in SQL beside `read_state`: all of it, and one key by a condition.

A running count over string keys, ten batches: the first writes every key, the others a tenth of
them each.  Four readings take turns, after a first turn that warms them, each from a DataFrame that is
there already, as a view is:

* all entries of `read_state`, and of a view of `create_state_views`;
* one key of `read_state(keys=...)`, and of the view by `WHERE user = ...`.

A condition on a DataFrame of `read_state`, which reads all and then chooses, is there for comparison.

    python bench/state_views.py                   # 1 M keys, some three minutes
    python bench/state_views.py --keys 100000
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import state_as_data
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from state_as_data import counted, session, write_input

from pyflinklike.state_processor import create_state_views, read_state

_TURNS = 5
_GROUPS = 64


def measured(spark: SparkSession, checkpoint: Path, keys: int) -> None:
    """Read, and print medians and ratios."""
    create_state_views(spark, checkpoint, "bench")
    key = f"user-{keys // 2}"
    whole = read_state(spark, checkpoint, "count")
    of_key = read_state(spark, checkpoint, "count", keys=[key])
    sum_of_view = "SELECT sum(count), count(user) FROM bench_count"
    readings: dict[str, Callable[[], list[Any]]] = {
        "all of read_state": lambda: whole.selectExpr("sum(value)", "count(user)").collect(),
        "all of the view": lambda: spark.sql(sum_of_view).collect(),
        "one key of read_state, by a condition": lambda: whole.where(f"user = '{key}'").collect(),
        "one key of read_state, by keys=": of_key.collect,
        "one key of the view, by a condition": lambda: spark.sql(
            f"SELECT * FROM bench_count WHERE user = '{key}'"
        ).collect(),
    }
    took: dict[str, list[float]] = {name: [] for name in readings}
    for turn in range(_TURNS + 1):
        for name, read in readings.items():
            began = time.perf_counter()
            rows = read()
            if turn:
                took[name].append(time.perf_counter() - began)
            expected = keys if name.startswith("all") else key
            assert expected in tuple(rows[0]), f"{name}: got {rows}, wanted {expected}"
    medians = {name: statistics.median(each) for name, each in took.items()}
    for name, each in took.items():
        print(f"{name:40} {medians[name]:6.2f} s ({min(each):.2f} to {max(each):.2f})", flush=True)
    one, every = medians["one key of the view, by a condition"], medians["all of the view"]
    print(f"{'one key of the view over all of it':40} {one / every:6.2f}", flush=True)
    print(f"{'all of the view over read_state':40} {every / medians['all of read_state']:6.2f}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    given = parser.parse_args()
    cloudpickle.register_pickle_by_value(state_as_data)  # type: ignore[no-untyped-call]
    spark = session("2g")
    root = Path(tempfile.mkdtemp(prefix="state-views-"))
    try:
        (root / "in").mkdir()
        write_input(spark, root / "in", given.keys)
        writer = counted(spark, root / "in", max_parallelism=_GROUPS).writeStream.format("noop")
        writing = writer.option("checkpointLocation", str(root / "checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()
        measured(spark, root / "checkpoint", given.keys)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
