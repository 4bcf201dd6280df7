# SPDX-License-Identifier: Apache-2.0
"""A harness over the RocksDB backend writes each batch to the disk and reads it from there."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import LocalStateError, SparkSetupError, UserFunctionError
from pyflinklike.testing import KeyedProcessHarness


class Counting(KeyedProcessFunction):
    """Counts, remembers what it saw, and tells of it by a timer."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        if value < 0:
            raise ValueError(value)
        self.count.update((self.count.value() or 0) + 1)
        if value < 100:
            self.seen.add(value)
            ctx.timer_service().register_event_time_timer(value)
        yield self.count.value()

    def on_timer(self, timestamp, ctx):
        yield timestamp, list(self.seen.get())


def harness_in(path, key_selector=lambda value: value % 7):
    """A harness whose files lie there."""
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(path))
    return KeyedProcessHarness(Counting(), key_selector, state_backend=backend)


def table_files(path):
    """RocksDB's files with entries, of all directories below."""
    return list(path.rglob("*.sst"))


def unsaved(harness):
    """How many keys the backend holds in memory."""
    return len(harness._operator.backend.table(_spec(harness)).data.entries)


def _spec(harness):
    (spec,) = [each for each in harness._operator.group.specs if each.name == "count"]
    return spec


def test_many_keys_are_on_the_disk(tmp_path):
    """Not in memory: 60,000 keys in six batches make files while the harness is used."""
    with harness_in(tmp_path, lambda value: value) as harness:
        for begin in range(0, 60_000, 10_000):
            harness.process_elements((100 + at, None) for at in range(begin, begin + 10_000))
            assert 0 == unsaved(harness)
        harness.compact()

        assert 60_000 == harness.num_keyed_state_entries("count")
        assert [2] == harness.process_element(100 + 59_999)
        assert 4 * 60_000 < sum(file.stat().st_size for file in table_files(tmp_path))


def test_a_batch_ends_when_it_is_asked_to(tmp_path):
    """Elements one by one are in memory until then, or until there are a thousand."""
    with harness_in(tmp_path) as harness:
        held = []
        for number in range(1_005):
            harness.process_element(number)
            if number in (4, 998, 999, 1_004):
                held.append(unsaved(harness))
        harness.end_batch()

        assert [5, 7, 0, 5, 0] == [*held, unsaved(harness)]


@pytest.mark.parametrize(
    "drive",
    [
        lambda harness: harness.process_elements([(1, None)]),
        lambda harness: harness.compact(),
        lambda harness: harness.snapshot(),
    ],
    ids=["process_elements", "compact", "snapshot"],
)
def test_every_call_of_many_elements_ends_a_batch(tmp_path, drive):
    """As a stream would end one."""
    with harness_in(tmp_path) as harness:
        harness.process_element(3)
        drive(harness)

        assert 0 == unsaved(harness)
        assert [2] == harness.process_element(3)


def test_a_move_of_a_clock_does_not_write_to_the_disk(tmp_path):
    """20 turns of an element, a watermark and a time leave RocksDB the very files it had."""
    with harness_in(tmp_path) as harness:
        harness.process_elements([(3, None)])
        files = {file: file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()}
        for turn in range(20):
            harness.process_element(10 + turn)
            harness.process_watermark(10 + turn)
            harness.set_processing_time(turn)

        assert files == {
            file: file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()
        }


def test_a_thousand_timers_end_a_batch(tmp_path):
    """As a thousand elements do: what is in memory stays small."""

    class Telling(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp, ctx):
            self.count.update(timestamp)

    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(tmp_path))
    with KeyedProcessHarness(Telling(), lambda value: value, state_backend=backend) as harness:
        harness.process_elements((number, None) for number in range(1_500))
        held = []
        for watermark in (9, 998, 999, 1_009):
            harness.process_watermark(watermark)
            held.append(unsaved(harness))

        assert [10, 999, 0, 10] == held


def test_timers_and_lists_come_back_from_the_disk(tmp_path):
    """In the batches after the one that made them."""
    with harness_in(tmp_path) as harness:
        harness.process_elements([(3, None), (10, None)])
        harness.process_elements([(17, None)])

        assert 3 == harness.num_event_time_timers()
        expected = [(3, [3, 10, 17]), (10, [3, 10, 17])]
        assert expected == harness.process_watermark(10)
        assert [(17, [3, 10, 17])] == harness.process_watermark(99)


def test_what_a_failed_call_had_written_stays(tmp_path):
    """As over dicts: the next batch takes it to the disk."""
    with harness_in(tmp_path) as harness:
        with pytest.raises(UserFunctionError):
            harness.process_elements([(0, None), (-7, None)])
        harness.end_batch()

        assert 0 == unsaved(harness)
        assert [2] == harness.process_element(7)


def test_a_closed_harness_leaves_no_files(tmp_path):
    """Nobody can ask for them."""
    with harness_in(tmp_path) as harness:
        harness.process_elements([(1, None)])
        (root,) = tmp_path.iterdir()
        assert 1 == len([*root.iterdir()])

    assert [] == [*root.iterdir()]


def test_damage_is_told(tmp_path, caplog):
    """A harness has no log to rebuild anything from."""
    caplog.set_level(logging.CRITICAL)
    with harness_in(tmp_path, lambda value: value) as harness:
        harness.process_elements((number, None) for number in range(5_000))
        for file in table_files(tmp_path):
            file.write_bytes(b"\xaa" * file.stat().st_size)
        with pytest.raises(LocalStateError, match="local disk") as raised:
            harness.process_elements((number, None) for number in range(5_000))

        assert isinstance(raised.value, SparkSetupError)
