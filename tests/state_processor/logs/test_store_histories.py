# SPDX-License-Identifier: Apache-2.0
"""Rows of a store over batches, restarts and compactions: after each, what the store itself gives.

And what is told of each batch's changes, applied in order, gives the same.
"""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_support import log_of, rows_of
from replica_support import FollowedQuery

from pyflinklike import Types
from pyflinklike._changelog.log_storage import HEAD_AT
from pyflinklike.state_processor._logs.log_rows import Commit, GroupChanges, StateChanges
from pyflinklike.state_processor._logs.state_infos import describe_states, state_of
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)

TEXT, LONG = Types.STRING(), Types.LONG()
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
OWNERS, KEYS = ["x", "y"], ["a", "a\x00"]
FEW = settings(max_examples=max(settings().max_examples // 16, 3))

KEY, NUMBER = st.sampled_from(KEYS), st.integers(0, 5)
TIMES = st.integers(0, 20).map(lambda n: n * 10)
SOME = st.none() | NUMBER


def ms(value):
    """A timestamp in ms."""
    return None if value is None else (value - EPOCH) // dt.timedelta(milliseconds=1)


def of_history(store):
    """All versions but those that say that there was nothing, which `history` does not show."""
    return [(key, v.timestamp, v.value, v.valid_to) for key in KEYS for v in store.history(key)]


# Of each kind: descriptor, what `put` is called with, what the store holds, and a row in that form.
KINDS = {
    "kv": (
        KeyValueStoreDescriptor("s", TEXT, LONG),
        st.tuples(KEY, SOME),
        lambda store: [(each.key, each.value) for each in store.all()],
        lambda row: (row["store_key"], row["value"]),
    ),
    "lru": (
        LruStoreDescriptor("s", TEXT, LONG, max_entries=1),
        st.tuples(KEY, SOME),
        lambda store: [(each.key, each.value) for each in store.all()],
        lambda row: (row["store_key"], row["value"]),
    ),
    "timestamped": (
        TimestampedStoreDescriptor("s", TEXT, LONG),
        st.tuples(KEY, SOME, TIMES),
        lambda store: [(e.key, (e.value.value, e.value.timestamp)) for e in store.all()],
        lambda row: (row["store_key"], (row["value"], ms(row["timestamp"]))),
    ),
    "window": (
        WindowStoreDescriptor("s", TEXT, LONG, window_size=10, retention=60),
        st.tuples(KEY, SOME, TIMES),
        lambda store: [(each.key, each.start, each.value) for each in store.all()],
        lambda row: (row["store_key"], ms(row["window_start"]), row["value"]),
    ),
    "duplicates": (
        WindowStoreDescriptor(
            "s", TEXT, LONG, window_size=10, retention=60, retain_duplicates=True
        ),
        st.tuples(KEY, NUMBER, TIMES),
        lambda store: [(each.key, each.start, each.value) for each in store.all()],
        lambda row: (row["store_key"], ms(row["window_start"]), row["value"]),
    ),
    "session": (
        SessionStoreDescriptor("s", TEXT, LONG, retention=60),
        st.tuples(KEY, TIMES, st.integers(0, 2), SOME).map(
            lambda p: (p[0], p[1], p[1] + p[2], p[3])
        ),
        lambda store: [(e.key, e.start, e.end, e.value) for e in store.fetch_range()],
        lambda row: (
            *(row["store_key"], ms(row["session_start"]), ms(row["session_end"]), row["value"]),
        ),
    ),
    "versioned": (
        VersionedStoreDescriptor("s", TEXT, LONG, history_retention=60),
        st.tuples(KEY, SOME, TIMES),
        of_history,
        lambda row: (row["store_key"], ms(row["valid_from"]), row["value"], ms(row["valid_to"])),
    ),
}
_UNTOLD = {"value", "timestamp", "valid_to", "last_use", "window_end", "key_group"}


def histories(kind):
    """Batches: what is put under which key, and whether there is a restart, and a compaction."""
    calls = st.lists(st.tuples(st.sampled_from(OWNERS), KINDS[kind][1]), max_size=5)
    return st.lists(st.tuples(calls, st.booleans(), st.booleans()), min_size=1, max_size=6)


def play(query, descriptor, batch):
    """One batch, in which every key is touched."""
    calls, restarts, compacts = batch
    if restarts:
        query.restart([descriptor])
    acts = [(owner, lambda on, call=call: on["s"].put(*call)) for owner, call in calls]
    query.batch([*acts, ("x", lambda on: None)], compact=compacts)


def rows_now(query, **options):
    """The rows of the only key group."""
    return rows_of(query.record, "s", log_of(query.stores[0]), **options)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@FEW
def test_rows_are_what_the_store_gives_after_every_batch(kind, data):
    """Over several segments of the log, of which a compaction makes one."""
    descriptor, _, read, shown = KINDS[kind]
    query = FollowedQuery([descriptor], 1)
    for batch in data.draw(histories(kind)):
        play(query, descriptor, batch)
        rows = rows_now(query, expired=False)
        if kind == "versioned":
            rows = [row for row in rows if row["value"] is not None]
        for owner in OWNERS:
            expected = query.ask(owner, lambda on: read(on["s"]))
            assert sorted(expected) == sorted(shown(row) for row in rows if row["k"] == owner)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@FEW
def test_changes_of_each_batch_give_the_rows(kind, data):
    """What a compaction drops because it is past its retention is not told, and nothing else is not."""
    descriptor = KINDS[kind][0]
    query, followed, held = FollowedQuery([descriptor], 1), GroupChanges({}, 0), {}
    for number, batch in enumerate(data.draw(histories(kind))):
        play(query, descriptor, batch)
        info = state_of(describe_states(query.record, 0), "s", "tested")
        changes = StateChanges(StateRows.of(query.record, info))
        followed.batch_id, followed.changes = number, []
        take(followed, query.writes[number])
        for table in changes.of_batch(followed.changes, number, 3, "tested"):
            for row in table.to_pylist():
                apply(held, row)
        # What is past its retention may be there or not, as the store has come to it.
        alive = {entry_of(row): row["value"] for row in rows_now(query, expired=False)}
        stored = {entry_of(row): row["value"] for row in rows_now(query)}
        assert alive.items() <= held.items()
        assert stored.items() <= held.items()
        if kind in ("kv", "lru", "timestamped"):
            assert stored == held


def take(followed, writes):
    """Commit after commit, as the job that reads Spark's feed does."""
    written = Commit()
    for group, sequence, blob in writes:
        if group is None:
            continue
        if blob is None:
            written.removed = True
        elif sequence == HEAD_AT:
            followed.take(written, blob, "tested")
            written = Commit()
        else:
            written.segments.append(blob)


def entry_of(row):
    """What tells an entry from others."""
    return tuple((name, row[name]) for name in sorted(row.keys() - _UNTOLD - {"batch_id"}))


def apply(held, row):
    """A row of changes to what is held."""
    change = row.pop("change_type")
    assert change != "clear"
    if change == "delete":
        held.pop(entry_of(row), None)
    else:
        held[entry_of(row)] = row["value"]
