# SPDX-License-Identifier: Apache-2.0
"""The growth of an operator's log: the heads of its key groups after each batch, in two reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyflinklike.log.storage import Head
from pyflinklike.spark.hosts.log_storage import HEAD_AT
from pyflinklike.spark.reading.checkpoint import CheckpointState, partitions_of_batches
from pyflinklike.spark.reading.sources import change_feed, operators_of, stored
from pyflinklike.spark.wire.balanced_ids import index_of
from pyflinklike.spark.wire.names import KEY_GROUP

__all__ = ["first_batches", "growth_of"]


def first_batches(found: Sequence[CheckpointState], most: int) -> list[int]:
    """Find for each operator the first of the last batches whose changes Spark can tell.

    Args:
        found: The operators of a checkpoint after the last batch.
        most: The greatest number of batches.

    Returns:
        The number of a batch for each operator; that of the next batch if Spark can tell none.
    """
    one = found[0]
    rows = operators_of(one.spark, one.location, one.where)
    kept = {row["operatorId"]: int(row["minBatchId"]) for row in rows}
    first = [max(kept[each.operator_id], each.batch_id - most + 1) for each in found]
    # Spark's change feed does not reach beyond a batch that spread the state over other partitions.
    partitions = partitions_of_batches(one)
    changed = [at for at in partitions if at <= one.batch_id and _is_another(partitions, at)]
    behind = max(changed, default=-1) + 1
    return [max(each, behind) for each in first]


def _is_another(partitions: Mapping[int, str | None], batch: int) -> bool:
    """Return whether a batch has another number of partitions than the batch before."""
    return batch - 1 in partitions and partitions[batch] != partitions[batch - 1]


def growth_of(state: CheckpointState, first: int) -> list[dict[str, Any]]:
    """Measure the bytes and entries in the log after each of the last batches.

    Args:
        state: The operator after the last batch.
        first: The first batch; if it is greater than the last one, only the last one is measured.
    """
    first = min(first, state.batch_id)
    before = stored(state.spark, state.location, state.operator_id, first, state.where)
    heads = _heads(before.where(f"{KEY_GROUP} >= 0 and sequence = {HEAD_AT}").toArrow(), state)
    rows = [_row(state, first, heads, None)]
    if first == state.batch_id:
        return rows
    feed = change_feed(
        state.spark, state.location, state.operator_id, first + 1, state.batch_id, state.where
    )
    # A compaction deletes the head before it writes another one, in the same batch.
    wanted = f"{KEY_GROUP} >= 0 and sequence = {HEAD_AT} and change_type = 'update'"
    changes = feed.where(wanted).select("batch_id", KEY_GROUP, "blob").toArrow()
    by_batch: dict[int, list[dict[str, Any]]] = {}
    for change in changes.to_pylist():
        by_batch.setdefault(change["batch_id"], []).append(change)
    for batch in range(first + 1, state.batch_id + 1):
        now = _read(by_batch.get(batch, []), state)
        compacted = sum(
            index in heads and _began(heads[index]) != _began(head) for index, head in now.items()
        )
        heads = {**heads, **now}
        rows.append(_row(state, batch, heads, compacted))
    return rows


def _began(head: Head) -> tuple[int, int]:
    """Return where the log of a key group begins, which only a compaction changes."""
    return head.first_sequence, head.compacted_at


def _heads(table: Any, state: CheckpointState) -> dict[int, Head]:
    return _read(table.to_pylist(), state)


def _read(rows: Iterable[dict[str, Any]], state: CheckpointState) -> dict[int, Head]:
    found = {}
    for row in rows:
        index = index_of(row[KEY_GROUP], state.max_parallelism)
        found[index] = Head.from_bytes(row["blob"], f"{state.where}, key group {index}")
    return found


def _row(
    state: CheckpointState, batch: int, heads: dict[int, Head], compacted: int | None
) -> dict[str, Any]:
    return {
        "operator": state.record.identity.name,
        "batch": batch,
        "bytes": sum(head.log_bytes for head in heads.values()),
        "entries": sum(head.log_entries for head in heads.values()),
        "key_groups": len(heads),
        "compacted": compacted,
        "has_compacted": bool(compacted),
    }
