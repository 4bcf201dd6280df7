# SPDX-License-Identifier: Apache-2.0
"""The harness of a function of batches, as `pyflinklike.testing.harnesses` but over columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyflinklike._changelog.entry_codec import encode_columns
from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._messages import short_repr, shown_message
from pyflinklike._type_vars import Unpack
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.columns.columnar_records import ColumnReader, arrow_batch
from pyflinklike.columns.keyed_batch import KeyReader
from pyflinklike.columns.keyed_batch_function import KeyedBatchFunction
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.testing.operator_harness import (
    HarnessOptions,
    HarnessSettings,
    OperatorHarness,
    check_time,
    settings_of_failure,
    with_options,
)


class KeyedBatchHarness(OperatorHarness):
    """A harness that drives one function of batches, synchronously.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, also if it is restored:

        with KeyedBatchHarness(RunningTotal(), "user") as harness:
            totals = harness.process_batch({"user": ["ann", "bob"], "amount": [3, 4]})

    It takes the options of `KeyedProcessHarness`.  Keys of ints and strings are faster if `key_type` is
    `Types.LONG()` or `Types.STRING()`.  For floats and decimals, keep the default.

    Args:
        function: The function under test; it is opened at once.
        key_columns: Name of the key column, or names of several.
        event_time: Name of the column of event times, which are timestamps or ints in ms.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: The backend has no columns, or keys of that type cannot be a column.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    @with_options
    def __init__(
        self,
        function: KeyedBatchFunction,
        key_columns: str | Sequence[str],
        event_time: str | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        names = (key_columns,) if isinstance(key_columns, str) else tuple(key_columns)
        super().__init__(function, HarnessSettings.of(options), key_columns=names)
        self._read_by(names, event_time)

    def _read_by(self, names: tuple[str, ...], time: str | None) -> None:
        """Read records by these key columns and this event time from now on."""
        self._reader = ColumnReader(KeyReader(names, self._key_type), time)

    @classmethod
    def of_failure(
        cls,
        failure_snapshot: bytes,
        function: KeyedBatchFunction,
        event_time: str | None = None,
        *,
        state_backend: StateBackend | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = False,
    ) -> KeyedBatchHarness:
        """Make a harness with the state in which a record or timer became a dead letter.

        It works as `KeyedProcessHarness.of_failure` does.  The letter names the key columns, and
        `event_time` is the column of event times of further records.
        """
        options = settings_of_failure(failure_snapshot, state_backend, job_parameters, allow_pickle)
        assert options.failed is not None
        names = tuple(name for name, _ in options.failed.facts.key_columns) or ("key",)
        made = cls.__new__(cls)
        OperatorHarness.__init__(made, function, options, key_columns=names)
        made._read_by(names, event_time)
        return made

    def replay(self) -> pa.Table:
        """Make the call again that failed, for its one record or timer: `OperatorHarness.replay`."""
        return _table(super().replay())

    def process_batch(self, columns: Any) -> pa.Table:
        """Process records, sorted by event time if they have one, as a stream does.

        Args:
            columns: A mapping from names to lists, NumPy or Arrow arrays, an Arrow record batch or
                table, or a DataFrame of pandas or Polars.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function raised.
            StateValueError: A record has no key, or a key or event-time column is missing.
        """
        operator = self._open_operator()
        records = self._reader.read(self._check(columns))
        return _table(self._collect(operator.process, *records) if len(records.keys) else [])

    def process_watermark(self, watermark: int) -> pa.Table:
        """Set the watermark in ms and fire its due timers; return their main outputs."""
        operator = self._open_operator()
        watermark = check_time(watermark, "a watermark", required=True)
        return _table(self._move(operator.advance_watermark, watermark))

    def set_processing_time(self, processing_time: int) -> pa.Table:
        """Set the processing time in ms and fire its due timers; return their main outputs."""
        return _table(super().set_processing_time(processing_time))

    def end_of_input(self) -> pa.Table:
        """Set the watermark to `MAX_WATERMARK`, so that every event-time timer fires."""
        return self.process_watermark(MAX_WATERMARK)

    def num_keyed_state_bytes(self, name: str) -> int:
        """Count the bytes of a state's entries in a snapshot, before the snapshot is compressed.

        Raises:
            StateAccessError: The function has not declared such a state.
        """
        contents: list[Any] = self._contents(name)
        key_type = self._operator.key_type
        return sum(sum(map(len, encode_columns(each, key_type))) for each in contents)

    def _check(self, columns: Any) -> pa.RecordBatch:
        records = batch_of(columns)
        names = records.schema.names
        wanted = (*self._reader.key_columns, self._reader.event_time)
        for name in wanted:
            if name is not None and name not in names:
                msg = f"records need the column {name!r}, got columns {names}; add it"
                raise StateValueError(msg)
        return records


def _table(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches) if batches else pa.table({})


def batch_of(columns: Any) -> pa.RecordBatch:
    """Return records as one batch.

    Raises:
        DeclarationTypeError: They are not columns.
        StateValueError: The columns are not of Arrow's types.
    """
    try:
        batch = arrow_batch(pa.table(dict(columns)) if isinstance(columns, Mapping) else columns)
    except (pa.ArrowException, TypeError, ValueError) as error:
        msg = f"records must be columns of Arrow's types, got {shown_message(error)}"
        raise StateValueError(msg) from error
    if batch is None:
        msg = (
            "records are a mapping of columns, an Arrow batch or table, or a DataFrame, got "
            f"{short_repr(columns)}; for example {{'user': ['ann'], 'amount': [3]}}"
        )
        raise DeclarationTypeError(msg)
    return batch
