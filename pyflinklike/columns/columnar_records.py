# SPDX-License-Identifier: Apache-2.0
"""The input and the outputs of a `KeyedBatchFunction`: records in, record batches out.

The records of a key group are an Arrow record batch, with its distinct keys and its event times.
Timers have no records to take key columns from, so `BatchKeyColumns` makes them from the key index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._messages import short_repr, shown_message
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike._runtime.outputs import Outputs
from pyflinklike.columns.keyed_batch import Groups, KeyedBatch, KeyReader
from pyflinklike.errors import OutputError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import milliseconds


class DistinctKeys:
    """The distinct keys of a batch, whose length is the number of records.

    Args:
        column: The distinct keys, as an Arrow column of the key type's Arrow type.
    """

    def __init__(self, records: int, column: Any) -> None:
        self._records = records
        self.column = column

    def __len__(self) -> int:
        return self._records


class ColumnRecords(NamedTuple):
    """Records as columns; functions of single elements get `Records` instead.

    Args:
        timestamps: Event times in ms, `MIN_WATERMARK` for a null; None without event time.
    """

    keys: DistinctKeys
    values: KeyedBatch
    timestamps: Any

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records; those at or below the watermark, in ms, are late."""
        late, times = 0, self.timestamps
        if watermark > MIN_WATERMARK and times is not None:
            late = int(((times <= watermark) & (times > MIN_WATERMARK)).sum())
        metrics.add_batch(len(self.keys), late)


@attrs.frozen
class ColumnReader:
    """Reads the records of one operator as columns; `RecordReader` makes rows instead.

    Args:
        event_time: The name of the event-time column, or None.
    """

    keys: KeyReader
    event_time: str | None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the columns that make the key."""
        return self.keys.columns

    def read(self, records: pa.RecordBatch, *, in_order: bool = False) -> ColumnRecords:
        """Read the records of a batch, in the order to process them.

        If there is an event time, that is its order in ms; records of equal times keep their order
        of arrival, and records without a time come first.

        Args:
            records: The records in the order of arrival.
            in_order: Whether the records have their final order already.
        """
        times = None
        if self.event_time is not None:
            column = records.column(self.event_time)
            is_ms = pa.types.is_integer(column.type)
            column = column.cast(pa.int64()) if is_ms else milliseconds(column)
            times = pc.fill_null(column, MIN_WATERMARK).to_numpy()
            # If a batch is in order already, it needs neither a sort nor a copy.
            if not in_order and (times[1:] < times[:-1]).any():
                order = np.argsort(times, kind="stable")
                records, times = records.take(pa.array(order)), times[order]
        distinct, codes, first = self.keys.read(records)
        batch = KeyedBatch(records, Groups(codes, first), times)
        return ColumnRecords(DistinctKeys(len(batch), distinct), batch, times)


@attrs.frozen
class BatchKeyColumns:
    """Makes key columns from the keys in an index.

    Args:
        names: The names of the columns; if the host has no columns, they are empty and the one
            column is called `key`.
    """

    key_type: TypeInformation
    names: Sequence[str]

    def of(self, keys: Any) -> pa.RecordBatch:
        """Return the key columns of keys, which come as the Arrow column of the index."""
        names = list(self.names) or ["key"]
        return pa.RecordBatch.from_arrays(self._parts(keys, len(names)), names=names)

    def _parts(self, keys: Any, count: int) -> list[Any]:
        if pa.types.is_binary(keys.type):  # the index holds encoded keys
            shown = [self.key_type.thaw_key(key) for key in self.key_type.from_arrow(keys)]
            parts = [shown] if count == 1 else list(zip(*shown))
            return [pa.array(part) for part in parts]
        if pa.types.is_struct(keys.type) and count > 1:
            return [*keys.flatten()]
        return [keys]


@attrs.define
class ColumnOutputs(Outputs):
    """`Outputs` whose elements are record batches, without keys."""

    def __len__(self) -> int:
        every = [*self.main, *(batch for _, batches in self.side.values() for batch in batches)]
        return sum(batch.num_rows for batch in every)

    def emit_columns(self, columns: Any, method: str) -> None:
        """Add the result of one call.

        Args:
            columns: The result of the call; None for no output.
            method: The name of the called method, for messages.

        Raises:
            OutputError: The result is not columns.
        """
        batch = _batch_of(columns, method)
        if batch is not None and batch.num_rows:
            self.main.append(batch)
            # The layout of outputs wants a key for each output, and rows of columns come without a key.
            self.keys.append(None)

    def emit_side_columns(self, tag: OutputTag, columns: Any) -> None:
        """Add rows of a side output.

        Raises:
            OutputError: The rows are not columns, or the tag is no `OutputTag`.
        """
        if not isinstance(tag, OutputTag):
            msg = f"ctx.output takes an OutputTag first, got {short_repr(tag)}; write OutputTag({tag!r})"
            raise OutputError(msg)
        batch = _batch_of(columns, f"side output {tag.tag_id!r}")
        if batch is not None and batch.num_rows:
            keys, batches = self.side.setdefault(tag.tag_id, ([], []))
            keys.append(None)
            batches.append(batch)


def arrow_batch(columns: Any) -> pa.RecordBatch | None:
    """Return an Arrow batch or table, or a DataFrame, as one batch; None if it is none of these.

    Raises:
        pa.ArrowException, TypeError, ValueError: Arrow has no types for the columns.
    """
    # Found by its methods, so that neither Polars nor pandas must be installed.
    if hasattr(columns, "to_arrow"):  # Polars
        columns = columns.to_arrow()
    elif hasattr(columns, "iloc"):  # pandas
        columns = pa.Table.from_pandas(columns, preserve_index=False)
    if isinstance(columns, pa.Table):
        batches = columns.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=columns.schema)
    return columns if isinstance(columns, pa.RecordBatch) else None


def _batch_of(columns: Any, what: str) -> pa.RecordBatch | None:
    if columns is None:
        return None
    try:
        is_mapping = isinstance(columns, Mapping)
        batch = _of_mapping(columns, what) if is_mapping else arrow_batch(columns)
    except OutputError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        msg = f"{what}: the output must be columns of Arrow's types, got {shown_message(error)}"
        raise OutputError(msg) from error
    if batch is None:
        msg = (
            f"{what} takes a mapping of columns, an Arrow batch or a DataFrame as output, got "
            f"{short_repr(columns)}; return for example {{'user': batch['user'], 'total': totals}}"
        )
        raise OutputError(msg)
    return batch


def _of_mapping(columns: Mapping[str, Any], what: str) -> pa.RecordBatch:
    arrays = {name: _array(values) for name, values in columns.items()}
    lengths = {name: len(each) for name, each in arrays.items()}
    if len(set(lengths.values())) > 1:
        msg = (
            f"{what}: columns must be of one length, got {lengths}; groups.spread() turns one "
            "value for each key into one for each record"
        )
        raise OutputError(msg)
    return pa.RecordBatch.from_pydict(arrays)


def _array(values: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values if isinstance(values, pa.Array) else pa.array(values)
