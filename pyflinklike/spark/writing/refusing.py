# SPDX-License-Identifier: Apache-2.0
"""The checks of an edited state's rows, which run when the savepoint is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame

from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.replay.rows import StateRows
from pyflinklike.savepoints.stored_rows import entries_of_rows
from pyflinklike.spark.reading.jobs import mapped
from pyflinklike.spark.wire.names import quoted
from pyflinklike.spark.writing.edits import entry_of

__all__ = ["refuse_misfits", "refuse_several"]


def refuse_several(frame: DataFrame, rows: StateRows) -> None:
    """Check that each entry has one row.

    Raises:
        StateValueError: An entry has several rows.
    """
    names = entry_of(rows)
    several = frame.groupBy(*map(quoted, names)).count().where("count > 1").first()
    if several is not None:
        found = {name: several[name] for name in names}
        msg = f"state {rows.info.name!r}: an entry has one row, got {several['count']} of {found}"
        raise StateValueError(f"{msg}; aggregate them first")


def refuse_misfits(frame: DataFrame, rows: StateRows) -> None:
    """Check that each key and value can be stored.

    Raises:
        StateValueError: A key or value cannot be stored; the message names it.
    """
    found = mapped(frame, _MisfitsJob(rows), "message string").first()
    if found is not None:
        raise StateValueError(found["message"])


@attrs.frozen
class _MisfitsJob:
    """Yields a message for the first bad row of each record batch."""

    rows: StateRows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                entries_of_rows(self.rows, pa.Table.from_batches([batch]))
            except (StateValueError, IncompatibleStateError) as error:
                yield pa.RecordBatch.from_pydict({"message": [str(error)]})
