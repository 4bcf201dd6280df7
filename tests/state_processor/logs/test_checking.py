# SPDX-License-Identifier: Apache-2.0
"""Logs of key groups verified: what is healthy passes, and each kind of damage is named."""

import functools

import attrs
import pytest

pytest.importorskip("pyspark")

from checkpoint_support import Checkpoint, Program
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike._changelog.operator_record import (
    RECORD_AT,
    REGISTRY_AT,
    KeyGroupRegistry,
    OperatorIdentity,
    OperatorRecord,
)
from pyflinklike._changelog.segments import read_segment
from pyflinklike.spark._host.wake_up import find_wanted_call
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, index_of
from pyflinklike.state_processor._checkpoints.checkpoint import OperatorAt
from pyflinklike.state_processor._checkpoints.checkpoint_check import OperatorCheck
from pyflinklike.state_processor._logs.checkpoint_logs import Checked, GroupChecker
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.stores import WindowStoreDescriptor

GROUPS = 2


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    KIND = Types.LONG()

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", self.KIND))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value.key, self.count.value()


class Former(Count):
    """The same with values of a smaller type, into which it grew."""

    KIND = Types.INT()


class Timed(KeyedProcessFunction):
    """Sets a timer at the time that a record says."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value.n)
        return []


class Everything(KeyedProcessFunction):
    """Writes states, a store and timers, and deletes from them, as `n` says."""

    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(3).build()
        value = ValueStateDescriptor("value", Types.LONG())
        value.enable_time_to_live(ttl)
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.LONG(), Types.LIST(Types.LONG()))
        )
        self.window = runtime_context.get_store(
            WindowStoreDescriptor("window", Types.STRING(), Types.LONG(), window_size=10)
        )

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        if value.n % 4 == 0:
            for state in (self.value, self.list, self.map):
                state.clear()
            timers.delete_event_time_timer(value.n)
        else:
            self.value.update(value.n)
            self.list.add("x" * value.n)
            self.map.put(value.n % 3, [value.n])
            self.window.put(value.key, value.n, value.n)
            timers.register_event_time_timer(value.n + 2)
            timers.register_processing_time_timer(value.n)
        return []

    def on_timer(self, timestamp, ctx):
        self.map.remove(timestamp % 3)
        return []


class Stored:
    """The key groups that a program has written to, and who checks them."""

    def __init__(self, batches, function=None, former=None):
        checkpoint = Checkpoint()
        for time, records in enumerate(batches, 1):
            now = former if former is not None and time == 1 else function or Count()
            program = Program(now, max_parallelism=GROUPS)
            pairs = [each if isinstance(each, tuple) else (each, 1) for each in records]
            if pairs:
                checkpoint.run(program, pairs, time=time)
            else:
                checkpoint.expire(program, time)
        called = checkpoint.blobs[REGISTRY_KEY]
        record = OperatorRecord.from_bytes(called[RECORD_AT], "tested")
        registry = KeyGroupRegistry.from_bytes(called[REGISTRY_AT], "tested")
        wanted = functools.partial(
            find_wanted_call, TimeMode(record.time_mode), BatchClock(len(batches))
        )
        self.checker = GroupChecker(record, dict(registry.served_at), wanted)
        self.groups = {
            index_of(each, GROUPS): dict(blobs)
            for each, blobs in checkpoint.blobs.items()
            if each >= 0
        }
        self.index = min(self.groups)
        self.head = self.groups[self.index][HEAD_AT]
        self.segments = {at: blob for at, blob in self.groups[self.index].items() if at >= 0}

    def all_parts(self):
        """What is found wrong with any key group."""
        found = []
        for index, blobs in self.groups.items():
            found += self.checker.check(index, blobs, "tested")[0]
        return found

    def parts(self, head=None, segments=None):
        """What is found wrong."""
        blobs = self.segments if segments is None else segments
        blobs = {**blobs, HEAD_AT: self.head if head is None else head}
        return [each.part for each in self.checker.check(self.index, blobs, "tested")[0]]

    def head_with(self, **changes):
        """Another head with a good checksum."""
        return attrs.evolve(Head.from_bytes(self.head, "tested"), **changes).to_bytes()


@pytest.fixture(scope="module")
def stored():
    """Of three batches."""
    return Stored([["a", "b", "c"], ["a", "b", "c", "d"], ["a", "d"]])


EXAMPLES = settings().max_examples // (2 if settings().max_examples > 1_000 else 5)
RECORDS = st.tuples(st.sampled_from("abcd"), st.integers(0, 9))


@given(st.lists(st.lists(RECORDS, max_size=8), min_size=1, max_size=8))
@settings(max_examples=EXAMPLES)
def test_nothing_is_found_in_what_a_program_has_written(batches):
    """States of all shapes with TTL, a store, both kinds of timers, compactions, batches without records."""
    assert [] == Stored([[("a", 1)], *batches], Everything()).all_parts()


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


def test_a_segment_in_the_place_of_another_is_found(stored):
    """Each in the place of each: the one before, the one after, and another group's."""
    other = next(blobs for index, blobs in stored.groups.items() if index != stored.index)
    blobs = [*stored.segments.values(), *(blob for at, blob in other.items() if at >= 0)]
    found = [
        stored.parts(segments={**stored.segments, place: blob})
        for place, right in stored.segments.items()
        for blob in blobs
        if blob != right
    ]
    assert [["chain"]] * len(found) == found


def test_the_head_of_another_key_group_is_found(stored):
    """Although it is whole, and of the same operator and batch."""
    heads = [blobs[HEAD_AT] for index, blobs in stored.groups.items() if index != stored.index]
    assert [["chain"]] == [stored.parts(head=head) for head in heads]


def test_nothing_is_found_where_a_type_has_grown():
    """Segments of both types lie side by side, and in one key group the former alone."""
    grown = Stored([["a", "b", "c", "d"], ["a"]], former=Former())
    kinds = {
        declared.value
        for blobs in grown.groups.values()
        for at, blob in blobs.items()
        if at >= 0
        for declared in read_segment(blob, "tested").declarations.values()
    }
    assert ({"Integer", "Long"}, []) == (kinds, grown.all_parts())


def test_a_lost_timer_is_found():
    """A head that has its group called too late, by a millisecond, or never; not one that is early."""
    timed = Stored([[(key, 9) for key in "abcd"]], Timed())
    assert 9 == Head.from_bytes(timed.head, "tested").wake_at
    found = [timed.parts(head=timed.head_with(wake_at=at)) for at in (None, 10, 9, 8)]
    assert [["timers"], ["timers"], [], []] == found


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
    """The registry tells when the group was served last."""
    assert ["chain"] == stored.parts(head=stored.head_with(served_at=2_000))


def test_another_number_of_key_groups_is_found(stored):
    """Heads and record must agree."""
    assert ["chain"] == stored.parts(head=stored.head_with(max_parallelism=GROUPS + 1))


def test_a_group_without_a_head_is_found(stored):
    """And one that is not in the registry."""
    found = stored.checker.check(stored.index, stored.segments, "tested")[0]
    other = stored.checker.check(7, stored.groups[stored.index], "tested")[0]
    assert (["head"], ["registry"]) == ([e.part for e in found], [e.part for e in other])


def test_what_cannot_be_looked_at_is_told():
    """Nothing found is not said of what nobody has looked for: keys of a type that is not read."""
    identity = OperatorIdentity("tested", GROUPS, (("k", "interval day to second"),), "")
    unread = OperatorRecord(identity, "", "0", "UTC", None, "None", {})
    check = OperatorCheck(OperatorAt(None, "place", 0, 7), None)

    told = check._unread_keys(unread)
    assert "batch 7: whether keys are in their key groups" in told
    assert "interval day to second" in told
    columns = (("k", "string"),)
    assert (
        check._unread_keys(
            attrs.evolve(unread, identity=attrs.evolve(identity, key_columns=columns))
        )
        is None
    )
    assert (Checked(1, left_out=("a",)) + Checked(2, left_out=("b",))).left_out == ("a", "b")
