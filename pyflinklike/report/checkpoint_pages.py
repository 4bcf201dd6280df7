# SPDX-License-Identifier: Apache-2.0
"""The report of a checkpoint: its contents, its sizes, its growth, and what comes next."""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import SparkSession

from pyflinklike.replay.values import timestamps
from pyflinklike.report.charts import bars, flat_bars, stacked
from pyflinklike.report.contents import Contents
from pyflinklike.report.growth import first_batches, growth_of
from pyflinklike.report.page import Picture, Report, opened_for_writing, size_in_words
from pyflinklike.spark.checking import check_checkpoint
from pyflinklike.spark.reading.checkpoint import CheckpointState, checkpoint_states, location_of
from pyflinklike.spark.reading.sources import refusing
from pyflinklike.spark.reading.states import Location, sized

__all__ = ["checkpoint_report"]

_BATCHES = 20


def checkpoint_report(
    spark: SparkSession,
    checkpoint: Location,
    path: str | os.PathLike[str],
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
) -> Report:
    """Write a page about the state in a checkpoint; the query may be running.

    The page is one HTML file of about 1 MB, which any browser opens without a network.  The
    property `data` of the result has the numbers, as DataFrames of pandas by name:

    - `states`: entries and bytes in the log by state, older writes included, before compression;
    - `skew`: entries and stored bytes by key group, and the ratio of the bytes to the median;
    - `growth`: stored bytes and entries after each of the last 20 batches, and the number of key
      groups that the batch compacted;
    - `largest_keys` and `heaviest_keys`: the keys with the most entries, and with the most bytes, in
      all states of an operator;
    - `hottest_keys`: the keys that were written in the most of the last 20 batches;
    - `expiry`: entries by the time at which their TTL ends;
    - `timers`: timers by how far they are ahead;
    - `check`: the findings of `pyflinklike state check`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        path: The file of the page, which is overwritten if it is there.
        batch_id: The micro-batch to report; by default the last committed one.
        operator: Spark's number of a stateful operator, or its uid; by default all operators.

    Raises:
        RequirementError: altair or vl-convert-python is missing: the extra `report`.
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
        CorruptStateError: An operator's record, roll or head is damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
        OSError: The page cannot be written.
    """
    # First, since reading the state may take long and would be in vain.
    written = opened_for_writing(path)
    location = location_of(checkpoint)
    found = checkpoint_states(spark, location, operator, batch_id)
    batch = found[0].batch_id
    with refusing(f"checkpoint {location!r}"):
        first = first_batches(found, _BATCHES)
        contents = Contents(found, first)
        pictures = [
            _states(found),
            _skew(found),
            _growth(found, first),
            *_keys(contents),
            _expiry(contents),
            _timers(contents),
            _check(spark, location, batch, operator),
        ]
    names = ", ".join(each.record.identity.name for each in found)
    facts = f"{location}, after batch {batch}, operators: {names}"
    headline = _headline(found, contents)
    title = f"State of {os.path.basename(location.rstrip('/'))}"
    return Report(written, title, facts, pictures, headline).write()


def _headline(found: list[CheckpointState], contents: Contents) -> list[tuple[str, str]]:
    """Make the headline: the numbers of keys, bytes and timers, and the batch with its time."""
    keys, told = contents.keys(), []
    for uid, count in keys.items():
        told.append(("keys" if len(keys) == 1 else f"keys of {uid}", f"{count:,}"))
    heads = [head for each in found for head in each.heads.values()]
    told += [
        ("stored", size_in_words(sum(head.log_bytes for head in heads))),
        ("timers", f"{sum(row['timers'] for row in contents.timers()):,}"),
        ("after batch", f"{found[0].batch_id:,}"),
    ]
    began = timestamps(pa.array([contents.clock.processing_time], pa.int64())).to_pylist()[0]
    return [*told, ("when it began", "" if began is None else f"{began:%Y-%m-%d %H:%M:%S} UTC")]


def _states(found: list[CheckpointState]) -> Picture:
    rows = [
        {
            "operator": info.uid,
            "state": info.name,
            "kind": info.kind,
            "value": info.value_type,
            "ttl_ms": None if info.ttl is None else info.ttl["ms"],
            "entries": info.entries,
            "bytes": info.bytes,
        }
        for each in found
        for info in sized(each)
    ]
    columns = ["operator", "state", "kind", "value", "ttl_ms", "entries", "bytes"]
    note = (
        "Entries and bytes in the log, older writes of an entry included. The bytes are those before "
        "compression; key groups and growth below have what is stored, which is less."
    )
    charts = [flat_bars(rows, "bytes", "state")] if rows else []
    return Picture("states", "States", note, columns, rows, charts)


def _skew(found: list[CheckpointState]) -> Picture:
    rows: list[dict[str, Any]] = []
    charts, notes = [], []
    for each in found:
        uid = each.record.identity.name
        heads = sorted(each.heads.items())
        sizes = [head.log_bytes for _, head in heads] or [0]
        median, most = statistics.median(sizes), max(sizes)
        some = [
            {
                "operator": uid,
                "key_group": index,
                "entries": head.log_entries,
                "bytes": head.log_bytes,
                "of_median": round(head.log_bytes / median, 2) if median else None,
                "stands_out": bool(median) and head.log_bytes > 2 * median,
            }
            for index, head in heads
        ]
        ratio = f"{most / median:.1f} times the median" if median else "the median is 0"
        notes.append(
            f"{uid}: {len(heads)} of {each.max_parallelism} key groups have had records; the "
            f"median has {size_in_words(round(median))} stored, the largest {size_in_words(most)} "
            f"({ratio})."
        )
        charts.append(bars(some, "bytes", "key_group", title=uid, marked="stands_out", rule=median))
        rows += some
    columns = ["operator", "key_group", "entries", "bytes", "of_median", "stands_out"]
    return Picture("skew", "Key groups", " ".join(notes), columns, rows, charts if rows else [])


def _growth(found: list[CheckpointState], first: list[int]) -> Picture:
    rows, charts = [], []
    for each, since in zip(found, first):
        some = growth_of(each, since)
        title = each.record.identity.name
        charts.append(bars(some, "bytes", "batch", title=title, marked="has_compacted"))
        rows += some
    columns = ["operator", "batch", "bytes", "entries", "key_groups", "compacted", "has_compacted"]
    note = (
        "The log after each batch, as it is stored: compressed, and with what belongs to no state; "
        "where key groups were compacted a bar stands out."
    )
    return Picture("growth", "Growth", note, columns, rows, charts)


def _keys(contents: Contents) -> Iterator[Picture]:
    columns = ["operator", "key", "entries", "bytes"]
    for by, name, title in (
        ("entries", "largest_keys", "Keys with the most entries"),
        ("bytes", "heaviest_keys", "Keys with the most bytes"),
    ):
        rows = contents.largest_keys(by)
        note = "In all states of an operator together; bytes as in Arrow, before compression."
        yield Picture(name, title, note, columns, rows, _by_operator(rows, by))
    hottest = contents.hottest_keys()
    columns = ["operator", "key", "batches"]
    note = f"The keys that were written to in the most of the last {_BATCHES} batches."
    charts = _by_operator(hottest, "batches")
    yield Picture("hottest_keys", "Hottest keys", note, columns, hottest, charts)


def _by_operator(rows: list[dict[str, Any]], of: str) -> list[Any]:
    uids = dict.fromkeys(row["operator"] for row in rows)
    return [
        flat_bars([row for row in rows if row["operator"] == uid], of, "key", title=uid)
        for uid in uids
    ]


def _expiry(contents: Contents) -> Picture:
    rows = contents.expiry()
    note = "Entries by when their TTL ends, by the clock of the batch."
    charts = [stacked(rows, "entries", "ends", "state", [])] if rows else []
    columns = ["operator", "state", "ends", "entries"]
    return Picture(
        "expiry", "Expiry", note if rows else "No state has a TTL.", columns, rows, charts
    )


def _timers(contents: Contents) -> Picture:
    rows = contents.timers()
    note = "Timers by how far they are ahead of the clock of the batch."
    charts = [stacked(rows, "timers", "comes", "domain", [])] if rows else []
    columns = ["operator", "domain", "comes", "timers"]
    return Picture(
        "timers", "Timers", note if rows else "No timer is registered.", columns, rows, charts
    )


def _check(
    spark: SparkSession, location: str, batch_id: int, operator: int | str | None
) -> Picture:
    check = functools.partial(check_checkpoint, spark, location, batch_id=batch_id)
    found, checked = check(operator=operator)
    rows = [attrs.asdict(each) for each in found]
    note = (
        f"`pyflinklike state check` found {len(rows) or 'nothing'} in {checked.key_groups} key "
        f"groups, {checked.segments} segments and {checked.entries} entries."
    )
    note += "".join(f" Not checked: {each}." for each in checked.left_out)
    return Picture("check", "Check", note, ["part", "message"], rows)
