# SPDX-License-Identifier: Apache-2.0
"""Operators that share a state operator of Spark, without Spark: each has what is its own."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import attrs
import pytest
from checkpoint_support import Checkpoint, Program, Times, rows_of
from program_support import packed_records
from pyspark import TaskContext
from simulated.tasks import in_task

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike._changelog.operator_record import RECORD_AT, OperatorRecord
from pyflinklike.errors import UserFunctionError
from pyflinklike.spark._host.streaming_host import KeyGroupProcessor, SharingProcessor
from pyflinklike.spark._host.task import task_of
from pyflinklike.spark._wire.key_groups import (
    MOST_OPERATORS,
    REGISTRY_KEY,
    first_of,
    group_ids,
    index_of,
    is_registry_key,
    operator_index_of,
    registry_key_of,
)
from pyflinklike.spark._wire.payloads import home_ids, is_home
from pyflinklike.spark._wire.system_columns import BATCH_TIME


class Added(KeyedProcessFunction):
    """The sum of each key, from some number on; fails for a negative one."""

    closed = []
    """The numbers of those that were closed."""

    def __init__(self, start):
        self.start = start

    def open(self, runtime_context):
        """Declares the sum."""
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        """Adds."""
        if value.n < 0:
            raise ValueError(value.n)
        total = (self.total.value() or self.start) + value.n
        self.total.update(total)
        yield ctx.get_current_key(), total

    def close(self):
        """Notes which one it is."""
        Added.closed.append(self.start)


class Shared(Checkpoint):
    """The state of operators that share a state operator."""

    def handled(self, programs, data, time=1):
        """The results of a micro-batch, for rows by grouping key."""
        plans = tuple(each.plan() for each in programs)
        return rows_of(self.serve(plans, programs[0].time_mode, Times(time), data))


def at_place(place, program, records):
    """Rows by grouping key, as a stage before gives them to the operator at a place."""
    ids = group_ids(program.max_parallelism, place)
    return {
        registry_key_of(place)
        if key == REGISTRY_KEY
        else ids[index_of(key, program.max_parallelism)]: rows
        for key, rows in packed_records(program, records).items()
    }


def test_equal_keys_and_names_of_two_operators_never_meet():
    """Nor do their records: the second one has another number of key groups."""
    first, second = Program(Added(0), name="first"), Program(Added(100), 3, name="second")
    shared = Shared()
    for amount in (1, 2):
        data = at_place(0, first, [("a", amount), ("b", 5)])
        given = shared.handled([first, second], {**data, **at_place(1, second, [("a", amount)])})

    records = {
        place: OperatorRecord.from_bytes(shared.blobs[registry_key_of(place)][RECORD_AT], "tested")
        for place in range(2)
    }
    assert [("a", 3), ("a", 103), ("b", 10)] == given
    assert ["first", "second"] == [records[place].identity.name for place in range(2)]
    assert [4, 3] == [records[place].identity.max_parallelism for place in range(2)]


def test_one_that_fails_gives_up_all():
    """Spark fails the task of all, and closes none of them."""
    first, second = Program(Added(0)), Program(Added(100))
    data = {**at_place(0, first, [("a", 1)]), **at_place(1, second, [("a", -1)])}
    Added.closed.clear()

    with pytest.raises(UserFunctionError, match=r"Added\.process_element failed for key 'a'"):
        Shared().handled([first, second], data)

    assert [0, 100] == sorted(Added.closed)


def test_the_home_of_a_partition_is_that_of_all():
    """It is called once, and tells all of them the watermark of the micro-batch before."""
    plans = [Program(Added(0)).plan(), Program(Added(0)).plan()]
    processor = SharingProcessor([Told(plan) for plan in plans])
    processor.init(None)

    processor.handleInputRows((home_ids(1)[0],), [_home_row()], Times(1, 7_000))

    assert [7_000, 7_000] == [each._former_watermark for each in processor._processors]


class Told(KeyGroupProcessor):
    """One that is told a watermark."""

    def init(self, handle, place=0):
        """Has a state that is not asked."""
        self._store = SimpleNamespace()

    def _call_home(self, payloads):
        assert [struct.pack("<i", 0)] == payloads
        self._former_watermark = 7_000
        return []


def _home_row():
    return {"origin": -1, "payload": struct.pack("<i", 0), BATCH_TIME: 1}


def test_grouping_keys_are_of_one_place_each():
    """Homes, registries and key groups of all places are apart, and are told apart."""
    keys = {
        place: set(group_ids(128, place)) | {registry_key_of(place)}
        for place in range(MOST_OPERATORS)
    }

    assert MOST_OPERATORS * 129 == len(set().union(*keys.values()))
    for place, mine in keys.items():
        assert {place} == {operator_index_of(key) for key in mine}
        assert [registry_key_of(place)] == [key for key in mine if is_registry_key(key)]
        assert not any(map(is_home, mine))
    assert not any(map(is_registry_key, home_ids(200)))


@pytest.mark.parametrize("place", [0, 1, MOST_OPERATORS - 1])
def test_the_most_key_groups_fit_into_a_place(place):
    """And the hash of a number says which key group it is."""
    ids = group_ids(32_768, place)

    assert first_of(place) <= min(ids)
    assert max(ids) < registry_key_of(place + 1) < 2**31
    assert all(index_of(ids[index], 32_768) == index for index in range(0, 32_768, 997))


@pytest.mark.parametrize(
    ("place", "first", "registry_key"),
    [(0, 0, -1), (1, 16_777_216, 16_777_215), (99, 1_660_944_384, 1_660_944_383)],
)
def test_the_grouping_keys_of_a_place_are_those_of_every_release(place, first, registry_key):
    """They are in checkpoints."""
    assert (first, registry_key) == (first_of(place), registry_key_of(place))


@pytest.mark.parametrize(
    ("properties", "index"),
    [({"spark.sql.streaming.internal.stateStore.partitions": "2"}, 1), ({}, 7)],
)
def test_behind_a_union_a_task_is_that_of_its_partition(properties, index):
    """Where Spark tells how many partitions the state has; else its own number is all there is."""
    plan = Program(Added(0), max_parallelism=4).plan()
    plan = attrs.evolve(plan, task=attrs.evolve(plan.task, parallelism=2))
    key = next(each for each in group_ids(4) if index_of(each, 2) == 1)
    with in_task(7, 0, properties):
        assert index == task_of(plan, TaskContext.get(), key).index
