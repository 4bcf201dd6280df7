# SPDX-License-Identifier: Apache-2.0
"""A log replayed as columns, and divided by key group, against dicts."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._changelog.entry_codec import decode_entries, encode_batch, encode_entries
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike._changelog.segments import Declaration, Segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._changelog.stored_table import StoredTable, replay
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.types import Types
from pyflinklike.types.key_codec import AnyKeyTypeInfo

KEY = Types.STRING()
MAP = TableSpec("m", Shape.MAP, "map", Types.LONG(), Types.STRING())

WRITES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 9) | st.none()),
    max_size=6,
)
COMMITS = st.lists(st.tuples(st.sets(st.sampled_from("abc")), WRITES, st.booleans()), max_size=5)


def written(commits):
    """A snapshot of these commits, each a section with or without stamps, and what is left."""
    segment, left = Segment(b"n" * 16, b""), {}
    segment.declarations[0] = Declaration.of(MAP, KEY)
    for cleared, writes, is_stamped in commits:
        for key in cleared:
            left.pop(key, None)
        for key, user_key, value in writes:
            if value is None:
                left.get(key, {}).pop(user_key, None)
            else:
                left.setdefault(key, {})[user_key] = (7, value) if is_stamped else (None, value)
        entries = [
            MISSING if value is None else (7, value) if is_stamped else value
            for _, _, value in writes
        ]
        changes = TableChanges(
            attrs.evolve(MAP, paired=is_stamped),
            cleared=sorted(cleared),
            keys=[key for key, _, _ in writes],
            user_keys=[user_key for _, user_key, _ in writes],
            entries=entries,
        )
        segment.sections += [(0, payload) for payload in encode_entries(changes, KEY)]
    return segment, {key: list(entries.items()) for key, entries in left.items() if entries}


@given(COMMITS)
def test_a_replayed_map_has_the_entries_of_a_dict_in_its_order(commits):
    """An entry that is overwritten keeps its place; one that is put again goes to the end."""
    segment, expected = written(commits)
    table = StoredTable(Declaration.of(MAP, KEY))
    found = {}
    for row in replay(table, sections_of([segment], "test"), "test").to_pylist():
        entry = row["user_key"], (row["stamp"], row["value"])
        found.setdefault(row["key"], []).append(entry)

    assert expected == found


@given(COMMITS, st.sampled_from([KEY, AnyKeyTypeInfo()]))
def test_a_divided_map_has_the_entries_of_a_dict_in_its_order(commits, key_type):
    """Each key in its own group, under either type of keys."""
    segment, expected = written([(*commit[:2], False) for commit in commits])
    order = []
    groups = regroup_snapshot(
        segment, key_type, lambda keys: order.extend(keys) or range(len(keys)), 3, "test"
    )
    found = {}
    for index, segments in groups.items():
        for section in sections_of(segments, "test"):
            changes = decode_entries(section, MAP, key_type, 0, "test")
            assert {order[index]} == {key_type.thaw_key(key) for key in changes.keys}
            entries = [(None, value) for value in changes.entries]
            found.setdefault(order[index], []).extend(zip(changes.user_keys, entries))

    assert expected == found
    assert sorted(expected) == sorted(order)


@given(COMMITS)
def test_divided_entries_keep_their_stamps(commits):
    """And those that have none get none."""
    segment, expected = written(commits)
    groups = regroup_snapshot(segment, KEY, lambda keys: [0] * len(keys), 1, "test")
    sections = sections_of(groups.get(0, []), "test")
    table = StoredTable(Declaration.of(MAP, KEY))
    found = {}
    for row in replay(table, sections, "test").to_pylist():
        found[row["key"], row["user_key"]] = row["stamp"], row["value"]

    assert {(key, each): e for key, entries in expected.items() for each, e in entries} == found


def crafted(column):
    """A snapshot of stamped entries of one key with this column in place of its own."""
    segment = Segment(b"n" * 16, b"")
    segment.declarations[0] = Declaration.of(MAP, KEY)
    columns = {
        "key": pa.array(["a"]),
        "user_key": pa.array(["x"]),
        "value": pa.array([1]),
        "stamp": pa.array([1]),
        **column,
    }
    segment.sections.append((0, encode_batch(pa.RecordBatch.from_pydict(columns))))
    return segment


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ({"stamp": pa.array([None], pa.int64())}, "a stamp that is null"),
        ({"key": pa.array([None], pa.string())}, "a key that is null"),
    ],
)
def test_what_no_program_writes_is_not_divided(column, why):
    """It would be an entry without a stamp, or of no key."""
    with pytest.raises(CorruptStateError, match=why):
        regroup_snapshot(crafted(column), KEY, lambda keys: [0] * len(keys), 1, "test")


def test_two_keys_that_become_one_are_refused():
    """Each has entries of its own, and one of both would be lost."""
    any_key = AnyKeyTypeInfo()
    spec = TableSpec("v", Shape.SINGLE, "value", Types.LONG())
    keys = [any_key.freeze_key(key) for key in (1, 1.0)]
    changes = TableChanges(spec, keys=keys, user_keys=[None, None], entries=[1, 2])
    segment = Segment(b"n" * 16, b"")
    segment.declarations[0] = Declaration.of(spec, any_key)
    segment.sections = [(0, payload) for payload in encode_entries(changes, any_key)]

    with pytest.raises(IncompatibleStateError, match=r"test: .*two keys .* one"):
        regroup_snapshot(segment, Types.DOUBLE(), lambda keys: [0] * len(keys), 1, "test")
