# SPDX-License-Identifier: Apache-2.0
"""The records of an input and of a broadcast input, from one DataFrame to an operator, without a JVM."""

from __future__ import annotations

import pyarrow as pa
import pytest
from arrow_support import ZONE
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Types
from pyflinklike._runtime.micro_batch import RecordsAfterBroadcast
from pyflinklike.errors import StateValueError
from pyflinklike.spark._wire import payloads
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, groups_in
from pyflinklike.spark._wire.payloads import payload_to_batch
from pyflinklike.spark._wire.record_readers import BroadcastReader, RecordReader
from pyflinklike.spark._wire.system_columns import INPUT, INPUTS, KEY_GROUP
from pyflinklike.state.current_key import GROUP_KEY

MAIN = pa.struct([("user", pa.string()), ("n", pa.int64())])
RULES = pa.struct([("name", pa.string())])
GROUPS = 3
IDS = range(GROUPS)


def reader(*key_columns):
    """Of both inputs."""
    main = RecordReader(key_columns, None, Types.STRING(), ZONE)
    return BroadcastReader(main, RecordReader((), None, Types.STRING(), ZONE, arrival_order=True))


def frame(records):
    """Records `(user, number, group)` and rules, which are texts, as the union has them."""
    is_rule = [isinstance(each, str) for each in records]
    columns = {
        KEY_GROUP: pa.array([None if isinstance(r, str) else r[2] for r in records], pa.int32()),
        INPUT: pa.array([2 if rule else 1 for rule in is_rule], pa.int8()),
        INPUTS[0]: pa.array(
            [None if isinstance(r, str) else {"user": r[0], "n": r[1]} for r in records], MAIN
        ),
        INPUTS[1]: pa.array([{"name": r} if isinstance(r, str) else None for r in records], RULES),
    }
    return pa.RecordBatch.from_pydict(columns)


def read_of_groups(connected, batches):
    """What each key group is given, as (keys, numbers, rules), and which were called."""
    rows = [row for batch in connected.make_packing(IDS)(batches) for row in batch.to_pylist()]
    found = []
    for group in IDS:
        mine = sorted((r["origin"], r["payload"]) for r in rows if r[KEY_GROUP] == group)
        read = connected.read_payloads([payload_to_batch(payload) for _, payload in mine])
        rules = read.broadcast if isinstance(read, RecordsAfterBroadcast) else ()
        found.append((list(read.keys), [v.n for v in read.values], [v.name for v, _ in rules]))
    return found, groups_in(row["payload"] for row in rows if row[KEY_GROUP] == REGISTRY_KEY)


ELEMENTS = st.sampled_from(["rule", "low", "high"]) | st.tuples(
    st.sampled_from("ab"), st.integers(0, 9), st.integers(0, GROUPS - 1)
)


@given(st.lists(st.lists(ELEMENTS, max_size=5), max_size=4))
def test_every_key_group_is_given_every_rule_in_its_order(parts):
    """Whatever records it has, and its own records in their order."""
    found, called = read_of_groups(reader("user"), [frame(each) for each in parts])
    everything = [each for part in parts for each in part]
    rules = [each for each in everything if isinstance(each, str)]
    records = [each for each in everything if not isinstance(each, str)]

    for group, (keys, numbers, given_rules) in enumerate(found):
        mine = [each for each in records if each[2] == group]
        assert ([user for user, _, _ in mine], [n for _, n, _ in mine]) == (keys, numbers)
        assert rules == given_rules
    assert (set(IDS) if rules else {group for _, _, group in records}) == called


def test_records_without_keys_are_dealt_to_all_key_groups():
    """In turn, over the batches of a task."""
    batches = [frame([("a", n, None) for n in range(start, start + 2)]) for start in (0, 2, 4)]
    found, _ = read_of_groups(reader(), batches)

    assert [[0, 3], [1, 4], [2, 5]] == [numbers for _, numbers, _ in found]
    assert [[GROUP_KEY] * 2] * GROUPS == [keys for keys, _, _ in found]


def test_large_rules_are_packed_a_few_at_a_time(monkeypatch):
    """Arrow's columns of bytes end at 2 GiB, and memory before."""
    monkeypatch.setattr(payloads, "_MAX_BYTES", 1)
    batches = list(reader("user").make_packing(IDS)([frame(["rule"])]))

    assert [1, 1, 1, 1] == [batch.num_rows for batch in batches]


def test_a_batch_is_read_with_the_rules_in_front():
    """They are sorted so; a part may have rules only, or none."""
    connected = reader("user")
    both = frame(["low", "high", ("a", 1, 0)]).drop_columns([KEY_GROUP])
    read = connected.read_sorted(both)
    rules_only = connected.read_sorted(both.slice(0, 2))
    records_only = connected.read_sorted(both.slice(2))

    assert (["a"], ["low", "high"]) == (read.keys, [rule.name for rule, _ in read.broadcast])
    assert ((), 2) == (tuple(rules_only.keys), len(rules_only.broadcast))
    assert not isinstance(records_only, RecordsAfterBroadcast)


def test_a_null_key_is_refused():
    """Of the input that has keys."""
    with pytest.raises(StateValueError, match="got null in column 'user'"):
        list(reader("user").make_packing(IDS)([frame(["low", (None, 1, 0)])]))
