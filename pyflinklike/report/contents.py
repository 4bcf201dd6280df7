# SPDX-License-Identifier: Apache-2.0
"""The contents of a checkpoint: keys, expiry and timers, from one pass over each operator."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import attrs
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.summaries import BUCKETS, SummaryReader, WrittenKeys
from pyflinklike.spark.reading.changes import changes_up_to
from pyflinklike.spark.reading.checkpoint import CheckpointState
from pyflinklike.spark.reading.jobs import frame_of_groups

__all__ = ["Contents"]

_KEYS = 15


@attrs.frozen(slots=False)
class Contents:
    """The contents of operators after a batch.

    Args:
        operators: The operators, all after the same batch.
        first_batches: For each operator the first batch whose changes count for the hottest keys.
    """

    operators: Sequence[CheckpointState]
    first_batches: Sequence[int]

    def largest_keys(self, by: str) -> list[dict[str, Any]]:
        """Find the keys with the most entries or bytes.

        Args:
            by: "entries" or "bytes".
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
        """Count the keys that have entries, by the uid of the operator."""
        return {
            uid: sum(row["entries"] for row in summary if row["what"] == "keys")
            for uid, summary in self._summaries.items()
        }

    def hottest_keys(self) -> list[dict[str, Any]]:
        """Find the keys that were written in the most batches."""
        rows: list[dict[str, Any]] = []
        for each, first in zip(self.operators, self.first_batches):
            if first > each.batch_id:
                continue
            written = changes_up_to(each, first, WrittenKeys(each.record))
            counted = written.groupBy("key").agg(F.count("batch_id").alias("batches"))
            hottest = counted.orderBy(F.desc("batches"), "key").limit(_KEYS).toArrow()
            uid = each.record.identity.name
            rows += [{"operator": uid, **row} for row in hottest.to_pylist()]
        return rows

    def expiry(self) -> list[dict[str, Any]]:
        """Count the entries of states with a TTL by the time at which it ends."""
        return self._by_time("expiry", "expired", ("state", "ends", "entries"))

    def timers(self) -> list[dict[str, Any]]:
        """Count the timers by how far they are ahead."""
        return self._by_time("timers", "due", ("domain", "comes", "timers"))

    def _by_time(self, what: str, past: str, names: tuple[str, str, str]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for uid, summary in self._summaries.items():
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
        """The summaries of each operator's key groups, by its uid."""
        found = {}
        for each in self.operators:
            reader = SummaryReader(each.record, self.clock, _KEYS)
            found[each.record.identity.name] = frame_of_groups(each, reader).toArrow().to_pylist()
        return found

    @functools.cached_property
    def clock(self) -> BatchClock:
        """The times of the batch."""
        return self.operators[0].clock()
