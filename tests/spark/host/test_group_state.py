# SPDX-License-Identifier: Apache-2.0
"""The host of PySpark 3.5, called with Spark's own `GroupState` but without a JVM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from group_state_support import GroupStates
from program_support import Program
from simulated.tasks import in_task

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike._changelog.segments import read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike.errors import IncompatibleStateError, SparkSetupError, UserFunctionError
from pyflinklike.spark._host.group_state_host import (
    FIRST_INITIAL,
    GroupStateTask,
    _add_initial_state,
    _with_initial,
)
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids, registry_payload
from pyflinklike.state_processor._checkpoints.checkpoint import operators_of
from pyflinklike.testing import KeyedProcessHarness


class Numbered(KeyedProcessFunction):
    """Counts the records of a key, and shows their numbers; none is taken below 0."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if value.n < 0:
            raise ValueError
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value.key}{self.count.value()}", value.n


class Remind(KeyedProcessFunction):
    """Registers an event-time timer for the time `n`, or deletes the one for `-n`."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        if value.n < 0:
            timers.delete_event_time_timer(-value.n)
        else:
            timers.register_event_time_timer(value.n)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


class RemindByClock(KeyedProcessFunction):
    """Registers a processing-time timer for the time `n`."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value.n)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def reminding():
    """A query with event-time timers, in one key group."""
    return GroupStates(Program(Remind(), max_parallelism=1, time_mode=TimeMode.EVENT_TIME))


@pytest.mark.parametrize(
    ("watermark", "fired"), [(99, []), (100, [("a", 100)]), (101, [("a", 100)])]
)
def test_an_event_timer_fires_once_the_watermark_is_there(watermark, fired):
    """Not after it, as Spark's own timeouts."""
    query = reminding()
    query.run([("a", 100)], now=1, watermark=50)
    assert fired == query.run(now=2, watermark=watermark)


def test_a_timer_at_the_watermark_waits_for_the_next_batch():
    """Spark refuses a timeout before its watermark, and calls for one at it only later."""
    query = reminding()
    assert [("a", 100)] == query.run([("a", 100), ("b", 101)], now=1, watermark=100)
    assert [] == query.run(now=2, watermark=100)
    assert [("b", 101)] == query.run(now=3, watermark=101)


def test_a_batch_with_data_keeps_the_timer():
    """Spark forgets a timeout with every call."""
    query = reminding()
    query.run([("a", 100)], now=1)
    query.run([("b", 300)], now=2, watermark=50)
    query.run([("b", 200)], now=3, watermark=60)
    assert [("a", 100)] == query.run(now=4, watermark=150)
    assert [("b", 200), ("b", 300)] == query.run(now=5, watermark=300)


@pytest.mark.parametrize("last", [[("a", 100)], [("a", 100), ("a", -100)]])
def test_a_key_group_without_timers_is_not_called_again(last):
    """Whether its last one fired or was deleted."""
    query = reminding()
    query.run(last, now=1)
    query.run(now=2, watermark=100)
    query.run(now=3, watermark=200)
    assert (0, {}) == (query.calls, query.timeouts)


def test_a_timeout_that_finds_nothing_to_do_is_forgotten():
    """Spark keeps it where the state is not written, and would call in every batch."""
    query = reminding()
    query.run([("a", 100)], now=1)
    query.run(now=2, watermark=100)
    (group,) = group_ids(1)
    with query.edit() as contents:
        contents.timers.add((150, group))
    query.run(now=3, watermark=200)
    assert {} == query.timeouts


@pytest.mark.parametrize(("now", "fired"), [(99, []), (100, [("a", 100)]), (500, [("a", 100)])])
def test_a_processing_timer_fires_in_the_first_batch_at_which_it_is_due(now, fired):
    """By the batch's time."""
    program = Program(RemindByClock(), max_parallelism=1, time_mode=TimeMode.PROCESSING_TIME)
    query = GroupStates(program)
    query.run([("a", 100)], now=10)
    assert fired == query.run(now=now)


def test_records_come_in_the_order_of_their_arrival():
    """However Spark cuts and orders the rows of a key group."""
    query = GroupStates(Program(Numbered(), max_parallelism=1, time_mode=TimeMode.NONE))
    records = [("a", number) for number in range(5)]
    query.run(records, now=1)
    assert sorted((f"a{6 + n}", n) for n in range(5)) == query.run(records, now=2)


def test_a_batch_that_failed_is_done_again_as_if_never_tried():
    """Nothing of it is in Spark's state or in the worker's."""
    query = GroupStates(Program(Numbered(), max_parallelism=1, time_mode=TimeMode.NONE))
    query.run([("a", 1)], now=1)
    with pytest.raises(UserFunctionError):
        query.run([("a", 2), ("a", -1)], now=2)
    assert [("a2", 2)] == query.run([("a", 2)], now=2)


def test_another_max_parallelism_is_refused():
    """By the registry, as on Spark 4."""
    query = GroupStates(Program(Numbered(), max_parallelism=4, time_mode=TimeMode.NONE))
    query.run([("a", 1)], now=1)
    query.program = Program(Numbered(), max_parallelism=8, time_mode=TimeMode.NONE)
    with pytest.raises(IncompatibleStateError, match="fixed by its checkpoint at 4, got 8"):
        query.run([("a", 1)], now=2)


@pytest.mark.parametrize(
    ("former", "now", "remedy"),
    [
        (TimeMode.EVENT_TIME, TimeMode.NONE, 'pass event_time="<column>"'),
        (TimeMode.PROCESSING_TIME, TimeMode.EVENT_TIME, "pass processing_time_timers=True"),
        (TimeMode.NONE, TimeMode.EVENT_TIME, "leave both out as before"),
    ],
)
def test_another_time_is_refused(former, now, remedy):
    """As Spark 4 refuses it: Spark 3.5 would go on, and timers of the former one would never fire."""
    query = GroupStates(Program(Numbered(), max_parallelism=4, time_mode=former))
    query.run([("a", 1)], now=1)
    query.program = Program(Numbered(), max_parallelism=4, time_mode=now)
    with pytest.raises(IncompatibleStateError, match=f"'counted': its checkpoint .*{remedy}"):
        query.run([("a", 1)], now=2)


def counted(*keys):
    """A savepoint in which each key has been seen once."""
    with KeyedProcessHarness(Numbered(), key_selector=lambda row: row["key"]) as harness:
        for key in keys:
            harness.process_element(_Record(key=key, n=1))
        return harness.snapshot()


class _Record(dict):
    __getattr__ = dict.__getitem__


def initial_rows(program, savepoint):
    """What a savepoint adds to the rows of the first micro-batch."""
    ids = group_ids(program.max_parallelism)
    groups = regroup_snapshot(
        read_segment(savepoint, "test"),
        Types.STRING(),
        lambda keys: [program.group_of(key) for key in keys],
        program.max_parallelism,
        "savepoint",
    )
    parts = [(ids[index], each.to_bytes()) for index, some in groups.items() for each in some]
    rows = {}
    for at, (number, payload) in enumerate([(REGISTRY_KEY, registry_payload(groups)), *parts]):
        rows.setdefault(number, []).append((-2 - at, payload))
    return rows


def test_a_stream_begins_with_a_savepoint():
    """Key groups with records in the first batch and those without; a second attempt adds nothing."""
    program = Program(Numbered(), max_parallelism=4, time_mode=TimeMode.NONE)
    keys = [str(number) for number in range(20)]
    rows = initial_rows(program, counted(*keys))
    query = GroupStates(program)
    with pytest.raises(UserFunctionError):
        query.run([(keys[0], -1)], now=5, more=rows, begins=True)
    first = query.run([(keys[0], 9)], now=5, more=rows, begins=True)
    later = query.run([(key, 9) for key in keys], now=6, begins=True)
    assert [(f"{keys[0]}2", 9)] == first
    assert sorted((f"{key}{3 if key == keys[0] else 2}", 9) for key in keys) == later


def test_a_first_batch_without_the_savepoint_is_refused():
    """It would begin with nothing, without an error."""
    query = GroupStates(Program(Numbered(), max_parallelism=4, time_mode=TimeMode.NONE))
    query.run(now=0, begins=True)
    with pytest.raises(
        SparkSetupError, match="first micro-batch of its checkpoint, got micro-batch 1"
    ):
        query.run([("a", 1)], now=1, begins=True)


def test_reading_state_is_refused(monkeypatch):
    """PySpark 3.5 has no data source for it; without a word of ours the error would be one of Java."""
    monkeypatch.setattr(
        "pyflinklike.state_processor._checkpoints.checkpoint.HAS_TRANSFORM_WITH_STATE", False
    )
    with pytest.raises(
        SparkSetupError, match=r"cannot read the state .* run the stream on PySpark 4\.0"
    ):
        operators_of(None, "/checkpoints/x", "checkpoint x")


def test_a_savepoint_over_spark_connect_is_refused():
    """Its session cannot hand the savepoint to the workers once for all."""
    packed = SimpleNamespace(sparkSession=SimpleNamespace())
    with pytest.raises(SparkSetupError, match="classic session, got one of Spark Connect"):
        _add_initial_state(packed, [(REGISTRY_KEY, b"")])


class FailsToClose(Numbered):
    """One that cannot be closed."""

    def close(self):
        raise OSError


def test_a_function_that_cannot_be_closed_fails_no_task_of_another(monkeypatch, caplog):
    """It is closed when the next one begins, and its error is logged."""
    monkeypatch.setattr(GroupStateTask, "_in_use", None)
    former, other = (GroupStateTask(Program(each).plan()) for each in (FailsToClose(), Numbered()))
    former._take_over()
    former._ensure_operator()
    other._take_over()

    assert other is GroupStateTask._in_use
    assert "could not be closed" in caplog.text


def test_payloads_of_a_savepoint_come_before_all_records_each_with_a_number_of_its_own():
    """As a task of the first micro-batch adds them."""
    rows = SimpleNamespace(value=[(5, b"first"), (7, b"second"), (7, b"third")])
    with in_task(0, 0, {"streaming.sql.batchId": "0"}):
        (first, second, third) = _with_initial(rows)(iter([]))
    numbers = [each.column("origin").to_pylist() for each in (first, second, third)]

    assert [[FIRST_INITIAL], [FIRST_INITIAL - 1], [FIRST_INITIAL - 2]] == numbers
