# SPDX-License-Identifier: Apache-2.0
"""What `process` is told, and the records as a state operator is handed them."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st

from pyflinklike import Function, HashMapStateBackend, Types
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import kind_of
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.spark._plan.operator_plan import Plan, TimeMode
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.payloads import pack
from pyflinklike.spark._wire.record_readers import RecordReader
from pyflinklike.spark._wire.system_columns import KEY_GROUP

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
        state_backend: Makes working state.
        drop_states: Names of states that leave the checkpoint.
    """

    function: Function
    max_parallelism: int = 4
    name: str = "counted"
    key_columns: tuple[tuple[str, str], ...] = (("key", "string"),)
    time_mode: TimeMode = TimeMode.PROCESSING_TIME
    pandas: bool = False
    state_backend: StateBackend = attrs.field(factory=HashMapStateBackend)
    drop_states: tuple[str, ...] = ()

    def plan(self) -> Plan:
        """What the workers are told."""
        task = TaskInfo(
            self.name, max_parallelism=self.max_parallelism, key_columns=self.key_columns
        )
        plan = Plan(
            self.function,
            self.state_backend,
            Types.STRING(),
            task,
            self.time_mode,
            RecordReader(("key",), None, Types.STRING(), "UTC"),
            OutputLayout(_OUTPUT, {}, "UTC", self.name),
            f"double-{uuid.uuid4()}",
            drop_states=self.drop_states,
        )
        made: Plan = kind_of(plan.function).on_spark(plan)
        return made

    def group_of(self, key: str) -> int:
        """The key group of a key."""
        return zlib.crc32(key.encode()) % self.max_parallelism


def packed_records(
    program: Program, records: list[tuple[str, int]]
) -> dict[int, list[tuple[int, bytes]]]:
    """Records as Spark hands them over after packing: origin and payload by grouping key."""
    columns: dict[str, Any] = {
        KEY_GROUP: pa.array([program.group_of(key) for key, _ in records], pa.int32()),
        "key": pa.array([key for key, _ in records], pa.string()),
        "n": pa.array([n for _, n in records], pa.int64()),
    }
    batch = pa.record_batch(columns)
    return by_grouping_key(pack(("key",), group_ids(program.max_parallelism))([batch]))


def by_grouping_key(packed: Iterable[pa.RecordBatch]) -> dict[int, list[tuple[int, bytes]]]:
    """Packed rows as Spark groups them: origin and payload by grouping key."""
    rows: dict[int, list[tuple[int, bytes]]] = {}
    for row in (row for batch in packed for row in batch.to_pylist()):
        rows.setdefault(row[KEY_GROUP], []).append((row["origin"], row["payload"]))
    return rows
