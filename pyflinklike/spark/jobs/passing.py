# SPDX-License-Identifier: Apache-2.0
"""What passes through a keyed operator of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.parcels import PASSED_ON, passing

__all__ = ["around_batch"]

Batches = Iterable[pa.RecordBatch]


def around_batch(
    run: Callable[[Batches], Iterator[pa.RecordBatch]],
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The batch host, around which rows of no key group go as they are.

    Args:
        run: The host, over sorted rows.
    """

    def around(batches: Batches) -> Iterator[pa.RecordBatch]:
        passed: list[pa.RecordBatch] = []
        for results in run(_kept_apart(batches, passed)):
            while passed:
                yield passed.pop()
            yield results
        yield from passed

    return around


def _kept_apart(batches: Batches, passed: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        passes = pc.less(batch.column(KEY_GROUP), 0)
        through = batch.filter(passes).column("parcel").to_pylist()
        if through:
            payloads = [passing(parcel) for parcel in through]
            columns = [
                pa.array([PASSED_ON] * len(payloads), pa.int32()),
                pa.array(payloads, pa.binary()),
            ]
            passed.append(pa.RecordBatch.from_arrays(columns, names=["output", "payload"]))
        yield batch.filter(pc.invert(passes))
