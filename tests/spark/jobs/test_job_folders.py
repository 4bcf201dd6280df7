# SPDX-License-Identifier: Apache-2.0
"""The folder of a job: who may go on from it, what it keeps, and when it goes."""

from __future__ import annotations

import shutil

import pytest
from job_folder_support import FACTS, One, Two, environment, files, first, job_of, keyed, run

from pyflinklike.errors import CorruptStateError, DeclarationValueError, SparkSetupError
from pyflinklike.pyflink._spark.job_folder import JobFolder, folder_name
from pyflinklike.pyflink._spark.job_plan import SessionFacts
from pyflinklike.pyflink.common import SimpleStringSchema, Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import (
    ExternalizedCheckpointRetention,
    WindowFunction,
)
from pyflinklike.pyflink.datastream.connectors import HybridSource
from pyflinklike.pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

PICKLED = Types.PICKLED_BYTE_ARRAY()
OTHER_FACTS = SessionFacts(partitions=3, max_parallelism=18, time_zone="UTC")


def test_the_same_program_goes_on(tmp_path):
    """Its files keep their names."""
    names = {run(keyed(environment(tmp_path))).name for _ in range(2)}

    assert len(names) == 1


def test_two_names_of_jobs_never_share_a_folder():
    """Also where what is no letter makes the difference, or there is nothing else."""
    names = ["a b", "a_b", "a/b", "a", ".", "..", "", "A b", "ä b", "a-b"]

    assert len(names) == len({folder_name(name) for name in names})
    assert not [name for name in map(folder_name, names) if "/" in name or name in (".", "..", "")]


def other_max_parallelism(env):
    """Keys would be looked for in other groups."""
    env.set_max_parallelism(32)
    return keyed(env)


def further_source(env):
    """One more before it."""
    env.from_collection([1]).print()
    return keyed(env)


def further_operator(env):
    """One more behind it."""
    pairs = env.from_collection([("a", n) for n in range(3)])
    once = pairs.key_by(first, Types.STRING()).process(One())
    once.key_by(first).process(Two()).print()
    return job_of(env)


class Names(WindowFunction):
    """A function of windows."""

    def apply(self, key, window, inputs):
        """Gives their key."""
        yield key


class Ends(Names):
    """Another one."""


def two_windows(env, *functions):
    """A job of windows beside each other."""
    keys = env.from_collection([("a", 1)]).key_by(first)
    for each in functions:
        keys.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(each()).print()
    return job_of(env)


def test_windows_of_other_functions_are_refused(tmp_path):
    """Else each would go on with what the other one has gathered, if they change places."""
    run(two_windows(environment(tmp_path), Names, Ends))

    told = r"'Keyed-1' \(WindowOperator of Ends, .* where there .*\(WindowOperator of Names,"
    with pytest.raises(SparkSetupError, match=told):
        run(two_windows(environment(tmp_path), Ends, Names))


def no_operator(env):
    """None left."""
    env.from_collection([("a", n) for n in range(3)]).print()
    return job_of(env)


def two_sums(env, is_deeper):
    """A job of two folds, beside each other or one behind the other."""
    pairs = env.from_collection([("a", 1)])
    one = pairs.key_by(first).sum(1).uid("one")
    other = (one if is_deeper else pairs).key_by(first).sum(1).uid("other")
    one.union(other).print()
    return job_of(env)


@pytest.mark.restarts("job: an operator behind another one that was beside it", "refused")
def test_an_operator_that_comes_behind_another_one_is_refused(tmp_path):
    """Its state would be in another state operator of Spark."""
    run(two_sums(environment(tmp_path), is_deeper=False))

    with pytest.raises(
        SparkSetupError, match=r"'other' .*depth 2.* where there was .*'other' .*depth 1"
    ):
        run(two_sums(environment(tmp_path), is_deeper=True))


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            lambda env: keyed(env, Two),
            r"'Keyed-1' \(Two, .* where there was operator 'Keyed-1' \(One",
        ),
        (lambda env: keyed(env, key_type=PICKLED), "keys .* where there was operator 'Keyed-1'"),
        (other_max_parallelism, "max_parallelism 32.* where there was .*max_parallelism 16"),
        (
            lambda env: keyed(env, uid="sums"),
            "operator 'sums' .* where there was operator 'Keyed-1'",
        ),
        (lambda env: keyed(env, elements=4), "a collection of 4 where there was a collection of 3"),
        (further_source, "a collection of 1 where there was a collection of 3"),
        (further_operator, "operator 'Keyed-2' .* where there was none"),
        (no_operator, "none where there was operator 'Keyed-1'"),
    ],
    ids=[
        *("function", "key type", "max_parallelism", "uid"),
        *("source", "further source", "further operator", "no operator"),
    ],
)
@pytest.mark.restarts("job: class of an operator, without a uid", "refused")
def test_another_program_is_refused_by_name(tmp_path, program, told):
    """It would go on with state and offsets that are not its own; the first one still runs then."""
    run(keyed(environment(tmp_path)))

    with pytest.raises(SparkSetupError, match=f"{told}.*begin anew with another"):
        run(program(environment(tmp_path)))
    run(keyed(environment(tmp_path)))


@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("uid", [None, "files"])
@pytest.mark.restarts("job: a source that ends, or none that does", "refused")
def test_a_source_that_ends_is_no_source_that_does_not(tmp_path, is_bounded, uid):
    """The one would leave files unread, the other would have all that comes later be late."""
    run(files(environment(tmp_path), "in", uid, is_bounded))

    ends = r" \(without an end\)"
    other, one = (ends, "") if is_bounded else ("", ends)
    with pytest.raises(SparkSetupError, match=rf"/in{other} where there was .*/in{one};"):
        run(files(environment(tmp_path), "in", uid, not is_bounded))


def one_after_the_other(env, *paths, uid=None):
    """A job that reads files, and then others."""
    one, other = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
        for path in paths
    )
    source = HybridSource.builder(one).add_source(other).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "both")
    (stream.uid(uid) if uid else stream).print()
    return job_of(env)


@pytest.mark.parametrize("uid", [None, "both"])
@pytest.mark.restarts("job: sources of a `HybridSource`", "refused")
def test_the_sources_of_a_hybrid_source_stay_as_they_are(tmp_path, uid):
    """A split of the first one would be read as one of another format."""
    run(one_after_the_other(environment(tmp_path), "/in/a", "/in/b", uid=uid))

    with pytest.raises(
        SparkSetupError, match=r"/in/b, then .*/in/a.* where there was .*/in/a, then "
    ):
        run(one_after_the_other(environment(tmp_path), "/in/b", "/in/a", uid=uid))
    run(one_after_the_other(environment(tmp_path), "/in/a", "/in/b", uid=uid))


def numbers(env, count, uid=None):
    """Numbers."""
    stream = env.from_collection(list(range(count)))
    return stream.uid(uid) if uid else stream


def read(env, *sources):
    """A job of collections that are united: how many elements they have, and their uids."""
    first_one, *more = (numbers(env, *each) for each in sources)
    first_one.union(*more).key_by(str).process(One()).print()
    return job_of(env)


WITH_UIDS = ((3, "a"), (4, "b"))
WITHOUT = ((3,), (4,))


@pytest.mark.parametrize("sources", [WITHOUT, WITH_UIDS], ids=["without uids", "with uids"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(slice(1), slice(2), id="one more, one fewer"),
        pytest.param(slice(2), slice(None, None, -1), id="in another order"),
    ],
)
@pytest.mark.restarts("job: one more source, or one fewer", "refused")
@pytest.mark.restarts("job: sources that change places", "refused")
def test_other_sources_are_refused(tmp_path, sources, before, after):
    """Spark's checkpoint has their offsets by their places, with and without a uid."""
    for one, other in ((before, after), (after, before)):
        folder = tmp_path / str(one)
        run(read(environment(folder), *sources[one]))
        with pytest.raises(
            SparkSetupError, match=r"sources .* got .*where there was (none|.*a collection of \d)"
        ):
            run(read(environment(folder), *sources[other]))


def topics(env, uid, *names):
    """A job of topics that never end."""
    pytest.importorskip("confluent_kafka")
    from pyflinklike.pyflink.datastream.connectors.kafka import KafkaSource

    builder = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:1").set_topics(*names)
    source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "topics")
    (stream.uid(uid) if uid else stream).key_by(len).process(One()).print()
    return job_of(env)


@pytest.mark.parametrize("uid", [None, "in"])
@pytest.mark.restarts("job: files for a topic, or a topic for files", "refused")
def test_a_source_of_another_kind_is_refused(tmp_path, uid):
    """Also under one uid: the offsets of files say nothing of a topic; the error tells both."""
    kinds = lambda env: files(env, "a", uid), lambda env: topics(env, uid, "t")
    told = r"the files of .*/a \(", r"the topics t of Kafka \("
    for at in (0, 1):
        folder = tmp_path / str(at)
        run(kinds[at](environment(folder)))
        with pytest.raises(SparkSetupError, match=f"{told[1 - at]}.* where there was .*{told[at]}"):
            run(kinds[1 - at](environment(folder)))


@pytest.mark.restarts("job: topics of a Kafka source, without a uid", "refused")
@pytest.mark.restarts("job: topics of a Kafka source, with the same uid", "goes on")
def test_a_uid_says_that_it_is_the_same_source_of_topics(tmp_path):
    """Then the source itself refuses to leave a topic out: `test_kafka_reading`."""
    run(topics(environment(tmp_path / "without"), None, "t"))
    for names in (["s"], ["t", "s"]):
        with pytest.raises(
            SparkSetupError, match=r"the topics .*s of Kafka .* where .* topics t of Kaf"
        ):
            run(topics(environment(tmp_path / "without"), None, *names))

    run(topics(environment(tmp_path / "with"), "in", "t"))
    run(topics(environment(tmp_path / "with"), "in", "t", "s"))


def chain(env, *operators):
    """A job of operators behind each other."""
    stream = env.from_collection([("a", 1)])
    for function, uid in operators:
        stream = stream.key_by(first, Types.STRING()).process(function())
        if uid:
            stream.uid(uid)
    stream.print()
    return job_of(env)


class Three(One):
    """A third one."""


@pytest.mark.parametrize("uids", [(None, None, None), ("one", "two", "three")], ids=str)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0], [0, 1]),
        ([0], [1, 0]),
        ([0, 1], [0]),
        ([0, 1], [1]),
        ([0, 1], [0, 2, 1]),
        ([0, 1], [1, 0]),
    ],
    ids=str,
)
@pytest.mark.restarts("job: one operator more in a chain, or one fewer", "refused")
@pytest.mark.restarts("job: operators of a chain that change places", "refused")
def test_another_chain_is_refused(tmp_path, before, after, uids):
    """By the names of both, with and without uids: Spark knows operators by their places."""
    known = [*zip((One, Two, Three), uids)]
    run(chain(environment(tmp_path), *(known[at] for at in before)))

    with pytest.raises(
        SparkSetupError, match=r"keyed operators .* got .*(operator '.*)? where there was"
    ):
        run(chain(environment(tmp_path), *(known[at] for at in after)))
    run(chain(environment(tmp_path), *(known[at] for at in before)))


@pytest.mark.restarts("job: elements of a collection, as many as before", "goes on")
def test_a_collection_has_the_elements_that_the_job_began_with(tmp_path):
    """They were written when it began; only their number is compared."""
    run(read(environment(tmp_path), (3,), (4,)))
    env = environment(tmp_path)
    env.from_collection(list("abc")).union(env.from_collection(list("abcd"))).key_by(str).process(
        One()
    ).print()

    run(job_of(env))


class Alarm(One):
    """Registers a timer."""

    def process_element(self, value, ctx):
        """Of processing time."""
        ctx.timer_service().register_processing_time_timer(1)


def endless(env, strategy, function):
    """A job without an end of one keyed function."""
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/nowhere")
    lines = env.from_source(files.monitor_continuously(10).build(), strategy, "lines")
    lines.key_by(len, Types.LONG()).process(function()).uid("one").print()
    return job_of(env)


@pytest.mark.parametrize(("before", "after"), [(One, Alarm), (Alarm, One)])
@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (
            WatermarkStrategy.no_watermarks,
            r"wake by (event|processing) time, and by (event|p)",
        ),
        (WatermarkStrategy.for_monotonous_timestamps, "processing-time timers beside event time"),
    ],
    ids=["alone", "beside event time"],
)
@pytest.mark.restarts("job: timers of the other clock", "refused")
def test_timers_of_another_time_are_refused(tmp_path, strategy, told, before, after):
    """Spark would refuse them when the query runs, and names nothing of the program."""
    run(endless(environment(tmp_path), strategy(), before))

    with pytest.raises(SparkSetupError, match=told):
        run(endless(environment(tmp_path), strategy(), after))


def with_times_between(env, strategy):
    """A job of two keyed functions, and times that are assigned between them if there is a strategy."""
    pairs = env.from_collection([("a", n) for n in range(3)])
    between = pairs.key_by(first, Types.STRING()).process(One()).uid("one")
    if strategy is not None:
        between = between.assign_timestamps_and_watermarks(strategy)
    between.key_by(first, Types.STRING()).process(One()).uid("other").print()
    return job_of(env)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.restarts("job: times assigned between keyed operators, or no more", "refused")
def test_times_between_operators_stay_or_are_refused(tmp_path, is_first):
    """A key group would be called by the other watermark, which may never come to its timers."""
    strategies = [WatermarkStrategy.for_monotonous_timestamps(), None]
    before, after = strategies if is_first else reversed(strategies)
    run(with_times_between(environment(tmp_path), before))

    with pytest.raises(SparkSetupError, match=r"'other'.*, times assigned behind another operator"):
        run(with_times_between(environment(tmp_path), after))
    run(with_times_between(environment(tmp_path), before))


@pytest.mark.restarts("job: functions without state, and sinks", "goes on")
def test_what_keeps_nothing_may_change(tmp_path):
    """Functions without state and sinks."""
    run(keyed(environment(tmp_path)))
    env = environment(tmp_path)
    pairs = env.from_collection([("a", n) for n in range(3)]).map(tuple).filter(bool)
    sums = pairs.key_by(first, Types.STRING()).process(One())
    sums.map(str).print()
    sums.print()

    run(job_of(env))


@pytest.mark.restarts(
    "job: class of an operator, or paths of a source, with the same uid", "goes on"
)
def test_a_uid_says_that_it_is_the_same_operator(tmp_path):
    """Its class may be called otherwise then."""
    run(keyed(environment(tmp_path)))

    run(keyed(environment(tmp_path), Two, uid="Keyed-1"))


@pytest.mark.restarts(
    "job: class of an operator, or paths of a source, with the same uid", "goes on"
)
@pytest.mark.restarts("job: paths of a source, without a uid", "refused")
def test_a_uid_says_that_it_is_the_same_source(tmp_path):
    """Its folder may be another one then; without a uid it may not."""
    run(files(environment(tmp_path / "with"), "a", "in"))
    run(files(environment(tmp_path / "with"), "b", "in"))

    run(files(environment(tmp_path / "without"), "a", None))
    with pytest.raises(
        SparkSetupError, match=r"the files of .*/b .* where there was the files of .*/a"
    ):
        run(files(environment(tmp_path / "without"), "b", None))


@pytest.mark.restarts("job: settings of the session", "goes on")
def test_a_session_with_other_settings_goes_on_with_those_of_the_beginning(tmp_path):
    """Else keys would be looked for in other groups, though the program says nothing of them."""
    run(keyed(environment(tmp_path)))

    assert FACTS == run(keyed(environment(tmp_path))).facts(OTHER_FACTS)
    run(keyed(environment(tmp_path)), OTHER_FACTS)


def test_a_program_that_never_came_to_a_micro_batch_is_begun_anew(tmp_path):
    """Whoever mends a first mistake need not remove files."""
    run(keyed(environment(tmp_path)), commits=False)

    run(keyed(environment(tmp_path), Two))


def test_a_job_runs_once_at_a_time(tmp_path):
    """Two would write the same files."""
    held = JobFolder(keyed(environment(tmp_path)).settings)

    with pytest.raises(SparkSetupError, match="a job runs once at a time, got a second run of"):
        JobFolder(keyed(environment(tmp_path)).settings)
    held.leave(is_over=False)
    run(keyed(environment(tmp_path)))


def test_a_job_that_is_over_leaves_nothing_to_go_on_from(tmp_path):
    """The next run begins anew, as in Flink."""
    folder = run(keyed(environment(tmp_path)))
    folder.leave(is_over=True)

    assert not folder.path.exists()
    assert not [path for path in tmp_path.iterdir() if not path.name.endswith(".lock")]


def test_a_path_to_recover_from_must_be_the_jobs_own(tmp_path):
    """What is not there is no empty beginning."""
    job = keyed(environment(tmp_path))
    own = JobFolder(job.settings)
    own.leave(is_over=False)
    key = "execution.state-recovery.path"

    with pytest.raises(SparkSetupError, match="which does not exist"):
        run(keyed(environment(tmp_path, **{key: str(own.path)})))
    with pytest.raises(SparkSetupError, match="which is neither"):
        run(keyed(environment(tmp_path, **{key: str(tmp_path / "x")})))
    run(job)
    run(keyed(environment(tmp_path, **{key: str(own.path)})))


@pytest.mark.parametrize(
    ("retention", "expected"),
    [("RETAIN_ON_CANCELLATION", False), ("DELETE_ON_CANCELLATION", True)],
)
def test_the_retention_says_what_a_cancelled_job_leaves(tmp_path, retention, expected):
    """By the setter or by its key."""
    env = environment(tmp_path)
    env.get_checkpoint_config().set_externalized_checkpoint_retention(
        ExternalizedCheckpointRetention[retention]
    )

    assert expected is keyed(env).settings.is_dropped_when_cancelled


def test_an_unknown_retention_is_refused(tmp_path):
    """With those that there are."""
    key = "execution.checkpointing.externalized-checkpoint-retention"

    with pytest.raises(DeclarationValueError, match=r"is one of DELETE_ON_.*got 'KEEP'"):
        keyed(environment(tmp_path, **{key: "KEEP"}))


# Damage


def test_every_flipped_bit_of_what_began_a_job_is_seen(tmp_path):
    """Wherever it is."""
    path = run(keyed(environment(tmp_path))).path / "job.json"
    whole, job = path.read_bytes(), keyed(environment(tmp_path))

    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptStateError, match=r"got a damaged one"):
            JobFolder(job.settings)
    path.write_bytes(whole)
    run(job)


def test_a_checkpoint_without_what_began_it_is_refused(tmp_path):
    """Nobody knows whose it is."""
    (run(keyed(environment(tmp_path))).path / "job.json").unlink()

    with pytest.raises(CorruptStateError, match=r"with a checkpoint has a job.json, got"):
        run(keyed(environment(tmp_path)))


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("checkpoint", "without the checkpoint of micro-batch 0, which was written;"),
        ("checkpoint/offsets", "without the checkpoint of micro-batch 0"),
        ("sources", "without the rows of source 0;"),
        ("sources/0", "without the rows of source 0;"),
    ],
)
def test_a_folder_of_which_a_part_was_removed_is_refused(tmp_path, part, told):
    """Whoever wants to begin anew removes all: the rest would have micro-batches be left out."""
    shutil.rmtree(run(keyed(environment(tmp_path))).path / part)

    with pytest.raises(CorruptStateError, match=f"{told}.*remove all of it to begin anew"):
        run(keyed(environment(tmp_path)))


def test_a_folder_without_the_watermark_of_idle_inputs_is_refused(tmp_path):
    """It would fall back; with it the job goes on."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(1000)
    begun = [run(files(environment(tmp_path), "in", None, strategy=strategy)) for _ in range(2)]
    begun[0].watermark.unlink()

    with pytest.raises(CorruptStateError, match=r"without the watermark, watermark\.json;"):
        run(files(environment(tmp_path), "in", None, strategy=strategy))
