# SPDX-License-Identifier: Apache-2.0
"""The report of a checkpoint: its contents, its sizes, its growth, and what comes next.

Each operator's log is read once for all pictures of its contents.  Its growth takes two more reads,
however many batches the page shows.
"""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike.report.page import (
    Picture,
    Report,
    bars,
    check_path,
    flat_bars,
    size_in_words,
    stack_bars,
)
from pyflinklike.spark._wire.key_groups import index_of
from pyflinklike.spark._wire.system_columns import KEY_GROUP
from pyflinklike.state_processor._checkpoints.checkpoint import (
    CheckpointState,
    OperatorAt,
    checkpoint_states,
    location_of,
    operators_of,
    partitions_of_batches,
    refuse_errors,
)
from pyflinklike.state_processor._checkpoints.checkpoint_check import check_checkpoint
from pyflinklike.state_processor._checkpoints.group_job import frame_of_groups
from pyflinklike.state_processor._checkpoints.state_changes import changes_up_to
from pyflinklike.state_processor._checkpoints.state_frames import Location, list_sized_states
from pyflinklike.state_processor._logs.column_values import BatchClock, timestamps
from pyflinklike.state_processor._logs.state_summaries import BUCKETS, SummaryReader, WrittenKeys

_BATCHES = 20  # Spark keeps 100 by default, but a page has room for fewer


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

    - `states`: the entries and bytes in the log by state, with older writes, before compression;
    - `skew`: the entries and stored bytes by key group, and the ratio of the bytes to the median;
    - `growth`: the stored bytes and entries after each of the last 20 batches, and the number of key
      groups that the batch compacted;
    - `largest_keys` and `heaviest_keys`: the keys with the most entries, and with the most bytes, in
      all states of an operator;
    - `hottest_keys`: the keys that were written in the most of the last 20 batches;
    - `expiry`: the entries by the time at which their TTL ends;
    - `timers`: the timers by how far they are ahead;
    - `check`: the findings of `pyflinklike state check`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        path: The file of the page, which is overwritten if it exists.
        batch_id: The micro-batch to report; None takes the last committed one.
        operator: Spark's number of a stateful operator, or its uid; None takes all operators.

    Raises:
        RequirementError: altair or vl-convert-python is missing: the extra `report`.
        UnknownBatchError: The checkpoint never had the batch, or does not keep it any more.
        UnknownStateError: The checkpoint has no such operator.
        CorruptStateError: An operator's record, registry or head is damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
        OSError: The page cannot be written.
    """
    # This comes first: reading the state may take long, and would be in vain.
    written = check_path(path)
    location = location_of(checkpoint, spark)
    found = checkpoint_states(spark, location, operator, batch_id)
    batch = found[0].batch_id
    with refuse_errors(f"checkpoint {location!r}"):
        first = _first_batches(found, _BATCHES)
        # One object for all pictures, because it keeps what it has read.
        contents = CheckpointContents(found, first)
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


def _headline(found: list[CheckpointState], contents: CheckpointContents) -> list[tuple[str, str]]:
    """Return the headline: the numbers of keys, bytes and timers, and the batch with its time."""
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
        for info in list_sized_states(each)
    ]
    columns = ["operator", "state", "kind", "value", "ttl_ms", "entries", "bytes"]
    note = (
        "Entries and bytes in the log, with older writes of an entry. The bytes are counted before "
        "compression; key groups and growth below show the stored bytes, which are fewer."
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
        some = _growth_of(each, since)
        title = each.record.identity.name
        charts.append(bars(some, "bytes", "batch", title=title, marked="has_compacted"))
        rows += some
    columns = ["operator", "batch", "bytes", "entries", "key_groups", "compacted", "has_compacted"]
    note = (
        "The log after each batch, as it is stored: compressed, and with parts that belong to no state. "
        "If a batch compacted key groups, its bar stands out."
    )
    return Picture("growth", "Growth", note, columns, rows, charts)


def _keys(contents: CheckpointContents) -> Iterator[Picture]:
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


def _expiry(contents: CheckpointContents) -> Picture:
    note = "Entries by when their TTL ends, by the clock of the batch."
    columns = ["operator", "state", "ends", "entries"]
    picture = Picture("expiry", "Expiry", note, columns, contents.expiry())
    return _stacked(picture, "No state has a TTL.")


def _timers(contents: CheckpointContents) -> Picture:
    note = "Timers by how far they are ahead of the clock of the batch."
    columns = ["operator", "domain", "comes", "timers"]
    picture = Picture("timers", "Timers", note, columns, contents.timers())
    return _stacked(picture, "No timer is registered.")


def _stacked(picture: Picture, without: str) -> Picture:
    """Add the chart of a picture, or say that there is nothing to draw."""
    if not picture.rows:
        return attrs.evolve(picture, note=without)
    _, part, by, of = picture.columns
    return attrs.evolve(picture, charts=[stack_bars(picture.rows, of, by, part, [])])


def _check(
    spark: SparkSession, location: str, batch_id: int, operator: int | str | None
) -> Picture:
    found, checked = check_checkpoint(spark, location, batch_id=batch_id, operator=operator)
    rows = [attrs.asdict(each) for each in found]
    note = (
        f"`pyflinklike state check` found {len(rows) or 'nothing'} in {checked.key_groups} key "
        f"groups, {checked.segments} segments and {checked.entries} entries."
    )
    note += "".join(f" Not checked: {each}." for each in checked.left_out)
    return Picture("check", "Check", note, ["part", "message"], rows)


# The contents: keys, expiry and timers, from one pass over each operator

_KEYS = 15  # bars that fit on a page with their names


@attrs.frozen(slots=False)
class CheckpointContents:
    """The contents of a checkpoint's operators after a batch.

    Args:
        operators: The operators, all after the same batch.
        first_batches: For each operator, the first batch whose changes count for the hottest keys.
    """

    operators: Sequence[CheckpointState]
    first_batches: Sequence[int]

    def largest_keys(self, by: str) -> list[dict[str, Any]]:
        """Return the keys with the most entries or bytes.

        Args:
            by: The number that decides, "entries" or "bytes".
        """
        rows: list[dict[str, Any]] = []
        for uid, summary in self._summaries.items():
            keys = [row for row in summary if row["what"] == "key"]
            keys.sort(key=lambda row: (-row[by], row["label"]))
            rows += [
                {
                    "operator": uid,
                    "key": row["label"],
                    "entries": row["entries"],
                    "bytes": row["bytes"],
                }
                for row in keys[:_KEYS]
            ]
        return rows

    def keys(self) -> dict[str, int]:
        """Return the number of keys that have entries, by the uid of the operator."""
        return {
            uid: sum(row["entries"] for row in summary if row["what"] == "keys")
            for uid, summary in self._summaries.items()
        }

    def hottest_keys(self) -> list[dict[str, Any]]:
        """Return the keys that were written in the most batches."""
        rows: list[dict[str, Any]] = []
        for each, first in zip(self.operators, self.first_batches):
            # Spark has no changes to read, so no key is hot.
            if first > each.batch_id:
                continue
            written = changes_up_to(each, first, WrittenKeys(each.record))
            counted = written.groupBy("key").agg(F.count("batch_id").alias("batches"))
            hottest = counted.orderBy(F.desc("batches"), "key").limit(_KEYS).toArrow()
            uid = each.record.identity.name
            rows += [{"operator": uid, **row} for row in hottest.to_pylist()]
        return rows

    def expiry(self) -> list[dict[str, Any]]:
        """Return the number of entries of states with a TTL, by the time at which it ends."""
        return self._by_time("expiry", "expired", ("state", "ends", "entries"))

    def timers(self) -> list[dict[str, Any]]:
        """Return the number of timers, by how far they are ahead."""
        return self._by_time("timers", "due", ("domain", "comes", "timers"))

    def _by_time(self, what: str, past: str, names: tuple[str, str, str]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for uid, summary in self._summaries.items():
            # Each key group has its own summary, so one bar is the sum of several rows.
            counts: dict[tuple[str, str], int] = {}
            for row in summary:
                if row["what"] == what:
                    at = row["of"], row["label"]
                    counts[at] = counts.get(at, 0) + row["entries"]
            rows += [
                {"operator": uid, **dict(zip(names, (of, label, counts.get((of, label), 0))))}
                for of in dict.fromkeys(each for each, _ in counts)
                for label in (past, *BUCKETS)
            ]
        return rows

    @functools.cached_property
    def _summaries(self) -> dict[str, list[dict[str, Any]]]:
        """The summaries of each operator's key groups, by the operator's uid."""
        found = {}
        for each in self.operators:
            reader = SummaryReader(each.record, self.clock, _KEYS)
            found[each.record.identity.name] = frame_of_groups(each, reader).toArrow().to_pylist()
        return found

    @functools.cached_property
    def clock(self) -> BatchClock:
        """The processing time and the watermark of the batch."""
        return self.operators[0].clock()


# Growth: the heads of key groups after each batch, in two reads


def _first_batches(found: Sequence[CheckpointState], most: int) -> list[int]:
    """Return, for each operator, the first of the last batches whose changes Spark can report.

    Args:
        found: The operators of a checkpoint after the last batch.
        most: The greatest number of batches for a page.

    Returns:
        The number of a batch for each operator; if Spark can report none, the number of the next.
    """
    one = found[0]
    rows = operators_of(one.spark, one.location, one.where)
    kept = {row["operatorId"]: int(row["minBatchId"]) for row in rows}
    first = [max(kept[each.operator_id], each.batch_id - most + 1) for each in found]
    # Spark's change feed ends at a batch that spread the state over another number of partitions.
    partitions = partitions_of_batches(one)
    changed = [at for at in partitions if at <= one.batch_id and _is_another(partitions, at)]
    behind = max(changed, default=-1) + 1
    return [max(each, behind) for each in first]


def _is_another(partitions: Mapping[int, str | None], batch: int) -> bool:
    """Return whether a batch and the one before have different numbers of partitions."""
    return batch - 1 in partitions and partitions[batch] != partitions[batch - 1]


def _growth_of(state: CheckpointState, first: int) -> list[dict[str, Any]]:
    """Return the bytes and entries in the log after each of the last batches.

    Args:
        state: The operator after the last batch.
        first: The first batch; if it comes after the last one, only the last one is measured.
    """
    first = min(first, state.batch_id)
    before = OperatorAt(state.spark, state.location, state.operator_id, first).blobs()
    heads = _read(before.where(f"{KEY_GROUP} >= 0 and sequence = {HEAD_AT}").toArrow(), state)
    rows = [_row(state, first, heads, None)]
    if first == state.batch_id:
        return rows
    feed = state.changes(first + 1)
    # A compaction deletes the head before it writes another one, in the same batch.
    wanted = f"{KEY_GROUP} >= 0 and sequence = {HEAD_AT} and change_type = 'update'"
    changes = feed.where(wanted).select("batch_id", KEY_GROUP, "blob").toArrow()
    for batch in range(first + 1, state.batch_id + 1):
        now = _read(changes.filter(pc.equal(changes["batch_id"], batch)), state)
        compacted = sum(
            index in heads and _began(heads[index]) != _began(head) for index, head in now.items()
        )
        heads = {**heads, **now}
        rows.append(_row(state, batch, heads, compacted))
    return rows


def _began(head: Head) -> tuple[int, int]:
    """Return the beginning of a key group's log, which only a compaction changes."""
    return head.first_sequence, head.compacted_at


def _read(rows: pa.Table, state: CheckpointState) -> dict[int, Head]:
    """Read the heads of key groups, by the numbers of the groups."""
    found = {}
    for row in rows.to_pylist():
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
