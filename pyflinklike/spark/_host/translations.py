# SPDX-License-Identifier: Apache-2.0
"""The rows that Spark hands to a processor, and those that it takes back, in either of its interfaces.

A processor works with plain tuples: payloads with their origin and batch time, and results.  Spark 4.1
has an interface of rows; Spark 4.0 has only one of pandas frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Row as SparkRow

from pyflinklike.spark._host.observed_metrics import COUNTED_FIELDS
from pyflinklike.spark._wire.schema import WireSchema
from pyflinklike.spark._wire.system_columns import BATCH_TIME

RESULT_SCHEMA = WireSchema(
    pa.schema([("output", pa.int32()), ("payload", pa.binary()), *COUNTED_FIELDS])
)
"""The rows that the state operator of a stream emits."""
RESULT_COLUMNS = tuple(RESULT_SCHEMA.arrow.names)
Result = tuple[Any, ...]

_RESULT = SparkRow(*RESULT_COLUMNS)


class Translation(Protocol):
    """One of Spark's interfaces."""

    def read_payloads(self, rows: Any) -> list[tuple[int, int, bytes]]:
        """Return origin, batch time in ms and payload of each row of a grouping key."""

    def read_initial(self, row: Any) -> list[tuple[int, bytes]]:
        """Return batch time in ms and payload of each row of initial state."""

    def write_results(self, results: Iterable[Result]) -> Iterator[Any]:
        """Return results as Spark takes them."""


class PlainTranslation:
    """No translation, for a processor whose caller has translated Spark's rows."""

    def read_payloads(self, rows: Any) -> Any:
        """Return the rows as they are."""
        return rows

    def read_initial(self, row: Any) -> Any:
        """Return the rows as they are."""
        return row

    def write_results(self, results: Iterable[Result]) -> Iterator[Any]:
        """Return the results as they are."""
        return iter(results)


class RowTranslation:
    """The interface of rows, `transformWithState`."""

    def read_payloads(self, rows: Iterable[Any]) -> list[tuple[int, int, bytes]]:
        """Return origin, batch time and payload of each row."""
        return [(row["origin"], row[BATCH_TIME], row["payload"]) for row in rows]

    def read_initial(self, row: Any) -> list[tuple[int, bytes]]:
        """Return batch time and payload of the row."""
        return [(row[BATCH_TIME], row["payload"])]

    def write_results(self, results: Iterable[Result]) -> Iterator[Any]:
        """Return a row for each result."""
        return iter([_RESULT(*result) for result in results])


class PandasTranslation:
    """The interface of frames, `transformWithStateInPandas`."""

    def read_payloads(self, rows: Iterable[Any]) -> list[tuple[int, int, bytes]]:
        """Return origin, batch time and payload of each row of all frames."""
        return [
            (origin, int(time), payload)
            for frame in rows
            for origin, time, payload in zip(frame["origin"], frame[BATCH_TIME], frame["payload"])
        ]

    def read_initial(self, row: Any) -> list[tuple[int, bytes]]:
        """Return batch time and payload of each row of the frame."""
        return [(int(time), payload) for time, payload in zip(row[BATCH_TIME], row["payload"])]

    def write_results(self, results: Iterable[Result]) -> Iterator[Any]:
        """Return one frame of all results."""
        import pandas as pd

        return iter([pd.DataFrame.from_records(list(results), columns=RESULT_COLUMNS)])


PLAIN, ROWS, FRAMES = PlainTranslation(), RowTranslation(), PandasTranslation()
"""The three translations, which have no state."""
