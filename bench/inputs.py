# SPDX-License-Identifier: Apache-2.0
"""The input: the same records for every side, computed from their number.

No side may depend on the order of a key's records within a micro-batch, which a
shuffle does not keep.  So the amount of a record is a function of its key and
its batch, and every running result is the same in any order.  The JVM sides
compute the records from the same formulas (`jvm/Records.java`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_MS = 1_700_000_000_000
"""Event time of the first record; each is a millisecond after the one before."""
ITEMS = 20
_FILES = 2
_STRIDE = 7919
_SHIFT = 104_729


@attrs.frozen
class Shape:
    """How much input there is.

    Args:
        records: Per micro-batch.
        batches: Micro-batches in all.
        keys: Distinct keys.
        sparse: The first micro-batch has one record for each key, and each later one
            `records` records of that many different keys (W8).
    """

    records: int
    batches: int
    keys: int
    sparse: bool = False

    def scaled(self, share: float, batches: int | None = None) -> Shape:
        """A share of the records, and of the keys in the same proportion."""
        return attrs.evolve(
            self,
            records=max(int(self.records * share), 1),
            keys=max(int(self.keys * share), 1),
            batches=batches or self.batches,
        )

    def records_of(self, batch: int) -> int:
        """Of one micro-batch."""
        return self.keys if self.sparse and batch == 0 else self.records

    @property
    def total(self) -> int:
        """Records of all micro-batches."""
        return sum(self.records_of(batch) for batch in range(self.batches))

    @property
    def last_ms(self) -> int:
        """Event time of the last record."""
        return START_MS + self.total - 1


def mix(numbers: Any) -> Any:
    """The finalizer of splitmix64: a cheap hash of 64-bit numbers."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def batch_of(shape: Shape, batch: int) -> pa.Table:
    """The records of one micro-batch: user, amount, item, ts."""
    first = sum(shape.records_of(each) for each in range(batch))
    count = shape.records_of(batch)
    number = np.arange(first, first + count)
    hashed = mix(number)
    if not shape.sparse:
        key = (hashed % np.uint64(shape.keys)).astype(np.int64)
    elif batch == 0:
        key = np.arange(count)
    else:
        key = (np.arange(count) * _STRIDE + batch * _SHIFT) % shape.keys
    amount = (mix(key * 1_000_003 + batch) % np.uint64(1000)).astype(np.int64)
    item = ((hashed >> np.uint64(40)) % np.uint64(ITEMS)).astype(np.int32)
    names = np.char.mod("user-%06d", np.arange(shape.keys))
    ts = pa.array((START_MS + number) * 1000, pa.timestamp("us", "UTC"))
    return pa.table({"user": pa.array(names[key]), "amount": amount, "item": item, "ts": ts})


def write_batches(folder: Path, shape: Shape, columns: list[str]) -> None:
    """Two Parquet files per micro-batch, one for each core to read; only the columns wanted.

    Spark's file source takes them in the order of their modification times.
    """
    folder.mkdir(parents=True)
    for batch in range(shape.batches):
        table = batch_of(shape, batch).select(columns)
        half = -(-table.num_rows // _FILES)
        for part in range(_FILES):
            path = folder / f"batch-{batch:04d}-{part}.parquet"
            pq.write_table(table.slice(part * half, half), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))
