# SPDX-License-Identifier: Apache-2.0
"""W1, a running count: ours against Spark's own Python state operators.

The same logic on each side: per record, read the key's count, add one, store
it, and emit (key, count).  Spark's operators are keyed per user key, as their
documentation has it.  They get fewer records, and fewer keys in the same
proportion: what they cost is the number of keys in a batch, so that a record
stands for as many keys as on our side.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import measure
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pyflinklike import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from pyflinklike.spark import key_by

OUTPUT = "user string, total long"


class RunningCount(KeyedProcessFunction):
    """Ours."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.user, count


class PandasCount(StatefulProcessor):
    """Spark's, per user key, with pandas."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
        count = (self.count.get() or (0,))[0]
        for frame in rows:
            first = count + 1
            count += len(frame)
            yield pd.DataFrame({"user": key[0], "total": range(first, count + 1)})
        self.count.update((count,))

    def close(self) -> None:
        pass


class RowCount(PandasCount):
    """Spark's, per user key, with rows."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
        count = (self.count.get() or (0,))[0]
        for _ in rows:
            count += 1
            yield SparkRow(user=key[0], total=count)
        self.count.update((count,))


def ours(df: DataFrame) -> DataFrame:
    """One call per key group."""
    return key_by(df, "user").process(RunningCount(), OUTPUT)


def in_pandas(df: DataFrame) -> DataFrame:
    """One call per user key."""
    return df.groupBy("user").transformWithStateInPandas(PandasCount(), OUTPUT, "Append", "None")


def in_rows(df: DataFrame) -> DataFrame:
    """One call per user key."""
    return df.groupBy("user").transformWithState(RowCount(), OUTPUT, "Append", "None")


def main() -> None:
    """Run all sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="per micro-batch, ours")
    parser.add_argument("--peer-records", type=int, default=20_000, help="per micro-batch, Spark's")
    parser.add_argument("--batches", type=int, default=8, help="the first one is dropped")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    spark = measure.session(options.partitions)
    sides = [
        measure.run(
            spark,
            "pyflinklike, HashMapStateBackend",
            ours,
            batches=options.batches,
            records=options.records,
            keys=options.keys,
        )
    ]
    if not options.only_ours:
        for name, transform in (
            ("Spark transformWithStateInPandas, per user key", in_pandas),
            ("Spark transformWithState with rows, per user key", in_rows),
        ):
            sides.append(
                measure.run(
                    spark,
                    name,
                    transform,
                    batches=4,
                    records=options.peer_records,
                    keys=options.keys * options.peer_records // options.records,
                )
            )
    print(f"\nW1 running count, {options.keys:,} string keys; {measure.machine()}")
    print(f"{'side':<52} {'records/s':>11} {'min':>11} {'max':>11} {'ours is':>9}")
    for rates in sides:
        print(rates.row(rates).rsplit(None, 1)[0] + f" {sides[0].median / rates.median:>8.1f}x")
    spark.stop()


if __name__ == "__main__":
    main()
