# SPDX-License-Identifier: Apache-2.0
"""The state with which the keyed operators of a job begin, from a savepoint.

Executors read it, as they do for a stream of DataFrames.  Only the key groups differ: the key group of an
element of a job follows from the bytes of its frozen key, so Python computes it, not Spark.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import reduce

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike.pyflink._graph.job_savepoint import JobBeginning
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.system_columns import KEY_GROUP
from pyflinklike.state_processor._checkpoints.group_job import map_frame
from pyflinklike.state_processor._checkpoints.savepoint_frames import read_saved_frames
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._savepoints.savepoint_directory import check_fit
from pyflinklike.state_processor._spark.initial_state import (
    initial_frame,
    stay_in_group,
)
from pyflinklike.types import TypeInformation
from pyflinklike.types.catalog import type_of
from pyflinklike.types.frozen_keys import key_group_of

__all__ = ["begin_operators"]


def begin_operators(
    spark: SparkSession, nodes: Sequence[int], plans: Sequence[Plan], beginning: JobBeginning
) -> tuple[list[Plan], DataFrame | None]:
    """Return plans of operators that share a state operator, and the state with which they begin.

    Args:
        spark: The session that runs the job.
        nodes: The numbers of the operators' nodes, in the order of their operator indexes.
        plans: The plans, in the same order.
        beginning: The parts of the savepoint for the job.

    Returns:
        The plans with the declarations of the saved states, and rows as a host takes them; None if no
        operator has state in the savepoint.

    Raises:
        CorruptStateError: A file of the savepoint is missing or was changed.
        IncompatibleStateError: The state of a key group would have to be divided.
        SparkSetupError: The savepoint holds timers that the operator could not fire.
    """
    begun, frames = list(plans), []
    where = beginning.directory.location.where
    for place, (number, plan) in enumerate(zip(nodes, plans)):
        saved = beginning.operators.get(number)
        if saved is None:
            continue
        groups, refused = plan.task.max_parallelism, plan.timer_refusals()
        check_fit(saved.record, saved.domains, groups, refused, where)
        begun[place] = attrs.evolve(plan, saved=saved.record.states)
        found = read_saved_frames(spark, beginning.directory, saved.uid)
        keys = _JobKeys.of(found.record, plan.task.max_parallelism)
        frames.append(initial_frame(found, keys, place))
    return begun, reduce(DataFrame.unionAll, frames) if frames else None


@attrs.frozen
class _JobKeys:
    """The keys of a job's operator: `KeyLayout`.

    Args:
        columns: The key columns of the savepoint.
        max_parallelism: The number of key groups of the job.
    """

    columns: KeyColumns
    max_parallelism: int

    @classmethod
    def of(cls, record: OperatorRecord, max_parallelism: int) -> _JobKeys:
        return cls(KeyColumns.of(record), max_parallelism)

    def with_group(self, frame: DataFrame, *, by_key: bool) -> DataFrame:
        """Add to rows the key group to which the job sends the elements of their keys."""
        if not by_key:
            return stay_in_group(frame)
        schema = st.StructType([*frame.schema.fields, st.StructField(KEY_GROUP, st.IntegerType())])
        # `begin_with` has checked that this is the job's own type of keys.
        job = _GroupsJob(self.columns, type_of(self.columns.signature), self.max_parallelism)
        return map_frame(frame, job, schema)


@attrs.frozen
class _GroupsJob:
    """Adds to rows the key groups of their keys.

    Args:
        columns: The columns of the savepoint that hold keys.
        key_type: The type of the keys.
        max_parallelism: The number of key groups.
    """

    columns: KeyColumns
    key_type: TypeInformation
    max_parallelism: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A key has as many rows as its map has entries, and a key group costs microseconds.
        known: dict[Hashable, int] = {}
        for batch in batches:
            stored = self.columns.store([batch.column(name) for name in self.columns.names])
            groups = []
            for key in self.key_type.from_arrow(stored):
                if key not in known:
                    known[key] = key_group_of(key, self.max_parallelism)
                groups.append(known[key])
            yield batch.append_column(KEY_GROUP, pa.array(groups, pa.int32()))
