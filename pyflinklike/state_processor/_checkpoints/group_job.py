# SPDX-License-Identifier: Apache-2.0
"""The job that reads key groups: it takes stored blobs and gives rows.

A partition of Spark's state holds whole key groups and gives the blobs of a group one after
another, so nothing is shuffled and a task holds the log of one key group at a time.

A view in SQL must not decode all key groups if a query asks for one key.  Catalyst pushes no
predicate below `mapInArrow`, but it does below a projection.  So for views a scalar function makes a
list of rows from the blobs, and the grouping key stays a column beside it.  A condition says how the
key group follows from the key.  From `user = 'ann'` Catalyst then computes `__key_group = 6`, and
filters the blobs before the function sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

from pyflinklike._changelog.operator_record import OperatorIdentity, OperatorRecord
from pyflinklike.errors import CorruptStateError, SparkSetupError
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._plan.session import prepare_workers
from pyflinklike.spark._wire.key_groups import group_ids, index_of, key_group
from pyflinklike.spark._wire.system_columns import KEY_GROUP, quote
from pyflinklike.state_processor._checkpoints.checkpoint import CheckpointState
from pyflinklike.state_processor._logs.checkpoint_logs import check_log
from pyflinklike.state_processor._logs.group_reader import GroupReader
from pyflinklike.state_processor._logs.key_columns import KeyColumns

_arrow_udf: Any = getattr(F, "arrow_udf", None)
"""PySpark 4.1 brought scalar functions of Arrow."""
_BATCH_ROWS = 65_536
Batches = Iterable[pa.RecordBatch]


def frame_of_groups(
    state: CheckpointState, reader: GroupReader, groups: Iterable[int] | None = None
) -> DataFrame:
    """Make a DataFrame of the rows that a reader makes of an operator's key groups.

    Args:
        state: The operator after a micro-batch.
        reader: Makes the rows of one key group at a time.
        groups: The indices of the key groups to read; None reads all.
    """
    blobs = state.group_blobs()
    if groups is not None:
        ids = group_ids(state.max_parallelism, state.place)
        blobs = blobs.where(blobs[KEY_GROUP].isin([ids[each] for each in groups]))
    job = GroupsJob(_LogReader.of(state, reader).batches, state.max_parallelism, state.where)
    return map_frame(blobs, job, spark_schema(reader.schema))


@attrs.frozen
class GroupsJob:
    """Runs a function over the key groups of one partition.

    Args:
        of_group: Takes the index, the blobs by sequence number, and the name of a key group.
        max_parallelism: The number of key groups of the operator.
        where: Names the operator in messages.
    """

    of_group: Callable[[int, Mapping[int, bytes], str], Iterable[pa.RecordBatch]]
    max_parallelism: int
    where: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for index, blobs, where in key_groups_of(batches, self.max_parallelism, self.where):
            yield from self.of_group(index, blobs, where)


_HASHED = frozenset(
    ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp_ntz")
)
"""Types of key columns whose equal values always have the same hash."""


def frame_by_key(state: CheckpointState, reader: GroupReader) -> DataFrame:
    """Make the same DataFrame so that conditions choose the key groups that are read.

    A condition that has each key column equal to a constant reads one key group.  This needs
    PySpark 4.1 or newer, and key columns of texts, whole numbers, booleans, dates and
    `timestamp_ntz`.  Otherwise all key groups are read, and the condition chooses rows.
    """
    columns = state.record.identity.key_columns
    has_keys = columns and reader.schema.names[: len(columns)] == list(
        KeyColumns.of(state.record).names
    )
    if _arrow_udf is None or not has_keys or not _HASHED.issuperset(kind for _, kind in columns):
        return frame_of_groups(state, reader)
    schema = spark_schema(reader.schema)
    blobs = state.group_blobs()
    prepare_workers(blobs.sparkSession)
    make_lists = _wrap_job(_LogReader.of(state, reader).lists_of_rows)

    def lists_of_rows(arrays: Any) -> Any:
        return make_lists(arrays)

    # PySpark finds the kind of a function by its hints, and warns if the call names the kind.
    lists_of_rows.__annotations__ = {"arrays": _ARRAYS, "return": Iterator[pa.Array]}
    rows_of = _arrow_udf(lists_of_rows, st.ArrayType(schema))
    lists = blobs.select(KEY_GROUP, rows_of(KEY_GROUP, "sequence", "blob").alias(_ROWS))
    # For `inline` Catalyst adds a filter on lists that are not empty, which calls the function again.
    rows = lists.select(KEY_GROUP, F.inline_outer(_ROWS)).where(F.col("key_group").isNotNull())
    ids = F.array(*map(F.lit, group_ids(state.max_parallelism, state.place)))
    index = key_group(reader.schema.names[: len(columns)], state.max_parallelism)
    return rows.where(F.col(KEY_GROUP) == F.get(ids, index)).select(
        *(F.col(quote(name)) for name in schema.names)
    )


_ROWS = "__rows"
_ARRAYS = Iterator[tuple[pa.Array, ...]]


@attrs.frozen
class _LogReader:
    """Reads the logs of key groups.

    Args:
        reader: Makes the rows of one key group at a time.
        identity: The identity of the operator, with which its logs must agree.
        served_at: The time in ms of each key group's last micro-batch with records, from the registry.
        where: Names the operator in messages.
    """

    reader: GroupReader
    identity: OperatorIdentity
    served_at: Mapping[int, int]
    where: str

    @classmethod
    def of(cls, state: CheckpointState, reader: GroupReader) -> _LogReader:
        return cls(reader, state.record.identity, dict(state.registry.served_at), state.where)

    def batches(
        self, index: int, blobs: Mapping[int, bytes], where: str
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of one key group."""
        return in_parts(self._read(index, blobs, where))

    def lists_of_rows(self, arrays: Iterable[tuple[Any, Any, Any]]) -> Iterator[Any]:
        """Yield a list of rows for each blob: the rows of a key group beside its first blobs.

        Args:
            arrays: Grouping keys, sequence numbers and blobs of one partition.
        """
        schema = self.reader.schema
        batches = (pa.record_batch(list(each), names=["id", "sequence", "blob"]) for each in arrays)
        for index, blobs, where in key_groups_of(
            batches, self.identity.max_parallelism, self.where
        ):
            table = pa.concat_tables([schema.empty_table(), *self._read(index, blobs, where)])
            # An array of Arrow holds at most 2 GiB of text, so many rows become several lists.
            size = max(_BATCH_ROWS, -(-table.num_rows // len(blobs)))
            for place in range(len(blobs)):
                part = table.slice(place * size, size)
                columns = [_in_one_array(each, where) for each in part.columns]
                rows = pa.StructArray.from_arrays(columns, fields=list(schema))
                yield pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)

    def _read(self, index: int, blobs: Mapping[int, bytes], where: str) -> Iterator[pa.Table]:
        if index not in self.served_at:
            msg = f"{where}: the operator's registry must name it, got a key group that it lacks"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        log = check_log(self.identity, self.served_at[index], blobs, where)
        yield from self.reader.read(index, log, where)


def _in_one_array(column: pa.ChunkedArray, where: str) -> pa.Array:
    """Return the values of a column as one array.

    Raises:
        SparkSetupError: The values are too large for one array.
    """
    found = column.combine_chunks()
    if not isinstance(found, pa.ChunkedArray):
        return found
    if found.num_chunks > 1:
        msg = f"{where}: a view holds at most 2 GiB of a column in a key group, got more"
        raise SparkSetupError(f"{msg}; use read_state(), which gives them in parts")
    return found.chunk(0) if found.num_chunks else pa.array([], column.type)


def key_groups_of(
    batches: Batches, max_parallelism: int, where: str
) -> Iterator[tuple[int, dict[int, bytes], str]]:
    """Yield for each key group its index, its blobs by sequence number, and its name in messages.

    Args:
        batches: The blobs of one partition: grouping key, sequence number, blob.
        max_parallelism: The number of key groups of the operator.
        where: Names the operator in messages.

    Raises:
        SparkSetupError: Spark gave the blobs of a key group in several pieces.
    """
    for group_id, blobs in _blobs_by_group(batches):
        index = index_of(group_id, max_parallelism)
        yield index, blobs, f"{where}, key group {index}"


def _blobs_by_group(batches: Batches) -> Iterator[tuple[int, dict[int, bytes]]]:
    """Gather the blobs of each key group, by sequence number.

    Raises:
        SparkSetupError: Spark gave the blobs of a key group in several pieces.
    """
    seen: set[int] = set()
    blobs: dict[int, bytes] = {}
    current = None
    for batch in batches:
        ids, sequences = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        for at, (group_id, sequence) in enumerate(zip(ids, sequences)):
            if group_id != current:
                if current is not None:
                    yield current, blobs
                # Spark does not promise that a key group comes in one piece.
                if group_id in seen:
                    msg = "Spark must give the state of a key group in one piece, got several"
                    raise SparkSetupError(f"{msg}; read it with another version of Spark")
                seen.add(group_id)
                current, blobs = group_id, {}
            blobs[sequence] = batch.column(2)[at].as_py()
    if current is not None:
        yield current, blobs


def in_parts(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Cut tables into record batches that are small enough to hand on."""
    for table in tables:
        yield from table.to_batches(_BATCH_ROWS)


def map_frame(
    frame: DataFrame, job: Callable[[Batches], Iterator[pa.RecordBatch]], schema: Any
) -> DataFrame:
    """Run a job over a frame in Spark's workers, which are prepared for it.

    Args:
        frame: The rows, which come to the job in batches.
        job: The job, which must be picklable.
        schema: Spark's schema of the rows that the job gives.
    """
    prepare_workers(frame.sparkSession)
    return frame.mapInArrow(_wrap_job(job), schema)


def _wrap_job(job: Callable[[Any], Iterator[Any]]) -> Any:
    """Wrap a job so that Spark's workers can run it."""

    def run(batches: Any) -> Iterator[Any]:
        return job(batches)

    return in_worker(run)


def key_fields(record: OperatorRecord) -> list[st.StructField]:
    """Return the key columns of an operator, as Spark has them."""
    fields: list[st.StructField] = spark_schema(pa.schema(KeyColumns.of(record).fields)).fields
    return fields


def spark_schema(schema: pa.Schema) -> st.StructType:
    """Convert the schema of rows to Spark's."""
    found: st.StructType = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return found
