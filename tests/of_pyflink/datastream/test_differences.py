# SPDX-License-Identifier: Apache-2.0
"""What differs from PyFlink: a test for each line of the guide to migration.

`test_differences_of_values` has those about types, keys, state, waits and windows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from differences import DIFFERENCES, lines_of_guide
from job_savepoint_support import cut, stopped_after
from jobs.timed import ByField, timed
from local_support import Watermarks, collecting, local

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
    StateValueError,
)
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.sources import CollectionSource
from pyflinklike.pyflink.common import (
    DeserializationSchema,
    Duration,
    Encoder,
    SimpleStringSchema,
    Time,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    Trigger,
)
from pyflinklike.pyflink.datastream.connectors import BucketAssigner, FileSink
from pyflinklike.pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflinklike.pyflink.datastream.window import (
    EventTimeSessionWindows,
    GlobalWindows,
    TriggerResult,
)

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


def test_every_line_of_the_guide_has_a_test():
    """Neither a line without a test, nor a test that is not there."""
    tests = Path(__file__).parents[2]
    there = {
        f"{path.stem}::{test}"
        for path in tests.rglob("test_*.py")
        for test in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
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


def test_the_watermark_follows_all_elements_of_a_bounded_input():
    """PyFlink's follows the clock."""
    stream = timed(local(), *[("a", n) for n in range(1000)]).process(Watermarks())

    assert {MIN_WATERMARK} == {mark for _, mark in stream.execute_and_collect()}


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


class Silent(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp, ctx):
        return None


def test_none_is_no_output():
    """Of flat_map, of process, and of a timer."""
    env = local()
    flat = env.from_collection([1]).flat_map(lambda _: None)
    silent = env.from_collection([1]).key_by(lambda v: v).process(Silent())

    assert [] == list(flat.union(silent).execute_and_collect())


class Tagged(ProcessFunction):
    def process_element(self, value, ctx):
        yield OutputTag("unread"), value
        yield value


def test_an_output_that_nobody_reads_is_dropped():
    """In PyFlink the pair may go to the main output, or fail the job."""
    stream = local().from_collection([1]).process(Tagged(), Types.INT())

    assert [1] == list(stream.execute_and_collect())


def test_the_print_of_a_keyed_stream_keeps_its_identifier(capsys):
    """PyFlink's loses it."""
    env = local()
    env.from_collection([1]).key_by(lambda v: v).print("keyed")

    env.execute()

    assert "keyed> 1\n" == capsys.readouterr().out


class Unmerged(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


def test_a_trigger_that_cannot_merge_is_refused_for_sessions():
    """When it is declared; PyFlink's fails at a merge, or gives something else."""
    stream = local().from_collection([1]).key_by(lambda v: v)
    windows = stream.window(EventTimeSessionWindows.with_gap(Time.seconds(1)))

    with pytest.raises(DeclarationTypeError, match="cannot be used with a trigger"):
        windows.trigger(Unmerged())


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


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.FLOAT()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0.0) + value)
        yield self.total.value()


def test_a_float_in_state_is_rounded_when_it_is_written():
    """PyFlink rounds it when the cache of its Python process is emptied."""
    stream = local().from_collection([0.1, 0.2]).key_by(lambda _: 0).process(Total())

    assert [0.10000000149011612, 0.30000001192092896] == list(stream.execute_and_collect())


def test_an_element_outside_its_type_is_refused():
    """PyFlink's source makes 557549056 of it."""
    with pytest.raises(StateValueError, match=r"type Integer takes an int .*got 9147483648"):
        local().from_collection([9147483648], Types.INT())


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


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().register_processing_time_timer(1)

    def on_timer(self, timestamp, ctx):
        if timestamp < 3:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield ctx.time_domain().name, timestamp


def test_event_timers_that_a_timer_registers_at_the_end_of_a_batch_fire():
    """Flink ignores them, and warns in its log."""
    env = local(execution__runtime_mode="batch")
    stream = env.from_collection([2]).key_by(lambda v: v).process(Alarm())

    assert [
        ("EVENT_TIME", 2),
        ("EVENT_TIME", 3),
        ("PROCESSING_TIME", 1),
        ("EVENT_TIME", 2),
        ("EVENT_TIME", 3),
    ] == list(stream.execute_and_collect())


class LongAlarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(10**15)


def test_a_stream_that_ends_before_its_processing_timers_says_so():
    """Flink leaves them out without a word."""
    stream = local().from_collection([1]).key_by(lambda v: v).process(LongAlarm())

    with pytest.warns(UserWarning, match="LongAlarm: processing-time timers do not fire"):
        list(stream.execute_and_collect())


def begun(folder, name="job", function="Sums"):
    """Begin a job of one operator on Spark, or go on with it; whether it was begun before."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    from pyflinklike.pyflink._spark.job_folder import JobFolder, JobIdentity, JobOperator
    from pyflinklike.pyflink._spark.job_plan import SessionFacts

    job = JobFolder(JobSettings(name=name, checkpoint_dir=str(folder)))
    try:
        is_begun = job.is_begun
        operator = JobOperator("Keyed-1", None, function, "STRING", 16, 1)
        job.begin(JobIdentity((), (operator,), "event time"), SessionFacts(2, 16, "UTC"))
        (job.checkpoint / "commits").mkdir(parents=True, exist_ok=True)
        (job.checkpoint / "commits" / "0").touch()
        return is_begun
    finally:
        job.leave(is_over=False)


def test_a_job_goes_on_by_its_name(tmp_path):
    """PyFlink's has to be told from where."""
    assert [False, True, False] == [begun(tmp_path), begun(tmp_path), begun(tmp_path, "other")]


def test_another_program_under_the_name_of_a_job_is_refused(tmp_path):
    """PyFlink goes by uids, and else by what the graph looks like."""
    begun(tmp_path)

    with pytest.raises(
        SparkSetupError, match=r"\(Other, .* where there was operator 'Keyed-1' \(Sums"
    ):
        begun(tmp_path, function="Other")


class Seen(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        yield value, self.seen.value()


def seen(env):
    """How often each key was seen."""
    stream = env.from_collection(list("abab")).key_by(str, Types.STRING())
    return stream.process(Seen()).uid("seen")


def test_max_parallelism_may_change_with_a_savepoint(tmp_path):
    """PyFlink's keys stay in the key groups of the savepoint."""
    first = {"pipeline__max-parallelism": "8", "parallelism__default": "2"}
    second = {"pipeline__max-parallelism": "12", "parallelism__default": "3"}

    found = cut(seen, 3, tmp_path / "savepoint", first, second)

    assert [("a", 1), ("a", 2), ("b", 1), ("b", 2)] == sorted(found)


def test_a_job_begins_with_a_savepoint_once(tmp_path):
    """PyFlink's begins with it again whenever it is started so."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    from job_folder_support import environment, job_of, run

    stopped_after(seen, 2, tmp_path / "savepoint")
    env = environment(
        tmp_path / "jobs", **{"execution.state-recovery.path": str(tmp_path / "savepoint")}
    )
    seen(env).print()
    job = job_of(env)
    folders = [run(job), run(job)]

    assert [True, False] == [folder.savepoint is not None for folder in folders]


def test_the_checkpoint_of_a_cancelled_job_stays():
    """PyFlink removes it, unless it is told to retain it."""
    env = local()
    env.from_collection([1]).print()

    assert not env._program._settings(env._program.graph(), None).is_dropped_when_cancelled


def given_twice(stream, folder):
    """The sinks of a stream that are given the same micro-batch a second time, after a restart."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    from pyflinklike.pyflink._spark.results import Ledger, ResultBatch, Results
    from pyflinklike.pyflink._spark.stage_outputs import LastSender, Outlets
    from pyflinklike.spark._wire.stage_records import Address

    graph = stream._program.graph()
    results = Results(Job(graph, JobSettings()))
    for _ in range(2):
        task = LastSender(Outlets(graph.sinks, "job-0"), 0)
        task.records(Address(graph.sinks[0].id, 0), [(None, "line", None)])
        (batch,) = task.end(0)
        rows = list(zip(*(column.to_pylist() for column in batch.columns)))
        results.add_batch(ResultBatch(0, rows), Ledger(folder / "outputs.json"))
    return results


def test_every_micro_batch_shows_its_files(tmp_path):
    """PyFlink shows none without checkpoints."""
    lines = local().from_collection(["line"], Types.STRING())
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    lines.sink_to(sink.build())

    given_twice(lines, tmp_path)

    assert ["line\n"] == [path.read_text() for path in (tmp_path / "out").rglob("part-*")]


def test_what_was_collected_may_come_again(tmp_path):
    """Spark did not know that it was taken."""
    lines = collecting(local().from_collection(["line"], Types.STRING()))

    (collected,) = given_twice(lines, tmp_path).collected.values()

    assert ["line", "line"] == list(collected)


@pytest.fixture
def brokers():
    """Of librdkafka's mock cluster."""
    pytest.importorskip(
        "confluent_kafka", reason="confluent-kafka is not installed (the extra `kafka`)"
    )
    from kafka_support import mock_brokers

    return mock_brokers()


def test_a_partition_without_records_holds_nothing(tmp_path):
    """PyFlink knows of it before it has one."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    from pyflinklike.pyflink._spark.stages import stages_of
    from pyflinklike.pyflink._spark.watermark_feed import SplitWatermark, WatermarkFeed

    stream = timed(local(), ("a", 7))
    stream.key_by(lambda pair: pair[0]).process(Silent()).print()
    stage = stages_of(stream._program.graph())[0]
    feed = WatermarkFeed(tmp_path / "watermark.json", stage, 0)
    feed.note([SplitWatermark(stage.entrances[0], "clicks/0", 6)], 0)
    feed.tell(0)

    assert '"watermark": 6' in feed.path.read_text()


def test_a_kafka_source_commits_nothing(brokers):
    """PyFlink's commits with each checkpoint."""
    from confluent_kafka import Consumer, TopicPartition
    from kafka_jobs import reading, stream

    brokers.write("uncommitted", [(None, b"a")], partition=0)
    source = reading(brokers, "uncommitted").set_group_id("new").build()
    read = list(stream(source).execute_and_collect())
    consumer = Consumer({"bootstrap.servers": brokers.servers, "group.id": "new"})
    (found,) = consumer.committed([TopicPartition("uncommitted", 0)], timeout=20)

    assert (["a"], True) == (read, found.offset < 0)


def test_offsets_that_are_gone_are_refused(brokers):
    """PyFlink goes on with the first record that is left."""
    from kafka_jobs import reading

    from pyflinklike.pyflink.datastream.connectors.kafka import (
        KafkaOffsetsInitializer,
        KafkaTopicPartition,
    )

    brokers.write("gone", [(None, b"a")], partition=0)
    starting = KafkaOffsetsInitializer.offsets({KafkaTopicPartition("gone", 0): 2})

    with pytest.raises(DeclarationValueError, match="lie within the topic, got 2"):
        reading(brokers, "gone").set_starting_offsets(starting).build().splits()


def test_a_kafka_sink_is_at_least_once(brokers):
    """Also where none is asked for; exactly once is refused."""
    from pyflinklike.pyflink.datastream.connectors.kafka import (
        DeliveryGuarantee,
        KafkaRecordSerializationSchema,
        KafkaSink,
    )

    builder = KafkaSink.builder().set_delivery_guarantee(DeliveryGuarantee.NONE)
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_bootstrap_servers("no:1")
    records = KafkaRecordSerializationSchema.builder().set_topic("t")
    records.set_value_serialization_schema(SimpleStringSchema())
    env = local()
    env.from_collection(["a"]).sink_to(builder.set_record_serializer(records.build()).build())

    with pytest.raises(
        SparkSetupError, match="writes at least once, because no transaction of Kafka"
    ):
        env.execute()


class Lengths(DeserializationSchema):
    def deserialize(self, message):
        return len(message)


def test_a_schema_of_the_programs_own(brokers):
    """PyFlink's are wrappers of Java's."""
    from kafka_jobs import reading, stream

    brokers.write("lengths", [(None, b"abc")])
    source = reading(brokers, "lengths").set_value_only_deserializer(Lengths()).build()

    assert [3] == list(stream(source).execute_and_collect())
