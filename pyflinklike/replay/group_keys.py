# SPDX-License-Identifier: Apache-2.0
"""The keys that have entries in a key group, table by table, wherever its log comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import pyarrow as pa

from pyflinklike.errors import PyflinklikeError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.savepoint import read_log
from pyflinklike.log.storage import Head
from pyflinklike.replay.codes import codes_of, last_of_each, numbers
from pyflinklike.replay.group import sections_by_table
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.table import StoredTable, replayed
from pyflinklike.state.table import RESERVED_PREFIX

__all__ = ["StoredKeys"]


@attrs.frozen
class StoredKeys:
    """Read the keys of key groups; a reader is pickled for the workers that do so.

    Args:
        record: Record of the operator.
    """

    record: OperatorRecord

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows: key columns, a state that has entries of the key, key group.

        Raises:
            IncompatibleStateError: The keys are of a type that cannot be read.
        """
        fields = KeyColumns.of(self.record).fields
        return pa.schema(
            [*fields, pa.field("state", pa.string()), pa.field("key_group", pa.int32())]
        )

    def read(
        self, index: int, head: Head, blobs: Mapping[int, bytes], where: str
    ) -> Iterator[pa.RecordBatch]:
        """Return the keys of one key group; keys of a damaged table are left out.

        Args:
            index: Index of the group.
            head: Head of the group.
            blobs: Segments by sequence number.
            where: Name of the group, for messages.
        """
        try:
            tables = sections_by_table(read_log(head, blobs, where), where)
        except PyflinklikeError:
            return
        columns = KeyColumns.of(self.record)
        for name, sections in tables.items():
            declaration = sections[-1].declaration
            if declaration.per_group:
                continue
            try:
                entries = replayed(StoredTable(declaration), sections, where)
                keys = columns.shown(_distinct(entries.column("key").combine_chunks()))
            except (PyflinklikeError, pa.ArrowException):
                continue
            what = "timers" if name.startswith(RESERVED_PREFIX) else f"state {name!r}"
            rows = len(keys[0])
            arrays = [
                *keys,
                pa.repeat(pa.scalar(what), rows),
                pa.repeat(pa.scalar(index, pa.int32()), rows),
            ]
            yield from pa.table(arrays, schema=self.schema).to_batches()


def _distinct(keys: pa.Array) -> pa.Array:
    codes = codes_of([keys], len(keys))
    return keys.take(last_of_each(codes, numbers(len(keys))).drop_null())
