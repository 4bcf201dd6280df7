# SPDX-License-Identifier: Apache-2.0
"""The local disk under RocksDB goes away, refuses to be written to, or is full."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_ledger import batches_of, fill_disk, free_disk, golden, with_fault
from fault_support import Place, backend_of, end_keepers, ledger, write
from pyspark.errors import StreamingQueryException
from spark_support import until

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

SEED = 7
UNUSABLE = (
    r"SparkSetupError: EmbeddedRocksDBStateBackend keeps working state on the worker's local disk"
)


@contextlib.contextmanager
def _disk(directory: Path) -> Iterator[None]:
    """A small disk of its own under a directory; the test is skipped where mounting is not allowed."""
    made = _mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory))
    if made.returncode:
        pytest.skip(f"no disk may be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def _mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(arguments, 1, "", str(error))


def _run(rows, place):
    write(rows, place).awaitTermination()


def _rows(spark, place):
    return ledger(spark, place, backend_of("rocksdb", place))


def test_a_local_directory_deleted_between_batches_is_not_missed(spark, tmp_path):
    """A query that runs rebuilds its working state from the log."""
    batches = batches_of(SEED, count=4)
    place = Place(tmp_path)
    query = write(_rows(spark, place), place, processingTime="0 seconds")
    try:
        for number, batch in enumerate(batches):
            place.feed(batch)
            until(query, lambda: golden(batches[: number + 1]) == place.sunk())  # noqa: B023
            assert [*place.local.iterdir()]
            shutil.rmtree(place.local)
    finally:
        query.stop()
    assert golden(batches) == place.sunk()


def test_a_file_in_place_of_the_local_directory_is_a_clear_error(spark, tmp_path):
    """It names the backend and the place; once the file is gone, the query goes on."""
    batches = batches_of(SEED, count=2)
    place = Place(tmp_path)
    rows = _rows(spark, place)
    place.feed(batches[0])
    _run(rows, place)
    shutil.rmtree(place.local)
    place.local.touch()
    place.feed(batches[1])
    with pytest.raises(StreamingQueryException, match=f"{UNUSABLE}.*{place.local}"):
        _run(rows, place)
    assert golden(batches[:1]) == place.sunk()
    place.local.unlink()
    _run(rows, place)

    assert golden(batches) == place.sunk()


def test_a_disk_that_became_read_only_is_a_clear_error(spark, tmp_path):
    """It says so; once the disk can be written to, the query goes on."""
    batches = batches_of(SEED, count=3)
    place = Place(tmp_path)
    with _disk(place.local):
        rows = _rows(spark, place)
        place.feed(batches[0])
        _run(rows, place)
        end_keepers(place.local)
        assert 0 == _mount("-o", "remount,ro", str(place.local)).returncode
        place.feed(batches[1])
        with pytest.raises(StreamingQueryException, match=f"{UNUSABLE}.*Read-only file system"):
            _run(rows, place)
        assert golden(batches[:1]) == place.sunk()
        assert 0 == _mount("-o", "remount,rw", str(place.local)).returncode
        place.feed(batches[2])
        _run(rows, place)

        assert golden(batches) == place.sunk()


def test_a_full_disk_is_a_clear_error(spark, tmp_path):
    """Full between batches and filled in the middle of one: it says so, and with room again the query goes on."""
    batches = batches_of(SEED, count=5)
    place = Place(tmp_path)
    batches[3] = with_fault(batches[3], f"fill:full:{place.local}")
    with _disk(place.local):
        rows = _rows(spark, place)
        place.feed(batches[0])
        _run(rows, place)
        for number in (1, 3):
            if number == 1:
                fill_disk(place.local)
            place.feed(batches[number])
            with pytest.raises(StreamingQueryException, match=f"{UNUSABLE}.*No space left"):
                _run(rows, place)
            assert golden(batches[:number]) == place.sunk()
            free_disk(place.local)
            place.feed(batches[number + 1])
            _run(rows, place)
            assert golden(batches[: number + 2]) == place.sunk()
