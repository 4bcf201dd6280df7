# SPDX-License-Identifier: Apache-2.0
"""Damaged segments in Spark's state store: refused by name, and mended by an older checkpoint."""

from __future__ import annotations

import shutil

import pytest
from fault_ledger import batches_of, golden
from fault_processors import damaging
from fault_support import Place, backend_of, ledger, write
from pyspark.errors import StreamingQueryException

SEED = 3
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("how", ["flipped", "truncated"])
def test_a_damaged_segment_is_refused_and_an_older_checkpoint_goes_on(
    spark, tmp_path, backend, how
):
    """State that was damaged where Spark keeps it is never used: operator and key group are named, and nothing is put out."""
    if backend == "rocksdb":
        pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    batches = batches_of(SEED, count=3)
    place = Place(tmp_path)

    def run(**host):
        write(ledger(spark, place, backend_of(backend, place), **host), place).awaitTermination()

    place.feed(batches[0])
    run()
    for directory in (place.checkpoint, place.output):
        shutil.copytree(directory, tmp_path / "undamaged" / directory.name)
    place.feed(batches[1])
    # The disk damages what is written, in one batch alone: its next one might be a worker's
    # that has nothing warm, and would find it.
    spark.conf.set(_NO_DATA, "false")
    try:
        run(addition=damaging(how))
    finally:
        spark.conf.unset(_NO_DATA)
    before = place.sunk()
    assert set(golden(batches[:1])) < set(before) <= set(golden(batches[:2]))
    place.feed(batches[2])
    with pytest.raises(
        StreamingQueryException,
        match=r"CorruptStateError: operator 'ledger', key group \d, segment \d+: the checksum of",
    ):
        run()
    assert before == place.sunk()
    # The sink goes back as well: it knows batches by number, and their numbers differ now.
    for directory in (place.checkpoint, place.output):
        shutil.rmtree(directory)
        (tmp_path / "undamaged" / directory.name).rename(directory)
    run()

    assert golden(batches) == place.sunk()
