# SPDX-License-Identifier: Apache-2.0
"""A driver that keeps a view in PostgreSQL: files of upserts, a stateful stream, `foreachBatch`.

    python postgres_view_driver.py DIRECTORY

reads the records in DIRECTORY/feed, and says each batch that the view has.  The connection is
told by libpq's environment variables.  It is killed at will.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

RECORD = "id long, at long, name string, price decimal(10, 2), gone boolean"
VALUE = "id long, at long, name string, price decimal(10, 2)"
CHANGE = f"key long, op string, value struct<{VALUE}>, diff int, error string"


def view() -> Any:
    """The view that the stream feeds."""
    from pyflinklike.views import PostgresView

    return PostgresView("prices", key="id", conninfo="", history=5)


def main(directory: Path) -> None:
    """Run the stream to the end of its files."""
    from pyspark.sql import SparkSession

    from pyflinklike import Types
    from pyflinklike.spark import key_by
    from pyflinklike.upsert import UpsertFunction

    settings: dict[str, Any] = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    records = (
        session.readStream.schema(RECORD)
        .option("maxFilesPerTrigger", 1)
        .json(str(directory / "feed"))
        .selectExpr("id", f"IF(gone, null, named_struct({_parts()})) value", "at")
    )
    kind = Types.ROW_NAMED(
        ["id", "at", "name", "price"],
        [Types.LONG(), Types.LONG(), Types.STRING(), Types.BIG_DEC()],
    )
    upsert = UpsertFunction(value="value", order_key="at", value_type=kind)
    changes = key_by(records, "id").process(upsert, CHANGE, max_parallelism=4)
    prices = view()

    def apply(df: Any, batch_id: int) -> None:
        _say(f"begin {batch_id}")
        prices.foreach_batch(df, batch_id)
        _say(f"applied {batch_id}")

    changes.writeStream.foreachBatch(apply).option(
        "checkpointLocation", str(directory / "checkpoint")
    ).trigger(availableNow=True).start().awaitTermination()
    _say("end")


def _say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _parts() -> str:
    return ", ".join(f"'{name}', {name}" for name in ("id", "at", "name", "price"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
