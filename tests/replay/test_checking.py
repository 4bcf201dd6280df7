# SPDX-License-Identifier: Apache-2.0
"""Logs of key groups verified: what is healthy passes, and each kind of damage is named."""

import attrs
import pytest

pytest.importorskip("pyspark")

from checkpoint_double import Checkpoint, Program
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.log.operator_record import RECORD_AT, ROLL_AT, OperatorRecord
from pyflinklike.log.roll import Roll
from pyflinklike.log.storage import Head
from pyflinklike.replay.checking import GroupChecker
from pyflinklike.spark.hosts.log_storage import HEAD_AT
from pyflinklike.spark.wire.balanced_ids import index_of
from pyflinklike.spark.wire.roll_call import ROLL_CALL

GROUPS = 2


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value.key, self.count.value()


class Stored:
    """The key group that a program has written to, and who checks it."""

    def __init__(self, batches):
        checkpoint = Checkpoint()
        for time, keys in enumerate(batches, 1):
            checkpoint.run(
                Program(Count(), max_parallelism=GROUPS), [(key, 1) for key in keys], time=time
            )
        called = checkpoint.blobs[ROLL_CALL]
        record = OperatorRecord.from_bytes(called[RECORD_AT], "tested")
        roll = Roll.from_bytes(called[ROLL_AT], "tested")
        self.checker = GroupChecker(record, dict(roll.served_at))
        self.groups = {
            index_of(each, GROUPS): dict(blobs)
            for each, blobs in checkpoint.blobs.items()
            if each >= 0
        }
        self.index = min(self.groups)
        self.head = self.groups[self.index].pop(HEAD_AT)
        self.segments = self.groups[self.index]

    def parts(self, head=None, segments=None):
        """What is found wrong."""
        found, _ = self.checker.check(
            self.index,
            self.head if head is None else head,
            self.segments if segments is None else segments,
            "tested",
        )
        return [each.part for each in found]

    def head_with(self, **changes):
        """Another head with a good checksum."""
        return attrs.evolve(Head.from_bytes(self.head, "tested"), **changes).to_bytes()


@pytest.fixture(scope="module")
def stored():
    """Of three batches."""
    return Stored([["a", "b", "c"], ["a", "b", "c", "d"], ["a", "d"]])


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=6))
@settings(max_examples=settings().max_examples // 5)
def test_nothing_is_found_in_what_a_program_has_written(batches):
    """Whatever was written, compactions included."""
    assert [] == Stored(batches).parts()


def test_a_flipped_bit_is_found_wherever_it_is(stored):
    """In the head and in each segment; every seventh bit of them."""
    unseen = []
    for what, blob in [("head", stored.head), *stored.segments.items()]:
        for bit in range(0, len(blob) * 8, 7):
            broken = bytearray(blob)
            broken[bit // 8] ^= 1 << bit % 8
            if what == "head":
                found = stored.parts(head=bytes(broken))
            else:
                found = stored.parts(segments={**stored.segments, what: bytes(broken)})
            if not found:
                unseen.append((what, bit))
    assert [] == unseen


def test_a_missing_segment_is_found(stored):
    """Each of the log, also the last."""
    found = [
        stored.parts(segments={at: blob for at, blob in stored.segments.items() if at != missing})
        for missing in stored.segments
    ]
    assert [["chain"]] * len(stored.segments) == found


def test_a_doubled_segment_is_found(stored):
    """One that the head does not name."""
    last = max(stored.segments)
    segments = {**stored.segments, last + 1: stored.segments[last]}
    assert ["segment"] == stored.parts(segments=segments)


def test_every_damaged_segment_is_named(stored):
    """All of them, not only the first."""
    assert len(stored.segments) > 1
    found = stored.parts(segments={at: blob[:-1] for at, blob in stored.segments.items()})
    assert ["segment"] * len(stored.segments) == found


def test_wrong_counts_are_found(stored):
    """One more entry than there is, and one byte less."""
    head = Head.from_bytes(stored.head, "tested")
    more = stored.head_with(log_entries=head.log_entries + 1)
    less = stored.head_with(log_bytes=head.log_bytes - 1)
    assert (["counts"], ["counts"]) == (stored.parts(head=more), stored.parts(head=less))


def test_a_head_of_another_batch_is_found(stored):
    """The roll tells when the group was served last."""
    assert ["chain"] == stored.parts(head=stored.head_with(served_at=2_000))


def test_another_number_of_key_groups_is_found(stored):
    """Heads and record must agree."""
    assert ["chain"] == stored.parts(head=stored.head_with(max_parallelism=GROUPS + 1))


def test_a_group_without_a_head_is_found(stored):
    """And one that is not in the roll."""
    found, _ = stored.checker.check(stored.index, None, stored.segments, "tested")
    other, _ = stored.checker.check(7, stored.head, stored.segments, "tested")
    assert (["head"], ["roll"]) == ([e.part for e in found], [e.part for e in other])
