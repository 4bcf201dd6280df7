# SPDX-License-Identifier: Apache-2.0
"""The source of a replica's images: all of a checkpoint once, then the writes since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import HostError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replica.following import Write, followed
from pyflinklike.replica.held import Held, Part
from pyflinklike.replica.image import Image, image_of
from pyflinklike.replica.position import Position
from pyflinklike.spark.following.key_route import KeyRoute, key_type_of_record
from pyflinklike.spark.reading.checkpoint import (
    CheckpointState,
    checkpoint_states,
    offsets_of,
    where_of,
)
from pyflinklike.spark.reading.sources import change_feed, place_in, refusing, stored
from pyflinklike.spark.wire.balanced_ids import group_ids, index_of
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.roll_call import ROLL_CALL
from pyflinklike.spark.wire.watermarks import watermark_of
from pyflinklike.types import TypeInformation

__all__ = ["CheckpointSource"]

_TURNS = 4
"""The number of retries if the query commits faster than its state can be read."""


@attrs.frozen
class CheckpointSource:
    """Reads an operator of a checkpoint, whose query may be running.

    Args:
        spark: Any session that reaches the checkpoint.
        location: The path of the checkpoint.
        operator: Spark's number of the operator, or its uid.
        part: The keys or key groups to read.
    """

    spark: SparkSession
    location: str
    operator: int | str
    part: Part

    def latest(self) -> Image:
        """Read the whole image after the last committed micro-batch."""
        failed_at = -1
        for _ in range(_TURNS):
            try:
                return self._latest()
            except HostError:
                # Spark may have purged the batch meanwhile; then there is a newer one.
                last = self._last_committed()
                if last <= failed_at:
                    raise
                failed_at = last
        return self._latest()

    def _latest(self) -> Image:
        (state,) = checkpoint_states(self.spark, self.location, self.operator, None)
        return self._image_of(state)

    def _last_committed(self) -> int:
        try:
            return max(self._commits(self.location), default=-1)
        except HostError:
            return -1

    def _image_of(self, state: CheckpointState) -> Image:
        where, record = state.where, state.record
        held = self.part.held(self.route(record), state.max_parallelism)
        every = stored(self.spark, self.location, state.operator_id, state.batch_id, where)
        rows = _rows_of(every, held, state.max_parallelism, state.operator_id)
        groups: dict[int, dict[int, bytes]] = {}
        called: dict[int, bytes] = {}
        with refusing(where):
            table = rows.toArrow()
        for write in _writes(table, state.max_parallelism):
            assert write.blob is not None
            if write.key_group is None:
                called[write.sequence] = write.blob
            else:
                groups.setdefault(write.key_group, {})[write.sequence] = write.blob
        clock, position = self._times(state.batch_id, self._commits(where), where)
        return image_of(position, clock, groups, called, where, state.operator_id, held)

    def after(self, image: Image) -> Image | None:
        """Make the image after the last micro-batch from an older one; None if that is the last."""
        operator_id = image.operator_id
        commits, former = self._commits(image.where), image.position
        last = max(commits, default=-1)
        # A query that went back commits another batch of the same number, at another time.
        if commits.get(former.batch_id) != former.committed_at:
            msg = f"{image.where}: the batch must be the one that was read, got another, or none"
            raise HostError(f"{msg}; read all anew")
        if last == former.batch_id:
            return None
        where = where_of(self.location, operator_id, last)
        feed = change_feed(self.spark, self.location, operator_id, former.batch_id + 1, last, where)
        max_parallelism = image.record.identity.max_parallelism
        rows = _rows_of(feed, image.held, max_parallelism, operator_id)
        with refusing(where):
            table = rows.drop("batch_id").toArrow()
        clock, position = self._times(last, commits, where)
        writes = _writes(table, max_parallelism)
        return followed(image, writes, position, clock, where)

    def key_type(self, record: OperatorRecord) -> TypeInformation:
        """Return the type of the operator's keys."""
        return key_type_of_record(record)

    def route(self, record: OperatorRecord) -> KeyRoute:
        """Return what finds the key groups of the operator's keys."""
        return KeyRoute(self.spark, record)

    def _commits(self, where: str) -> dict[int, int]:
        """Read the time in ms at which each retained batch was committed."""
        path = f"{self.location.rstrip('/')}/commits"
        with refusing(where):
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
            msg = f"{where}: a batch that is read must be committed, got none of that number"
            raise HostError(f"{msg}, or none any more; read all anew")
        position = Position(batch_id, watermark if is_known else None, commits[batch_id])
        return BatchClock(fields["batchTimestampMs"], watermark), position


def _rows_of(rows: DataFrame, held: Held, max_parallelism: int, operator_id: int) -> DataFrame:
    """Take the rows of the key groups that are held, and of the record and the roll."""
    if held.groups is None:
        return rows
    ids = group_ids(max_parallelism, place_in(operator_id))
    return rows.where(rows[KEY_GROUP].isin([ROLL_CALL, *(ids[at] for at in held.groups)]))


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
        if group_id < 0 and group_id != ROLL_CALL:
            continue  # a home, which keeps a watermark and no state
        key_group = None if group_id == ROLL_CALL else index_of(group_id, max_parallelism)
        yield Write(key_group, sequence, None if is_removed else blob.as_py())
