# SPDX-License-Identifier: Apache-2.0
"""An attempt that writes its state files after its batch, and later ones, were done by another.

It is the task of a driver that stands still in the middle of a micro-batch, as on a machine that
is paused or cut off, and goes on when another driver has taken over.
"""

from __future__ import annotations

import pytest
from fault_ledger import await_that, batches_of, golden, with_fault
from fault_lives import Job, driver, run
from fault_support import Place, backend_of, ledger, write
from pyspark.errors import StreamingQueryException
from surroundings import CHECKPOINT_FORMAT

SEED = 11
LATE = 1
"""The batch in which the first driver stands still."""
DONE = 3
"""How many batches there are until then.  A few more, and logs are compacted: then nobody reads the late file."""
PATIENCE = 400
FILES = "fs.AbstractFileSystem.file.impl"
HADOOP = "org.apache.hadoop.fs.local."
SETTINGS = {
    "spark.master": "local[1]",
    # A snapshot that is younger than the late file would hide it.
    "spark.sql.streaming.stateStore.maintenanceInterval": "10h",
}


@pytest.fixture(params=["LocalFs", "RawLocalFs"], ids=["hadoop's checksums", "without them"])
def files(request, spark):
    """How Hadoop writes local files, also in the session that goes on in the end."""
    spark.conf.set(FILES, HADOOP + request.param)
    yield request.param
    spark.conf.unset(FILES)


@pytest.fixture
def haunted(spark, files, tmp_path):
    """Makes a checkpoint of a format in which a late attempt has written: its place, and the changelogs of the batch before and after that."""

    def make(version):
        spark.conf.set(CHECKPOINT_FORMAT, version)
        batches = batches_of(SEED, count=DONE)
        batches[LATE] = with_fault(batches[LATE], "late:late:", key="key 3")
        place = Place(tmp_path / "place")
        place.feed(*batches)
        settings = {**SETTINGS, CHECKPOINT_FORMAT: version, f"spark.hadoop.{FILES}": HADOOP + files}
        job = Job([(place.root, "heap")], settings)
        with driver(job, tmp_path / "log") as late:
            await_that((place.markers / "late").exists, PATIENCE)
            run(job, tmp_path / "log of the other")
            before = _changelogs(place)
            (place.markers / "late.go").touch()
            late.wait(PATIENCE)
        # It fails where it would commit its batch, and not before.
        assert "CONCURRENT_STREAM_LOG_UPDATE" in (place.root / "errors").read_text()
        assert golden(batches) == place.sunk()
        return place, before, _changelogs(place)

    yield make
    spark.conf.unset(CHECKPOINT_FORMAT)


def _changelogs(place):
    """Those of the late batch, by name, with what they hold."""
    found = place.checkpoint.glob(f"state/0/*/{LATE + 1}[._]*changelog")
    return {str(each.relative_to(place.checkpoint)): each.read_bytes() for each in found}


def _go_on(spark, place):
    """Another batch, by a session that has nothing of this query in memory."""
    place.feed(*batches_of(SEED, count=DONE + 1)[DONE:])
    write(ledger(spark, place, backend_of("heap", place)), place).awaitTermination()


def test_in_the_first_format_a_late_attempt_is_refused_by_name(spark, haunted):
    """It replaces files that count, together with Hadoop's checksums of them; the chain of segments shows it, and nothing is put out."""
    place, before, after = haunted("1")
    assert before.keys() == after.keys()
    assert before != after
    sunk = place.sunk()
    with pytest.raises(
        StreamingQueryException,
        match=r"CorruptStateError: operator 'ledger', key group \d, segment \d+",
    ):
        _go_on(spark, place)
    assert sunk == place.sunk()


def test_in_the_second_format_a_late_attempt_changes_nothing(spark, haunted):
    """Its files lie beside those that count, and the query goes on."""
    place, before, after = haunted("2")
    assert before.items() < after.items()
    _go_on(spark, place)
    assert golden(batches_of(SEED, count=DONE + 1)) == place.sunk()
