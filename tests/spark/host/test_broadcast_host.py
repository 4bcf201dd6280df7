# SPDX-License-Identifier: Apache-2.0
"""The streaming host with a broadcast input, on a simulated state operator."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest
from broadcast_support import LIMITS, Alert, AlertModel
from checkpoint_support import Checkpoint, Program
from group_state_support import GroupStates
from hypothesis import given, settings
from hypothesis import strategies as st
from program_support import by_grouping_key

from pyflinklike import Types
from pyflinklike.errors import UserFunctionError
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.spark._wire.record_readers import BroadcastReader, RecordReader
from pyflinklike.spark._wire.system_columns import INPUT, INPUTS, KEY_GROUP

RECORD = pa.struct([("key", pa.string()), ("n", pa.int64())])
RULE = pa.struct([("name", pa.string()), ("limit", pa.int64())])
READER = BroadcastReader(
    RecordReader(("key",), None, Types.STRING(), "UTC"),
    RecordReader((), None, Types.STRING(), "UTC", arrival_order=True),
)


class Sums(Alert):
    """`Alert` whose outputs are a key and a number: its sum, or how many rules it breaks."""

    def process_element(self, value, ctx):
        for key, total, broken in super().process_element(value, ctx):
            yield key, len(broken.split(",")) * 1_000 + total if broken else total

    def process_broadcast_element(self, value, ctx):
        if value.name == "fail":
            raise ValueError
        for _, name in super().process_broadcast_element(tuple(value), ctx):
            yield name, -1


@attrs.frozen
class Broadcasting(Program):
    """A program with a broadcast input."""

    def plan(self) -> Plan:
        """What the workers are told."""
        return attrs.evolve(super().plan(), reader=READER, broadcast_states=(LIMITS,))


def packed_rows(program, rules, records):
    """What Spark hands over: origin and payload by grouping key."""
    mine = [program.group_of(key) for key, _ in records]
    columns = {
        KEY_GROUP: pa.array([None] * len(rules) + mine, pa.int32()),
        INPUT: pa.array([2] * len(rules) + [1] * len(records), pa.int8()),
        INPUTS[0]: pa.array(
            [None] * len(rules) + [{"key": key, "n": n} for key, n in records], RECORD
        ),
        INPUTS[1]: pa.array(
            [{"name": name, "limit": limit} for name, limit in rules] + [None] * len(records), RULE
        ),
    }
    packing = READER.make_packing(group_ids(program.max_parallelism))
    batches = packing([pa.RecordBatch.from_pydict(columns)])
    return by_grouping_key(batches)


def run(checkpoint, rules, records, time, groups=4):
    """A micro-batch in a new task, as after every restart; what it gave."""
    program = Broadcasting(Sums(), max_parallelism=groups)
    return checkpoint.given(program, packed_rows(program, rules, records), time)


def test_every_key_group_keeps_every_rule_over_restarts():
    """Also one without records then; what is put out for a rule comes once in a task."""
    checkpoint, keys = Checkpoint(), [f"k{n}" for n in range(12)]
    first = run(checkpoint, [("low", 3), ("high", 8)], [], 1)
    second = run(checkpoint, [("high", None)], [(key, 4) for key in keys], 2)

    assert [("high", -1), ("low", -1)] == first
    assert sorted([("high", -1), *((key, 1_004) for key in keys)]) == second
    assert 4 == len(checkpoint.registry().served_at)


def test_a_micro_batch_that_fails_leaves_the_rules_as_they_were():
    """In every key group; the retry begins from them."""
    checkpoint = Checkpoint()
    run(checkpoint, [("low", 3)], [], 1)
    with pytest.raises(UserFunctionError, match="process_broadcast_element failed"):
        run(checkpoint, [("low", None), ("fail", 0)], [("a", 4)], 2)

    assert [("a", 1_004)] == run(checkpoint, [], [("a", 4)], 3)


def test_a_rule_changes_the_state_of_keys_in_every_key_group():
    """Each of which processes it, for each has keys of its own."""
    checkpoint, keys = Checkpoint(), [f"k{n}" for n in range(8)]
    run(checkpoint, [], [(key, 4) for key in keys], 1)
    resets = run(checkpoint, [("reset", 100)], [], 2)

    assert [("reset", -1)] * 4 == resets
    assert sorted((key, 101) for key in keys) == run(checkpoint, [], [(k, 1) for k in keys], 3)


def test_the_host_of_spark_3_5_keeps_every_rule_in_every_key_group():
    """As the other one, whatever the order in which it hands rows over."""
    keys = [f"k{n}" for n in range(12)]
    query = GroupStates(Broadcasting(Sums(), max_parallelism=4))
    batches = [
        ([("low", 3), ("high", 8)], []),
        ([("high", None)], [(key, 4) for key in keys]),
        ([("reset", 100)], []),
        ([], [("k1", 1)]),
    ]
    given = []
    for time, (rules, records) in enumerate(batches, 1):
        query.program = Broadcasting(Sums(), max_parallelism=4)
        rows = packed_rows(query.program, rules, records)
        given.append(query.run(now=time, more=rows))

    assert [("high", -1), ("low", -1)] == given[0]
    assert sorted([("high", -1), *((key, 1_004) for key in keys)]) == given[1]
    assert ([("reset", -1)] * 4, [("k1", 1_101)]) == (given[2], given[3])


def test_the_record_of_the_operator_tells_its_broadcast_states():
    """Beside those of keys."""
    checkpoint = Checkpoint()
    run(checkpoint, [("low", 3)], [("a", 1)], 1)
    states = checkpoint.record().states

    assert ("broadcast", {"limits", "total"}) == (states["limits"]["kind"], set(states))


RULES = st.tuples(
    st.sampled_from(["low", "high", "clear", "reset"]), st.none() | st.integers(0, 4)
).map(lambda rule: (rule[0], 0 if rule == ("reset", None) else rule[1]))
RECORDS = st.tuples(st.sampled_from(["k1", "k2", "k3", "k4"]), st.integers(0, 3))
MICRO_BATCHES = st.tuples(st.lists(RULES, max_size=3), st.lists(RECORDS, max_size=4))


@settings(max_examples=settings().max_examples // 5 + 1)
@given(st.lists(MICRO_BATCHES, max_size=5), st.integers(1, 3))
def test_micro_batches_agree_with_dicts(micro_batches, groups):
    """Rules first, then records; restarted after each, with any number of key groups."""
    checkpoint, model = Checkpoint(), AlertModel()
    for number, (rules, records) in enumerate(micro_batches, 1):
        for name, limit in rules:
            model.rule(name, limit)
        expected = []
        for key, n in records:
            _, total, broken = model.element(key, n)
            expected.append((key, len(broken.split(",")) * 1_000 + total if broken else total))
        given = run(checkpoint, rules, records, number, groups)

        assert sorted(expected) == [each for each in given if each[0].startswith("k")]
