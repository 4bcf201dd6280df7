# SPDX-License-Identifier: Apache-2.0
"""The reader for an operator whose second input is broadcast.

Both inputs come as one DataFrame, like the inputs of a `ConnectedReader`.  Packing makes a payload
for each key group from every chunk of the broadcast input.  So each key group gets all elements of
the broadcast input in the order of arrival, even if it has no other records in the micro-batch.

The broadcast elements come before the other records of their micro-batch.  Behind another
operator, elements that the former operator emitted while its watermark moved come before the
watermark.  So a timer that this watermark makes due finds their rules.
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
        main: Reads the input that is not broadcast; has no key columns if that input has no keys.
        rules: Reads the broadcast input.  It has no key columns and keeps the order of arrival
            whatever the event time, because the result of rules depends on their order.
    """

    main: RecordReader
    rules: RecordReader

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the key columns, if there are keys."""
        return self.main.key_columns

    @property
    def event_time(self) -> str | None:
        """The name of the event-time column of the input that is not broadcast, or None."""
        return self.main.event_time

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""
        return self.main.key_type

    @property
    def time_zone(self) -> str:
        """The time zone of the Spark session."""
        return self.main.time_zone

    @property
    def before_watermark(self) -> str | None:
        """The names of the columns that say which records come before the watermark, or None."""
        names = dict.fromkeys((self.main.before_watermark, self.rules.before_watermark))
        return ", ".join(name for name in names if name) or None

    def packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task.

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
        """Read the records of a key group, behind the elements of the broadcast input."""
        return self.read_apart(payloads)[1]

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""
        main, rules = payloads_by_input(payloads)
        nothing = NO_RECORDS, NO_RECORDS
        sides = self.main.read_apart(main) if main else nothing
        broadcast = self.rules.read_apart(rules) if rules else nothing
        early, others = map(_behind, broadcast, map(self._keyed, sides))
        return early, others

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Read sorted records, those of the broadcast input first.

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
    """Deal records without keys to the key groups in turn."""
    numbers = [(start + at) % groups for at in range(records.num_rows)]
    bare = records.drop_columns([KEY_GROUP])
    return bare.append_column(KEY_GROUP, pa.array(numbers, pa.int32()))
