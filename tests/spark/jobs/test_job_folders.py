# SPDX-License-Identifier: Apache-2.0
"""The folder of a job: who may go on from it, what it keeps, and when it goes."""

from __future__ import annotations

import pytest

from pyflinklike.common import Configuration, Time, Types, WatermarkStrategy
from pyflinklike.datastream import (
    ExternalizedCheckpointRetention,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from pyflinklike.datastream.connectors.file_system import FileSource, StreamFormat
from pyflinklike.datastream.window import TumblingEventTimeWindows
from pyflinklike.errors import CorruptStateError, DeclarationValueError, HostError
from pyflinklike.graph.job import Job
from pyflinklike.spark.jobs.folders import JobFolder, folder_name
from pyflinklike.spark.jobs.identity import identity_of
from pyflinklike.spark.jobs.session import backend_of
from pyflinklike.spark.jobs.steps import JobSteps, SessionFacts

FACTS = SessionFacts(partitions=2, max_parallelism=16, time_zone="UTC")
OTHER_FACTS = SessionFacts(partitions=3, max_parallelism=18, time_zone="UTC")


class One(KeyedProcessFunction):
    """A function."""

    def process_element(self, value, ctx):
        """Gives it out."""
        yield value


class Two(One):
    """Another one."""


def first(value):
    """The key."""
    return value[0]


def environment(directory, **settings):
    """One with a directory of checkpoints."""
    values = {"execution.checkpointing.dir": str(directory), **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


def job_of(env):
    """The job that was declared."""
    graph = env._program.graph()
    return Job(graph, env._program._settings(graph, None))


def keyed(env, function=One, key_type=None, uid=None, elements=3):
    """A job of one keyed function."""
    pairs = env.from_collection([("a", n) for n in range(elements)])
    result = pairs.key_by(first, key_type or Types.STRING()).process(function())
    if uid is not None:
        result.uid(uid)
    result.print()
    return job_of(env)


def run(job, facts=FACTS, commits=True):
    """Begin a job or go on with it, up to its first micro-batch; the folder is left as by a kill."""
    folder = JobFolder(job.settings)
    try:
        facts = folder.facts(facts)
        folder.begin(identity_of(JobSteps(job, facts, backend_of(job))), facts)
        (folder.checkpoint / "commits").mkdir(parents=True, exist_ok=True)
        if commits:
            (folder.checkpoint / "commits" / "0").touch()
        return folder
    finally:
        folder.leave(is_over=False)


def test_the_same_program_goes_on(tmp_path):
    """Its files keep their names."""
    names = {run(keyed(environment(tmp_path))).name for _ in range(2)}

    assert len(names) == 1


def test_two_names_of_jobs_never_share_a_folder():
    """Also where what is no letter makes the difference, or there is nothing else."""
    names = ["a b", "a_b", "a/b", "a", ".", "..", "", "A b", "ä b", "a-b"]

    assert len(names) == len({folder_name(name) for name in names})
    assert not [name for name in map(folder_name, names) if "/" in name or name in (".", "..", "")]


def other_function(env):
    """Another class in the same place."""
    return keyed(env, Two)


def other_key_type(env):
    """The same function, with keys of another type."""
    return keyed(env, key_type=Types.PICKLED_BYTE_ARRAY())


def other_max_parallelism(env):
    """Keys would be looked for in other groups."""
    env.set_max_parallelism(32)
    return keyed(env)


def renamed(env):
    """Its state has another name."""
    return keyed(env, uid="sums")


def other_source(env):
    """Another collection in the same place."""
    return keyed(env, elements=4)


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
    with pytest.raises(HostError, match=told):
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


def test_an_operator_that_comes_behind_another_one_is_refused(tmp_path):
    """Its state would be in another state operator of Spark."""
    run(two_sums(environment(tmp_path), is_deeper=False))

    with pytest.raises(HostError, match=r"'other' .*depth 2.* where there was .*'other' .*depth 1"):
        run(two_sums(environment(tmp_path), is_deeper=True))


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (other_function, r"'Keyed-1' \(Two, .* where there was operator 'Keyed-1' \(One"),
        (other_key_type, "keys .* where there was operator 'Keyed-1'"),
        (other_max_parallelism, "max_parallelism 32.* where there was .*max_parallelism 16"),
        (renamed, "operator 'sums' .* where there was operator 'Keyed-1'"),
        (other_source, "a collection of 4 where there was a collection of 3"),
        (further_source, "a collection of 1 where there was a collection of 3"),
        (further_operator, "operator 'Keyed-2' .* where there was none"),
        (no_operator, "none where there was operator 'Keyed-1'"),
    ],
)
def test_another_program_is_refused_by_name(tmp_path, program, told):
    """It would go on with state and offsets that are not its own; the first one still runs then."""
    run(keyed(environment(tmp_path)))

    with pytest.raises(HostError, match=f"{told}.*begin anew with another"):
        run(program(environment(tmp_path)))
    run(keyed(environment(tmp_path)))


def files_of(env, is_bounded, uid=None):
    """A job of files that are there, or that come one after the other."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in")
    built = source.build() if is_bounded else source.monitor_continuously(10).build()
    stream = env.from_source(built, WatermarkStrategy.no_watermarks(), "files")
    if uid:
        stream.uid(uid)
    stream.print()
    return job_of(env)


@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("uid", [None, "files"])
def test_a_source_that_ends_is_no_source_that_does_not(tmp_path, is_bounded, uid):
    """The one would leave files unread, the other would have all that comes later be late."""
    run(files_of(environment(tmp_path), is_bounded, uid))

    ends = r" \(without an end\)"
    other, one = (ends, "") if is_bounded else ("", ends)
    with pytest.raises(
        HostError, match=rf"(/in|'files'){other} where there was .*(/in|'files'){one};"
    ):
        run(files_of(environment(tmp_path), not is_bounded, uid))


class Alarm(One):
    """Registers a timer."""

    def process_element(self, value, ctx):
        """Of processing time."""
        ctx.timer_service().register_processing_time_timer(1)


@pytest.mark.parametrize(("before", "after"), [(One, Alarm), (Alarm, One)])
def test_timers_of_another_time_are_refused(tmp_path, before, after):
    """Spark would refuse them when the query runs, and names nothing of the program."""
    run(keyed(environment(tmp_path), before, uid="one"))

    with pytest.raises(HostError, match=r"woken by (event|processing) time and were by (event|p)"):
        run(keyed(environment(tmp_path), after, uid="one"))


def test_what_keeps_nothing_may_change(tmp_path):
    """Functions without state and sinks."""
    run(keyed(environment(tmp_path)))
    env = environment(tmp_path)
    pairs = env.from_collection([("a", n) for n in range(3)]).map(tuple).filter(bool)
    sums = pairs.key_by(first, Types.STRING()).process(One())
    sums.map(str).print()
    sums.print()

    run(job_of(env))


def test_a_uid_says_that_it_is_the_same_operator(tmp_path):
    """Its class may be called otherwise then."""
    run(keyed(environment(tmp_path)))

    run(keyed(environment(tmp_path), Two, uid="Keyed-1"))


def files(env, path, uid):
    """A job that looks for files."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path))
    strategy = WatermarkStrategy.no_watermarks()
    stream = env.from_source(source.monitor_continuously(10).build(), strategy, "files")
    if uid:
        stream.uid(uid)
    stream.print()
    return job_of(env)


def test_a_uid_says_that_it_is_the_same_source(tmp_path):
    """Its folder may be another one then; without a uid it may not."""
    run(files(environment(tmp_path / "with"), "a", "in"))
    run(files(environment(tmp_path / "with"), "b", "in"))

    run(files(environment(tmp_path / "without"), "a", None))
    with pytest.raises(HostError, match=r"the files of .*/b .* where there was the files of .*/a"):
        run(files(environment(tmp_path / "without"), "b", None))


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

    with pytest.raises(HostError, match="a job runs once at a time, got a second run of"):
        JobFolder(keyed(environment(tmp_path)).settings)
    held.leave(is_over=False)
    run(keyed(environment(tmp_path)))


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

    with pytest.raises(CorruptStateError, match=r"with a checkpoint and without job.json"):
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

    with pytest.raises(HostError, match="where no job was"):
        run(keyed(environment(tmp_path, **{key: str(own.path)})))
    with pytest.raises(HostError, match="another place than the job's folder"):
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
