# SPDX-License-Identifier: Apache-2.0
"""Spark's `applyInPandasWithState` without Spark: its own `GroupState`, and what it keeps of one.

query = GroupStates(Program(Remind(), time_mode=TimeMode.EVENT_TIME))
query.run([("a", 100)], now=1, watermark=0)     # a micro-batch: with data first, then timeouts
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
from program_double import Program, packed_records
from pyspark.sql import Row
from pyspark.sql import types as st
from pyspark.sql.streaming.state import GroupState

from pyflinklike.spark.host.group_state_host import TIMEOUTS, GroupStateTask
from pyflinklike.spark.plan.operator_plan import TimeMode
from pyflinklike.spark.wire.payloads import payload_to_batch

_NEVER = -1
_ROW: Any = Row
_SCHEMA = st.StructType([st.StructField("log", st.MapType(st.LongType(), st.BinaryType()))])


class GroupStates:
    """The state of one operator, by grouping key; a batch that fails leaves it as it was.

    Args:
        program: What `process` is told.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[int, dict[int, bytes]] = {}
        self.timeouts: dict[int, int] = {}
        self.writes = 0
        """Of state, in the last batch."""

    def run(
        self,
        records: Iterable[tuple[str, int]] = (),
        *,
        now: int,
        watermark: int = 0,
        initial: Iterable[dict[str, Any]] = (),
        begins: bool = False,
    ) -> list[Any]:
        """A micro-batch; what the function gave."""
        kept = dict(self.values), dict(self.timeouts)
        self.writes = 0
        rows: dict[int, list[dict[str, Any]]] = {}
        for at, record in enumerate(records):
            for key, packed in packed_records(self.program, [record], now).items():
                rows.setdefault(key, []).extend({**row, "origin": at} for row in packed)
        for row in initial:
            rows.setdefault(row["__key_group"], []).insert(0, row)
        task = GroupStateTask(self.program.plan(), begins=begins)
        results = []
        try:
            for key in sorted(rows):
                # The last row first, each in a chunk of its own: Spark promises no order.
                frames = [pd.DataFrame([row]) for row in reversed(rows[key])]
                results += self._call(task, key, frames, now, watermark)
            limit = watermark if self.program.time_mode is TimeMode.EVENT_TIME else now
            for key in [each for each, time in self.timeouts.items() if time < limit]:
                results += self._call(task, key, None, now, watermark)
        except BaseException:
            self.values, self.timeouts = kept
            raise
        task.close()
        payloads = [payload_to_batch(each[1]).to_pylist() for each in results if each[1]]
        return sorted(tuple(row.values()) for some in payloads for row in some)

    def _call(
        self, task: GroupStateTask, key: int, frames: Any, now: int, watermark: int
    ) -> list[Any]:
        value = self.values.get(key)
        kept: Any = None
        if value is not None:
            kept = _ROW({number: bytearray(blob) for number, blob in value.items()})
        state = GroupState(
            optionalValue=kept,
            batchProcessingTimeMs=now,
            eventTimeWatermarkMs=watermark,
            timeoutConf=TIMEOUTS[self.program.time_mode],
            hasTimedOut=frames is None,
            watermarkPresent=True,
            defined=value is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=_NEVER,
            keyAsUnsafe=b"",
            valueSchema=_SCHEMA,
        )
        results = task.serve_group((key,), frames or [], state)
        # As FlatMapGroupsInPandasWithStateExec does: else it keeps the value and the timeout.
        if state._updated or state._timeout_timestamp != state.oldTimeoutTimestamp:
            self.writes += 1
            self.values[key] = state.get[0]
            self.timeouts.pop(key, None)
            if state._timeout_timestamp != _NEVER:
                self.timeouts[key] = state._timeout_timestamp
        return results
