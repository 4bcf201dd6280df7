# SPDX-License-Identifier: Apache-2.0
"""The keyed operators of a stage of a batch, one after the other, and what passes through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.spark.hosts.batch import run_batch
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.parcels import PASSED_ON, passing
from pyflinklike.spark.wire.places import first_of, place_of

__all__ = ["run_in_batch"]

Batches = Iterable[pa.RecordBatch]


def run_in_batch(plans: Sequence[Plan]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The function that processes one task's sorted rows, for `mapInArrow`.

    Rows of no key group pass as they are.

    Args:
        plans: Of the operators, in the order of their places.
    """
    hosts = [run_batch(plan) for plan in plans]

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        passed: list[pa.RecordBatch] = []
        for place, mine in groupby(_by_place(_kept_apart(batches, passed)), lambda each: each[0]):
            for results in hosts[place](batch for _, batch in mine):
                while passed:
                    yield passed.pop()
                yield results
        yield from passed

    return run


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


def _by_place(batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each place, with the key groups as its operator counts them."""
    for batch in batches:
        start = 0
        groups = batch.column(KEY_GROUP)
        while start < batch.num_rows:
            place = place_of(groups[start].as_py())
            end = start + pc.sum(pc.less(groups.slice(start), first_of(place + 1))).as_py()
            own = pc.subtract(
                groups.slice(start, end - start), pa.scalar(first_of(place), pa.int32())
            )
            rows = batch.slice(start, end - start)
            yield place, rows.set_column(batch.schema.get_field_index(KEY_GROUP), KEY_GROUP, own)
            start = end
