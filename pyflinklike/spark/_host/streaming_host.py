# SPDX-License-Identifier: Apache-2.0
"""The streaming host: one key group per call of Spark's `transformWithState`.

Spark calls `handleInputRows` once per key group that has data in a micro-batch, and
`handleExpiredTimer` for a key group without data whose Spark timer is due.  Both serve the key group
(`_host.task`), hand its outputs to Spark, and register the time of the next call (`_host.wake_up`).
Spark serves the key groups with data before those with timers alone: its worker calls in the mode
`PROCESS_DATA`, and then in the mode `PROCESS_TIMER`
(https://github.com/apache/spark/blob/master/python/pyspark/sql/streaming/stateful_processor_util.py).

This module cannot be imported on PySpark 3.5, which has no `transformWithState`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pyflinklike._runtime.micro_batch import BatchResult
from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._host.blob_map import SparkLogStorage, log_variable
from pyflinklike.spark._host.state_declaration import DeclaringProcessor
from pyflinklike.spark._host.task import KeyGroupTask, of_checkpoint
from pyflinklike.spark._host.translations import FRAMES, RESULT_SCHEMA
from pyflinklike.spark._host.wake_up import replace_timer
from pyflinklike.spark._host.worker_errors import report_errors
from pyflinklike.spark._plan.operator_plan import Initial, Plan, TimeMode
from pyflinklike.spark._wire.key_groups import is_registry_key, operator_index_of
from pyflinklike.spark._wire.payloads import INITIAL_SCHEMA, is_home
from pyflinklike.spark._wire.system_columns import KEY_GROUP, with_batch_time


def serve_payloads(
    payloads: DataFrame, plans: Sequence[Plan], initial: Initial = None
) -> DataFrame:
    """Apply the plans of operators that share a state operator, through `transformWithState`.

    Args:
        payloads: A stream of rows of `PACKED_SCHEMA`.
        plans: The plans by operator index, all in one time mode.
        initial: The initial state: grouping keys with their registry or segment; None for no state.

    Raises:
        SparkSetupError: The session's settings rule it out, or the driver's Python cannot serve it.
    """
    # Imported late: only the driver needs them, and workers import this module, too.
    from pyflinklike.spark._plan.requirements import check_protobuf
    from pyflinklike.spark._plan.session import (
        note_checkpoint_format,
        note_daemon,
        prepare_session,
        reach_driver_worker,
        slots_of,
    )

    spark = payloads.sparkSession
    check_protobuf()
    prepare_session(spark)
    note_checkpoint_format(spark)
    note_daemon(spark)
    reach_driver_worker(spark)
    grouped: Any = with_batch_time(payloads).groupBy(KEY_GROUP)
    kind: type[KeyGroupProcessor]
    if hasattr(grouped, "transformWithState"):
        transform, kind = grouped.transformWithState, KeyGroupProcessor
    else:
        transform, kind = grouped.transformWithStateInPandas, PandasKeyGroupProcessor
    processors = [kind(plan) for plan in plans]
    serving = processors[0] if len(processors) == 1 else SharingProcessor(processors)
    variables = [log_variable(each) for each in range(len(plans))]
    relaying = {
        "plans": " ".join(each.plan_id for each in plans),
        "slots": slots_of(spark),
        "has_times": plans[0].time_mode is not TimeMode.NONE,
        "takes_frames": kind is PandasKeyGroupProcessor,
    }
    is_kept = all(each.keeps_open for each in plans)
    processor = DeclaringProcessor(serving, variables, relaying if is_kept else None)
    state = _initial_state(spark, initial)
    mode = plans[0].time_mode.value
    schema = RESULT_SCHEMA.ddl
    result: DataFrame = transform(processor, schema, "Append", mode, initialState=state)
    return result


def _initial_state(spark: SparkSession, initial: Initial) -> Any:
    if initial is None:
        return None
    if not isinstance(initial, list):
        return with_batch_time(initial).groupBy(KEY_GROUP)
    table = pa.Table.from_batches([INITIAL_SCHEMA.batch(initial)])
    frame = spark.createDataFrame(table, INITIAL_SCHEMA.ddl)
    # The rows bring the batch time themselves, as records do: Spark gives the state operator no
    # time if it has no time mode.
    return with_batch_time(frame).groupBy(KEY_GROUP)


class KeyGroupProcessor(KeyGroupTask, StatefulProcessor):
    """Serves the key groups of one task through Spark's row interface.

    Args:
        plan: The plan of the query.
    """

    _store: SparkLogStorage

    def init(self, handle: StatefulProcessorHandle, operator_index: int = 0) -> None:
        """Declare the state variable.

        Args:
            handle: Spark's handle of the state operator.
            operator_index: The index of this operator among the operators that share the state operator.
        """
        self._handle = handle
        self._store = SparkLogStorage(handle, operator_index, self._plan.plan_id)
        self._planned, self._plan = self._plan, of_checkpoint(self._plan)

    @report_errors
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Serve a key group that has data."""
        self._grouping_key = self._store.grouping_key = int(key[0])
        packed = sorted(self.translation.read_payloads(rows), key=lambda row: row[0])
        batch_time = packed[0][1]
        payloads = [payload for _, _, payload in packed]
        if is_registry_key(key[0]):
            self._call_roll(payloads, batch_time)
            return self.translation.write_results([])
        self._set_time(timerValues, batch_time)
        if is_home(key[0]):
            return self.translation.write_results(self._call_home(payloads))
        return self.translation.write_results(
            self._serve(self._index_of(key), payloads, batch_time)
        )

    @report_errors
    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Serve a key group that has no data but timers that may be due."""
        self._grouping_key = self._store.grouping_key = int(key[0])
        self._set_time(timerValues, None)
        fired = int(expiredTimerInfo.getExpiryTimeInMs())
        return self.translation.write_results(self._serve(self._index_of(key), fired=fired))

    @report_errors
    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Begin a key group with its part of a savepoint; only a first micro-batch calls this."""
        self._grouping_key = self._store.grouping_key = int(key[0])
        for batch_time, payload in self.translation.read_initial(initialState):
            if is_registry_key(int(key[0])):
                self._call_roll([payload], batch_time)
                continue
            self._check_groups()
            self._set_time(timerValues, batch_time)
            self._begin(self._index_of(key), payload, batch_time)

    def _check_groups(self) -> None:
        """Check that the savepoint was laid out for the number of key groups.

        Raises:
            SparkSetupError: The setting that determines it has changed in between.
        """
        planned, begun = self._planned.task, self._plan.task
        if planned.max_parallelism != begun.max_parallelism:
            msg = (
                f"operator {begun.name!r}: a savepoint needs the same number of key groups when "
                "process() is called and when the query starts, got "
                f"{planned.max_parallelism} and then {begun.max_parallelism}; leave "
                "spark.sql.shuffle.partitions alone in between, or pass max_parallelism"
            )
            raise SparkSetupError(msg)

    def _set_time(self, timer_values: Any, batch_time: int | None) -> None:
        if self._plan.time_mode is TimeMode.NONE:
            self._set_clock(batch_time or 0)
        else:
            self._set_clock(
                int(timer_values.getCurrentProcessingTimeInMs()),
                int(timer_values.getCurrentWatermarkInMs()),
            )

    def _wake(self, served: BatchResult, fired: int | None) -> None:
        replace_timer(self._handle, served, fired)


class PandasKeyGroupProcessor(KeyGroupProcessor):
    """Serves key groups through `transformWithStateInPandas`: Spark 4.0 has no row interface."""

    translation = FRAMES


class SharingProcessor(StatefulProcessor):
    """Serves operators that share a state operator: each has a processor for its key groups.

    Args:
        processors: The processors by operator index.
    """

    def __init__(self, processors: Sequence[KeyGroupProcessor]) -> None:
        self._processors = tuple(processors)

    def key_group_tasks(self) -> Sequence[KeyGroupTask]:
        """Return the task of each operator."""
        return self._processors

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables of all operators."""
        for operator_index, each in enumerate(self._processors):
            each.init(handle, operator_index)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Serve a key group that has data, or read the home of the partition for all operators."""
        with self._all_given_up():
            if not is_home(key[0]):
                return self._of(key).handleInputRows(key, rows, timerValues)
            first, *others = self._processors
            results = first.handleInputRows(key, rows, timerValues)
            for each in others:
                each.recall(first.memory())
            return results

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Serve a key group that has no data but timers that may be due."""
        with self._all_given_up():
            return self._of(key).handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Begin a key group with its part of a savepoint, or write the registry of an operator."""
        with self._all_given_up():
            self._of(key).handleInitialState(key, initialState, timerValues)

    def close(self) -> None:
        """Close all processors, also if one of them cannot be closed."""
        with ExitStack() as stack:
            for each in reversed(self._processors):
                stack.callback(each.close)

    def _of(self, key: Any) -> KeyGroupProcessor:
        return self._processors[operator_index_of(int(key[0]))]

    @contextmanager
    def _all_given_up(self) -> Iterator[None]:
        """Give up all processors if a call fails, because their common task fails with it."""
        try:
            yield
        except BaseException:
            for each in self._processors:
                each.give_up()
            raise
