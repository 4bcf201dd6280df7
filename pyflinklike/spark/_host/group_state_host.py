# SPDX-License-Identifier: Apache-2.0
"""The streaming host of PySpark 3.5: one key group per call of Spark's `applyInPandasWithState`.

Spark keeps the log of a key group as one value, the map of blobs that Spark 4 has, too
(`_host.blob_map`).  It hands the whole map over with every call and takes it back.  So the cost of a
micro-batch follows the size of its key groups' state, not only the size of the changes.

Spark calls the function for every key group that has data, and then for those whose timeout is
before the watermark or processing time of the micro-batch.  It forgets a timeout with every call,
so each call sets it again.

`applyInPandasWithState` takes no initial state.  The first micro-batch of a checkpoint has number
0, also if it is tried again.  In that micro-batch alone, the parts of a savepoint travel among the
payloads of the stream's records.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._runtime.micro_batch import BatchResult
from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._host.blob_map import LOG_VARIABLE, BlobMap
from pyflinklike.spark._host.driver_pickle import PickledByDriver
from pyflinklike.spark._host.task import KeyGroupTask, close_late
from pyflinklike.spark._host.translations import RESULT_COLUMNS, RESULT_SCHEMA, Result
from pyflinklike.spark._host.worker_errors import report_errors
from pyflinklike.spark._plan.event_time import WATERMARK_MARK
from pyflinklike.spark._plan.operator_plan import Initial, Plan, TimeMode
from pyflinklike.spark._plan.session import check_file_manager
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY
from pyflinklike.spark._wire.payloads import PACKED_SCHEMA
from pyflinklike.spark._wire.system_columns import KEY_GROUP

_STATE_TYPE = f"{LOG_VARIABLE} map<bigint,binary>"
TIMEOUTS = {
    TimeMode.NONE: GroupStateTimeout.NoTimeout,
    TimeMode.EVENT_TIME: GroupStateTimeout.EventTimeTimeout,
    TimeMode.PROCESSING_TIME: GroupStateTimeout.ProcessingTimeTimeout,
}
"""Spark's timeout for each time mode; it decides when Spark calls a key group without data."""
_NEVER_LATE = "__never_late"
_END_OF_TIME = dt.datetime(9999, 12, 31)


def serve_payloads(
    payloads: DataFrame, plans: Sequence[Plan], initial: Initial = None
) -> DataFrame:
    """Apply a plan to packed records through `applyInPandasWithState`.

    Args:
        payloads: A stream of rows of `PACKED_SCHEMA`.
        plans: The plan of the only operator; here operators share no state operator.
        initial: The initial state, as pairs of a grouping key and its registry or segment; None
            if the query begins without state.

    Raises:
        SparkSetupError: The session's checkpoints do not replace files.
    """
    check_file_manager(payloads.sparkSession)
    # Only jobs share a state operator or begin with a table, and they need `transformWithState`.
    (plan,) = plans
    assert not isinstance(initial, DataFrame)
    rows = payloads if initial is None else _add_initial_state(payloads, initial)
    if plan.time_mode is not TimeMode.NONE:
        # Spark takes the event time of a state operator from the input column with this mark, and
        # drops late rows.  Payloads must never be late, so the column holds the end of time.
        mark = {WATERMARK_MARK: 0}
        rows = rows.select("*", F.lit(_END_OF_TIME).alias(_NEVER_LATE, metadata=mark))
    return rows.groupBy(KEY_GROUP).applyInPandasWithState(
        _function(plan, begins=initial is not None),
        RESULT_SCHEMA.ddl,
        _STATE_TYPE,
        "append",
        TIMEOUTS[plan.time_mode],
    )


def _function(
    plan: Plan, *, begins: bool
) -> Callable[[Any, Iterable[Any], GroupState], Iterator[Any]]:
    # A worker unpickles this once per task, so each task has its own `GroupStateTask`.
    carried = PickledByDriver(GroupStateTask(plan, begins=begins))

    def serve(key: Any, frames: Iterable[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd

        rows = carried.value.serve_group(key, frames, state)
        yield pd.DataFrame.from_records(rows, columns=RESULT_COLUMNS)

    return serve


class GroupStateStorage(BlobMap):
    """The log of one key group in a `GroupState`.

    Args:
        state: Spark's state of the call.
    """

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._blobs: dict[int, Any] = dict(state.get[0]) if state.exists else {}
        self._is_changed = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was stored yet."""
        return not self._blobs

    def read_segment(self, sequence: int) -> bytes | None:
        """Read one segment; None if it is missing."""
        blob = self._blobs.get(sequence)
        return None if blob is None else bytes(blob)

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""
        self._blobs[sequence] = blob
        self._is_changed = True

    def clear_segments(self) -> None:
        """Remove every segment, and the head, which every commit writes last."""
        self._blobs.clear()
        self._is_changed = True

    def save(self, *, always: bool = False) -> None:
        """Hand the log to Spark if it has changed.

        Args:
            always: Whether to hand over an unchanged log, too: otherwise Spark keeps the old timeout.
        """
        if self._is_changed or always:
            # Spark refuses memoryviews and other buffers.
            blobs = {sequence: bytes(blob) for sequence, blob in self._blobs.items()}
            self._state.update((blobs,))


class GroupStateTask(KeyGroupTask):
    """Serves the key groups of one task, one per call.

    Spark does not say when a task is over.  It is over when the next one calls in the same worker.

    Args:
        plan: The plan of the query.
        begins: Whether the query begins with a savepoint.
    """

    _in_use: ClassVar[GroupStateTask | None] = None
    _sees_its_end = False

    def __init__(self, plan: Plan, *, begins: bool = False) -> None:
        super().__init__(plan)
        self._begins = begins
        self._wake_at: int | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The worker unpickles this before PySpark reads any rows, so the mend comes in time.
        read_whole_numbers()
        self.__dict__.update(state)

    @report_errors
    def serve_group(self, key: Any, frames: Iterable[Any], state: GroupState) -> list[Result]:
        """Serve a key group that has data, or one whose timeout has come.

        Args:
            key: The grouping key, in a tuple.
            frames: Rows of payloads, in any number of chunks.
            state: Spark's state of the group.

        Returns:
            Rows of `RESULT_SCHEMA`.
        """
        self._take_over()
        self._store = store = GroupStateStorage(state)
        self._wake_at = None
        self._set_time(state)
        rows = [] if state.hasTimedOut else _sort_rows(frames)
        results = self._results(key, rows, state.getCurrentProcessingTimeMs())
        if self._wake_at is not None:
            _set_timeout(state, self._wake_at, self._plan.time_mode)
        store.save(always=state.hasTimedOut)
        return results

    def _results(self, key: Any, rows: list[tuple[int, bytes]], batch_time: int) -> list[Result]:
        if key[0] == REGISTRY_KEY:
            if self._begins:
                _check_began(is_new=self._store.is_empty)  # type: ignore[attr-defined]
            self._call_roll([payload for _, payload in rows], batch_time)
            return []
        index = self._index_of(key)
        for origin, payload in rows:
            if _is_initial(origin):
                self._begin(index, payload, batch_time)
        payloads = [payload for origin, payload in rows if not _is_initial(origin)]
        if rows and not payloads:
            return []
        return self._serve(index, payloads or None, batch_time if payloads else None)

    def _check_former(self, former: OperatorRecord) -> None:
        """Refuse another time mode, as Spark 4 does: timers of the former mode would never fire."""
        mode = self._plan.time_mode
        if former.time_mode != mode.value:
            who = f"operator {self._plan.task.name!r}"
            raise mode.restart_refusal(TimeMode(former.time_mode), who)

    def _take_over(self) -> None:
        former, GroupStateTask._in_use = GroupStateTask._in_use, self
        if former is not None and former is not self:
            close_late(former)

    def _set_time(self, state: GroupState) -> None:
        has_watermark = self._plan.time_mode is not TimeMode.NONE
        watermark = state.getCurrentWatermarkMs() if has_watermark else None
        self._set_clock(state.getCurrentProcessingTimeMs(), watermark)

    def _wake(self, served: BatchResult, fired: int | None) -> None:  # noqa: ARG002
        self._wake_at = None if served.head is None else served.head.wake_at


def _sort_rows(frames: Iterable[Any]) -> list[tuple[int, bytes]]:
    """Sort the rows of a key group in the order of their arrival."""
    return sorted(
        (int(origin), payload)
        for frame in frames
        for origin, payload in zip(frame["origin"], frame["payload"])
    )


def _set_timeout(state: GroupState, wake_at: int, mode: TimeMode) -> None:
    """Have Spark call when its time is at or after a point in time, in ms."""
    # Spark calls when its time is after the timeout.  It wants the timeout to be positive and, with
    # event time, not before its watermark.
    timeout = wake_at - 1
    if mode is TimeMode.EVENT_TIME:
        state.setTimeoutTimestamp(max(timeout, 1))
    else:
        state.setTimeoutDuration(max(timeout - state.getCurrentProcessingTimeMs(), 1))


# A savepoint in the first micro-batch

FIRST_INITIAL = -2
"""The origin of a savepoint's first part; further parts count downwards, and -1 is the registry."""
_BATCH_ID = "streaming.sql.batchId"


def _add_initial_state(packed: DataFrame, initial: list[tuple[int, bytes]]) -> DataFrame:
    """Put the initial state before the payloads of the first micro-batch.

    Args:
        packed: The payloads of the stream, as `pack_records` makes them.
        initial: Pairs of a grouping key and its registry or segment.

    Raises:
        SparkSetupError: The session is one of Spark Connect.
    """
    try:
        context = packed.sparkSession.sparkContext
    except (AttributeError, NotImplementedError) as error:
        msg = (
            "on PySpark 3.5 from_savepoint needs a classic session, got one of Spark Connect; start "
            "the stream in a classic session, or use PySpark 4"
        )
        raise SparkSetupError(msg) from error
    # As a broadcast value, only the one task that needs it unpickles the savepoint.
    return packed.mapInArrow(_with_initial(context.broadcast(initial)), PACKED_SCHEMA.ddl)


def _is_initial(origin: int) -> bool:
    """Return whether a row is a part of the savepoint, by its origin."""
    return origin <= FIRST_INITIAL


def _check_began(*, is_new: bool) -> None:
    """Check that the savepoint was read in the first micro-batch of a checkpoint.

    Args:
        is_new: Whether nothing is stored yet.

    Raises:
        SparkSetupError: The first micro-batch is over, and the savepoint was not read.
    """
    if is_new and _batch_id() != 0:
        msg = (
            "a stream begins with its savepoint in the first micro-batch of its checkpoint, got "
            f"micro-batch {_batch_id()} and no state yet, because the first one had no partitions; "
            "start again with a new checkpoint when the source has data"
        )
        raise SparkSetupError(msg)


def _with_initial(rows: Any) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def with_initial(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0 and _batch_id() == 0:
            for at, (number, payload) in enumerate(rows.value):
                yield _row(number, FIRST_INITIAL - at, payload)
        yield from batches

    return with_initial


def _row(number: int, origin: int, payload: bytes) -> pa.RecordBatch:
    columns = {
        KEY_GROUP: pa.array([number], pa.int32()),
        "origin": pa.array([origin], pa.int64()),
        "payload": pa.array([payload], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _batch_id() -> int | None:
    context = TaskContext.get()
    number = context.getLocalProperty(_BATCH_ID) if context else None
    return None if number is None else int(number)


# A mend of PySpark 3.5.  Spark sends an Arrow batch with a column that has the offset and the number
# of rows of each key group.  A key group with two rows leaves a null there.  pandas turns integers
# beside a null into floats, and PyArrow does not slice by floats.  PySpark 4.0 reads them with
# `int()`, and so do we.

_OFFSETS = ("startOffset", "numRows")
_MENDED = "_pyflinklike_reads_whole_numbers"


def read_whole_numbers(serializer: Any = None) -> None:
    """Have this worker read offsets as integers; a second call does nothing.

    Args:
        serializer: The class that reads offsets, by default PySpark's own.
    """
    if serializer is None:
        from pyspark.sql.pandas import serializers

        serializer = serializers.ApplyInPandasWithStateSerializer  # type: ignore[attr-defined]
    if hasattr(serializer, _MENDED):
        return
    read = serializer.arrow_to_pandas

    def arrow_to_pandas(self: Any, column: Any) -> Any:
        values = read(self, column)
        return values.map(_with_whole_numbers) if _has_offsets(column.type) else values

    serializer.arrow_to_pandas = arrow_to_pandas
    setattr(serializer, _MENDED, True)


def _has_offsets(kind: Any) -> bool:
    return pa.types.is_struct(kind) and all(kind.get_field_index(name) >= 0 for name in _OFFSETS)


def _with_whole_numbers(state: dict[str, Any] | None) -> dict[str, Any] | None:
    # The null stays: PySpark stops at the first row without state.
    return state and {**state, **{name: int(state[name]) for name in _OFFSETS}}
