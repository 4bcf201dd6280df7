# SPDX-License-Identifier: Apache-2.0
"""Records of one key group as columns: the argument of a `KeyedBatchFunction`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.given import plain_array
from pyflinklike.columns.groups import Groups
from pyflinklike.errors import RequirementError, StateAccessError

__all__ = ["KeyedBatch"]


class KeyedBatch:
    """Records as columns, in the order in which a `KeyedProcessFunction` would get them.

    A batch holds all records that one call is for, of any number of keys.  The host decides where
    the records of a key are cut into batches, and results must not depend on it:
    `pyflinklike.testing.cuts` tests that.

    Args:
        records: The records, in the order in which they came.
        groups: The same records by key.
        timestamps: Event times in ms, `MIN_WATERMARK` where a record has none; None where the
            host has no event time.
    """

    def __init__(self, records: pa.RecordBatch, groups: Groups, timestamps: Any = None) -> None:
        self._records = records
        self.groups = groups
        """The records by key."""
        self.timestamps = timestamps
        """For each record: its event time in ms as a NumPy array of int64, `MIN_WATERMARK` where it
        has none.  None where the host has no event time."""

    def __len__(self) -> int:
        """Return the number of records."""
        return int(self._records.num_rows)

    def __repr__(self) -> str:
        return f"<KeyedBatch of {len(self)} records, {len(self.groups)} keys: {self.column_names}>"

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._records.schema.names)

    def __getitem__(self, column: str) -> pa.Array:
        """Return a column as an Arrow array.

        Raises:
            StateAccessError: There is no such column.
        """
        names = self._records.schema.names
        if column not in names:
            msg = f"a batch has the columns of its stream, got {column!r}; choose from {names}"
            raise StateAccessError(msg)
        return self._records.column(names.index(column))

    def numpy(self, column: str) -> np.ndarray[Any, Any]:
        """Return a column without nulls as a NumPy array: a view of Arrow's memory where possible.

        Raises:
            StateAccessError: There is no such column.
            StateValueError: It has nulls, or values that NumPy has no type for.
        """
        array: np.ndarray[Any, Any] = plain_array(self[column], f"column {column!r}")
        return array

    def to_arrow(self) -> pa.RecordBatch:
        """Return all columns as an Arrow record batch."""
        return self._records

    def to_pandas(self) -> Any:
        """Return all columns as a pandas DataFrame.

        Raises:
            RequirementError: pandas is not installed.
        """
        try:
            return self._records.to_pandas()
        except ImportError as error:
            msg = f"to_pandas needs the package pandas, got {error}; pip install pandas"
            raise RequirementError(msg) from error

    def to_polars(self) -> Any:
        """Return all columns as a Polars DataFrame.

        Raises:
            RequirementError: Polars is not installed.
        """
        try:
            polars: Any = importlib.import_module("polars")
        except ImportError as error:
            msg = f"to_polars needs the package polars, got {error}; pip install polars"
            raise RequirementError(msg) from error
        return polars.from_arrow(pa.Table.from_batches([self._records]))
