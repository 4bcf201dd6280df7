# SPDX-License-Identifier: Apache-2.0
"""A bit flips in RocksDB's local files between two batches of a stream."""

from __future__ import annotations

from random import Random

import pytest
from fault_ledger import batches_of, golden
from fault_support import Place, backend_of, ledger, write

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

SEED = 11


def test_flipped_bits_between_batches_are_not_missed(spark, tmp_path):
    """In every file with entries, and in some of the files that list them: the query runs on."""
    random = Random(SEED)
    batches = batches_of(SEED, count=4)
    place = Place(tmp_path)
    rows = ledger(spark, place, backend_of("rocksdb", place))
    flipped = 0
    for number, batch in enumerate(batches):
        place.feed(batch)
        write(rows, place).awaitTermination()
        assert golden(batches[: number + 1]) == place.sunk()
        for file in place.local.rglob("MANIFEST-*" if number == 1 else "*.sst"):
            data = bytearray(file.read_bytes())
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            file.write_bytes(data)
            flipped += 1

    assert flipped >= len(batches)
