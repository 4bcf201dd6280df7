# SPDX-License-Identifier: Apache-2.0
"""The numbers of a report about a checkpoint."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.cli.asking import Asked
from pyflinklike.cli.checkpoints import CheckpointSource, answered
from pyflinklike.cli.pages import Picture
from pyflinklike.cli.shapes import iso
from pyflinklike.spark import read_heads, read_timers
from pyflinklike.spark.checking import check_checkpoint
from pyflinklike.spark.reading.checkpoint import CheckpointState

__all__ = ["pictures_of"]

_HOUR = 3_600_000
_AHEAD = {"next hour": _HOUR, "next day": 24 * _HOUR, "next 30 days": 30 * 24 * _HOUR}
_BATCHES, _KEYS = 12, 15


def pictures_of(source: CheckpointSource) -> Iterator[Picture]:
    """All there is to see of a checkpoint, in order."""
    yield _states(source)
    for each in source.operators:
        yield _key_groups(each)
    for each in source.operators:
        yield _growth(source, each)
    for each in source.operators:
        yield from _largest_keys(source, each)
    yield _expiry(source)
    yield _timers(source)
    yield _findings(source)


def _states(source: CheckpointSource) -> Picture:
    rows = [
        {
            "operator": info.uid,
            "state": info.name,
            "kind": info.kind,
            "value": info.value_type,
            "TTL in ms": None if info.ttl is None else info.ttl["ms"],
            "entries": info.entries,
            "bytes": info.bytes,
        }
        for info in source.states(sizes=True)
    ]
    note = "Entries and bytes in the log, older writes included; the bars are of bytes."
    return Picture("States", note, list(rows[0]) if rows else [], rows, "bytes")


def _key_groups(operator: CheckpointState) -> Picture:
    rows: list[dict[str, Any]] = [
        {
            "key group": index,
            "bytes": head.log_bytes,
            "entries": head.log_entries,
            "compacted at": iso(head.compacted_at) if head.nonce else None,
            "last records at": None if head.served_at is None else iso(head.served_at),
        }
        for index, head in sorted(operator.heads.items())
    ]
    sizes = [row["bytes"] for row in rows] or [0]
    median, most = statistics.median(sizes), max(sizes)
    ratio = f"{most / median:.1f} times the median" if median else "the median is 0"
    note = (
        f"{len(rows)} of {operator.max_parallelism} key groups have had records. "
        f"Median {median:,.0f} bytes, largest {most:,} bytes: {ratio}."
    )
    marked = [bool(median) and size > 2 * median for size in sizes]
    title = f"Key groups of {operator.record.identity.name}"
    return Picture(title, note, list(rows[0]) if rows else [], rows, "bytes", marked)


def _growth(source: CheckpointSource, operator: CheckpointState) -> Picture:
    first, last = source.batches[0], operator.batch_id
    rows: list[dict[str, Any]] = []
    former: dict[int, int] = {}
    for batch in range(max(first, last - _BATCHES + 1), last + 1):
        heads = answered(
            read_heads(
                source.spark, source.path, batch_id=batch, operator=operator.operator_id
            ).toArrow
        ).to_pylist()
        began = {head["key_group"]: head["compacted_at"] for head in heads}
        compacted = sum(began[each] != former[each] for each in began.keys() & former.keys())
        rows.append(
            {
                "batch": str(batch),
                "bytes": sum(head["log_bytes"] for head in heads),
                "entries": sum(head["log_entries"] for head in heads),
                "key groups": len(heads),
                "compacted": compacted if former else None,
            }
        )
        former = began
    note = f"The log after each of the last {len(rows)} batches; where groups were compacted it stands out."
    title = f"Growth of {operator.record.identity.name}"
    marked = [bool(row["compacted"]) for row in rows]
    return Picture(title, note, list(rows[0]) if rows else [], rows, "bytes", marked)


def _largest_keys(source: CheckpointSource, operator: CheckpointState) -> Iterator[Picture]:
    uid = operator.record.identity.name
    infos = [
        info
        for info in source.states()
        if info.operator_id == operator.operator_id and info.key_columns
    ]
    if not infos:
        return
    names = [name for name, _ in infos[0].key_columns]
    frames = [source.frame(info, Asked()).select(*names) for info in infos]
    every = frames[0]
    for frame in frames[1:]:
        every = every.union(frame)
    counted = every.groupBy(*names).count().orderBy(F.desc("count"), *names).limit(_KEYS)
    rows = [
        {"key": [row[name] for name in names], "entries": row["count"]}
        for row in answered(counted.toArrow).to_pylist()
    ]
    for row in rows:
        row["key"] = row["key"][0] if len(names) == 1 else row["key"]
    note = (
        f"The {len(rows)} keys with the most entries in all states together, by {', '.join(names)}."
    )
    yield Picture(f"Largest keys of {uid}", note, ["key", "entries"], rows, "entries")


def _expiry(source: CheckpointSource) -> Picture:
    rows = []
    for info in source.states():
        if info.ttl is None:
            continue
        operator = next(o for o in source.operators if o.operator_id == info.operator_id)
        now = operator.clock().now(info.ttl)
        frame = source.frame(info, Asked())
        at = F.unix_millis("expires_at")
        counts = _counted(frame, at - F.lit(now), ~F.col("alive"), "expired")
        rows.append({"operator": info.uid, "state": info.name, **counts})
    note = "Entries by when their TTL ends, by the clock of the batch."
    columns = list(rows[0]) if rows else []
    return Picture("Expiry", note if rows else "No state has a TTL.", columns, rows)


def _timers(source: CheckpointSource) -> Picture:
    rows = []
    for operator in source.operators:
        clock = operator.clock()
        timers = read_timers(
            source.spark,
            source.path,
            batch_id=source.batch_id,
            operator=operator.operator_id,
        )
        for domain, now in (
            ("event_time", clock.watermark),
            ("processing_time", clock.processing_time),
        ):
            some = timers.where(F.col("domain") == domain)
            ahead = F.col("timestamp") - F.lit(now)
            counts = _counted(some, ahead, F.col("due"), "due")
            if any(counts.values()):
                name = operator.record.identity.name
                rows.append({"operator": name, "domain": domain, **counts})
    note = "Timers by how far they are ahead of the clock of the batch."
    columns = list(rows[0]) if rows else []
    return Picture("Timers", note if rows else "No timer is registered.", columns, rows)


def _counted(frame: DataFrame, ahead: Column, is_past: Column, past: str) -> dict[str, int]:
    """How many rows there are by how far ahead they are, in ms."""
    bucket = F.when(is_past, past).when(ahead.isNull(), "unknown")
    for name, limit in _AHEAD.items():
        bucket = bucket.when(ahead <= limit, name)
    grouped = frame.groupBy(bucket.otherwise("later").alias("bucket")).count()
    found = {row["bucket"]: row["count"] for row in answered(grouped.toArrow).to_pylist()}
    return {name: found.get(name, 0) for name in (past, *_AHEAD, "later", "unknown")}


def _findings(source: CheckpointSource) -> Picture:
    found, checked = check_checkpoint(source.spark, source.path, batch_id=source.batch_id)
    rows = [attrs.asdict(each) for each in found]
    note = (
        f"`pyflinklike state check` found {len(rows) or 'nothing'} in {checked.key_groups} key "
        f"groups, {checked.segments} segments and {checked.entries} entries."
    )
    return Picture("Check", note, ["part", "message"], rows)
