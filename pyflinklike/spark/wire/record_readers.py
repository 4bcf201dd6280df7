# SPDX-License-Identifier: Apache-2.0
"""The reader for an operator with two inputs.

Both inputs come as one DataFrame: a column with the number of the input, and for each input a
column with its records as structs.  Packing takes the inputs apart again.  So a payload holds the
records of one input with the columns of that input only; the metadata of its schema names the
input.

If both inputs have an event time, the records of a micro-batch are processed by event time; at
equal times the first input comes first.  Otherwise all records of the first input come first.
Flink promises no order between two inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.runtime.serving import NO_RECORDS, Records, UnsortedRecords
from pyflinklike.spark.wire.names import INPUT, INPUTS, KEY_GROUP
from pyflinklike.spark.wire.packing import Packing, pack, refuse_null_keys
from pyflinklike.spark.wire.records import RecordReader
from pyflinklike.types import TypeInformation

__all__ = ["INPUT_NUMBER", "ConnectedReader", "by_input", "payloads_by_input"]

INPUT_NUMBER = INPUT.encode()
"""The metadata key under which the schema of a payload holds the number of its input."""


@attrs.frozen
class ConnectedReader:
    """Reads the elements of two inputs as pairs of input number and element.

    Args:
        inputs: The reader of each input's own columns.
    """

    inputs: tuple[RecordReader, RecordReader]

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the key columns of the first input."""
        return self.inputs[0].key_columns

    @property
    def event_time(self) -> str | None:
        """The names of the event-time columns, or None."""
        names = dict.fromkeys(each.event_time for each in self.inputs if each.event_time)
        return ", ".join(names) or None

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys of both inputs."""
        return self.inputs[0].key_type

    @property
    def time_zone(self) -> str:
        """The time zone of the Spark session."""
        return self.inputs[0].time_zone

    @property
    def before_watermark(self) -> str | None:
        """The names of the columns that say which records come before the watermark, or None."""
        names = dict.fromkeys(each.before_watermark for each in self.inputs)
        return ", ".join(name for name in names if name) or None

    def packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task.

        Args:
            group_ids: The grouping key of each key group.
        """
        packed = pack((), group_ids)
        return lambda batches: packed(self._apart(batches))

    def _apart(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, records in by_input(batch):
                refuse_null_keys(records, self.inputs[number - 1].key_columns)
                yield records.replace_schema_metadata({INPUT_NUMBER: str(number)})

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Read the records of a key group in the order in which to process them."""
        first, second = payloads_by_input(payloads)
        return self._merged(
            self.inputs[0].read_payloads(first) if first else NO_RECORDS,
            self.inputs[1].read_payloads(second) if second else NO_RECORDS,
        )

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""
        nothing = NO_RECORDS, NO_RECORDS
        first, second = (
            reader.read_apart(mine) if mine else nothing
            for reader, mine in zip(self.inputs, payloads_by_input(payloads))
        )
        return self._merged(first[0], second[0]), self._merged(first[1], second[1])

    def _merged(self, first: Records, second: Records) -> Records:
        keys = [*first.keys, *second.keys]
        values: list[Any] = [*zip(repeat(1), first.values), *zip(repeat(2), second.values)]
        times = [*first.timestamps, *second.timestamps]
        is_timed = all(each.event_time for each in self.inputs)
        if self._as_arrived():
            return UnsortedRecords(keys, values, times)
        if is_timed and first.keys and second.keys:
            # Python's sort merges two ordered runs with about one comparison per record.
            ranks = [MIN_WATERMARK if time is None else time for time in times]
            order = sorted(range(len(ranks)), key=ranks.__getitem__)
            keys, values = ([each[at] for at in order] for each in (keys, values))
            times = [times[at] for at in order]
        return Records(keys, values, times)

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Read sorted records.

        Raises:
            StateValueError: A record has a null key.
        """
        rows: dict[int, Iterator[tuple[Any, ...]]] = {}
        for number, mine in by_input(records):
            read = self.inputs[number - 1].read_sorted(mine)
            rows[number] = zip(read.keys, zip(repeat(number), read.values), read.timestamps)
        numbers = records.column(INPUT).to_pylist()
        columns = map(list, zip(*(next(rows[number]) for number in numbers)))
        return (UnsortedRecords if self._as_arrived() else Records)(*columns)

    def _as_arrived(self) -> bool:
        return any(each.arrival_order for each in self.inputs)


def payloads_by_input(payloads: Sequence[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """Divide the payloads of a key group by input, in the order of arrival."""
    return [
        [each for each in payloads if each.schema.metadata[INPUT_NUMBER] == number]
        for number in (b"1", b"2")
    ]


def by_input(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divide records of both inputs: yield each input that has any with its own columns.

    Args:
        batch: Records of the union of both inputs, with or without their key groups.
    """
    numbers = batch.column(INPUT)
    for number, column in enumerate(INPUTS, 1):
        mine = batch.filter(pc.equal(numbers, number))
        if not mine.num_rows:
            continue
        structs = mine.column(column)
        names = [structs.type.field(at).name for at in range(structs.type.num_fields)]
        columns = structs.flatten()
        if KEY_GROUP in batch.schema.names:
            names, columns = [KEY_GROUP, *names], [mine.column(KEY_GROUP), *columns]
        yield number, pa.RecordBatch.from_arrays(columns, names=names)
