# SPDX-License-Identifier: Apache-2.0
"""What differs from PyFlink: the lines of the guide to migration that no other module shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from differences import DIFFERENCES, lines_of_guide
from jobs.keyed_jobs import first
from jobs.timed import ByField, timed
from local_support import collecting, local

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    StateValueError,
)
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.sources import CollectionSource
from pyflinklike.pyflink.common import (
    Duration,
    Encoder,
    Time,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    Trigger,
)
from pyflinklike.pyflink.datastream.async_retry_predicates import empty_result_predicate
from pyflinklike.pyflink.datastream.connectors import BucketAssigner, FileSink
from pyflinklike.pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflinklike.pyflink.datastream.window import (
    GlobalWindows,
    TriggerResult,
)

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


def test_every_line_of_the_guide_has_a_test():
    """Or a job of the collection: neither a line without one, nor one that is not there."""
    tests = Path(__file__).parents[2]
    there = {
        f"{path.stem}::{test}"
        for path in (*tests.rglob("test_*.py"), *tests.rglob("*_jobs.py"))
        for test in re.findall(r"^def (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert list(DIFFERENCES) == lines_of_guide()
    assert set() == set(DIFFERENCES.values()) - there


class Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.timestamp()


class Told(Trigger):
    """Fires at each element without a time."""

    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if timestamp is None else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def clear(self, window, ctx):
        pass


def test_an_element_without_a_time_has_none():
    """PyFlink gives the least number of 64 bits."""
    stream = local().from_collection([1])
    windows = stream.key_by(str).window(GlobalWindows.create()).trigger(Told())

    assert [None] == list(stream.process(Times()).execute_and_collect())
    assert [1] == list(windows.reduce(max).execute_and_collect())


@pytest.mark.parametrize(
    "behind",
    [
        lambda stream: stream.union(stream),
        lambda stream: stream.shuffle(),
        lambda stream: stream.rebalance(),
        lambda stream: stream.rescale(),
        lambda stream: stream.forward(),
        lambda stream: stream.broadcast(),
    ],
    ids=["union", "shuffle", "rebalance", "rescale", "forward", "broadcast"],
)
def test_what_is_no_operator_takes_settings(behind):
    """PyFlink's are errors of Java's."""
    stream = behind(local().from_collection([1]).map(str))

    assert "n" == stream.name("n").uid("u").set_description("d").start_new_chain().get_name()


def test_the_last_parallelism_counts():
    """PyFlink refuses a second instance of what is not parallel."""
    stream = local().from_collection([1]).map(str).force_non_parallel().set_parallelism(2)

    assert 2 == stream._node.parallelism


def test_the_type_of_a_keyed_stream_is_that_of_its_elements():
    """PyFlink's is a row of key and element."""
    keyed = local().from_collection([1], Types.INT()).key_by(lambda value: value, Types.INT())

    assert Types.INT() == keyed.get_type()


def test_a_keyed_stream_may_be_given_times():
    """PyFlink takes a process function of streams without keys for that, and refuses it."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())
    keyed = local().from_collection([("a", 7)]).key_by(lambda pair: pair[0])

    timed_again = keyed.assign_timestamps_and_watermarks(strategy)

    assert [7] == list(timed_again.process(Times()).execute_and_collect())


def test_the_timestamp_assigner_of_a_source_counts():
    """PyFlink hands on the Java part of a strategy only."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())
    stream = local().from_source(CollectionSource((("a", 7),)), strategy, "pairs")

    assert [7] == list(stream.process(Times()).execute_and_collect())


def test_idleness_keeps_the_timestamp_assigner():
    """PyFlink's loses it."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())
    idle = strategy.with_idleness(Duration.of_seconds(1))

    assert (strategy.assigner, 1000) == (idle.assigner, idle.idleness)


def test_the_print_of_a_keyed_stream_keeps_its_identifier(capsys):
    """PyFlink's loses it."""
    env = local()
    env.from_collection([1]).key_by(lambda v: v).print("keyed")

    env.execute()

    assert "keyed> 1\n" == capsys.readouterr().out


def test_one_instance_where_parallelism_is_not_set(capsys):
    """PyFlink has one for each core, and shows which one prints."""
    env = local()
    env.from_collection([1]).print()

    env.execute()

    assert (1, "1\n") == (env.get_parallelism(), capsys.readouterr().out)


def test_untyped_elements_are_text_in_files(tmp_path):
    """PyFlink writes what Java says of the pickled bytes."""
    env = local()
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    env.from_collection([{"a": 1}]).sink_to(sink.build())

    env.execute()

    assert ["{'a': 1}\n"] == [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]


class Ruled(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.get_broadcast_state(RULES).get("rule")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("rule", value)


def test_bounded_rules_come_first():
    """Flink promises no order; here the first element finds all rules."""
    env = local(pyflinklike__source__records_per_batch="1")
    stream = env.from_collection(["first"])
    rules = env.from_collection([1, 2, 3]).broadcast(RULES)

    assert [("first", 3)] == list(stream.connect(rules).process(Ruled()).execute_and_collect())


def test_what_was_collected_may_come_again(tmp_path):
    """After a restart Spark gives a micro-batch again, and did not know that it was taken."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    from pyflinklike.pyflink._spark.results import Ledger, ResultBatch, Results
    from pyflinklike.pyflink._spark.stage_outputs import LastSender, Outlets
    from pyflinklike.spark._wire.stage_records import Address

    lines = collecting(local().from_collection(["line"], Types.STRING()))
    graph = lines._program.graph()
    results = Results(Job(graph, JobSettings()))
    for _ in range(2):
        task = LastSender(Outlets(graph.sinks, "job-0"), 0)
        task.records(Address(graph.sinks[0].id, 0), [(None, "line", None)])
        (batch,) = task.end(0)
        rows = list(zip(*(column.to_pylist() for column in batch.columns)))
        results.add_batch(ResultBatch(0, rows), Ledger(tmp_path / "outputs.json"))
    (collected,) = results.collected.values()

    assert ["line", "line"] == list(collected)


def test_streams_of_other_types_can_be_united():
    """PyFlink refuses their union."""
    env = local()
    numbers, texts = env.from_collection([1], Types.INT()), env.from_collection(["a"])

    assert [1, "a"] == list(numbers.union(texts).execute_and_collect())


def test_a_float_is_no_text():
    """PyFlink's collections make the text of it that Java writes, which Python writes otherwise."""
    with pytest.raises(StateValueError, match=r"type String takes a str, got .*; convert it, or"):
        local().from_collection([1e-5], Types.STRING())


def test_the_hash_of_an_operator_has_no_effect():
    """PyFlink looks by it for the state of an operator whose generated name has changed."""
    stream = local().from_collection([1]).map(lambda n: n).uid("mine")

    with pytest.warns(UserWarning, match="set_uid_hash has no effect, got 'aaaa.*uid names the"):
        stream.set_uid_hash("a" * 32)

    assert "mine" == stream._node.uid
    with pytest.raises(
        DeclarationValueError, match="describes a hex code, got 'mine'; to name the"
    ):
        stream.set_uid_hash("mine")


def test_keyed_co_process_functions_need_keys():
    """PyFlink takes one, and fails where it asks for a key or for state."""

    class Keyed(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            yield value

        process_element2 = process_element1

    streams = local().from_collection([1]).connect(local().from_collection([2]))

    with pytest.raises(DeclarationTypeError, match="unless both streams have keys, got"):
        streams.process(Keyed())


class Nothing(AsyncFunction):
    async def async_invoke(self, value):
        return []

    def timeout(self, value):
        return [("gave up", value)]


def test_when_its_time_is_up_timeout_says_what_comes_of_an_element():
    """PyFlink may take the empty result of the last attempt."""
    again = AsyncRetryStrategy.fixed_delay(1_000_000, 1, empty_result_predicate, None)
    stream = AsyncDataStream.unordered_wait_with_retry(
        local().from_collection(["a"]), Nothing(), Time.milliseconds(20), again
    )

    assert [("gave up", "a")] == list(stream.execute_and_collect())


class Contents(KeyedProcessFunction):
    """Tells at the end what list and map state have."""

    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.INT(), Types.STRING())
        )

    def process_element(self, value, ctx):
        self.list.add(value[1])
        self.map.put(value[1], value[0])
        ctx.timer_service().register_event_time_timer(100)

    def on_timer(self, timestamp, ctx):
        yield list(self.list.get()), dict(self.map.items())


def test_list_and_map_state_are_there_at_the_end_of_a_batch():
    """PyFlink's are empty where there are two keys, and windows over a list with them."""
    stream = timed(local(execution__runtime_mode="batch"), ("a", 1), ("b", 2), ("a", 3))
    told = stream.key_by(first).process(Contents()).execute_and_collect()

    assert [([1, 3], {1: "a", 3: "a"}), ([2], {2: "b"})] == sorted(told)


class Remembered(KeyedProcessFunction):
    """Tells a value with a TTL of a second when a timer fires."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("value", Types.INT())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.value = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.value.update(value[1])
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp, ctx):
        yield self.value.value()


@pytest.mark.parametrize(("pace", "told"), [(1, 7), (999, 7), (1_000, None)])
def test_state_may_expire_before_the_timers_of_the_next_micro_batch(pace, told):
    """PyFlink's fire some milliseconds behind the elements, ours when Spark comes to them."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    from job_stream_support import results_of_stream

    from pyflinklike.pyflink._spark.job_plan import SessionFacts

    stream = collecting(timed(local(), ("a", 7)).key_by(first).process(Remembered()))
    job = Job(stream._program.graph(), JobSettings())

    assert [told] == results_of_stream(job, SessionFacts(1, 4, "UTC"), pace)
