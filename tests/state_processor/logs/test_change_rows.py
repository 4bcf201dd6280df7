# SPDX-License-Identifier: Apache-2.0
"""What is told of each batch's changes, applied one batch after another, gives the state.

And the rows of the state are what a function reads that has only the log.
"""

import contextlib

import attrs
import pytest
from agreement.replica import Mode, Replica
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_support import log_of, record_of, rows_of

from pyflinklike import StateTtlConfig, Time
from pyflinklike._changelog.log_storage import Head, InMemoryLogStorage
from pyflinklike._changelog.segment_chain import join, sections_of, snapshots
from pyflinklike._changelog.segments import read_segment
from pyflinklike._runtime.micro_batch import begin, commit
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import CorruptStateError, UnknownBatchError
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.log_rows import Commit, GroupChanges, StateChanges
from pyflinklike.state_processor._logs.state_infos import describe_states, state_of
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.types import Types

STATES = ("value", "list", "map", "reducing", "aggregating")
MS = 10


def expiring():
    """Ten ms, renewed by reads; logs older than eight are compacted for their age."""
    ttl = StateTtlConfig.new_builder(Time.milliseconds(MS))
    ttl.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
    return ttl.cleanup_in_rocksdb_compact_filter(1, Time.milliseconds(8)).build()


@attrs.define
class Noting(InMemoryLogStorage):
    """Notes every write, as Spark's changelog does."""

    noted: list = attrs.field(factory=list)

    def write_head(self, head):
        self.noted.append(("head", head.to_bytes()))
        super().write_head(head)

    def write_segment(self, sequence, blob):
        self.noted.append(("segment", blob))
        super().write_segment(sequence, blob)

    def clear_segments(self):
        self.noted += [("delete", b"")] * len(self.segments)
        super().clear_segments()


class Noted(Replica):
    """A replica whose writes are noted."""

    def __init__(self, ttl=None):
        super().__init__(HashMapStateBackend(), ttl, Mode.LAZY)
        self.noted = []

    def _write(self):
        trial = Noting(self.store.head, dict(self.store.segments))
        commit(self.operator, trial, trial.head)
        self.noted = trial.noted
        return trial


def write(states, verb, text, number):
    """One of the verbs of the states."""
    verbs = {
        "update": lambda: states.value.update([number]),
        "forget": states.value.clear,
        "add": lambda: states.list.add([number]),
        "replace": lambda: states.list.update([[number], [number]]),
        "empty": states.list.clear,
        "put": lambda: states.map.put(text, str(number)),
        "remove": lambda: states.map.remove(text),
        "clear": states.map.clear,
        "reduce": lambda: states.reducing.add(text),
        "aggregate": lambda: states.aggregating.add(number),
        "read": lambda: (states.value.value(), list(states.map.items()), states.aggregating.get()),
    }
    verbs[verb]()


VERBS = (
    *("update", "forget", "add", "replace", "empty"),
    *("put", "remove", "clear", "reduce", "aggregate", "read", "compact", "wipe", "wait"),
)
STEP = st.tuples(
    st.sampled_from(VERBS), st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 3)
)
BATCHES = st.lists(st.lists(STEP, max_size=5), min_size=1, max_size=8)


def play(replica, steps):
    """One batch."""
    for verb, key, text, number in steps:
        if verb == "compact":
            replica.operator.group.rewrite()
            continue
        if verb == "wait":
            replica.operator.clock.processing_time += 2 * number
            continue
        for each in "ab" if verb == "wipe" else key:
            replica.operator.current.key = each
            if verb != "wipe":
                write(replica.states, verb, text, number)
                continue
            for state in STATES:
                getattr(replica.states, state).clear()
    replica.end_batch()


def entry_of(row):
    """What tells an entry of a key."""
    return row.get("user_key", row.get("position"))


def alive(held, state, now):
    """What is not expired of what is held, by entry."""
    mine = {at: each for at, each in held.items() if at[0] == state}
    return {
        at: (value, stamp)
        for at, (value, stamp) in mine.items()
        if stamp is None or stamp + MS > now
    }


@pytest.mark.parametrize("ttl", [None, expiring()], ids=["kept", "expiring"])
@given(BATCHES)
@settings(max_examples=max(settings().max_examples // 8, 3))
def test_changes_of_each_batch_give_the_state(ttl, batches):
    """Over compactions of both reasons, clears, and a group that becomes empty and begins again.

    That an entry expired is not told; when, its stamp tells.
    """
    replica = Noted(ttl)
    record = record_of(replica.operator, Types.STRING())
    followed, held = GroupChanges({}, 1), {}
    for batch, steps in enumerate(batches, start=1):
        play(replica, steps)
        followed.batch_id = batch
        take(followed, replica.noted)
        for state in STATES:
            info = state_of(describe_states(record, 0), state, "tested")
            changes = StateChanges(StateRows.of(record, info))
            for table in changes.of_batch(followed.changes, batch, 3, "tested"):
                for row in table.to_pylist():
                    apply(held, state, row)
            now = replica.operator.clock.processing_time
            rows = rows_of(record, state, log_of(replica.store), BatchClock(now), expired=False)
            expected = {(state, row["k"], entry_of(row)): told(row) for row in rows}
            assert expected == alive(held, state, now)
            of_key = {key: [row for row in rows if row["k"] == key] for key in "ab"}
            assert read_by_function(replica, ttl, state) == {
                key: in_form(state, mine) for key, mine in of_key.items()
            }
        followed.changes = []
    replica.close()


def read_by_function(replica, ttl, state):
    """What a worker that has only the log reads of a state, by key."""
    with contextlib.closing(Noted(ttl)) as other:
        other.store = replica.store.copy()
        other.operator.clock.processing_time = replica.operator.clock.processing_time
        other.lose()
        found = {}
        for key in "ab":
            other.operator.current.key = key
            mine = getattr(other.states, state)
            verbs = {"value": "value", "list": "get", "map": "items"}
            read = getattr(mine, verbs.get(state, "get"))()
            found[key] = dict(read) if state == "map" else list(read) if state == "list" else read
        return found


def in_form(state, rows):
    """Rows of one key as the function reads them."""
    if state == "map":
        return {row["user_key"]: row["value"] for row in rows}
    values = [row["value"] for row in sorted(rows, key=lambda row: row.get("position", 0))]
    if state == "aggregating":
        values = [sorted(each) for each in values]  # the function's result, of the accumulator
    return values if state == "list" else values[0] if values else None


def take(followed, noted):
    """Commit after commit, as the job that reads Spark's feed does."""
    written = Commit()
    for kind, blob in noted:
        if kind == "head":
            followed.take(written, blob, "tested")
            written = Commit()
        elif kind == "delete":
            written.removed = True
        else:
            written.segments.append(blob)


def apply(held, state, row):
    """A row of changes to what is held."""
    if row["change_type"] == "clear":
        for at in [at for at in held if at[:2] == (state, row["k"])]:
            del held[at]
    elif row["change_type"] == "delete":
        held.pop((state, row["k"], entry_of(row)), None)
    else:
        held[state, row["k"], entry_of(row)] = told(row)


def told(row):
    """The value, and when it was written where that counts."""
    return row["value"], row.get("stamp")


def test_what_a_key_group_began_with_is_what_its_first_batch_changed():
    """Each entry of a savepoint once, in however many segments it came."""
    former, replica = Noted(), Noted()
    play(
        former,
        [
            (verb, key, "x", 1)
            for verb in ("update", "add", "put", "reduce", "aggregate")
            for key in "ab"
        ],
    )
    record = record_of(former.operator, Types.STRING())
    snapshot = read_segment(former.operator.snapshot(), "tested")
    store, followed = Noting(), GroupChanges({}, 0)
    for each in snapshots(sections_of([snapshot], "tested"), 1):
        begin(replica.operator, store, 3, each, served_at=0)
        replica.operator.group.cache()
    take(followed, store.noted)
    for state in STATES:
        changes = StateChanges(
            StateRows.of(record, state_of(describe_states(record, 0), state, "tested"))
        )
        found = changes.of_batch(followed.changes, 0, 3, "tested")
        told_of = [
            (row["k"], entry_of(row), told(row)) for each in found for row in each.to_pylist()
        ]
        rows = rows_of(record, state, log_of(former.store))
        assert sorted(told_of, key=repr) == sorted(
            [(row["k"], entry_of(row), told(row)) for row in rows], key=repr
        )
        assert len(rows) > 1
    former.close()
    replica.close()


def test_a_compaction_that_noted_nothing_is_refused():
    """Its batch may have changed anything."""
    replica = Noted()
    play(replica, [("update", "a", "x", 1)])
    play(replica, [("update", "a", "x", 2), ("compact", "a", "x", 0)])
    kinds = [kind for kind, _ in replica.noted]
    assert ["segment", "delete", "delete", "segment", "head"] == kinds
    older = [each for at, each in enumerate(replica.noted) if at]
    with pytest.raises(UnknownBatchError, match="diff_state"):
        take(GroupChanges({}, 1), older)
    replica.close()


@pytest.fixture
def commits():
    """What was noted of four commits, of which the third compacts."""
    with contextlib.closing(Noted()) as replica:
        noted = []
        for number, more in enumerate(([], [], [("compact", "a", "x", 0)], [])):
            play(replica, [("update", "a", "x", number), *more])
            noted.append(replica.noted)
        yield noted


@pytest.mark.parametrize(
    "order", [(0, 2), (0, 1, 1), (1,), (0, 1, 3), (0, 2, 3), (0, 1, 2, 2), (0, 2, 1)], ids=repr
)
def test_commits_that_do_not_follow_each_other_are_refused(commits, order):
    """One is missing, doubled or at another's place: the changes would not lead to the state."""
    noted = [each for at in order for each in commits[at]]
    with pytest.raises(CorruptStateError, match=r"must follow the one before it.*diff_state"):
        take(GroupChanges({}, 1), noted)


def test_a_head_whose_segments_are_missing_is_refused(commits):
    """It names a state that nothing leads to."""
    followed = GroupChanges({}, 1)
    take(followed, commits[0])
    with pytest.raises(CorruptStateError, match="must lead to the head"):
        take(followed, commits[1][-1:])


def test_commits_that_do_not_lead_to_the_state_are_refused(commits):
    """The last one is missing: only the state at the end tells."""
    followed = GroupChanges({}, 1)
    for each in commits[:3]:
        take(followed, each)
    heads = [Head.from_bytes(each[-1][1], "tested") for each in commits]
    followed.check(heads[2], "tested")
    for head in (heads[3], None):
        with pytest.raises(CorruptStateError, match="must lead to the head"):
            followed.check(head, "tested")


def test_what_a_savepoint_held_was_written_by_the_first_batch():
    """It comes in parts, one after the other, expired or not; what was written over it counts."""
    noted = []
    with contextlib.closing(Noted(expiring())) as begun:
        begun.operator.clock.processing_time = 10 * MS
        for key in "ab":
            with contextlib.closing(Noted(expiring())) as former:
                play(former, [("put", key, "x", 1)])
                part = join(log_of(former.store))
            trial = Noting(begun.store.head, dict(begun.store.segments))
            begin(begun.operator, trial, begun.operator.group.state.index, part, served_at=0)
            noted += trial.noted
            begun.store = trial
            begun.load()
        play(begun, [("put", "a", "x", 2)])
        noted += begun.noted
        record = record_of(begun.operator, Types.STRING())
        followed = GroupChanges({}, 0)
        take(followed, noted)
        followed.check(begun.store.head, "tested")
    rows = StateChanges(StateRows.of(record, state_of(describe_states(record, 0), "map", "tested")))
    tables = rows.of_batch(followed.changes, 0, 3, "tested")
    assert {"a": "2", "b": "1"} == {
        row["k"]: row["value"] for each in tables for row in each.to_pylist()
    }
