# SPDX-License-Identifier: Apache-2.0
"""`InMemoryLogStorage`: a log without a host, and the watermarks that hosts keep beside it."""

import pytest
from tasks import Task

from pyflinklike import HashMapStateBackend, KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike._changelog.log_storage import (
    WATERMARK_AT,
    InMemoryLogStorage,
    exchange_watermark,
    raise_watermark,
)
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.errors import CorruptStateError
from pyflinklike.testing import KeyedProcessHarness


class Count(KeyedProcessFunction):
    """Counts the elements of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


def test_a_log_that_begins_with_a_snapshot_is_gone_on_with():
    """By an operator that has nothing of the group, and then by its own commits."""
    with KeyedProcessHarness(
        Count(), key_selector=lambda value: value, key_type=Types.STRING()
    ) as harness:
        harness.process_elements([("a", None), ("a", None), ("b", None)])
        blob = harness.snapshot()
    task = Task(Count(), HashMapStateBackend())
    task.store = InMemoryLogStorage.of_snapshot(blob, 8)

    assert [3, 2] == task.serve([("a", "a", None), ("b", "b", None)])
    task.lose()
    assert [4] == task.serve([("a", "a", None)])


def test_the_head_of_a_snapshot_counts_its_entries():
    """So that the log is compacted once it outweighs them, from the first commit on."""
    with KeyedProcessHarness(Count(), key_selector=str, key_type=Types.STRING()) as harness:
        harness.process_elements((number, None) for number in range(9))
        storage = InMemoryLogStorage.of_snapshot(harness.snapshot(), 8)

    assert (9, 9) == (storage.head.log_entries, storage.head.snapshot_entries)


def test_a_damaged_snapshot_is_refused():
    """When the log is made, not when somebody reads it."""
    with pytest.raises(CorruptStateError):
        InMemoryLogStorage.of_snapshot(b"not a segment", 8)


def test_a_copy_changes_on_its_own():
    """A transaction that fails leaves the original as it was."""
    storage = InMemoryLogStorage(None, {0: b"blob"})
    storage.copy().clear_segments()

    assert {0: b"blob"} == storage.segments


def test_a_raised_watermark_never_goes_back():
    """A lower one changes nothing, and each position has its own."""
    storage = InMemoryLogStorage()

    raised = [raise_watermark(storage, each, 0, "home") for each in (50, 30, 70, MIN_WATERMARK)]

    assert [(MIN_WATERMARK, 50), (50, 50), (50, 70), (70, 70)] == raised
    assert (MIN_WATERMARK, 9) == raise_watermark(storage, 9, 1, "home")
    assert MIN_WATERMARK == exchange_watermark(storage, 3, "home")


def test_a_raised_watermark_that_was_changed_is_told():
    """It has a checksum."""
    storage = InMemoryLogStorage()
    raise_watermark(storage, 50, 0, "home")
    blob = bytearray(storage.read_segment(WATERMARK_AT - 1))
    blob[3] ^= 1
    storage.write_segment(WATERMARK_AT - 1, bytes(blob))

    with pytest.raises(CorruptStateError, match="home: the former watermark must be"):
        raise_watermark(storage, 60, 0, "home")
