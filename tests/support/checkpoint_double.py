# SPDX-License-Identifier: Apache-2.0
"""Spark's state operator without Spark: what it calls a processor with, and keeps of it.

checkpoint = Checkpoint()
checkpoint.run(Program(Count(), max_parallelism=4), [("a", 1)], time=1)    # one micro-batch
checkpoint.run(Program(Count(), max_parallelism=8), [("a", 1)], time=2)    # after a restart
"""

from __future__ import annotations

import copy
import uuid
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st

from pyflinklike import HashMapStateBackend, KeyedProcessFunction, Types
from pyflinklike.log.operator_record import RECORD_AT, ROLL_AT, OperatorRecord
from pyflinklike.log.roll import Roll
from pyflinklike.log.storage import Head
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.spark.hosts.log_storage import HEAD_AT
from pyflinklike.spark.hosts.streaming import KeyGroupProcessor, PandasKeyGroupProcessor
from pyflinklike.spark.setup.plan import Plan, TimeMode
from pyflinklike.spark.wire.balanced_ids import group_ids
from pyflinklike.spark.wire.names import BATCH_TIME, KEY_GROUP
from pyflinklike.spark.wire.output_layout import OutputLayout
from pyflinklike.spark.wire.packing import pack, payload_to_batch
from pyflinklike.spark.wire.records import RecordReader
from pyflinklike.spark.wire.roll_call import ROLL_CALL

_PROCESSORS = {False: KeyGroupProcessor, True: PandasKeyGroupProcessor}
_OUTPUT = st.StructType([st.StructField("k", st.StringType()), st.StructField("n", st.LongType())])


@attrs.frozen
class Program:
    """What `process` is told.

    Args:
        function: Of strings, with records of `key` and `n`.
        max_parallelism: The number of key groups.
        name: Of the operator.
        key_columns: What the record says of them.
        time_mode: Of the query.
        pandas: Whether Spark hands rows over as Spark 4.0 does.
    """

    function: KeyedProcessFunction
    max_parallelism: int = 4
    name: str = "counted"
    key_columns: tuple[tuple[str, str], ...] = (("key", "string"),)
    time_mode: TimeMode = TimeMode.PROCESSING_TIME
    pandas: bool = False

    def plan(self) -> Plan:
        """What the workers are told."""
        task = TaskInfo(
            self.name, max_parallelism=self.max_parallelism, key_columns=self.key_columns
        )
        return Plan(
            self.function,
            HashMapStateBackend(),
            Types.STRING(),
            task,
            self.time_mode,
            RecordReader(("key",), None, Types.STRING(), "UTC"),
            OutputLayout(_OUTPUT, {}, "UTC", self.name),
            f"double-{uuid.uuid4()}",
        )

    def group_of(self, key: str) -> int:
        """The key group of a key."""
        return zlib.crc32(key.encode()) % self.max_parallelism


class Checkpoint:
    """The state of one operator, by grouping key; a batch that fails leaves it as it was."""

    def __init__(self) -> None:
        self.blobs: dict[int, dict[int, bytes]] = {}
        self.timers: dict[int, set[int]] = {}
        self.calls = 0
        """Of state, in the last batch: each is a round trip."""

    def run(self, program: Program, records: Iterable[tuple[str, int]], time: int) -> list[Any]:
        """A micro-batch with data; what the function gave."""
        return self._transaction(program, packed_records(program, list(records), time), {}, time)

    def begin(self, program: Program, rows: Mapping[int, list[bytes]], time: int) -> list[Any]:
        """The first micro-batch, with an initial state: payloads by grouping key."""
        rows_of = {key: _rows(time, payloads) for key, payloads in rows.items()}
        return self._transaction(program, packed_records(program, [], time), rows_of, time)

    def expire(self, program: Program, time: int) -> list[Any]:
        """A micro-batch without data: timers alone."""
        return self._transaction(program, {}, {}, time)

    def record(self) -> OperatorRecord:
        """Of the operator."""
        return OperatorRecord.from_bytes(self.blobs[ROLL_CALL][RECORD_AT], "double")

    def roll(self) -> Roll:
        """Of its key groups."""
        return Roll.from_bytes(self.blobs[ROLL_CALL][ROLL_AT], "double")

    def heads(self, program: Program) -> dict[int, Head]:
        """By index of the key group."""
        ids = group_ids(program.max_parallelism)
        return {
            ids.index(key): Head.from_bytes(blobs[HEAD_AT], "test")
            for key, blobs in self.blobs.items()
            if key != ROLL_CALL
        }

    def _transaction(
        self, program: Program, data: dict[int, list[Any]], initial: dict[int, list[Any]], time: int
    ) -> list[Any]:
        handle: Any = _Handle(copy.deepcopy(self.blobs), copy.deepcopy(self.timers))
        processor = _PROCESSORS[program.pandas](program.plan())
        handed = _frames if program.pandas else list
        processor.init(handle)
        times = _Times(time)
        results: list[Any] = []
        for key in sorted(data.keys() | initial.keys()):
            handle.key = key
            for row in handed(initial.get(key, [])):
                processor.handleInitialState((key,), row, times)
            if key in data:
                results += processor.handleInputRows((key,), iter(handed(data[key])), times)
        for key in sorted(handle.timers):
            for due in sorted(each for each in handle.timers[key] if each <= time):
                handle.key = key
                results += processor.handleExpiredTimer((key,), times, _Expired(due))
                handle.timers[key].discard(due)
        processor.close()
        self.blobs, self.timers, self.calls = handle.blobs, handle.timers, handle.calls
        if program.pandas:
            results = [row for frame in results for _, row in frame.iterrows()]
        rows = [payload_to_batch(row["payload"]).to_pylist() for row in results if row["payload"]]
        return sorted(tuple(row.values()) for some in rows for row in some)


def packed_records(
    program: Program, records: list[tuple[str, int]], time: int
) -> dict[int, list[dict[str, Any]]]:
    """Records as Spark hands them over after packing: rows by grouping key."""
    columns: dict[str, Any] = {
        KEY_GROUP: pa.array([program.group_of(key) for key, _ in records], pa.int32()),
        "key": pa.array([key for key, _ in records], pa.string()),
        "n": pa.array([n for _, n in records], pa.int64()),
    }
    batch = pa.record_batch(columns)
    rows: dict[int, list[dict[str, Any]]] = {}
    for packed in pack(("key",), group_ids(program.max_parallelism))([batch]):
        for row in packed.to_pylist():
            rows.setdefault(row[KEY_GROUP], []).append({**row, BATCH_TIME: time})
    return rows


def _rows(time: int, payloads: list[bytes]) -> list[dict[str, Any]]:
    return [{"payload": payload, BATCH_TIME: time} for payload in payloads]


def _frames(rows: list[dict[str, Any]]) -> list[Any]:
    import pandas as pd

    return [pd.DataFrame(rows)] if rows else []


@attrs.define
class _Handle:
    blobs: dict[int, dict[int, bytes]]
    timers: dict[int, set[int]]
    key: int = 0
    calls: int = 0

    def getMapState(self, *_: str) -> _Handle:
        return self

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:
        self.calls += 1
        blob = self.blobs.get(self.key, {}).get(key[0])
        return None if blob is None else (blob,)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:
        self.calls += 1
        self.blobs.setdefault(self.key, {})[key[0]] = value[0]

    def clear(self) -> None:
        self.calls += 1
        self.blobs.pop(self.key, None)

    def registerTimer(self, time: int) -> None:
        self.calls += 1
        self.timers.setdefault(self.key, set()).add(time)

    def deleteTimer(self, time: int) -> None:
        self.calls += 1
        self.timers.get(self.key, set()).discard(time)


@attrs.frozen
class _Times:
    now: int

    def getCurrentProcessingTimeInMs(self) -> int:
        return self.now

    def getCurrentWatermarkInMs(self) -> int:
        return 0


@attrs.frozen
class _Expired:
    time: int

    def getExpiryTimeInMs(self) -> int:
        return self.time
