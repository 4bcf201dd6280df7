# SPDX-License-Identifier: Apache-2.0
"""Damaged savepoints: no reader gives other rows than were written."""

import gc
import json
import shutil
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.cli.savepoint_answers import SavepointAnswers
from pyflinklike.errors import CorruptStateError
from pyflinklike.queryable_state import QueryableState
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.state_processor._savepoints.savepoint_directory import check_savepoint
from pyflinklike.testing import KeyedProcessHarness


class Keeping(KeyedProcessFunction):
    """Keeps the number of each key, and a timer."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))

    def process_element(self, value, ctx):
        self.value.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1])


def harness(restore=None):
    """Of pairs of a key and a number."""
    return KeyedProcessHarness(
        Keeping(), key_selector=lambda value: value[0], restore=restore, key_type=Types.LONG()
    )


def written(path, numbers):
    """A savepoint of keys with these numbers."""
    with harness() as keeping:
        keeping.process_elements([(each, None) for each in enumerate(numbers)])
        write_savepoint(keeping, path)
    return path


@pytest.fixture
def taken(tmp_path):
    """A savepoint of three keys."""
    return written(tmp_path / "taken", [5, 6, 7])


def the_file(path, *folder):
    """The only file in a folder of the operator's."""
    (file,) = path.joinpath("operators", "Keeping", *folder).glob("*.parquet")
    return file


def flipped(file):
    """Another file by one bit."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def of_another_day(file):
    """The file of another savepoint, which has the same name and size."""
    taken = next(each.parent for each in file.parents if each.name == "operators")
    other = written(taken.with_name("other"), [5, 6, 8]) / file.relative_to(taken)
    assert other.stat().st_size == file.stat().st_size
    shutil.copy(other, file)


def removed(file):
    """None."""
    file.unlink()


READERS = {
    "dataset": lambda path: open_savepoint(path).dataset("value").to_table(),
    "keys": lambda path: SavepointAnswers.open(str(path), None).count_keys(),
    "segment": lambda path: open_savepoint(path).segment(),
    "replica": lambda path: QueryableState.open_savepoint(path)["value"].get(0),
    "restore": lambda path: harness(restore=open_savepoint(path)),
}


@pytest.mark.parametrize("damage", [flipped, of_another_day, removed])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_not_the_one_that_was_written_is_refused(taken, damage, reader):
    """By everything that reads its rows: Parquet alone would often give some."""
    damage(the_file(taken, "states", "value"))
    with pytest.raises(CorruptStateError, match=r"value/part-0\.parquet.*take the savepoint again"):
        READERS[reader](taken)


@pytest.mark.parametrize("damage", [flipped, of_another_day, removed])
def test_a_file_of_timers_is_looked_at_likewise(taken, damage):
    """A timer that is missing is not missed otherwise."""
    damage(the_file(taken, "timers"))
    with pytest.raises(CorruptStateError, match=r"timers/part-0\.parquet"):
        open_savepoint(taken).timers()


def test_a_state_is_read_though_the_file_of_another_is_damaged(taken):
    """What is whole can be saved from what is not."""
    flipped(the_file(taken, "timers"))
    rows = open_savepoint(taken).dataset("value").to_table().to_pylist()
    assert [(0, 5), (1, 6), (2, 7)] == [(row["key"], row["value"]) for row in rows]


@pytest.mark.parametrize(
    "name", ["batch_id", "processing_time", "watermark", "offsets", "taken_at", "query_id"]
)
def test_a_manifest_with_another_word_is_refused(taken, name):
    """What expires, and where to read on, follows from it."""
    manifest = taken / "_manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), name: 1}))
    with pytest.raises(CorruptStateError, match="must be as it was written, got another checksum"):
        open_savepoint(taken)


class FailingDisk:
    """A file system on which a Parquet file is damaged as soon as it was read once.

    Args:
        filesystem: Arrow's.
    """

    def __init__(self, filesystem):
        self._filesystem = filesystem
        self.opened = []

    def __getattr__(self, name):
        return getattr(self._filesystem, name)

    def open_input_stream(self, path, **options):
        """The file as it is, which is another one afterwards."""
        self.opened.append(path)
        whole = Path(path).read_bytes()
        flipped(Path(path))
        return pa.BufferReader(whole)


def test_what_is_decoded_is_what_was_compared(taken):
    """A file is read once, so damage that comes after the checksum changes nothing."""
    expected = open_savepoint(taken).segment().sections
    saved = open_savepoint(taken)
    disk = FailingDisk(saved.location.filesystem)
    failing = attrs.evolve(saved, location=attrs.evolve(saved.location, filesystem=disk))
    assert expected == failing.segment().sections
    assert len(set(disk.opened)) == len(disk.opened)
    with pytest.raises(CorruptStateError, match="checksum"):
        saved.segment()


def test_a_check_reads_each_file_once(taken):
    """And finds nothing where the damage comes later."""
    saved = open_savepoint(taken)
    disk = FailingDisk(saved.location.filesystem)
    failing = attrs.evolve(saved, location=attrs.evolve(saved.location, filesystem=disk))
    found, checked = check_savepoint(failing)
    assert ([], checked.files) == (found, len(disk.opened))
    assert checked.files == len(check_savepoint(saved)[0])


def test_what_arrow_decodes_is_in_memory_of_its_own(taken):
    """A thread of Arrow's lets go of it late: while Python ends, memory of Python's would abort the process."""
    location = open_savepoint(taken).location
    saved = location.measure_file(the_file(taken, "states", "value").relative_to(taken).as_posix())
    gc.collect()  # what other tests left would be freed meanwhile
    before = pa.total_allocated_bytes()
    read = location.read_file(saved)
    assert saved.bytes <= pa.total_allocated_bytes() - before
    assert saved.bytes == read.size
