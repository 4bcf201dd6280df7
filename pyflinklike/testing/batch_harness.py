# SPDX-License-Identifier: Apache-2.0
"""Run a `KeyedBatchFunction` batch by batch, with time by assignment.

It drives the same operator as Spark does, over one key group.  Time, snapshots and restoring are as
in `KeyedProcessHarness`, and a snapshot of either harness restores in the other one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyflinklike.api.keyed_batch import KeyedBatchFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.log.column_entries import encode_columns
from pyflinklike.shown import shown, shown_message
from pyflinklike.testing.arguments import checked_time
from pyflinklike.testing.operator_harness import OperatorHarness
from pyflinklike.types import TypeInformation
from pyflinklike.types.keys import AnyKeyTypeInfo

__all__ = ["KeyedBatchHarness"]


class KeyedBatchHarness(OperatorHarness):
    """A harness that drives one function of batches, synchronously.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, restored or not.

    Args:
        function: The function under test; it is opened at once.
        key_columns: Name of the column that is the key, or names of several.
        event_time: Name of the column of event times: timestamps, or ints of ms.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot`, here or of a `KeyedProcessHarness`, or
            `pyflinklike.spark.read_savepoint` returned.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any.  Keys of ints and strings are faster if it says
            so: `Types.LONG()`, `Types.STRING()`.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: The backend has no columns.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: KeyedBatchFunction,
        key_columns: str | Sequence[str],
        event_time: str | None = None,
        state_backend: StateBackend | None = None,
        restore: bytes | None = None,
        max_parallelism: int = 128,
        key_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = True,
    ) -> None:
        names = (key_columns,) if isinstance(key_columns, str) else tuple(key_columns)
        super().__init__(
            function,
            (KeyedBatchFunction,),
            state_backend,
            restore,
            max_parallelism,
            key_type,
            job_parameters,
            key_columns=names,
            allow_pickle=allow_pickle,
        )
        # Imported only here, because it needs NumPy.
        from pyflinklike.columns.grouping import KeyReader, frozen_keys
        from pyflinklike.runtime.batch_records import ColumnReader

        kept = key_type or AnyKeyTypeInfo()
        reader = KeyReader(names, kept, lambda columns: frozen_keys(kept, columns))
        self._reader = ColumnReader(reader, event_time)

    def process_batch(self, columns: Any) -> pa.Table:
        """Process records; those with an event time in its order, as a stream does.

        Args:
            columns: A mapping from names to lists, NumPy or Arrow arrays, an Arrow record batch or
                table, or a pandas DataFrame.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function raised.
            StateValueError: A record has no key, or a key or event-time column is missing.
        """
        operator = self._running()
        records = self._reader.read(self._checked(columns))
        return _table(self._collected(operator.process, *records) if len(records.keys) else [])

    def process_watermark(self, watermark: int) -> pa.Table:
        """Set the watermark in ms and fire its due timers; return their main outputs."""
        operator = self._running()
        watermark = checked_time(watermark, "a watermark", required=True)
        return _table(self._moved(operator.advance_watermark, watermark))

    def set_processing_time(self, processing_time: int) -> pa.Table:
        """Set the processing time in ms and fire its due timers; return their main outputs."""
        return _table(super().set_processing_time(processing_time))

    def end_of_input(self) -> pa.Table:
        """Set the watermark to `MAX_WATERMARK`, so that every event-time timer fires."""
        return self.process_watermark(MAX_WATERMARK)

    def num_keyed_state_bytes(self, name: str) -> int:
        """Count the bytes that the entries of a state take in a snapshot, before it is compressed.

        Raises:
            StateAccessError: The function has not declared such a state.
        """
        contents: list[Any] = self._contents(name)
        key_type = self._operator.key_type
        return sum(sum(map(len, encode_columns(each, key_type))) for each in contents)

    def _checked(self, columns: Any) -> pa.RecordBatch:
        records = _batch_of(columns)
        names = records.schema.names
        wanted = (*self._reader.key_columns, self._reader.event_time)
        for name in wanted:
            if name is not None and name not in names:
                msg = f"records need the column {name!r}, got columns {names}; add it"
                raise StateValueError(msg)
        return records


def _table(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches) if batches else pa.table({})


def _batch_of(columns: Any) -> pa.RecordBatch:
    try:
        if isinstance(columns, Mapping):
            columns = pa.table(dict(columns))
        elif hasattr(columns, "iloc"):  # pandas
            columns = pa.Table.from_pandas(columns, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        msg = f"records must be columns of Arrow's types, got {shown_message(error)}"
        raise StateValueError(msg) from error
    if isinstance(columns, pa.RecordBatch):
        return columns
    if not isinstance(columns, pa.Table):
        msg = (
            f"process_batch takes a mapping, an Arrow batch or table, or a pandas DataFrame, got "
            f"{shown(columns)}; for example {{'user': ['ann'], 'amount': [3]}}"
        )
        raise DeclarationTypeError(msg)
    batches = columns.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=columns.schema)
