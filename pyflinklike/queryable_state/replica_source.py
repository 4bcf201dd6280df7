# SPDX-License-Identifier: Apache-2.0
"""Gives a replica its images: all of a checkpoint once, then the writes since.

The writes come from the change feed of Spark's state store, which reads Spark's changelog files:
https://github.com/apache/spark/blob/master/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/v2/state/StateDataSource.scala
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import SparkSetupError, StateValueError
from pyflinklike.queryable_state.image import (
    Image,
    Position,
    Share,
    StoredShare,
    Write,
    image_of,
    next_image,
)
from pyflinklike.queryable_state.version import begin_waiting
from pyflinklike.queryable_state.xxhash64 import SEED, add_sign, hash_bytes, hash_int, hash_long
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids, index_of
from pyflinklike.spark._wire.schema import arrow_type, key_type_of
from pyflinklike.spark._wire.system_columns import KEY_GROUP, watermark_of
from pyflinklike.state_processor._checkpoints.checkpoint import (
    OperatorAt,
    checkpoint_states,
    location_of,
    offsets_of,
    operator_index_in,
    refuse_errors,
)
from pyflinklike.state_processor._checkpoints.group_job import key_fields
from pyflinklike.state_processor._checkpoints.state_frames import (
    Location,
    find_wanted_keys,
    one_operator,
)
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.types import TypeInformation
from pyflinklike.types.catalog import type_of
from pyflinklike.types.conversions import to_column

_TURNS = 4
"""How often to try again if the query purges batches faster than Spark reads them."""


@attrs.frozen
class CheckpointSource:
    """Reads an operator of a checkpoint, whose query may be running.

    Args:
        spark: Any session that reaches the checkpoint.
        location: The path of the checkpoint.
        operator: Spark's number of the operator, or its uid.
        share: The keys or key groups to read.
    """

    spark: SparkSession
    location: str
    operator: int | str
    share: Share

    @classmethod
    def of(
        cls, spark: SparkSession, checkpoint: Location, operator: int | str, share: Share
    ) -> CheckpointSource:
        """Check the arguments of a user, and make a source of them."""
        return cls(spark, location_of(checkpoint, spark), one_operator(operator), share)

    def latest(self) -> Image:
        """Read the whole image after the last committed micro-batch."""
        failed_at = -1
        for _ in range(_TURNS):
            try:
                return self._latest()
            except SparkSetupError:
                # The query may have purged the batch meanwhile; then it has committed newer ones.
                last = self._last_committed()
                if last <= failed_at:
                    raise
                failed_at = last
        return self._latest()

    def _last_committed(self) -> int:
        try:
            return max(self._commits(self.location), default=-1)
        except SparkSetupError:
            return -1

    def _latest(self) -> Image:
        (state,) = checkpoint_states(self.spark, self.location, self.operator, None)
        where, record = state.where, state.record
        share = self.share.store(self.route(record), state.max_parallelism)
        rows = _rows_of(state.blobs(), share, state.max_parallelism, state.operator_id)
        groups: dict[int, dict[int, bytes]] = {}
        called: dict[int, bytes] = {}
        with refuse_errors(where):
            table = rows.toArrow()
        for write in _writes(table, state.max_parallelism):
            assert write.blob is not None
            if write.key_group is None:
                called[write.sequence] = write.blob
            else:
                groups.setdefault(write.key_group, {})[write.sequence] = write.blob
        clock, position = self._times(state.batch_id, self._commits(where), where)
        return image_of(position, clock, groups, called, where, state.operator_id, share)

    def after(self, image: Image) -> Image | None:
        """Make the image after the last micro-batch from an older one, unless that is the last."""
        operator_id = image.operator_id
        commits, former = self._commits(image.where), image.position
        last = max(commits, default=-1)
        # A query that went back commits another batch of the same number, at another time.
        if commits.get(former.batch_id) != former.committed_at:
            msg = f"{image.where}: the batch was replaced or purged after the replica read it"
            raise SparkSetupError(f"{msg}; read everything anew")
        if last == former.batch_id:
            return None
        operator = OperatorAt(self.spark, self.location, operator_id, last)
        where, feed = operator.where, operator.changes(former.batch_id + 1)
        max_parallelism = image.record.identity.max_parallelism
        rows = _rows_of(feed, image.share, max_parallelism, operator_id)
        with refuse_errors(where):
            table = rows.drop("batch_id").toArrow()
        clock, position = self._times(last, commits, where)
        writes = _writes(table, max_parallelism)
        return next_image(image, writes, position, clock, where)

    def key_type(self, record: OperatorRecord) -> TypeInformation:
        """Return the type of the operator's keys."""
        return _key_type_of_record(record)

    def route(self, record: OperatorRecord) -> KeyRoute:
        """Return the function that finds the key groups of the operator's keys."""
        return KeyRoute(self.spark, record)

    def _commits(self, where: str) -> dict[int, int]:
        """Read the time in ms at which each retained batch was committed."""
        path = f"{self.location.rstrip('/')}/commits"
        with refuse_errors(where):
            # Without the column `content` Spark lists the files and does not read them.
            listing = self.spark.read.format("binaryFile").load(path)
            rows = listing.select("path", "modificationTime").toArrow().to_pylist()
        found = {row["path"].rpartition("/")[2]: row["modificationTime"] for row in rows}
        return {
            int(name): round(time.timestamp() * 1000)
            for name, time in found.items()
            if name.isdecimal()
        }

    def _times(
        self, batch_id: int, commits: dict[int, int], where: str
    ) -> tuple[BatchClock, Position]:
        fields = offsets_of(self.spark, self.location, batch_id, where)[1]
        watermark = watermark_of(fields["batchWatermarkMs"])
        is_known = MIN_WATERMARK < watermark < MAX_WATERMARK
        if batch_id not in commits:
            msg = f"{where}: the batch is not committed, or it is purged already"
            raise SparkSetupError(f"{msg}; read everything anew")
        position = Position(batch_id, watermark if is_known else None, commits[batch_id])
        return BatchClock(fields["batchTimestampMs"], watermark), position


def _rows_of(
    rows: DataFrame, share: StoredShare, max_parallelism: int, operator_id: int
) -> DataFrame:
    """Take the rows of the held key groups, and those rows with the record and the registry."""
    if share.groups is None:
        return rows
    ids = group_ids(max_parallelism, operator_index_in(operator_id))
    return rows.where(rows[KEY_GROUP].isin([REGISTRY_KEY, *(ids[at] for at in share.groups)]))


def _writes(table: Any, max_parallelism: int) -> Iterator[Write]:
    """Read rows of a state store as writes.

    The last three columns are the grouping key, the sequence number and the blob.  If there is a
    column `change_type` before them, it says whether an entry was removed.
    """
    *kinds, groups, sequences, blobs = table.columns
    removed = (
        [kind == "delete" for kind in kinds[0].to_pylist()] if kinds else [False] * len(groups)
    )
    every = zip(removed, groups.to_pylist(), sequences.to_pylist(), blobs)
    for is_removed, group_id, sequence, blob in every:
        if group_id < 0 and group_id != REGISTRY_KEY:
            continue  # a partition watermark, which is no state
        key_group = None if group_id == REGISTRY_KEY else index_of(group_id, max_parallelism)
        yield Write(key_group, sequence, None if is_removed else blob.as_py())


# The key group of a single key
#
# A Spark job for each lookup would be slow.  So Python hashes values of the most common
# types here, as Spark's Murmur3 hashes them.  Spark hashes all other values, and its error says why a
# value does not fit its column.

_Hash = Callable[[Any, int], int | None]
"""Hashes a value with the hash before it as the seed; None if Spark has to be asked."""
_EPOCH = dt.date(1970, 1, 1)


class KeyRoute:
    """Finds the stored form and the key group of an operator's keys.

    Args:
        spark: The session that hashes values of all other types.
        record: The record of the operator.
    """

    def __init__(self, spark: SparkSession, record: OperatorRecord) -> None:
        self._spark, self._record = spark, record
        self._freeze = _key_type_of_record(record).freeze_key
        self._max_parallelism = record.identity.max_parallelism
        self._has_columns = bool(record.identity.key_columns)
        types = _types(record) if self._has_columns else []
        self._hashes = [_hash_of(kind, record.time_zone) for kind in types]

    def __call__(self, key: Any) -> tuple[Any, int]:
        """Return a key as it is stored, and its key group.

        Raises:
            StateValueError: The key is no value of the key columns.
        """
        if not self._has_columns:
            return self._freeze(key), 0
        if key is None:
            msg = "a key must not be None, got None; give a value of the key columns"
            raise StateValueError(msg)
        found = self._hash(key)
        if found is None:
            begin_waiting()
            (group,) = find_wanted_keys(self._spark, self._record, [key]).groups
            return self._freeze(key), group
        return self._freeze(key), add_sign(found) % self._max_parallelism

    def _hash(self, key: Any) -> int | None:
        parts = (key,) if len(self._hashes) == 1 else key
        if not isinstance(parts, tuple) or len(parts) != len(self._hashes):
            return None
        found = SEED
        for part, hash_of in zip(parts, self._hashes):
            # Spark leaves the hash unchanged for a null.
            if part is not None:
                hashed = hash_of(part, found)
                if hashed is None:
                    return None
                found = hashed
        return found


def _key_type_of_record(record: OperatorRecord) -> TypeInformation:
    """Return the type of an operator's keys, in the form that its function sees."""
    if not record.identity.key_columns:
        return type_of(record.identity.key)
    return key_type_of(_types(record), record.time_zone)


def _types(record: OperatorRecord) -> list[st.DataType]:
    return [each.dataType for each in key_fields(record)]


def _hash_of(kind: st.DataType, time_zone: str) -> _Hash:
    """Return the hash of a column's values; the error of Spark says why a value does not fit."""
    if isinstance(kind, (st.TimestampType, st.TimestampNTZType)):
        arrow = arrow_type(kind)

        def of_timestamp(value: dt.datetime, seed: int) -> int | None:
            try:
                micros = to_column([value], arrow, time_zone).cast(pa.int64())[0].as_py()
            except StateValueError:
                return None
            return hash_long(micros, seed)

        return lambda v, seed: of_timestamp(v, seed) if isinstance(v, dt.datetime) else None
    if type(kind) not in _HASHES:
        return lambda _value, _seed: None
    expected, hashed = _HASHES[type(kind)]
    # A bool is an int to Python, and a datetime a date, but neither is a value of the column.
    return lambda value, seed: hashed(value, seed) if type(value) is expected else None


def _of_ints(bits: int) -> tuple[type, _Hash]:
    hashed, limit = (hash_long if bits == 64 else hash_int), 1 << bits - 1
    return int, lambda value, seed: hashed(value, seed) if -limit <= value < limit else None


def _of_text(value: str, seed: int) -> int | None:
    try:
        return hash_bytes(value.encode(), seed)
    except UnicodeEncodeError:
        return None


_HASHES: dict[type[st.DataType], tuple[type, _Hash]] = {
    st.ByteType: _of_ints(8),
    st.ShortType: _of_ints(16),
    st.IntegerType: _of_ints(32),
    st.LongType: _of_ints(64),
    st.BooleanType: (bool, hash_int),
    st.DateType: (dt.date, lambda value, seed: hash_int((value - _EPOCH).days, seed)),
    st.StringType: (str, _of_text),
    st.BinaryType: (bytes, hash_bytes),
}
"""For each type of column the type of its values, and their hash."""
