# SPDX-License-Identifier: Apache-2.0
"""The logs of key groups merged into a savepoint, also where they are not whole."""

from __future__ import annotations

import pytest
from probe import Probe, Record, drive
from stream_support import Stream, snapshot_of

from pyflinklike import HashMapStateBackend, Types, ValueStateDescriptor
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segments import read_segment
from pyflinklike._runtime.micro_batch import serve
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, SparkSetupError
from pyflinklike.state_processor._logs.checkpoint_logs import merge, read_log


@pytest.fixture
def store() -> InMemoryLogStorage:
    """A key group with a log of three segments."""
    stream = Stream(Probe(ValueStateDescriptor("s", Types.LONG())), HashMapStateBackend(), 1)
    for number in range(3):
        stream.batch([Record("k", lambda state, _, n=number: state.update(n))], 0, 0)
    return stream.stores[0]


def test_a_log_is_read_from_its_last_snapshot(store):
    """What lies before it, or after the head, does not count."""
    store.segments[9] = b"of a batch that failed"
    log = read_log(store.head, store.segments, "group 0")
    assert [0, 1, 2] == list(range(store.head.first_sequence, store.head.next_sequence))
    assert [read_segment(store.segments[number], "").nonce for number in range(3)] == [
        each.nonce for each in log
    ]


def test_the_log_of_an_empty_group_is_empty():
    """A head without a nonce has no segments."""
    stream = Stream(Probe(), HashMapStateBackend(), 1)
    serve(stream.operator, stream.stores[0], 0, served_at=1)
    assert [] == read_log(stream.stores[0].head, {}, "group 0")
    assert (
        None is drive(ValueStateDescriptor("s", Types.LONG()), restore=stream.savepoint()).value()
    )


def test_key_groups_that_declare_a_state_differently_are_refused():
    """One of them was written before its type was changed."""
    texts = drive(ValueStateDescriptor("s", Types.STRING()))
    texts.update("x")
    other = read_segment(texts.harness.snapshot(), "snapshot")
    with pytest.raises(
        IncompatibleStateError, match="state 's': restored state keeps the value type"
    ):
        merge({"group 0": [snapshot_of("a")], "group 1": [other]})


def test_a_section_without_a_declaration_is_refused():
    """It says nothing without its types."""
    snapshot = snapshot_of("a")
    snapshot.declarations.clear()
    with pytest.raises(CorruptStateError, match="group 0: a segment must declare its tables"):
        merge({"group 0": [snapshot]})


def test_a_savepoint_has_a_size_that_one_value_can_have():
    """The message says both."""
    snapshot = snapshot_of("a")
    size = len(merge({"group 0": [snapshot]}, 10**6)) - 45  # the header
    assert merge({"group 0": [snapshot]}, size)
    with pytest.raises(SparkSetupError, match=f"may have {size - 1} bytes at most, got {size}"):
        merge({"group 0": [snapshot]}, size - 1)
