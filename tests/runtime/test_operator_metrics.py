# SPDX-License-Identifier: Apache-2.0
"""What an operator counts of itself, and what of the user's metrics a host is told."""

import pytest
from tasks import Task

from pyflinklike import (
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.functions.metric_group import MetricGroup, MetricIncrements, by_names_of_metrics

SIDE = OutputTag("side", Types.LONG())


class Totals(KeyedProcessFunction):
    """A total with TTL; a timer for every element below 10; an output each, and a side output."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("total", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig(ttl=100))
        self.total = runtime_context.get_state(descriptor)
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def process_element(self, value, ctx):
        self.seen.inc()
        self.total.update((self.total.value() or 0) + value)
        if value < 10:
            ctx.timer_service().register_event_time_timer(value)
        yield self.total.value()
        yield SIDE, value


@pytest.fixture
def task():
    """A task of `Totals`."""
    return Task(Totals(), HashMapStateBackend())


def test_records_keys_and_outputs_are_counted(task):
    """A key counts once, side outputs count as outputs."""
    task.serve([("a", 10, None), ("b", 10, None), ("a", 10, None)])

    counts = task.counts
    assert (3, 2, 6) == (counts["records"], counts["keys"], counts["outputs"])


def test_numbers_are_those_of_one_batch(task):
    """They begin at zero in every batch."""
    task.serve([("a", 10, None)])
    task.serve()

    counts = task.counts
    assert (0, 0, 0, 0) == tuple(
        counts[name] for name in ("records", "keys", "outputs", "segment_bytes")
    )


@pytest.mark.parametrize(
    ("late", "watermark"), [(0, None), (0, 0), (0, 4), (1, 5), (2, 6), (2, 7), (3, 8)]
)
def test_a_record_is_late_once_the_watermark_has_reached_its_timestamp(task, late, watermark):
    """As in Flink an equal watermark makes it late; one without a timestamp is never late."""
    task.serve([("a", 10, None), ("a", 10, 5), ("a", 10, 6), ("a", 10, 8)], watermark=watermark)

    assert late == task.counts["late_records"]


def test_fired_timers_are_counted_and_touch_their_key(task):
    """Also without a record of that key."""
    task.serve([("a", 1, None), ("a", 2, None), ("b", 3, None)])
    assert 3 == task.counts["timers"]
    task.serve([("c", 10, None)], watermark=2)

    counts = task.counts
    assert (2, 2, 1) == (counts["timers_fired"], counts["keys"], counts["timers"])


def test_entries_and_bytes_are_those_after_the_commit(task):
    """Timers are no entries."""
    task.serve([("a", 1, None), ("b", 10, None)])
    assert 2 == task.counts["live_entries"]
    task.serve([("c", 10, None)])

    assert 3 == task.counts["live_entries"]
    assert task.store.size == task.counts["state_bytes"]


def test_segment_bytes_are_those_written(task):
    """Of this commit, not of the log."""
    task.serve([("a", 10, None)])
    before = task.store.size
    task.serve([("a", 10, None)])

    assert task.store.size - before == task.counts["segment_bytes"]


def test_a_read_of_an_expired_value_is_counted(task):
    """Once: it is gone afterwards."""
    task.serve([("a", 10, None)])
    assert [10] == task.serve([("a", 10, None)], processing_time=100)
    assert 1 == task.counts["expired_entries"]
    task.serve([("a", 10, None)], processing_time=101)

    assert 0 == task.counts["expired_entries"]


@pytest.mark.parametrize(
    ("expired", "config"),
    [
        (2, StateTtlConfig.new_builder(5).build()),
        (
            1,
            StateTtlConfig.new_builder(5)
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .build(),
        ),
    ],
)
def test_elements_of_a_list_that_expired_are_counted_when_they_go(expired, config):
    """On create and write they go when none is alive, on read and write one by one."""

    class Elements(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ListStateDescriptor("elements", Types.LONG())
            descriptor.enable_time_to_live(config)
            self.elements = runtime_context.get_list_state(descriptor)

        def process_element(self, value, ctx):
            if value:
                self.elements.add(value)
            else:
                yield list(self.elements.get())

    task = Task(Elements(), HashMapStateBackend())
    task.serve([("a", 1, None)])
    task.serve([("a", 2, None)], processing_time=2)
    task.serve([("a", 0, None)], processing_time=5 if expired == 1 else 7)

    assert expired == task.counts["expired_entries"]


def test_loads_tell_what_became_of_the_working_state(task):
    """New, warm, behind, and gone."""

    def loads():
        return tuple(task.counts[f"{name}_loads"] for name in ("warm", "caught_up", "cold"))

    task.serve([("a", 10, None)])
    assert (0, 0, 0) == loads()
    task.serve([("a", 10, None)])
    assert (1, 0, 0) == loads()
    here = task._owner
    task.lose()
    task.serve([("a", 10, None)])
    assert (0, 0, 1) == loads()
    task._owner = here
    task.serve([("a", 10, None)])
    assert (0, 1, 0) == loads()
    assert 1 == task.counts["key_groups"]


def test_compactions_are_counted(task):
    """A log of one key outgrows it soon; each snapshot is the first segment that counts."""
    counted, snapshots = [], []
    for batch in range(30):
        task.serve([("a", 10, None)])
        counted += [batch] * task.counts["compactions"]
        snapshots += [batch] * (task.store.head.first_sequence == batch > 0)

    assert snapshots
    assert snapshots == counted


def test_taken_numbers_come_in_the_order_of_their_names():
    """A host labels them by position."""
    metrics = OperatorMetrics()
    metrics.timers_fired = 7
    metrics.add_records(["k", "k"], [None, None], 0)

    taken = dict(zip(OperatorMetrics.names(), metrics.take()))
    assert {"timers_fired": 7, "records": 2, "keys": 1} == {k: v for k, v in taken.items() if v}
    assert not any(metrics.take())


# The user's


def test_counters_and_meters_give_what_was_added_since():
    """A counter may go down; what did not move is not told."""
    group = MetricGroup()
    increments = MetricIncrements(group)
    group.counter("c").inc(5)
    group.add_group("of").meter("m").mark_event(3)
    assert [("c", "sum", 5), ("of.m", "sum", 3)] == increments.take()
    group.counter("c").dec(2)

    assert [("c", "sum", -2)] == increments.take()


def test_a_distribution_gives_its_extremes_beside_what_was_added():
    """Extremes of all values so far: a host that takes the least of them is right."""
    group = MetricGroup()
    increments = MetricIncrements(group)
    for value in (4, -2):
        group.distribution("d").update(value)
    assert [
        ("d.count", "sum", 2),
        ("d.sum", "sum", 2),
        ("d.min", "min", -2),
        ("d.max", "max", 4),
    ] == increments.take()

    assert [] == increments.take()


def test_a_counter_has_another_name_than_the_numbers_of_a_summary():
    """Whoever adds them up can tell them apart, and what users see are the names that they gave."""
    group = MetricGroup()
    increments = MetricIncrements(group)
    for name in ("d.min", "x.count", "x.count=", "x=", "d.sum"):
        group.counter(name).inc(7)
    group.distribution("d").update(3)

    taken = {each.name: each.value for each in increments.take()}

    counters = {"d.min=": 7, "x.count=": 7, "x.count==": 7, "x=": 7, "d.sum=": 7}
    summary = {"d.count": 1, "d.sum": 3, "d.min": 3, "d.max": 3}
    assert {**counters, **summary} == taken
    names = {"x.count": 7, "x.count=": 7, "x=": 7}
    assert {**summary, **names, "d.min=": 7, "d.sum=": 7} == by_names_of_metrics(taken)


def test_a_gauge_gives_a_reading_twice():
    """Of readings of many tasks a host can tell the least and the greatest."""
    group = MetricGroup()
    readings = iter([3, 8])
    group.gauge("g", lambda: next(readings))
    increments = MetricIncrements(group)

    assert [("g.min", "min", 3), ("g.max", "max", 3)] == increments.take()
    assert [("g.min", "min", 8), ("g.max", "max", 8)] == increments.take()


def test_the_users_metrics_are_taken_with_the_operators(task):
    """They are of the same batch."""
    task.serve([("a", 10, None), ("b", 10, None)])

    assert [("seen", "sum", 2)] == task.user_counts
