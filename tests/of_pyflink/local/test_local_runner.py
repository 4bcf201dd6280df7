# SPDX-License-Identifier: Apache-2.0
"""The local runner: watermarks, instances, failures, and jobs that are ended."""

from __future__ import annotations

import json
import sys

import pytest
from local_support import Endless, Watermarks, Where, local

from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    StateAccessError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.pyflink._local import stream_operators as stations
from pyflinklike.pyflink.common import JobStatus, Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
)
from pyflinklike.pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflinklike.pyflink.datastream.stream_node import ObjectKeyTypeInfo
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows
from pyflinklike.types.frozen_keys import key_group_of

NONE = WatermarkStrategy.no_watermarks()


def first(value):
    """The key."""
    return value[0]


def test_elements_of_one_key_come_to_one_instance():
    """And all instances together have all keys."""
    env = local(parallelism__default="4")
    stream = env.from_collection([(key, n) for n in range(3) for key in range(40)])

    seen = list(stream.key_by(first).process(Where()).execute_and_collect())

    where = {}
    for value, index, parallelism in seen:
        assert 4 == parallelism
        where.setdefault(value[0], set()).add(index)
    assert all(len(indices) == 1 for indices in where.values())
    assert {0, 1, 2, 3} == set.union(*where.values())


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (None, [f"user-{number}" for number in range(50)]),
        (None, [(number, None) for number in range(50)]),
        (Types.LONG(), [*range(50)]),
        (Types.DOUBLE(), [0.5, -0.0, 1.0, 1e300]),
    ],
)
def test_a_key_is_in_the_key_group_that_it_has_on_spark(kind, keys):
    """Which is frozen there, since checkpoints find their keys by it; the instance follows from it."""
    env = local(parallelism__default="4")
    key_type = ObjectKeyTypeInfo() if kind is None else kind

    seen = env.from_collection([(key, 0) for key in keys]).key_by(first, kind).process(Where())

    assert {key: key_group_of(key_type.freeze_key(key), 128) * 4 // 128 for key in keys} == {
        value[0]: index for value, index, _ in seen.execute_and_collect()
    }


def test_keys_without_end_keep_their_instances(monkeypatch):
    """Also those whose instance was forgotten, for memory is no place for all keys."""
    monkeypatch.setattr(stations, "_KNOWN_KEYS", 3)
    env = local(parallelism__default="4")
    elements = [(key, n) for n in range(3) for key in range(40)]

    where = {}
    for value, index, _ in (
        env.from_collection(elements).key_by(first).process(Where()).execute_and_collect()
    ):
        where.setdefault(value[0], set()).add(index)

    assert [1] * 40 == [len(indices) for indices in where.values()]


def test_the_instance_that_prints_is_shown(capsys):
    """Where there are several; elements of a source come to them in turn."""
    env = local(parallelism__default="2")
    env.from_collection([1, 2, 3, 4]).map(lambda n: n).print("out")

    env.execute()

    lines = capsys.readouterr().out.splitlines()
    assert {"out:1> 1", "out:1> 3", "out:2> 2", "out:2> 4"} == set(lines)


def test_a_partitioner_that_tells_no_instance_is_told_so():
    """Its number is out of range."""
    env = local(parallelism__default="2")
    env.from_collection([1]).partition_custom(lambda _, n: n, lambda v: v).print()

    with pytest.raises(UserFunctionError, match="a number from 0 to 1, got 2"):
        env.execute()


@pytest.mark.parametrize("added", ["folder", "folder/words_of_a_job.py"])
def test_functions_import_the_files_of_the_program(tmp_path, monkeypatch, added):
    """A module, or those of a folder."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "words_of_a_job.py").write_text("WORD = 'there'", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "words_of_a_job", raising=False)

    def worded(_):
        from words_of_a_job import WORD  # type: ignore[import-not-found]

        return WORD

    env = local()
    env.add_python_file(str(tmp_path / added))

    assert ["there"] == list(env.from_collection([1]).map(worded).execute_and_collect())


# Failures


class Closing(MapFunction):
    """Notes in a file that it was closed, for its attributes are a copy."""

    def __init__(self, path):
        self.path = path

    def map(self, value):
        return 10 // value

    def close(self):
        self.path.write_text("closed", encoding="utf-8")


def test_a_failing_function_is_named_with_its_element_and_closed(tmp_path):
    """And the job has failed."""
    env = local()
    env.from_collection([5, 0]).map(Closing(tmp_path / "note")).print()
    client = env.execute_async()

    with pytest.raises(UserFunctionError, match=r"Closing\.map failed for element 0.*ZeroDivision"):
        client.get_job_execution_result().result()
    assert JobStatus.FAILED is client.get_job_status().result()
    assert "closed" == (tmp_path / "note").read_text(encoding="utf-8")


def test_a_failing_key_selector_is_named():
    """With the element."""
    stream = local().from_collection([1]).key_by(lambda v: v["x"]).map(lambda v: v)

    with pytest.raises(UserFunctionError, match="the key selector failed for element 1"):
        list(stream.execute_and_collect())


def test_an_element_that_goes_two_ways_must_pickle():
    """Each way gets a copy."""
    stream = local().from_collection([1]).map(lambda n: lambda: n)

    with pytest.raises(OutputError, match="an element that goes two ways"):
        list(stream.union(stream).execute_and_collect())


class Registering(Watermarks):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)


def test_timers_need_keys():
    """As Flink says."""
    stream = local().from_collection([1]).process(Registering())

    with pytest.raises(StateAccessError, match="Register timers is only supported on a keyed"):
        list(stream.execute_and_collect())


class Stateful(MapFunction):
    def open(self, runtime_context):

        runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def map(self, value):
        return value


def test_state_needs_keys():
    """The function is told when it is opened."""
    stream = local().from_collection([1]).map(Stateful())

    with pytest.raises(DeclarationError, match="a state belongs to keys"):
        list(stream.execute_and_collect())


# Jobs


def test_a_job_that_never_ends_gives_as_many_as_are_wanted():
    """And ends then."""
    stream = local().from_source(Endless(), NONE, "numbers").filter(lambda n: n % 2)

    assert [1, 3, 5] == stream.execute_and_collect(limit=3)


def test_a_job_that_never_ends_can_be_cancelled():
    """From another thread, too."""
    env = local()
    env.from_source(Endless(), NONE, "numbers").filter(lambda _: False).print()
    client = env.execute_async()
    assert JobStatus.RUNNING is client.get_job_status().result()

    client.cancel().result()

    assert JobStatus.CANCELED is client.get_job_status().result()


def test_a_job_that_nobody_has_waited_for_can_be_cancelled():
    """It has not begun to work, and never will."""
    results = local().from_collection([1]).execute_and_collect()

    results.close()

    assert JobStatus.CANCELED is results._run.status()
    assert [] == list(results)


def test_an_iterator_that_is_closed_ends_its_job(tmp_path):
    """Functions are closed, and it gives no more."""
    stream = local().from_collection([5, 2, 1]).map(Closing(tmp_path / "note"))

    with stream.execute_and_collect() as results:
        assert 2 == next(results)

    assert "closed" == (tmp_path / "note").read_text(encoding="utf-8")
    assert [] == list(results)


def test_execute_runs_the_sinks_since_the_last_time(capsys):
    """And refuses where there are none."""
    env = local()
    env.from_collection([1]).print()
    env.execute()
    env.from_collection([2]).print()
    env.execute("second")

    assert ["1", "2"] == capsys.readouterr().out.splitlines()
    with pytest.raises(DeclarationError, match="No operators defined in streaming topology"):
        env.execute()


def test_batch_mode_needs_an_end():
    """An unbounded source is refused by its name."""
    env = local().set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_source(Endless(), NONE, "numbers").print()

    with pytest.raises(DeclarationError, match=r"UNBOUNDED source.*\['numbers'\]"):
        env.execute()


def test_automatic_mode_is_batch_where_all_ends():
    """So a fold gives its last value only."""
    env = local().set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)

    stream = env.from_collection([1, 2, 3]).key_by(lambda _: 0).sum()

    assert [6] == list(stream.execute_and_collect())


def test_state_is_kept_where_the_configuration_says():
    """In RocksDB, whose batches end behind a thousand elements."""
    pytest.importorskip("rocksdict")
    env = local(state__backend__type="rocksdb")
    stream = env.from_collection(range(2_500)).key_by(lambda n: n % 2).sum()

    last = list(stream.execute_and_collect())[-2:]

    assert [sum(range(0, 2_500, 2)), sum(range(1, 2_500, 2))] == last


def test_a_job_runs_nowhere_else_than_where_it_was_sent():
    """A host that there is not has no other in its place."""
    env = local(execution__target="mars")
    env.from_collection([1]).print()

    with pytest.raises(DeclarationValueError, match=r"execution\.target"):
        env.execute()


@pytest.mark.parametrize(
    "call",
    [
        lambda stream: stream.map(3),
        lambda stream: stream.map(MapFunction),
        lambda stream: stream.process(Where()),
        lambda stream: stream.key_by(first).process(Watermarks()),
        lambda stream: stream.key_by("name"),
        lambda stream: stream.connect(3),
        lambda stream: stream.union([1]),
        lambda stream: stream.sink_to(3),
        lambda stream: stream.add_sink(3),
        lambda stream: stream.project(0),
        lambda stream: stream.broadcast(3),
        lambda stream: stream.map(first, "int"),
        lambda stream: stream.get_side_output("late"),
        lambda stream: stream.assign_timestamps_and_watermarks(3),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_where_it_is_given(call):
    """When it is declared, not when the job runs."""
    with pytest.raises(DeclarationTypeError):
        call(local().from_collection([(1, 2)]))


def test_a_keyed_stream_has_no_distribution():
    """It belongs to operators."""
    keyed = local().from_collection([(1, 2)]).key_by(first)

    for call in (keyed.rebalance, keyed.shuffle, keyed.broadcast):
        with pytest.raises(DeclarationError, match="KeyedStream"):
            call()


def test_each_job_of_a_program_reads_the_elements_of_a_collection_as_they_were():
    """Though the functions of one before it have changed them."""
    stream = local().from_collection([[1]]).map(lambda value: (value.append(2), value)[1])

    assert [[[1, 2]], [[1, 2]]] == [list(stream.execute_and_collect()) for _ in range(2)]


def test_an_output_that_flat_map_returns_is_refused():
    """A string would become its letters."""
    stream = local().from_collection([1]).flat_map(str)

    with pytest.raises(OutputError, match=r"flat_map functions give an iterable .*got '1'; yield"):
        list(stream.execute_and_collect())


def noting(path, factor=1):
    """A function that writes to a file by itself."""

    def note(n):
        with path.open("a") as file:
            file.write(f"{n * factor} ")
        return n

    return note


def test_an_operator_runs_though_no_sink_is_behind_it(capsys, tmp_path):
    """As in Flink, beside a branch that has one: a function may write to a service by itself."""
    path = tmp_path / "noted"
    env = local()
    numbers = env.from_collection([1, 2])
    numbers.map(noting(path))
    numbers.key_by(lambda n: n % 2).filter(noting(path, 10))
    numbers.print()
    env.execute()

    assert ["1", "10", "2", "20"] == sorted(path.read_text().split())
    assert ["1", "2"] == capsys.readouterr().out.splitlines()


def test_operators_alone_are_a_job_and_run_once(tmp_path):
    """A second job is of what was declared since."""
    path = tmp_path / "noted"
    env = local()
    numbers = env.from_collection([1, 2])
    numbers.map(noting(path))
    env.execute()
    with pytest.raises(DeclarationError, match="No operators defined in streaming topology"):
        env.execute()
    numbers.map(noting(path, 10))
    env.execute()

    assert ["1", "10", "2", "20"] == sorted(path.read_text().split())


def test_a_source_alone_is_no_job():
    """Nor is what only says where elements go."""
    env = local()
    env.from_collection([1]).union(env.from_collection([2])).key_by(lambda n: n)

    with pytest.raises(DeclarationError, match="No operators defined in streaming topology"):
        env.execute()


def test_what_is_collected_runs_with_all_that_was_declared(capsys):
    """And a later execute has nothing left of it."""
    env = local()
    numbers = env.from_collection([1, 2])
    numbers.print()

    assert [10, 20] == list(numbers.map(lambda n: n * 10).execute_and_collect())
    assert ["1", "2"] == capsys.readouterr().out.splitlines()
    with pytest.raises(DeclarationError, match="No operators defined in streaming topology"):
        env.execute()


class Sided(CoMapFunction):
    """Says of each element from which input it is."""

    def map1(self, value):
        """Of the first input."""
        return "first", value

    def map2(self, value):
        """Of the second input."""
        return "second", value


class Ruled(BroadcastProcessFunction):
    """Gives each element with all rules."""

    def process_element(self, value, ctx):
        """An element with what is broadcast."""
        yield value, sorted(key for key, _ in ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value, ctx):
        """A rule."""
        ctx.get_broadcast_state(RULES).put(value, value)


RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())


def test_streams_of_two_environments_are_united():
    """As in Flink: each gives its own elements, and not those of the other with its number."""
    stream = local().from_collection([1]).union(local().from_collection([2]))

    assert [1, 2] == sorted(stream.execute_and_collect())


@pytest.mark.parametrize("has_keys", [False, True])
def test_streams_of_two_environments_are_connected(has_keys):
    """With keys and without."""
    connected = local().from_collection([1]).connect(local().from_collection([2]))
    if has_keys:
        connected = connected.key_by(lambda n: n % 2, lambda n: n % 2)

    found = sorted(connected.map(Sided()).execute_and_collect())

    assert [("first", 1), ("second", 2)] == found


def test_a_stream_of_another_environment_is_broadcast():
    """Its elements change the states of the job that it comes into."""
    rules = local().from_collection([7, 8]).broadcast(RULES)

    stream = local().from_collection([1]).connect(rules).process(Ruled())

    assert [(1, [7, 8])] == list(stream.execute_and_collect())


def test_a_step_of_another_environment_runs_once_for_all_that_read_it(tmp_path):
    """Its settings may still change, and streams may go back to the first environment."""
    path = tmp_path / "noted"
    one, other = local(), local()
    doubled = other.from_collection([2]).map(noting(path))
    united = one.from_collection([1]).union(doubled, doubled)
    doubled.name("changed later")
    back = other.from_collection([3]).union(united, doubled)

    nodes = json.loads(back.map(str).get_execution_environment().get_execution_plan())["nodes"]
    found = sorted(back.execute_and_collect())

    assert [1, 2, 2, 2, 3] == found
    assert "2" == path.read_text().strip()
    assert 1 == sum("changed later" in node["type"] for node in nodes)


def test_an_environment_does_not_run_what_another_one_has_declared(tmp_path):
    """A united stream alone is no operator of the environment that united it."""
    path = tmp_path / "noted"
    one, other = local(), local()
    one.from_collection([1]).union(other.from_collection([2]).map(noting(path)))

    with pytest.raises(DeclarationError, match="No operators defined in streaming topology"):
        one.execute()
    other.execute()

    assert "2" == path.read_text().strip()


def test_operators_have_the_parallelism_of_the_environment_that_declared_them():
    """Where they ask for no number of their own."""
    theirs = local(parallelism__default="3").from_collection(range(9)).map(lambda n: n)
    ours = local(parallelism__default="2").from_collection([9]).map(lambda n: n)

    both = [each.key_by(lambda n: n).process(Where()) for each in (ours, theirs)]

    assert {3, 2} == {number for _, _, number in both[0].union(both[1]).execute_and_collect()}


class Aside(ProcessFunction):
    """Puts each element out with a tag."""

    def process_element(self, value, ctx):
        yield NUMBERS, value


NUMBERS = OutputTag("numbers", Types.INT())


@pytest.mark.parametrize(
    ("declare", "whose"),
    [
        (
            lambda texts: texts.map(str, Types.INT()).name("to numbers").uid("n"),
            r"an output of 'to numbers' \(uid 'n'\) does not fit its output type",
        ),
        (
            lambda texts: texts.process(Aside()).get_side_output(NUMBERS),
            "an output of 'PROCESS' with the tag 'numbers' does not fit its output type",
        ),
        (
            lambda texts: texts.key_by(lambda text: text, Types.INT()).process(Where()),
            "the key that the key selector returns does not fit the key_type of key_by",
        ),
    ],
)
def test_a_value_that_does_not_fit_its_type_says_whose_it_is(declare, whose):
    """An operator by its name and uid, a side output by its tag, or a key selector."""
    stream = declare(local().from_collection(["x"]))

    with pytest.raises(
        StateValueError, match=f"^{whose}: type Integer takes an int in .*, got 'x'"
    ):
        list(stream.execute_and_collect())


def test_an_element_of_a_collection_that_does_not_fit_says_which_one_it_is():
    """By its position."""
    with pytest.raises(
        StateValueError, match=r"^element 1 of the collection does not fit its type_"
    ):
        local().from_collection([1, "x"], Types.INT())


def test_windows_of_event_time_say_what_gives_elements_their_times():
    """In a job, too, which has no event_time to give."""
    keyed = local().from_collection(["x"]).key_by(lambda text: text)
    stream = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: a)

    with pytest.raises(
        DeclarationValueError, match="in a job call assign_timestamps_and_watermarks"
    ):
        list(stream.execute_and_collect())


class Metered(MapFunction):
    """Adds up what it sees, and the most of it."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.seen, self.sizes = group.counter("seen"), group.distribution("size")

    def map(self, value):
        self.seen.inc(value)
        self.sizes.update(value)
        return value


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_the_result_of_a_job_has_the_metrics_of_its_functions(mode):
    """Of all instances together, by uid or name, those with keys and without."""
    env = local(parallelism__default="2", execution__runtime_mode=mode)
    mapped = env.from_collection([1, 2, 3]).rebalance().map(Metered()).name("mapped")
    mapped.key_by(lambda n: n).map(Metered()).uid("keyed").map(lambda n: n).print()

    sums = {"seen": 6, "size.count": 3, "size.sum": 6, "size.min": 1, "size.max": 3}

    assert {"mapped": {"user": sums}, "keyed": {"user": sums}} == env.execute().metrics
