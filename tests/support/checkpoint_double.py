# SPDX-License-Identifier: Apache-2.0
"""Spark's state operator without Spark: what it calls a processor with, and keeps of it.

checkpoint = Checkpoint()
checkpoint.run(Program(Count(), max_parallelism=4), [("a", 1)], time=1)    # one micro-batch
checkpoint.run(Program(Count(), max_parallelism=8), [("a", 1)], time=2)    # after a restart
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import pytest
from program_double import Program, packed_records

from pyflinklike.engine.log.log_storage import Head
from pyflinklike.engine.log.operator_record import RECORD_AT, ROLL_AT, OperatorRecord, Roll
from pyflinklike.spark.host.blob_map import HEAD_AT
from pyflinklike.spark.host.host_choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.plan.operator_plan import TimeMode
from pyflinklike.spark.wire.key_groups import ROLL_CALL, group_ids
from pyflinklike.spark.wire.own_columns import BATCH_TIME
from pyflinklike.spark.wire.payloads import payload_to_batch

if not HAS_TRANSFORM_WITH_STATE:
    pytest.skip("PySpark 3.5 has no transformWithState", allow_module_level=True)

from pyflinklike.spark.host.streaming_host import KeyGroupProcessor, PandasKeyGroupProcessor

__all__ = ["Checkpoint", "Handle", "Program", "Times"]

_PROCESSORS = {False: KeyGroupProcessor, True: PandasKeyGroupProcessor}


class Checkpoint:
    """The state of one operator, by grouping key; a batch that fails leaves it as it was."""

    def __init__(self) -> None:
        self.blobs: dict[int, dict[int, bytes]] = {}
        self.timers: dict[int, set[int]] = {}
        self.calls = 0
        """Of state, in the last batch: each is a round trip."""

    def run(self, program: Program, records: Iterable[tuple[str, int]], time: int) -> list[Any]:
        """A micro-batch with data; what the function gave."""
        data = packed_records(program, list(records), time)
        return _tuples(self.transaction(program, data, {}, Times(time)))

    def begin(self, program: Program, rows: Mapping[int, list[bytes]], time: int) -> list[Any]:
        """The first micro-batch, with an initial state: payloads by grouping key."""
        rows_of = {key: _rows(time, payloads) for key, payloads in rows.items()}
        data = packed_records(program, [], time)
        return _tuples(self.transaction(program, data, rows_of, Times(time)))

    def expire(self, program: Program, time: int) -> list[Any]:
        """A micro-batch without data: timers alone."""
        return _tuples(self.transaction(program, {}, {}, Times(time)))

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
            if key > ROLL_CALL
        }

    def transaction(
        self,
        program: Any,
        data: Mapping[int, list[Any]],
        initial: Mapping[int, list[Any]],
        times: Times,
    ) -> list[Any]:
        """A micro-batch; the rows that the processor gave.

        Args:
            program: What `process` is told: it has a `plan`.
            data: Rows by grouping key.
            initial: Rows of the initial state by grouping key.
            times: Of the micro-batch.
        """
        handle: Any = Handle(copy.deepcopy(self.blobs), copy.deepcopy(self.timers))
        processor = _PROCESSORS[program.pandas](program.plan())
        handed = _frames if program.pandas else list
        processor.init(handle)
        results: list[Any] = []
        for key in sorted(data.keys() | initial.keys()):
            handle.key = key
            for row in handed(initial.get(key, [])):
                processor.handleInitialState((key,), row, times)
            if key in data:
                results += processor.handleInputRows((key,), iter(handed(data[key])), times)
        for key in sorted(handle.timers):
            now = times.of(program.time_mode)
            for due in sorted(each for each in handle.timers[key] if each <= now):
                handle.key = key
                results += processor.handleExpiredTimer((key,), times, _Expired(due))
                handle.timers[key].discard(due)
        processor.close()
        self.blobs, self.timers, self.calls = handle.blobs, handle.timers, handle.calls
        if program.pandas:
            results = [row for frame in results for _, row in frame.iterrows()]
        return results


def _tuples(results: list[Any]) -> list[Any]:
    rows = [payload_to_batch(row["payload"]).to_pylist() for row in results if row["payload"]]
    return sorted(tuple(row.values()) for some in rows for row in some)


def _rows(time: int, payloads: list[bytes]) -> list[dict[str, Any]]:
    return [{"payload": payload, BATCH_TIME: time} for payload in payloads]


def _frames(rows: list[dict[str, Any]]) -> list[Any]:
    import pandas as pd

    return [pd.DataFrame(rows)] if rows else []


@attrs.define
class Handle:
    blobs: dict[int, dict[int, bytes]]
    timers: dict[int, set[int]]
    key: int = 0
    calls: int = 0

    def getMapState(self, *_: str) -> Handle:
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
class Times:
    """What Spark says of time in a micro-batch.

    Args:
        now: The processing time in ms.
        watermark: In ms.
    """

    now: int
    watermark: int = 0

    def of(self, mode: TimeMode) -> int:
        """The time by which Spark wakes."""
        return self.watermark if mode is TimeMode.EVENT_TIME else self.now

    def getCurrentProcessingTimeInMs(self) -> int:
        return self.now

    def getCurrentWatermarkInMs(self) -> int:
        return self.watermark


@attrs.frozen
class _Expired:
    time: int

    def getExpiryTimeInMs(self) -> int:
        return self.time
