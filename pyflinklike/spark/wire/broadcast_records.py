# SPDX-License-Identifier: Apache-2.0
"""Reads the records of an operator with a broadcast input, which is the second one of two.

Both inputs come as one DataFrame, as those of `connected_records`.  Packing makes a payload for each
key group of every chunk of the broadcast input; so each key group is given all its elements, in the
order in which they arrived, also one that has no other records in a micro-batch.  They come before
the records of their micro-batch.  Where an operator is before it, those that it emitted while the
watermark moved come before the watermark: a timer that this one makes due finds their rules there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
import pyarrow as pa
from pyspark import TaskContext

from pyflinklike.runtime.serving import NO_RECORDS, Records, RecordsAfterBroadcast
from pyflinklike.spark.wire.connected_records import INPUT_NUMBER, by_input, payloads_by_input
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.packing import Packing, pack, refuse_null_keys
from pyflinklike.spark.wire.records import RecordReader
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.types import TypeInformation

__all__ = ["BroadcastReader"]

_MAIN, _BROADCAST = 1, 2


@attrs.frozen
class BroadcastReader:
    """Reads the records of both inputs.

    Args:
        main: Of the input that is not broadcast; without key columns where it has no keys.
        rules: Of the broadcast input, which has no key columns, and comes in the order of arrival
            whatever its event time: what rules come to depends on it.
    """

    main: RecordReader
    rules: RecordReader

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Names of the key columns, if there are keys."""
        return self.main.key_columns

    @property
    def event_time(self) -> str | None:
        """Name of the event-time column of the input that is not broadcast, or None."""
        return self.main.event_time

    @property
    def key_type(self) -> TypeInformation:
        """Of the keys."""
        return self.main.key_type

    @property
    def time_zone(self) -> str:
        """Of the Spark session."""
        return self.main.time_zone

    @property
    def before_watermark(self) -> str | None:
        """Names of the columns that say which records come before the watermark, or None."""
        names = dict.fromkeys((self.main.before_watermark, self.rules.before_watermark))
        return ", ".join(name for name in names if name) or None

    def packing(self, group_ids: Sequence[int]) -> Packing:
        """What packs the records of a task.

        Args:
            group_ids: The grouping key of each key group.
        """
        packed = pack((), group_ids)
        return lambda batches: packed(self._apart(batches, len(group_ids)))

    def _apart(self, batches: Iterable[pa.RecordBatch], groups: int) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        dealt = context.partitionId() if context else 0
        for batch in batches:
            for number, records in by_input(batch):
                if number == _BROADCAST:
                    mine = records.drop_columns([KEY_GROUP])
                elif self.main.key_columns:
                    refuse_null_keys(records, self.main.key_columns)
                    mine = records
                else:
                    mine = _dealt(records, dealt, groups)
                    dealt += records.num_rows
                yield mine.replace_schema_metadata({INPUT_NUMBER: str(number)})

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """The records of a key group's payloads, behind the elements of the broadcast input."""
        return self.read_apart(payloads)[1]

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """The same: those that come before the watermark of their micro-batch, and the others."""
        main, rules = payloads_by_input(payloads)
        nothing = NO_RECORDS, NO_RECORDS
        sides = self.main.read_apart(main) if main else nothing
        broadcast = self.rules.read_apart(rules) if rules else nothing
        early, others = map(_behind, broadcast, map(self._keyed, sides))
        return early, others

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """The records of a batch that are in their final order: the broadcast input's first.

        Raises:
            StateValueError: A record has a null key.
        """
        inputs = dict(by_input(records))
        main, rules = inputs.get(_MAIN), inputs.get(_BROADCAST)
        read = NO_RECORDS if main is None else self._keyed(self.main.read_sorted(main))
        return read if rules is None else _behind(self.rules.read_sorted(rules), read)

    def _keyed(self, records: Records) -> Records:
        if self.main.key_columns:
            return records
        return Records([GROUP_KEY] * len(records.values), records.values, records.timestamps)


def _behind(rules: Records, records: Records) -> Records:
    if not rules.values:
        return records
    return RecordsAfterBroadcast(records, list(zip(rules.values, rules.timestamps)))


def _dealt(records: pa.RecordBatch, start: int, groups: int) -> pa.RecordBatch:
    """Records without keys, given to the key groups in turn."""
    numbers = [(start + at) % groups for at in range(records.num_rows)]
    bare = records.drop_columns([KEY_GROUP])
    return bare.append_column(KEY_GROUP, pa.array(numbers, pa.int32()))
