# SPDX-License-Identifier: Apache-2.0
"""What differs from PyFlink in types, keys, state, waits and windows: rows of the table in the guide to migration."""

from __future__ import annotations

import pytest
from jobs.keyed_jobs import Count, Mean, first
from jobs.timed import timed
from local_support import collecting, local

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink.common import Row, Time, Types
from pyflinklike.pyflink.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from pyflinklike.pyflink.datastream.async_retry_predicates import empty_result_predicate
from pyflinklike.pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflinklike.pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def test_keys_of_other_types_have_states_of_their_own():
    """In PyFlink 1, 1.0 and True find the same state."""
    stream = local().from_collection([1, 1.0, True, 1]).key_by(lambda key: key).process(Count())

    assert ["(1, 1)", "(1.0, 1)", "(True, 1)", "(1, 2)"] == [
        repr(each) for each in stream.execute_and_collect()
    ]


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


def test_rows_of_key_and_element_hold_both_as_they_are():
    """PyFlink's have the bytes of their pickles where they have no types."""
    stream = local().from_collection([("a", 1)]).key_by(first)

    assert [Row(f0="a", f1=("a", 1))] == list(stream.execute_and_collect())


def test_the_type_of_an_output_counts_for_every_function_behind():
    """In PyFlink only for those that are not chained to it."""
    env = local()
    rows = env.from_collection([1]).map(lambda n: Row("a", n), [Types.STRING(), Types.INT()])
    floats = env.from_collection([0.1]).map(lambda x: x, Types.FLOAT())

    assert ["Row(f0='a', f1=1)", "0.10000000149011612"] == list(
        rows.map(str).union(floats.map(repr)).execute_and_collect()
    )


def test_an_array_of_bytes_is_bytes():
    """PyFlink's source refuses them, and what is collected is a list of numbers."""
    kind = Types.PRIMITIVE_ARRAY(Types.BYTE())
    stream = local().from_collection([b"\x00\x01"], kind).map(lambda each: each, kind)

    assert [b"\x00\x01"] == list(stream.execute_and_collect())


def test_a_float_that_is_collected_is_what_functions_see():
    """PyFlink's has gone through Java's text of it."""
    stream = local().from_collection([0.1], Types.FLOAT())

    assert [0.10000000149011612] == list(stream.execute_and_collect())


def test_none_is_an_element():
    """PyFlink's job fails when a function has given it to a sink."""
    stream = local().from_collection([1, 2]).map(lambda n: None if n == 2 else n)

    assert [1, None] == list(stream.execute_and_collect())


def test_a_field_of_a_tuple_may_be_none():
    """Java's tuples have no null."""
    stream = local().from_collection([("a", None)], PAIR)

    assert [("a", None)] == list(stream.execute_and_collect())


class Where(MapFunction):
    """Which instance of how many has got an element."""

    def open(self, runtime_context):
        count = runtime_context.get_number_of_parallel_subtasks()
        self.where = (runtime_context.get_index_of_this_subtask(), count)

    def map(self, value):
        return self.where


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_partitioner_knows_the_number_of_instances_when_a_stream_is_collected(mode):
    """PyFlink's is given -1 then, and in batch mode always."""
    numbers = local(execution__runtime_mode=mode).from_collection([0])
    stream = numbers.partition_custom(lambda _, n: n - 1, lambda n: n).map(Where())

    assert [(2, 3)] == list(stream.set_parallelism(3).execute_and_collect())


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


class Pairs(Mean):
    def add(self, value, accumulator):
        return super().add(value[1], accumulator)


def test_a_bridged_session_folds_all_it_has():
    """PyFlink's loses what all but one of the sessions held."""
    elements = timed(local(), ("a", 1), ("a", 10), ("a", 5), delay=20)
    windows = elements.key_by(first).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))

    assert [16 / 3] == list(windows.aggregate(Pairs()).execute_and_collect())


class Fired(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield len(list(elements))


def test_a_continuous_trigger_leaves_out_no_firing():
    """At 4, 8 and 9; PyFlink's leaves out one when the input ends."""
    windows = timed(local(), ("a", 1), delay=10).key_by(first)
    windows = windows.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(4))

    assert [1, 1, 1] == list(windows.trigger(trigger).process(Fired()).execute_and_collect())


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


def test_instances_before_key_by_count_in_a_batch():
    """Two instances get a copy each; PyFlink may make one of them."""
    ones = local(execution__runtime_mode="batch").from_collection([("a", 1)])
    copies = ones.broadcast().map(lambda pair: pair).set_parallelism(2)

    assert [("a", 2)] == list(copies.key_by(first).sum(1).execute_and_collect())


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
