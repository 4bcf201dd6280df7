# SPDX-License-Identifier: Apache-2.0
"""Savepoints of jobs in this process: taken between two elements, and begun with."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from job_savepoint_support import RECOVERY, Cut, collected, cut, stopped_after, told
from jobs.collection import every_job
from jobs.timed import ByField
from local_support import Endless, local
from sealed_manifest import resealed

from pyflinklike.errors import (
    CorruptStateError,
    DeclarationValueError,
    IncompatibleStateError,
    SparkSetupError,
)
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.sources import NumberSequenceSource
from pyflinklike.pyflink._local import start
from pyflinklike.pyflink.common import (
    Encoder,
    JobStatus,
    Time,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from pyflinklike.pyflink.datastream.connectors import HybridSource
from pyflinklike.pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflinklike.pyflink.datastream.state import (
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness

JOBS = every_job()

# A job that begins has no watermark yet, as in Flink: nothing is late then.
AFTER_A_WATERMARK = {"late_elements_go_aside", "late_elements_that_are_allowed"}
NOT_CUT = {*AFTER_A_WATERMARK, "nothing_at_all"}
CUT = [job for job in JOBS if job.cuts and job.name not in NOT_CUT]
PICKLED = Types.PICKLED_BYTE_ARRAY()
IGNORE = {"execution__state-recovery__ignore-unclaimed-state": "true"}


@pytest.mark.parametrize("job", CUT, ids=[job.name for job in CUT])
def test_a_job_that_is_cut_in_two_gives_what_it_must(job, tmp_path):
    """With another parallelism behind the savepoint, and once with other key groups."""
    steps = sum(1 for _ in Cut(job.program(local())).run._work)
    middle = max(1, steps // 2)
    more = {"parallelism__default": "3", "pipeline__max-parallelism": "12"}

    assert told(job.expected) == told(cut(job.program, middle, tmp_path / "more", {}, more))
    assert told(job.expected) == told(
        cut(job.program, middle, tmp_path / "fewer", {"parallelism__default": "2"}, {})
    )


class Total(KeyedProcessFunction):
    """A running total of each key."""

    kind = Types.INT()

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self.kind))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class LongTotal(Total):
    """With a type that the former one grows into."""

    kind = Types.LONG()


class OtherTotal(Total):
    """Of another class."""


PAIRS = [("a", 1), ("b", 10), ("a", 2), ("b", 20), ("a", 4)]
TOTALS = [("a", 1), ("b", 10), ("a", 3), ("b", 30), ("a", 7)]


def totals(env, function=Total, uid="totals", pairs=PAIRS, key_type=None):
    """The totals of the pairs."""
    keyed = env.from_collection(pairs).key_by(lambda pair: pair[0], key_type or Types.STRING())
    stream = keyed.process(function())
    return stream if uid is None else stream.uid(uid)


def numbers(env):
    """All numbers from 1 to 20, by as many instances as the job has."""
    source = NumberSequenceSource(1, 20)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    return stream.map(str, Types.STRING())


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1), (2, 3), (3, 3)])
@pytest.mark.parametrize("steps", [1, 7, 19, 20])
def test_each_element_is_read_once(first, second, steps, tmp_path):
    """Whichever instances read it."""
    found = cut(
        numbers,
        steps,
        tmp_path / "savepoint",
        {"parallelism__default": str(first)},
        {"parallelism__default": str(second)},
    )

    assert sorted(map(str, range(1, 21))) == sorted(found)


def test_a_savepoint_of_what_began_with_one(tmp_path):
    """Three times in a row, each time with another parallelism."""
    found = stopped_after(numbers, 4, tmp_path / "0", parallelism__default="2")
    for at, parallelism in enumerate(["3", "1", "2"]):
        begun = {RECOVERY: str(tmp_path / str(at)), "parallelism__default": parallelism}
        found += stopped_after(numbers, 4, tmp_path / str(at + 1), **begun)
    found += collected(numbers, tmp_path / "3")

    assert sorted(map(str, range(1, 21))) == sorted(found)


def test_files_are_read_on_in_the_middle(tmp_path):
    """Also if another file was added meanwhile, which is none of the job's."""
    for name in ("a", "b", "c"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("".join(f"{name}{n}\n" for n in range(3)))

    def lines(env):
        source = FileSource.for_record_stream_format(
            StreamFormat.text_line_format(), str(tmp_path / "in")
        )
        return env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "lines")

    before = stopped_after(lines, 4, tmp_path / "savepoint")
    (tmp_path / "in" / "0").write_text("new\n")
    after = collected(lines, tmp_path / "savepoint", parallelism__default="2")

    assert sorted(f"{name}{n}" for name in "abc" for n in range(3)) == sorted(before + after)


# Which state is whose


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            lambda env: totals(env, uid="sums"),
            "got operator 'totals', which .*: it has 'sums', .*ignore-unclaimed-state to true",
        ),
        (lambda env: totals(env, key_type=PICKLED), "the keys of an operator are of the type"),
        (numbers, "got operator 'totals', source a collection of 5"),
        (lambda env: totals(env, pairs=PAIRS[2:]), "got source a collection of 5, which the job"),
    ],
    ids=["uid", "key type", "job", "source"],
)
def test_a_savepoint_of_something_else_is_refused(program, told, tmp_path):
    """The operator would begin with nothing, or its state have some elements twice."""
    stopped_after(totals, 2, tmp_path / "savepoint")

    with pytest.raises(IncompatibleStateError, match=told):
        collected(program, tmp_path / "savepoint")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [({"uid": "sums"}, [("a", 2), ("b", 20), ("a", 6)]), ({"pairs": PAIRS[2:]}, TOTALS[2:])],
    ids=["uid", "source"],
)
def test_state_and_positions_may_be_lost_if_the_program_says_so(changed, expected, tmp_path):
    """Then an operator begins with nothing, and a source at its beginning."""
    stopped_after(totals, 2, tmp_path / "savepoint")

    found = collected(lambda env: totals(env, **changed), tmp_path / "savepoint", **IGNORE)

    assert expected == found


def test_a_new_operator_begins_empty(tmp_path):
    """Beside one that goes on."""
    stopped_after(totals, 2, tmp_path / "savepoint")

    def both(env):
        first = totals(env)
        return first.key_by(lambda pair: pair[0], Types.STRING()).process(Total()).uid("second")

    # The second one adds the totals of the first.
    assert [("a", 3), ("b", 30), ("a", 10)] == collected(both, tmp_path / "savepoint")


def test_an_operator_without_a_uid_keeps_its_place(tmp_path):
    """By the class of its function, without which another one would have its state."""
    stopped_after(lambda env: totals(env, uid=None), 2, tmp_path / "savepoint")

    assert TOTALS[2:] == collected(lambda env: totals(env, uid=None), tmp_path / "savepoint")
    told = r"got 'Keyed-1' \(OtherTotal\), but the savepoint has Total; give the operator uid\('Keyed-1'\)"
    with pytest.raises(IncompatibleStateError, match=told):
        collected(lambda env: totals(env, OtherTotal, uid=None), tmp_path / "savepoint")
    # The uid says that it is the same one.
    assert TOTALS[2:] == collected(
        lambda env: totals(env, OtherTotal, uid="Keyed-1"), tmp_path / "savepoint"
    )


def test_a_class_may_change_where_there_is_a_uid(tmp_path):
    """And the type of a state may grow."""
    stopped_after(totals, 2, tmp_path / "savepoint")

    assert TOTALS[2:] == collected(lambda env: totals(env, LongTotal), tmp_path / "savepoint")
    stopped_after(lambda env: totals(env, LongTotal), 2, tmp_path / "long")
    with pytest.raises(IncompatibleStateError, match="total"):
        collected(totals, tmp_path / "long")


def test_a_hybrid_source_goes_on_with_the_same_sources_alone(tmp_path):
    """Which are read on where they were; others would be read by the numbers of the former ones, whatever the uid."""
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")

    def lines(env, names="ab"):
        one, other = (
            FileSource.for_record_stream_format(
                StreamFormat.text_line_format(), str(tmp_path / name)
            ).build()
            for name in names
        )
        source = HybridSource.builder(one).add_source(other).build()
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "both").uid("both")

    before = stopped_after(lines, 3, tmp_path / "savepoint")
    assert ["a1", "a2", "b1", "b2"] == before + collected(lines, tmp_path / "savepoint")
    assert before
    with pytest.raises(IncompatibleStateError, match="names its sources by their numbers"):
        collected(lambda env: lines(env, "ba"), tmp_path / "savepoint")


def test_states_that_a_job_leaves_out_come_along(tmp_path):
    """As in a restart: a later job may declare them again."""

    class Nothing(Total):
        def open(self, runtime_context):
            pass

        def process_element(self, value, ctx):
            yield value

    stopped_after(totals, 2, tmp_path / "1")
    stopped_after(
        lambda env: totals(env, Nothing), 1, tmp_path / "2", **{RECOVERY: str(tmp_path / "1")}
    )

    # The second job has taken ("a", 2) without adding it.
    assert [("b", 30), ("a", 5)] == collected(totals, tmp_path / "2")


# What is in it


class Alarm(KeyedProcessFunction):
    """Timers of both domains."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        yield value

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def alarms(env):
    """Timers of the pairs, whose numbers are their times."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())
    stream = env.from_collection(PAIRS).assign_timestamps_and_watermarks(times)
    return stream.key_by(lambda pair: pair[0], Types.STRING()).process(Alarm()).uid("alarms")


def test_all_timers_fire_where_event_time_goes_to_its_end(tmp_path):
    """Before the savepoint, which has none then."""
    found = Cut(alarms(local())).steps(2).save(tmp_path / "savepoint", drains=True)

    assert sorted([*PAIRS[:2], ("a", 101), ("b", 110)]) == sorted(found)
    assert 0 == open_savepoint(tmp_path / "savepoint").timers("alarms").count_rows()


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class ByRule(BroadcastProcessFunction):
    """Multiplies by the rule of a key."""

    def process_element(self, value, ctx):
        yield value[0], value[1] * (ctx.get_broadcast_state(RULES).get(value[0]) or 0)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


def ruled(env):
    """The pairs by rules that come first."""
    rules = env.from_collection([("a", 2), ("b", 3)]).broadcast(RULES)
    return env.from_collection(PAIRS).rebalance().connect(rules).process(ByRule()).uid("ruled")


def test_each_instance_has_its_copy_of_broadcast_state(tmp_path):
    """Of which a savepoint has one."""
    found = cut(
        ruled,
        4,
        tmp_path / "savepoint",
        {"parallelism__default": "2"},
        {"parallelism__default": "3"},
    )

    assert sorted((key, n * {"a": 2, "b": 3}[key]) for key, n in PAIRS) == sorted(found)
    rows = open_savepoint(tmp_path / "savepoint").dataset("rules").to_table()
    assert [("a", 2), ("b", 3)] == sorted(
        zip(*rows.select(["user_key", "value"]).to_pydict().values())
    )


class Fleeting(Total):
    """Totals that live for 100 ms."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("total", Types.INT())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
        self.total = runtime_context.get_state(descriptor)


@pytest.mark.parametrize(("later", "expected"), [(50, ("a", 3)), (101, ("a", 2))])
def test_the_time_to_live_goes_on(later, expected, tmp_path):
    """From the stamps in the savepoint, by the clock of the job that begins with it."""

    def run(clock, **settings):
        found = Cut(totals(local(**settings), Fleeting))
        program, sink = found.run._job, found._sink
        found.run = start(Job(program.graph, program.settings), lambda: clock)
        found._sink = sink
        return found

    run(1_000).steps(2).save(tmp_path / "savepoint")
    found = run(1_000 + later, **{RECOVERY: str(tmp_path / "savepoint")}).finish()

    assert expected == found[0]


# Where it is written


def test_a_savepoint_is_not_written_over_another(tmp_path):
    """The job goes on."""
    run = Cut(totals(local())).steps(1)
    run.run.savepoint(str(tmp_path / "savepoint"))
    run.steps(1)
    again = run.run.savepoint(str(tmp_path / "savepoint"), stops=True)

    assert TOTALS == run.finish()
    with pytest.raises(DeclarationValueError, match="must not exist before it is written"):
        again.result()
    assert TOTALS[1:] == collected(totals, tmp_path / "savepoint")


def test_a_savepoint_of_no_job_that_runs_is_refused(tmp_path):
    """At its end, and of a job in batch mode."""
    run = Cut(totals(local()))
    run.finish()
    with pytest.raises(SparkSetupError, match="of a job that is FINISHED"):
        run.run.savepoint(str(tmp_path / "savepoint")).result()
    run = Cut(totals(local(**{"execution__runtime-mode": "BATCH"})))
    request = run.run.savepoint(str(tmp_path / "savepoint"))
    run.finish()
    with pytest.raises(SparkSetupError, match=r"got one for .* of a job in batch mode"):
        request.result()


@pytest.mark.parametrize("part", ["_manifest.json", "parquet"])
def test_a_damaged_savepoint_is_refused(part, tmp_path):
    """Wherever a byte was flipped."""
    stopped_after(totals, 2, tmp_path / "savepoint")
    file = next(each for each in (tmp_path / "savepoint").rglob("*") if each.name.endswith(part))
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.write_bytes(contents)

    with pytest.raises(CorruptStateError, match="take the savepoint again"):
        collected(totals, tmp_path / "savepoint")


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"position": {"offset": "{}"}}, SparkSetupError, r"set execution\.target to spark"),
        (
            {"position": None, "reason": "nobody has looked"},
            IncompatibleStateError,
            "a collection of 5: nobody has looked; give it",
        ),
    ],
    ids=["of Spark", "unknown"],
)
def test_a_position_that_this_process_cannot_read_on_from_is_refused(
    changed, error, told, tmp_path
):
    """With the setting that mends it, or with its reason."""
    stopped_after(totals, 2, tmp_path / "savepoint")
    resealed(tmp_path / "savepoint", lambda fields: fields["job"]["sources"][0].update(changed))

    with pytest.raises(error, match=told):
        collected(totals, tmp_path / "savepoint")


# By a client


class Gate(ProcessFunction):
    """Lets a test wait until the job has come to some number."""

    reached = threading.Event()

    def process_element(self, value, ctx):
        if value >= 100:
            Gate.reached.set()
        yield value % 3, 1


def endless(env):
    """Totals of numbers without an end."""
    stream = env.from_source(Endless(), WatermarkStrategy.no_watermarks(), "endless")
    return (
        stream.process(Gate())
        .key_by(lambda pair: pair[0], Types.LONG())
        .process(Total())
        .uid("totals")
    )


def of(savepoint):
    """How many elements were counted."""
    return sum(open_savepoint(savepoint).dataset("total").to_table().column("value").to_pylist())


def read(savepoint):
    """How many elements the source has given."""
    return open_savepoint(savepoint).manifest.job.sources[0].position["read"][0]


def test_a_client_takes_savepoints_and_stops(tmp_path):
    """In a directory of its own each; what is written is visible when the job has stopped."""
    Gate.reached.clear()
    env = local()
    env.set_default_savepoint_directory(str(tmp_path / "savepoints"))
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    endless(env).map(str, Types.STRING()).sink_to(sink.build())
    client = env.execute_async("endless")
    Gate.reached.wait()
    first = client.trigger_savepoint().result()
    last = client.stop_with_savepoint(False, (tmp_path / "last").as_uri()).result()
    client.get_job_execution_result().result()

    assert JobStatus.FINISHED is client.get_job_status().result()
    assert 100 < of(first) == read(first)
    assert of(first) <= of(last) == read(last)
    lines = [
        each for path in (tmp_path / "out").rglob("part*") for each in path.read_text().split("\n")
    ]
    assert of(last) == len([each for each in lines if each])
    assert Path(first).parent == tmp_path / "savepoints"
    assert last.startswith(f"{(tmp_path / 'last').as_uri()}/savepoint-")


def test_a_client_needs_a_directory():
    """Of the call or of the settings."""
    Gate.reached.clear()
    env = local()
    endless(env).print()
    client = env.execute_async("endless")
    with pytest.raises(DeclarationValueError, match="savepoint-dir, got None"):
        client.trigger_savepoint()
    client.cancel().result()
    with pytest.raises(SparkSetupError, match="of a job that is CANCELED"):
        client.trigger_savepoint("/tmp/anywhere").result()


# Of something else than a job


class Harnessed(Total):
    """Its savepoint has the name of its class as uid."""


def test_a_job_begins_with_a_savepoint_of_a_harness(tmp_path):
    """By the uid and the type of keys; there are no sources in it."""
    with KeyedProcessHarness(
        Harnessed(), key_selector=lambda pair: pair[0], key_type=Types.STRING()
    ) as harness:
        harness.process_element(("a", 100))
        write_savepoint(harness, tmp_path / "savepoint")

    found = collected(lambda env: totals(env, Harnessed, "Harnessed"), tmp_path / "savepoint")
    assert [("a", 101), ("b", 10), ("a", 103), ("b", 30), ("a", 107)] == found


def test_an_operator_that_has_no_keys_any_more_is_refused(tmp_path):
    """State of keys would be of no use to it."""
    stopped_after(totals, 2, tmp_path / "savepoint")

    class Both(CoMapFunction):
        def map1(self, value):
            return value

        map2 = map1

    def without_keys(env):
        stream = env.from_collection(PAIRS)
        return stream.connect(stream).map(Both()).uid("totals")

    with pytest.raises(IncompatibleStateError, match="got 'none' for operator 'totals'"):
        collected(without_keys, tmp_path / "savepoint")


@pytest.mark.parametrize(("first", "second"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_another_backend_goes_on(first, second, tmp_path):
    """A savepoint is of no backend."""
    pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    backends = {"state__backend__type": first}, {"state__backend__type": second}

    assert TOTALS == cut(totals, 2, tmp_path / "savepoint", *backends)
    fired = [("a", 101), ("a", 102), ("a", 104), ("b", 110), ("b", 120)]
    assert sorted(PAIRS + fired) == sorted(cut(alarms, 2, tmp_path / "timers", *backends))


def test_a_store_that_no_key_owns_stays_with_its_instance(tmp_path):
    """From one instance to one instance, and not to several."""

    class Stored(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = KeyValueStoreDescriptor(
                "store", Types.STRING(), Types.INT(), scope="partition"
            )
            self.store = runtime_context.get_store(descriptor)

        def process_element(self, value, ctx):
            self.store.put("n", (self.store.get("n") or 0) + value[1])
            yield self.store.get("n")

    def stored(env):
        return totals(env, Stored)

    assert [1, 11, 13, 33, 37] == cut(stored, 2, tmp_path / "savepoint", {}, {})
    several = {"parallelism__default": "2"}
    with pytest.raises(IncompatibleStateError, match="of 1 key groups for 2;"):
        collected(stored, tmp_path / "savepoint", **several)
    with pytest.raises(IncompatibleStateError, match="set the parallelism of the operator to 1"):
        stopped_after(stored, 5, tmp_path / "several", **several)


def test_two_sources_that_read_the_same_go_on_one_by_one(tmp_path):
    """In the order of the program; uids tell them apart where the order changes."""

    def two(env, uids=(None, None)):
        streams = []
        for uid in uids:
            stream = env.from_collection(list("abc"))
            streams.append(stream if uid is None else stream.uid(uid))
        return (
            streams[0].map(lambda each: f"1{each}").union(streams[1].map(lambda each: f"2{each}"))
        )

    run = Cut(two(local(), ("x", "y"))).steps(3)
    before = run.save(tmp_path / "savepoint")
    found = collected(lambda env: two(env, ("y", "x")), tmp_path / "savepoint")

    letters = [each[1] for each in before + found]
    assert sorted("aabbcc") == sorted(letters)
    swapped = [f"{3 - int(each[0])}{each[1]}" for each in found]
    assert sorted(f"{n}{each}" for n in "12" for each in "abc") == sorted(before + swapped)
