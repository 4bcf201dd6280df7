# SPDX-License-Identifier: Apache-2.0
"""Outputs of a `KeyedBatchFunction`: Arrow record batches, gathered until the host takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.errors import OutputError
from pyflinklike.runtime.outputs import Outputs
from pyflinklike.shown import shown, shown_message

__all__ = ["ColumnOutputs"]


@attrs.define
class ColumnOutputs(Outputs):
    """`Outputs` whose elements are record batches, without keys."""

    def __len__(self) -> int:
        every = [*self.main, *(batch for _, batches in self.side.values() for batch in batches)]
        return sum(batch.num_rows for batch in every)

    def emit_columns(self, columns: Any, method: str) -> None:
        """Add the result of one call.

        Args:
            columns: What the call returned; None for no output.
            method: The name of the called method, for messages.

        Raises:
            OutputError: The result is not columns.
        """
        batch = _batch_of(columns, method)
        if batch is not None and batch.num_rows:
            self.main.append(batch)
            self.keys.append(None)

    def emit_side_columns(self, tag: OutputTag, columns: Any) -> None:
        """Add rows of a side output.

        Raises:
            OutputError: The rows are not columns, or the tag is no `OutputTag`.
        """
        if not isinstance(tag, OutputTag):
            msg = f"ctx.output takes an OutputTag first, got {shown(tag)}; write OutputTag({tag!r})"
            raise OutputError(msg)
        batch = _batch_of(columns, f"side output {tag.tag_id!r}")
        if batch is not None and batch.num_rows:
            keys, batches = self.side.setdefault(tag.tag_id, ([], []))
            keys.append(None)
            batches.append(batch)


def _batch_of(columns: Any, what: str) -> pa.RecordBatch | None:
    if columns is None or isinstance(columns, pa.RecordBatch):
        return columns
    try:
        if isinstance(columns, Mapping):
            return _of_mapping(columns, what)
        if hasattr(columns, "to_arrow"):  # Polars
            columns = columns.to_arrow()
        if isinstance(columns, pa.Table):
            table = columns
        elif hasattr(columns, "columns") and hasattr(columns, "iloc"):  # pandas
            table = pa.Table.from_pandas(columns, preserve_index=False)
        else:
            msg = (
                f"{what} gives a mapping of columns, an Arrow batch or a DataFrame, got "
                f"{shown(columns)}; return for example {{'user': batch['user'], 'total': totals}}"
            )
            raise OutputError(msg)
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else None
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, OutputError):
            raise
        msg = f"{what}: what it gives must be columns of Arrow's types, got {shown_message(error)}"
        raise OutputError(msg) from error


def _of_mapping(columns: Mapping[str, Any], what: str) -> pa.RecordBatch:
    arrays = {name: _array(values) for name, values in columns.items()}
    lengths = {name: len(each) for name, each in arrays.items()}
    if len(set(lengths.values())) > 1:
        msg = (
            f"{what}: columns must be of one length, got {lengths}; groups.spread() makes one "
            "value for each record of one for each key"
        )
        raise OutputError(msg)
    return pa.RecordBatch.from_pydict(arrays)


def _array(values: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values if isinstance(values, pa.Array) else pa.array(values)
