# SPDX-License-Identifier: Apache-2.0
"""Logs of any size: commits and snapshots are divided into segments that a state store can hold."""

from __future__ import annotations

from typing import Any

import attrs
import pyarrow as pa
import pytest
from group_log_support import Cleanup
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._changelog.entry_codec import (
    MAX_ENTRY,
    decode_entries,
    divide_batch,
    encode_entries,
)
from pyflinklike._changelog.key_group_log import KeyGroupLog
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.operator_record import OperatorIdentity
from pyflinklike._changelog.segment_chain import divide, join, snapshots
from pyflinklike._changelog.segments import MAX_BYTES, Declaration, Section, Segment, read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import CorruptStateError, SparkSetupError, StateValueError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.state_processor._logs.checkpoint_logs import merge, read_log
from pyflinklike.types import Types

KEY = Types.STRING()
TEXTS = TableSpec("texts", Shape.MAP, "map", Types.STRING(), Types.LONG())
OTHER = TableSpec("other", Shape.SINGLE, "value", Types.STRING())
LIMIT = 4_000


class Worker:
    """A process that works on key group 0, with small segments."""

    def __init__(self, *specs: TableSpec, limit: int = LIMIT) -> None:
        self.specs = specs or (TEXTS, OTHER)
        self.backend = HashMapStateBackend().create_keyed_state_backend(CurrentKey(), "tested")
        self.tables = {spec.name: self.backend.table(spec) for spec in self.specs}
        self.metrics = OperatorMetrics()
        self.log = KeyGroupLog(
            self.backend, KEY, OperatorIdentity("totals", 8), Cleanup(), self.metrics, limit
        )
        self.group = KeyGroupState(0)

    def batch(self, store: InMemoryLogStorage, *entries: tuple[str, int, Any]) -> None:
        """Load, put or delete entries of `texts`, commit."""
        self.load(store)
        for key, user_key, value in entries:
            self.backend.current.key = key
            table = self.tables["texts"]
            table.delete(user_key) if value is MISSING else table.put(user_key, value)
        self.log.commit(store, store.head, self.group)

    def load(self, store: InMemoryLogStorage) -> None:
        """Bring the group up to the head."""
        self.group = self.log.load(store, store.head, self.group)
        self.backend.enter(0, self.group.tables)
        for spec in self.specs:
            for changes in self.log.restorer.restore(self.group, spec, 0):
                self.backend.apply(changes)

    def contents(self, table: str = "texts") -> dict[Any, Any]:
        """The entries of a table."""
        return {(key, user_key): entry for key, user_key, entry in self.tables[table].scan()}


def cold(store: InMemoryLogStorage, *specs: TableSpec) -> dict[Any, Any]:
    """What a new worker finds."""
    worker = Worker(*specs)
    worker.load(store)
    return worker.contents()


def sizes(store: InMemoryLogStorage) -> list[int]:
    """Bytes of sections in each segment that counts."""
    log = read_log(store.head, store.segments, "group 0")
    return [sum(len(payload) for _, payload in segment.sections) for segment in log]


def text(number: int, size: int = 500) -> str:
    """A text that LZ4 cannot make smaller."""
    return "".join(chr(33 + (number * 7919 + at * at * 31) % 90) for at in range(size))


ENTRIES = [(f"k{number % 5}", number, text(number)) for number in range(60)]


def test_a_large_commit_is_several_segments_each_made_from_the_one_before(store):
    """None above the limit; a new worker finds all of it."""
    worker = Worker()
    worker.batch(store, *ENTRIES)

    assert 8 < len(sizes(store)) < 20
    assert max(sizes(store)) <= LIMIT
    assert len(sizes(store)) == store.head.next_sequence == worker.group.next_sequence
    assert (worker.contents(), 60) == (cold(store), len(cold(store)))
    assert sum(map(len, store.segments.values())) == store.head.log_bytes
    assert sum(map(len, store.segments.values())) == worker.metrics.segment_bytes


def test_a_worker_catches_up_over_the_segments_of_a_large_commit(store):
    """And is as one that starts anew."""
    one, other = Worker(), Worker()
    one.batch(store, ("k0", 0, "first"))
    other.load(store)
    one.batch(store, *ENTRIES)
    one.batch(store, ("k1", 1, MISSING), ("k9", 9, "last"))
    other.load(store)

    assert (0, 1) == (other.metrics.cold_loads - 1, other.metrics.caught_up_loads)
    assert one.contents() == other.contents() == cold(store)


def test_a_large_snapshot_is_several_segments(store):
    """The head names the first of them; what was before is gone."""
    worker = Worker()
    for _ in range(3):
        worker.batch(store, *ENTRIES)
    worker.group.rewrite = True
    worker.batch(store)

    assert 8 < len(store.segments) < 20
    assert max(sizes(store)) <= LIMIT
    first = store.head.first_sequence
    assert list(range(first, store.head.next_sequence)) == sorted(store.segments)
    assert b"" == read_segment(store.segments[first], "").parent
    assert store.head.snapshot_bytes == store.head.log_bytes == store.size
    assert (60, 60) == (store.head.snapshot_entries, store.head.log_entries)
    worker.batch(store, ("k0", 0, "after"))
    assert worker.contents() == cold(store)
    assert "after" == cold(store)["k0", 0]


def test_what_is_not_declared_is_carried_through_a_divided_snapshot(store):
    """Its sections are divided with the others."""
    worker = Worker()
    worker.batch(store, *ENTRIES)
    worker.backend.current.key = "k"
    worker.load(store)
    worker.backend.current.key = "k"
    worker.tables["other"].put(None, "kept")
    worker.log.commit(store, store.head, worker.group)
    other = Worker(OTHER)
    other.load(store)
    other.group.rewrite = True
    other.log.commit(store, store.head, other.group)

    assert max(sizes(store)) <= LIMIT
    assert worker.contents() == cold(store)
    again = Worker()
    again.load(store)
    assert {("k", None): "kept"} == again.contents("other")


@pytest.mark.parametrize("missing", range(3))
def test_a_segment_of_a_large_commit_that_is_missing_is_refused(store, missing):
    """A part of a commit is no commit."""
    Worker().batch(store, *ENTRIES[:20])
    last = store.head.next_sequence - 1
    del store.segments[(0, last // 2, last)[missing]]
    with pytest.raises(CorruptStateError, match=r"operator 'totals', key group 0, segment \d+"):
        cold(store)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(0, 9), st.text(max_size=300) | st.just(MISSING)
        ),
        max_size=60,
    ),
    st.lists(st.sampled_from("abc"), max_size=3, unique=True),
    st.integers(200, 3_000),
)
def test_changes_are_the_same_however_they_are_divided(entries, cleared, limit):
    """Rows, their order and what they do."""
    keys, user_keys, values = zip(*entries) if entries else ((), (), ())
    changes = TableChanges(TEXTS, cleared, list(keys), list(user_keys), list(values))
    declaration = Declaration.of(TEXTS, KEY)
    parts = [
        decode_entries(Section(declaration, payload), TEXTS, KEY, 0, "test")
        for payload in encode_entries(changes, KEY, limit)
    ]
    found = TableChanges(TEXTS)
    for part in parts:
        found.cleared += part.cleared
        found.keys += part.keys
        found.user_keys += part.user_keys
        found.entries += part.entries
    assert changes == found


def test_one_large_entry_among_many_small_ones_makes_few_sections():
    """It is a section of its own, and the rest is not written one by one."""
    values = ["x"] * 5_000
    values[1_234] = "y" * 50_000
    changes = TableChanges(OTHER, [], [f"k{n}" for n in range(5_000)], [None] * 5_000, values)
    payloads = encode_entries(changes, KEY, 20_000)

    assert 50_000 < max(map(len, payloads))
    assert 1 == sum(len(payload) > 20_000 + 1_000 for payload in payloads)
    assert len(payloads) < 60


def test_many_entries_within_the_limit_are_one_section():
    """The common case."""
    changes = TableChanges(
        OTHER, [], [f"k{n}" for n in range(5_000)], [None] * 5_000, ["x"] * 5_000
    )

    assert 1 == len(encode_entries(changes, KEY))


def test_an_entry_that_no_segment_can_hold_is_refused_with_its_size():
    """The state is named, and what to do."""
    changes = TableChanges(OTHER, [], ["a", "b"], [None] * 2, ["x", "y" * 2_000])
    with pytest.raises(
        StateValueError, match=r"state 'other': one entry may take .*, got 2,\d\d\d"
    ):
        encode_entries(changes, KEY, 500, 1_000)


def test_a_segment_that_is_too_large_for_one_value_is_refused_with_its_size():
    """A snapshot of a harness, for example, which is one value."""
    segment = Segment(bytes(16), b"", {}, [(0, bytes(1_000))])
    with pytest.raises(SparkSetupError, match="may have 1,000 bytes at most, got 1,009"):
        segment.to_bytes(1_000)
    assert segment == read_segment(segment.to_bytes(1_009), "test")
    assert MAX_BYTES < 2**31


@pytest.mark.parametrize("states", [pytest.param(65_535, marks=pytest.mark.thorough), 65_537])
def test_a_segment_takes_any_number_of_states(states):
    """Whatever is declared is written and read."""
    declaration = Declaration.of(OTHER, KEY)
    sections = [
        Section(attrs.evolve(declaration, name=f"s{number}"), b"payload")
        for number in range(states)
    ]
    (segment,) = divide(sections, KeyGroupState(0), b"", 2**40)
    found = read_segment(segment.to_bytes(), "test")

    assert segment == found
    assert states == len(found.declarations)
    assert f"s{states - 1}" == found.declarations[found.sections[-1][0]].name


def test_a_savepoint_is_one_segment_of_whatever_was_divided(store):
    """And is divided again for the key groups, each part of which needs no other."""
    worker = Worker()
    worker.batch(store, *ENTRIES)
    worker.batch(store, ("k3", 3, MISSING), ("k4", 4, "changed"))
    savepoint = merge({"group 0": read_log(store.head, store.segments, "group 0")})
    groups = regroup_snapshot(
        read_segment(savepoint, "savepoint"),
        KEY,
        lambda keys: [int(key[1]) % 2 for key in keys],
        2,
        "savepoint",
        LIMIT,
    )

    assert {0, 1} == groups.keys()
    found: dict[Any, Any] = {}
    for segments in groups.values():
        assert len(segments) > 2
        for segment in segments:
            again = read_segment(segment.to_bytes(), "test")
            assert sum(len(payload) for _, payload in again.sections) <= LIMIT
            group = KeyGroupState(0)
            group.read(again, "test")
            for section in group.pending["texts"]:
                changes = decode_entries(section, TEXTS, KEY, 0, "test")
                found.update(zip(zip(changes.keys, changes.user_keys), changes.entries))
    assert cold(store) == found


def test_nothing_is_no_segment():
    """A savepoint without sections has nothing to begin a group with."""
    assert [] == list(snapshots([], LIMIT))
    (only,) = divide([], KeyGroupState(0), b"parent", LIMIT)
    assert b"parent" == only.parent
    assert only is join([only])


def test_a_batch_is_divided_down_to_its_rows():
    """And put together again it is the same."""
    batch = pa.RecordBatch.from_arrays([pa.array(["x" * 100] * 33)], names=["value"])
    parts = list(divide_batch(batch, 300))
    assert batch.equals(pa.concat_batches(parts))
    assert all(part.nbytes <= 300 for part in parts)
    assert 33 == len(list(divide_batch(batch, 1)))


def test_the_largest_entry_fits_into_a_segment():
    """With all that a segment has beside it."""
    assert MAX_ENTRY + 512 * 1024 < MAX_BYTES
