# SPDX-License-Identifier: Apache-2.0
"""Readers, by which hosts pack records and read them back in the order of processing.

Two inputs come as one DataFrame.  It has a column with the number of the input, and a column of
structs with the records of each input.  Packing takes the inputs apart again, so a payload holds
records of one input with the columns of that input only.  The metadata of its schema names the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.micro_batch import (
    NO_RECORDS,
    Records,
    RecordsAfterBroadcast,
    UnsortedRecords,
)
from pyflinklike.spark._wire.payloads import Packing, pack, refuse_null_keys
from pyflinklike.spark._wire.schema import InstantKeyTypeInfo
from pyflinklike.spark._wire.system_columns import INPUT, INPUTS, KEY_GROUP, take_apart
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import milliseconds, to_python, to_rows


class Reader(Protocol):
    """Packs and reads the records of an operator."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the columns that make the key; if there are two inputs, the first one's."""

    @property
    def event_time(self) -> str | None:
        """The name of the event-time column, or None; if there are two inputs, both names."""

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""

    @property
    def time_zone(self) -> str:
        """The time zone of the Spark session."""

    @property
    def before_watermark(self) -> str | None:
        """The column that says which records come before the watermark; None if none do."""

    def make_packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task.

        Args:
            group_ids: The grouping key of each key group.
        """

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Read the records of a key group in the order in which to process them.

        Args:
            payloads: Payloads that `make_packing` made, in the order of arrival.
        """

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Read the records of one key group that are in their final order.

        Raises:
            StateValueError: A record has a null key.
        """


@attrs.frozen
class RecordReader:
    """Reads the records of one input.

    Args:
        key_columns: The columns that make the key; if there are none, the only key is ().
        event_time: The event-time column, or None.
        key_type: The type by which keys are frozen.
        time_zone: The zone of the Spark session, in which a function sees instants.
        arrival_order: Whether to keep the order of arrival even if there is an event time.
        before_watermark: The column that says which records come before the watermark of their
            micro-batch; None unless the operator is behind another one.
    """

    key_columns: tuple[str, ...]
    event_time: str | None
    key_type: TypeInformation
    time_zone: str
    arrival_order: bool = attrs.field(default=False, kw_only=True)
    before_watermark: str | None = attrs.field(default=None, kw_only=True)

    def make_packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task."""
        return pack(self.key_columns, group_ids)

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Read the records of a key group from payloads in the order of arrival."""
        return self.read(pa.concat_batches(payloads))

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""
        records = pa.concat_batches(payloads)
        if self.before_watermark is None:
            return NO_RECORDS, self.read(records)
        early, others = take_apart(records, self.before_watermark)
        return self.read(early), self.read(others)

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Read the records of one key group that are in their final order."""
        refuse_null_keys(records, self.key_columns)
        return self.read(records, in_order=True)

    def read(self, records: pa.RecordBatch, *, in_order: bool = False) -> Records:
        """Read records in the order in which to process them.

        If there is an event time, it orders the records, in ms; records of equal times keep the
        order of arrival, and records without a time come first.  `arrival_order` keeps the order
        of arrival throughout.

        Args:
            records: The records in the order of arrival.
            in_order: Whether this is the final order, so that no sort is needed.
        """
        times: list[int | None]
        if self.event_time is None:
            times = [None] * records.num_rows
        else:
            column = milliseconds(records.column(self.event_time))
            if not in_order and not self.arrival_order:
                # Arrow's sort is stable: records of one time keep their order of arrival.
                order = pc.sort_indices(pc.fill_null(column, MIN_WATERMARK))
                records, column = records.take(order), column.take(order)
            times = column.to_pylist()
        names = tuple(records.schema.names)
        columns = [to_python(column, self.time_zone) for column in records.columns]
        elements = to_rows(names, columns, records.num_rows)
        if isinstance(self.key_type, InstantKeyTypeInfo):
            keys = self.key_type.frozen([records.column(name) for name in self.key_columns])
        elif not self.key_columns:
            keys = [()] * records.num_rows
        else:
            keys = self._keys([columns[names.index(name)] for name in self.key_columns])
        return (UnsortedRecords if self.arrival_order else Records)(keys, elements, times)

    def _keys(self, columns: list[list[Any]]) -> list[Any]:
        keys: list[Any] = columns[0] if len(columns) == 1 else list(zip(*columns))
        # Keys of an identity type need no call for each.
        return keys if self.key_type.is_identity else [self.key_type.freeze_key(k) for k in keys]


_INPUT_NUMBER = INPUT.encode()
"""The metadata key under which the schema of a payload holds the number of its input."""


@attrs.frozen
class _TwoInputReader:
    """The base class of readers of two inputs; the first input has the keys."""

    @property
    def inputs(self) -> tuple[RecordReader, RecordReader]:
        """The reader of each input's own columns."""
        raise NotImplementedError

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the key columns of the first input."""
        return self.inputs[0].key_columns

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""
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


@attrs.frozen
class ConnectedReader(_TwoInputReader):
    """Reads the elements of two inputs as pairs of input number and element.

    If both inputs have an event time, the records of a micro-batch are processed by event time; at
    equal times the first input comes first.  Otherwise all records of the first input come first.
    Flink promises no order between two inputs.

    Args:
        inputs: The reader of each input's own columns.
    """

    inputs: tuple[RecordReader, RecordReader]

    @property
    def event_time(self) -> str | None:
        """The names of the event-time columns, or None."""
        names = dict.fromkeys(each.event_time for each in self.inputs if each.event_time)
        return ", ".join(names) or None

    def make_packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task."""
        packed = pack((), group_ids)
        return lambda batches: packed(self._apart(batches))

    def _apart(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, records in _by_input(batch):
                refuse_null_keys(records, self.inputs[number - 1].key_columns)
                yield records.replace_schema_metadata({_INPUT_NUMBER: str(number)})

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Read the records of a key group in the order in which to process them."""
        first, second = _payloads_by_input(payloads)
        return self._merge(
            self.inputs[0].read_payloads(first) if first else NO_RECORDS,
            self.inputs[1].read_payloads(second) if second else NO_RECORDS,
        )

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""
        nothing = NO_RECORDS, NO_RECORDS
        first, second = (
            reader.read_apart(mine) if mine else nothing
            for reader, mine in zip(self.inputs, _payloads_by_input(payloads))
        )
        return self._merge(first[0], second[0]), self._merge(first[1], second[1])

    def _merge(self, first: Records, second: Records) -> Records:
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
        """Read the records of one key group that are in their final order."""
        rows: dict[int, Iterator[tuple[Any, ...]]] = {}
        for number, mine in _by_input(records):
            read = self.inputs[number - 1].read_sorted(mine)
            rows[number] = zip(read.keys, zip(repeat(number), read.values), read.timestamps)
        numbers = records.column(INPUT).to_pylist()
        columns = map(list, zip(*(next(rows[number]) for number in numbers)))
        return (UnsortedRecords if self._as_arrived() else Records)(*columns)

    def _as_arrived(self) -> bool:
        return any(each.arrival_order for each in self.inputs)


def _payloads_by_input(payloads: Sequence[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """Divide the payloads of a key group by input, in the order of arrival."""
    return [
        [each for each in payloads if each.schema.metadata[_INPUT_NUMBER] == number]
        for number in (b"1", b"2")
    ]


def _by_input(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divide records of both inputs: yield the number and the records of each input with records.

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


_MAIN, _BROADCAST = 1, 2


@attrs.frozen
class BroadcastReader(_TwoInputReader):
    """Reads the records of an input, and the elements of a second one that is broadcast.

    Packing makes a payload for each key group from every chunk of the broadcast input.  So each key
    group gets all its elements in the order of arrival, even if it has no other records in the
    micro-batch.

    The broadcast elements come before the other records of their micro-batch.  Behind another
    operator, elements that the former operator emitted while its watermark moved come before the
    watermark.  So a timer that this watermark makes due finds their rules.

    Args:
        main: Reads the input that is not broadcast; it has no key columns if that input has no keys.
        rules: Reads the broadcast input.  It has no key columns, and keeps the order of arrival even
            if there is an event time, because the result of rules depends on their order.
    """

    main: RecordReader
    rules: RecordReader

    @property
    def inputs(self) -> tuple[RecordReader, RecordReader]:
        """The reader of each input's own columns."""
        return self.main, self.rules

    @property
    def event_time(self) -> str | None:
        """The name of the event-time column of the input that is not broadcast, or None."""
        return self.main.event_time

    def make_packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task."""
        packed = pack((), group_ids)
        return lambda batches: packed(self._apart(batches, len(group_ids)))

    def _apart(self, batches: Iterable[pa.RecordBatch], groups: int) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        dealt = context.partitionId() if context else 0
        for batch in batches:
            for number, records in _by_input(batch):
                if number == _BROADCAST:
                    mine = records.drop_columns([KEY_GROUP])
                elif self.main.key_columns:
                    refuse_null_keys(records, self.main.key_columns)
                    mine = records
                else:
                    mine = _dealt(records, dealt, groups)
                    dealt += records.num_rows
                yield mine.replace_schema_metadata({_INPUT_NUMBER: str(number)})

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Read the records of a key group, behind the elements of the broadcast input."""
        return self.read_apart(payloads)[1]

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""
        main, rules = _payloads_by_input(payloads)
        nothing = NO_RECORDS, NO_RECORDS
        sides = self.main.read_apart(main) if main else nothing
        broadcast = self.rules.read_apart(rules) if rules else nothing
        early, others = map(_behind, broadcast, map(self._add_keys, sides))
        return early, others

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Read the records of one key group, the broadcast ones first."""
        inputs = dict(_by_input(records))
        main, rules = inputs.get(_MAIN), inputs.get(_BROADCAST)
        read = NO_RECORDS if main is None else self._add_keys(self.main.read_sorted(main))
        return read if rules is None else _behind(self.rules.read_sorted(rules), read)

    def _add_keys(self, records: Records) -> Records:
        if self.main.key_columns:
            return records
        return Records([GROUP_KEY] * len(records.values), records.values, records.timestamps)


def _behind(rules: Records, records: Records) -> Records:
    if not rules.values:
        return records
    return RecordsAfterBroadcast(records, list(zip(rules.values, rules.timestamps)))


def _dealt(records: pa.RecordBatch, start: int, groups: int) -> pa.RecordBatch:
    """Deal records without keys to the key groups in turn."""
    numbers = [(start + at) % groups for at in range(records.num_rows)]
    bare = records.drop_columns([KEY_GROUP])
    return bare.append_column(KEY_GROUP, pa.array(numbers, pa.int32()))
