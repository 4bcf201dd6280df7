# SPDX-License-Identifier: Apache-2.0
"""How many rows a second a stream writes into a view: in PostgreSQL by its executors, and in a file.

    python bench/view_postgres.py                          # some minutes; needs PostgreSQL and Java
    python bench/view_postgres.py --rows 100000 --batches 3

It starts a PostgreSQL and a Spark of its own (local[2]), and applies the same DataFrames to both
views by `foreach_batch`: batches of new keys, and then of keys that are there.  The first batch of
each is warm-up and not counted.  `fsync` is on, as in production.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyflinklike.views import MaterializedView, PostgresView, View

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))


def frame(session: Any, rows: int, number: int) -> Any:
    """A batch of so many rows, of about 100 bytes; every second one has the keys of the one before."""
    first = (number // 2) * rows
    return session.range(first, first + rows, numPartitions=2).selectExpr(
        "concat('user-', id) user",
        f"id + {number} orders",
        f"CAST((id + {number}) * 1.25 AS decimal(12, 2)) spent",
        "'Copenhagen' city",
        f"timestamp_millis(1700000000000 + id + {number}) last_seen",
    )


def measured(view: View, session: Any, rows: int, batches: int) -> None:
    """Apply the batches, and say how fast each was."""
    times = []
    for number in range(batches + 1):
        df = frame(session, rows, number).persist()
        df.count()
        began = time.perf_counter()
        view.foreach_batch(df, number)
        times.append(time.perf_counter() - began)
        df.unpersist()
        kind = "keys that are there" if number % 2 else "new keys"
        print(
            f"{type(view).__name__:18} batch {number}, {kind:20} {rows / times[-1]:10,.0f} rows/s"
        )
    counted = sum(times[1:])
    print(
        f"{type(view).__name__:18} warm {rows * batches / counted:,.0f} rows/s, {len(view):,} rows in all"
    )


def main() -> None:
    from postgres_server import Server
    from sessions import local_session

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--batches", type=int, default=5)
    given = parser.parse_args()
    session = local_session("views")
    with (
        Server(fsync=True) as server,
        tempfile.TemporaryDirectory() as directory,
        MaterializedView("file", key="user", path=directory, history=2) as file,
        PostgresView("postgres", key="user", conninfo=server.conninfo, history=2) as postgres,
    ):
        for view in (file, postgres):
            measured(view, session, given.rows, given.batches)


if __name__ == "__main__":
    main()
