# SPDX-License-Identifier: Apache-2.0
"""A bit flips in RocksDB's local files between two batches of a stream."""

from __future__ import annotations

from random import Random

import pytest
from fault_ledger import batches_of, golden
from fault_support import Place, backend_of, ledger, write
from spark_support import until

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

SEED = 11


def test_flipped_bits_between_batches_are_not_missed(spark, tmp_path):
    """In every file with entries, and in some of the files that list them: the query runs on."""
    random = Random(SEED)
    batches = batches_of(SEED, count=6)
    place = Place(tmp_path)
    rows = ledger(spark, place, backend_of("rocksdb", place))
    query = write(rows, place, processingTime="0 seconds")
    flipped = 0
    try:
        for number, batch in enumerate(batches):
            place.feed(batch)
            until(query, lambda: golden(batches[: number + 1]) == place.sunk())  # noqa: B023
            until(query, lambda: place.entries("commits") > number)  # noqa: B023
            for pattern in ("*.sst", "MANIFEST-*" if number == 3 else "*.sst"):
                for file in place.local.rglob(pattern):
                    data = bytearray(file.read_bytes())
                    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
                    file.write_bytes(data)
                    flipped += 1
    finally:
        query.stop()

    assert golden(batches) == place.sunk()
    assert flipped >= len(batches)
