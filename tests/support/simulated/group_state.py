# SPDX-License-Identifier: Apache-2.0
"""Spark's `applyInPandasWithState`, the state operator of PySpark 3.5: whom it calls, what it keeps.

It does what `FlatMapGroupsInPandasWithStateExec` does: first the grouping keys that have data, in
ascending order, each with its rows in any number of chunks; then those whose timeout is before the
watermark or the time of the micro-batch, as the store has them by then.  It hands over the state of
a grouping key whole, as a `GroupState` of PySpark, and takes it back whole.

Spark's store has one row for a grouping key: its value, here the map of blobs, and its timeout.  In
`Contents` these are the blobs and the timer of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import Row
from pyspark.sql import types as st
from pyspark.sql.streaming.state import GroupState

from pyflinklike.spark._host.blob_map import LOG_VARIABLE
from pyflinklike.spark._host.group_state_host import TIMEOUTS, GroupStateTask
from pyflinklike.spark._host.translations import Result
from pyflinklike.spark._plan.operator_plan import Plan, TimeMode
from simulated.state_store import LoadedStore

__all__ = ["GroupStatePlan", "GroupStates"]

_NEVER = -1
_ROW: Any = Row
_SCHEMA = st.StructType([st.StructField(LOG_VARIABLE, st.MapType(st.LongType(), st.BinaryType()))])


@attrs.frozen
class GroupStatePlan:
    """What a task of PySpark 3.5 makes its function of.

    The function itself mends PySpark 3.5 where it is unpickled, which PySpark 4 has no place for.

    Args:
        plan: The plan of the operator.
        begins: Whether the query begins with a savepoint.
    """

    plan: Plan
    begins: bool = False

    def make_task(self) -> GroupStateTask:
        """Return the function of one task."""
        return GroupStateTask(self.plan, begins=self.begins)


@attrs.frozen
class GroupStates:
    """The state operator in one task.

    Args:
        task: The function of the task.
        store: The store of the partition.
        mode: The time mode of the operator.
        now: The time of the micro-batch in ms.
        watermark: The watermark of the micro-batch in ms.
        pass_point: Called before each grouping key, and with True before its state is written.
    """

    task: GroupStateTask
    store: LoadedStore
    mode: TimeMode
    now: int
    watermark: int
    pass_point: Callable[[bool], None]

    def run(self, rows: Mapping[int, Sequence[tuple[int, bytes]]]) -> list[Result]:
        """Call for all that has data or is due, and return the results.

        Args:
            rows: Origin and payload, by grouping key.
        """
        results: list[Result] = []
        for key in sorted(rows):
            results += self._call(key, rows[key])
        for key in self._find_timed_out():
            results += self._call(key, None)
        return results

    def _find_timed_out(self) -> list[int]:
        limit = self.watermark if self.mode is TimeMode.EVENT_TIME else self.now
        return sorted(key for time, key in self.store.contents.timers if time < limit)

    def _call(self, key: int, rows: Sequence[tuple[int, bytes]] | None) -> list[Result]:
        self.pass_point(False)
        state = self._read(key, has_timed_out=rows is None)
        results = self.task.serve_group((key,), _chunks(rows or ()), state)
        # Else Spark leaves the row as it is, and so the timeout that has come.
        if state._updated or state._timeout_timestamp != state.oldTimeoutTimestamp:
            self.pass_point(True)
            self._write(key, state)
        return results

    def _read(self, key: int, *, has_timed_out: bool) -> Any:
        blobs = self.store.contents.blobs.get((LOG_VARIABLE, key))
        value: Any = None
        if blobs is not None:
            value = _ROW({number: bytearray(blob) for number, blob in blobs.items()})
        return GroupState(
            optionalValue=value,
            batchProcessingTimeMs=self.now,
            eventTimeWatermarkMs=self.watermark,
            timeoutConf=TIMEOUTS[self.mode],
            hasTimedOut=has_timed_out,
            watermarkPresent=True,
            defined=value is not None,
            updated=False,
            removed=False,
            # A call begins without a timeout, whatever the row says.
            timeoutTimestamp=_NEVER,
            keyAsUnsafe=b"",
            valueSchema=_SCHEMA,
        )

    def _write(self, key: int, state: Any) -> None:
        store, (blobs,) = self.store, state.get
        for time, other in list(store.contents.timers):
            if other == key:
                store.delete(key, time)
        store.clear((LOG_VARIABLE, key))
        for number, blob in blobs.items():
            store.put((LOG_VARIABLE, key), number, bytes(blob))
        if state._timeout_timestamp != _NEVER:
            store.register(key, state._timeout_timestamp)


def _chunks(rows: Sequence[tuple[int, bytes]]) -> list[Any]:
    """Return a DataFrame for each row: Spark says nothing of their number, nor of the order."""
    import pandas as pd

    return [pd.DataFrame({"origin": [at], "payload": [payload]}) for at, payload in rows]
