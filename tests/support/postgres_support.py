# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL for tests, and a DataFrame that runs its tasks in this process."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def server_for_tests() -> Any:
    """A server of the example's, not started; skips where there is no PostgreSQL."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    import postgres_server

    if postgres_server.binaries() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    return postgres_server.Server()


class Schemas:
    """Makes empty schemas in one database.

    Args:
        conninfo: Of the database.
    """

    def __init__(self, conninfo: str) -> None:
        self.conninfo = conninfo
        self._numbers = itertools.count()

    def new(self) -> str:
        """The name of a schema that nobody has used."""
        name = f"s{next(self._numbers)}"
        self.run(f"CREATE SCHEMA {name}")
        return name

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement as another user of the database would; its lines."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []


_SPARK_TYPES = {pa.int64(): "long", pa.string(): "string", pa.float64(): "double"}


class Frame:
    """A DataFrame of which a view sees what it asks of Spark's: its tasks run in this process.

    Args:
        partitions: Tables of Arrow, each a partition.
        source: The id of the stream.
        attempts: How the task of a partition is run: a function of the task and of its batches
            that returns what the attempt that counts gave.
    """

    def __init__(
        self,
        partitions: Sequence[pa.Table],
        source: str = "",
        attempts: Callable[[Any, list[Any]], list[Any]] | None = None,
    ) -> None:
        self._partitions = partitions
        self._attempts = attempts or (lambda task, batches: list(task(iter(batches))))
        context = SimpleNamespace(getLocalProperty=lambda _: source)
        self.sparkSession = _Session(context)
        self.schema = SimpleNamespace(jsonValue=self._json)

    def _json(self) -> dict[str, Any]:
        fields = [
            {"name": field.name, "type": _SPARK_TYPES[field.type]}
            for field in self._partitions[0].schema
        ]
        return {"type": "struct", "fields": fields}

    def toArrow(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(self._partitions)

    def mapInArrow(self, task: Any, schema: str) -> Any:
        """The task's lines, when they are collected."""

        def collect() -> Iterator[tuple[Any, ...]]:
            for partition in self._partitions:
                for batch in self._attempts(task, partition.to_batches()):
                    yield from (tuple(line.values()) for line in batch.to_pylist())

        return SimpleNamespace(collect=lambda: list(collect()))


class _Session:
    """A session without streams; another one of its class is the same."""

    def __init__(self, context: Any) -> None:
        self.sparkContext = context
        self.conf = {"spark.sql.session.timeZone": "UTC"}
        self.streams = SimpleNamespace(get=lambda _: None)

    builder: Any = SimpleNamespace(
        getOrCreate=lambda: SimpleNamespace(streams=SimpleNamespace(get=lambda _: None))
    )


def table(*rows: tuple[int, int]) -> pa.Table:
    """A partition of pairs (id, n)."""
    return pa.Table.from_pylist(
        [{"id": key, "n": n} for key, n in rows],
        pa.schema([("id", pa.int64()), ("n", pa.int64())]),
    )


def rows_of(view: Any) -> dict[int, int]:
    """The rows of a view as pairs."""
    return {row["id"]: row["n"] for row in view.query(allow_scan=True)}
