# SPDX-License-Identifier: Apache-2.0
"""Folders of jobs that begin with a savepoint, and the positions of sources that a folder tells."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkpoint_support import Checkpoint, Times
from job_folder_support import FACTS, environment, job_of, run
from job_savepoint_support import stopped_after
from local_support import local

from pyflinklike._changelog.log_storage import HEAD_AT
from pyflinklike._changelog.operator_record import (
    RECORD_AT,
    REGISTRY_AT,
    KeyGroupRegistry,
    OperatorRecord,
)
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, SparkSetupError
from pyflinklike.pyflink._graph.job_savepoint import begin_with, find_parts_left
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._graph.sources import NumberSequenceSource
from pyflinklike.pyflink._spark.job_folder import JobFolder
from pyflinklike.pyflink._spark.job_plan import JobSteps, _JobKeys
from pyflinklike.pyflink._spark.job_session import backend_of
from pyflinklike.pyflink._spark.results import Ledger
from pyflinklike.pyflink._spark.stream_sources import StreamSource
from pyflinklike.pyflink.common import Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction
from pyflinklike.pyflink.datastream.connectors import (
    DataGeneratorSource,
    RateLimiterStrategy,
)
from pyflinklike.pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflinklike.pyflink.datastream.state import ValueStateDescriptor
from pyflinklike.spark._wire.key_groups import group_ids, registry_key_of, registry_payload
from pyflinklike.state_processor import open_savepoint
from pyflinklike.state_processor._checkpoints.job_at_rest import job_at
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.types import Types as EngineTypes
from pyflinklike.types.frozen_keys import key_group_of

RECOVERY = "execution.state-recovery.path"
V1 = 'v1\n{"batchTimestampMs":1}'


class Total(KeyedProcessFunction):
    """A running total of each key."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()


PAIRS = [("a", 1), ("b", 10), ("a", 2), ("b", 20), ("a", 4)]


def totals(env, key_type=None):
    """The totals of the pairs."""
    keyed = env.from_collection(PAIRS).key_by(lambda pair: pair[0], key_type or Types.STRING())
    return keyed.process(Total()).uid("totals")


def job(directory, **settings):
    """Such a job, with a directory of checkpoints."""
    env = environment(directory, **settings)
    totals(env).print()
    return job_of(env)


@pytest.fixture
def savepoint(tmp_path):
    """One that a job in this process has left."""
    stopped_after(totals, 2, tmp_path / "savepoint")
    return tmp_path / "savepoint"


# Who begins with it


def savepoint_of(directory, **settings):
    """The path of the savepoint with which a run would begin; None if it goes on without one."""
    folder = JobFolder(job(directory, **settings).settings)
    folder.leave(is_over=False)
    return None if folder.savepoint is None else folder.savepoint.location.address


def test_a_job_begins_with_a_savepoint_once(tmp_path, savepoint):
    """Though its path stays in the settings, and though it is gone then."""
    named = {RECOVERY: str(savepoint)}
    before = savepoint_of(tmp_path / "jobs", **named)
    run(job(tmp_path / "jobs", **named), commits=False)
    begun = savepoint_of(tmp_path / "jobs", **named)
    run(job(tmp_path / "jobs", **named))
    after = savepoint_of(tmp_path / "jobs", **named)
    shutil.rmtree(savepoint)

    assert [str(savepoint), str(savepoint), None] == [before, begun, after]
    assert savepoint_of(tmp_path / "jobs", **named) is None
    assert savepoint_of(tmp_path / "jobs") is None


def test_a_savepoint_stays_until_the_first_micro_batch_is_committed(tmp_path, savepoint):
    """Also for a program that names it no more; the job would begin with nothing."""
    folder = run(job(tmp_path / "jobs", **{RECOVERY: str(savepoint)}), commits=False)
    assert str(savepoint) == savepoint_of(tmp_path / "jobs")
    run(job(tmp_path / "jobs"))
    # The sinks have written, and Spark has not committed: it adds the state once more.
    shutil.rmtree(folder.checkpoint / "commits")
    assert str(savepoint) == savepoint_of(tmp_path / "jobs")

    shutil.rmtree(savepoint)
    with pytest.raises(CorruptStateError, match=r"a savepoint has a _manifest\.json"):
        savepoint_of(tmp_path / "jobs")


def test_a_job_that_has_begun_takes_no_other_savepoint(tmp_path, savepoint):
    """Neither one beside it, nor one in its place, nor any if it has begun without."""
    stopped_after(totals, 3, tmp_path / "other")
    run(job(tmp_path / "jobs", **{RECOVERY: str(savepoint)}))
    told = (
        "a job begins with a savepoint once, got '.*other' for one that has begun with the one of"
    )
    with pytest.raises(SparkSetupError, match=told):
        savepoint_of(tmp_path / "jobs", **{RECOVERY: str(tmp_path / "other")})
    shutil.rmtree(savepoint)
    shutil.move(tmp_path / "other", savepoint)
    with pytest.raises(SparkSetupError, match="a job begins with a savepoint once"):
        savepoint_of(tmp_path / "jobs", **{RECOVERY: str(savepoint)})
    run(job(tmp_path / "without"))
    with pytest.raises(SparkSetupError, match="for one that has begun without one"):
        savepoint_of(tmp_path / "without", **{RECOVERY: str(savepoint)})


def test_a_savepoint_may_be_moved_while_the_job_runs(tmp_path, savepoint):
    """It is the same one by what is in it."""
    run(job(tmp_path / "jobs", **{RECOVERY: str(savepoint)}))
    shutil.move(savepoint, tmp_path / "moved")

    assert savepoint_of(tmp_path / "jobs", **{RECOVERY: str(tmp_path / "moved")}) is None


def test_an_address_is_a_path(tmp_path, savepoint):
    """With `file:`."""
    assert savepoint_of(tmp_path / "jobs", **{RECOVERY: savepoint.as_uri()}) == savepoint.as_uri()


def test_a_damaged_savepoint_begins_nothing(tmp_path, savepoint):
    """Its manifest has a checksum."""
    manifest = savepoint / "_manifest.json"
    manifest.write_text(manifest.read_text().replace('"totals"', '"titles"'))

    with pytest.raises(CorruptStateError, match="must be the JSON object that was written"):
        savepoint_of(tmp_path / "jobs", **{RECOVERY: str(savepoint)})


def test_a_source_goes_on_at_its_position_on_another_host(tmp_path, savepoint):
    """It has the elements that the job in this process has not read."""
    planned = job(tmp_path / "jobs", **{RECOVERY: str(savepoint)})
    beginning = begin_with(open_savepoint(savepoint), planned.graph, planned.settings)
    (node,) = planned.graph.of_kind(FromSource)
    (position,) = beginning.positions.values()

    assert PAIRS[2:] == [
        value for part in find_parts_left(node.source, position) for value, _ in part
    ]


def test_keys_go_to_the_groups_of_their_elements(savepoint):
    """By the bytes of their frozen form, as the stage before sends elements."""
    saved = open_savepoint(savepoint)
    columns = KeyColumns.of(saved.manifest.operator("totals", "test").record)
    batches = saved.dataset("total").to_table().to_batches()
    (found,) = _JobKeys(columns, 7)._add_groups(batches)

    expected = [key_group_of(key, 7) for key in found.column("key").to_pylist()]
    assert expected == found.column(found.num_columns - 1).to_pylist()
    assert EngineTypes.STRING().signature == columns.signature


def two_totals(env):
    """Two operators beside each other, which share a state operator of Spark."""
    keyed = env.from_collection(PAIRS).key_by(lambda pair: pair[0], Types.STRING())
    return keyed.process(Total()).uid("one").union(keyed.process(Total()).uid("other"))


def test_operators_that_share_a_state_operator_begin_each_with_its_own(tmp_path):
    """Their key groups and registries are told apart by their numbers."""
    stopped_after(two_totals, 2, tmp_path / "savepoint")
    env = environment(tmp_path / "jobs")
    two_totals(env).print()
    planned, saved = job_of(env), open_savepoint(tmp_path / "savepoint")
    steps = JobSteps(planned, FACTS, backend_of(planned))
    plans = tuple(steps.operators(*steps.stages))
    initial, called = {}, {}
    for place, uid in enumerate(["one", "other"]):
        groups = regroup_snapshot(
            saved.segment(uid),
            Types.STRING(),
            lambda keys: [key_group_of(key, 16) for key in keys],
            16,
            "test",
            by_frozen_key=True,
        )
        ids = group_ids(16, place)
        rows = [(ids[group], each.to_bytes()) for group, some in groups.items() for each in some]
        called[place] = {ids[group] for group in groups}
        for key, payload in [(registry_key_of(place), registry_payload(groups)), *rows]:
            initial.setdefault(key, []).append(payload)
    checkpoint = Checkpoint()
    checkpoint.serve(plans, plans[0].time_mode, Times(1), {}, initial)

    blobs = checkpoint.blobs
    assert {*called[0], *called[1], registry_key_of(0), registry_key_of(1)} == set(blobs)
    for place, uid in enumerate(["one", "other"]):
        of_roll = blobs[registry_key_of(place)]
        assert uid == OperatorRecord.from_bytes(of_roll[RECORD_AT], "test").identity.name
        groups = KeyGroupRegistry.from_bytes(of_roll[REGISTRY_AT], "test").served_at
        assert called[place] == {group_ids(16, place)[each] for each in groups}
        assert all(HEAD_AT in blobs[each] for each in called[place])


# How far its sources were read


class Folder:
    """The folder of a job with one source, as Spark leaves it after some micro-batches.

    Args:
        path: Of the folder.
        program: Declares the source, given an environment, and gives its stream.
        position: Where the source goes on.
        settings: Of the job.
    """

    def __init__(self, path, program, position=None, **settings):
        env = environment(path, **settings)
        program(env).print()
        self.job = job_of(env)
        self.folder = run(self.job, commits=False)
        (node,) = self.job.graph.of_kind(FromSource)
        folder = self.folder.source(0)
        self.source = StreamSource(node, self.job.settings_of(node), folder, position)
        self.node = node

    def read(self, *batches, compacted=False):
        """Have Spark read some files in each micro-batch, by their numbers."""
        log = self.folder.checkpoint / "sources" / "0"
        log.mkdir(parents=True, exist_ok=True)
        entries = []
        for batch, files in enumerate(batches):
            entries += [
                json.dumps(
                    {"path": f"file:///x/{each:010}.parquet", "timestamp": 1, "batchId": batch}
                )
                for each in files
            ]
            name = f"{batch}.compact" if compacted and batch == len(batches) - 1 else str(batch)
            mine = entries if name != str(batch) else entries[len(entries) - len(files) :]
            (log / name).write_text("\n".join(["v1", *mine]) + "\n")
        return self

    def position(self, offset):
        """The position after a micro-batch, or why there is none."""
        found = job_at(str(self.folder.path))
        line = "-" if offset is None else json.dumps({"logOffset": offset})
        (source,) = found.describe(f"{V1}\n{line}").sources
        return source.reason if source.position is None else source.position

    def left(self, position):
        """The elements behind a position."""
        return [value for part in find_parts_left(self.node.source, position) for value, _ in part]


BY_TWO = {"pyflinklike.source.records-per-batch": "2"}


@pytest.mark.parametrize("compacted", [False, True])
def test_elements_that_were_read_are_counted(tmp_path, compacted):
    """By the files that Spark has read in the micro-batches until then."""
    folder = Folder(tmp_path, totals, **BY_TWO).read([0], [1], [2, 3], compacted=compacted)

    positions = [folder.position(offset) for offset in (None, 0, 1, 2)]
    assert [PAIRS, PAIRS[2:], PAIRS[4:], []] == [folder.left(each) for each in positions]


def test_positions_add_up(tmp_path):
    """A job that went on from a savepoint leaves one, too."""
    begun = {"splits": 2, "read": [7, 5], "first": 1}

    def numbers(env):
        return env.from_source(
            NumberSequenceSource(1, 20), WatermarkStrategy.no_watermarks(), "numbers"
        )

    folder = Folder(tmp_path / "1", numbers, begun, **BY_TWO).read([0])

    position = folder.position(0)
    assert [9, 10, *range(16, 21)] == folder.left(begun)
    assert [*range(16, 21)] == folder.left(position)
    again = Folder(tmp_path / "2", numbers, position).read([0])
    assert [] == again.left(again.position(0))


def files(folder):
    """A program of files that are looked for."""

    def program(env):
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        found = source.monitor_continuously(10).build()
        return env.from_source(found, WatermarkStrategy.no_watermarks(), "files")

    return program


def test_files_that_were_found_and_not_read_are_found_again(tmp_path):
    """And those that were read are not, neither by the next job nor after it."""
    into = tmp_path / "in"
    into.mkdir()
    (into / "a").touch()
    folder = Folder(tmp_path / "1", files(into))
    folder.source.look(0)
    (into / "b").touch()
    folder.source.look(10)
    position = folder.read([0], [1]).position(0)
    assert {"found": [str(into / "a")]} == position

    after = Folder(tmp_path / "2", files(into), position)
    after.source.look(0)
    assert [[None], [str(into / "b")]] == parts(after)
    (into / "c").touch()
    # Another run of the same job.
    again = StreamSource(after.node, after.job.settings_of(after.node), after.folder.source(0))
    again.look(0)
    assert [[None], [str(into / "b")], [None], [str(into / "c")]] == parts(after)
    found = after.read([0], [1], [2], [3]).position(3)["found"]
    assert [str(into / name) for name in "abc"] == found


def parts(folder):
    """The names of splits in each file of a source."""
    paths = sorted(folder.folder.source(0).glob("[0-9]*.parquet"))
    return [pq.read_table(path).column("part").to_pylist() for path in paths]


def test_files_that_end_are_left_by_their_names(tmp_path):
    """As the job has listed them when it began."""
    into = tmp_path / "in"
    into.mkdir()
    for name in ("a", "b"):
        (into / name).write_text(f"{name}\n")

    def program(env):
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(into))
        return env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "files")

    folder = Folder(tmp_path / "1", program)
    (into / "c").write_text("c\n")

    assert ["a", "b"] == folder.left(folder.position(None))
    assert [] == folder.left(folder.read([0]).position(0))
    middle = {"left": [[str(into / "b"), 1], [str(into / "a"), 0]]}
    after = Folder(tmp_path / "2", program, middle)
    assert ["a"] == after.left(after.position(None))
    assert [] == after.left(after.read([0]).position(0))


def test_a_stream_of_sparks_has_the_offset_of_its_note(tmp_path):
    """Which only the source understands."""
    folder = Folder(tmp_path, totals)
    (folder.folder.source(0) / "_beginning.json").touch()
    found = job_at(str(folder.folder.path))

    (source,) = found.describe(V1 + '\n{"topic":{"0":5}}').sources
    assert {"offset": '{"topic":{"0":5}}'} == source.position


def test_notes_of_another_form_give_no_position(tmp_path):
    """Nothing is guessed."""
    folder = Folder(tmp_path, totals)
    found = job_at(str(folder.folder.path))

    reasons = [found.describe(text).sources[0].reason for text in ("v2\n{}\n{}", V1)]
    assert ["Spark's checkpoint notes offsets in an unknown form"] * 2 == reasons


def test_rows_that_spark_has_read_must_be_there(tmp_path):
    """Else the position would be another one."""
    folder = Folder(tmp_path, totals, **BY_TWO).read([0], [1])
    (folder.folder.source(0) / "0000000001.parquet").unlink()

    with pytest.raises(CorruptStateError, match=r"without the files \[1\]"):
        folder.position(1)


def test_a_job_is_found_by_its_folder_and_by_its_checkpoint(tmp_path):
    """Also by an address; anything else is no job."""
    folder = run(job(tmp_path))
    path = folder.path

    found = [job_at(each) for each in (str(path), str(path / "checkpoint"), path.as_uri())]
    assert [path] * 3 == [each.path for each in found]
    assert [None] * 3 == [
        job_at(each) for each in (str(tmp_path), "s3://bucket/job", str(path / "x"))
    ]
    assert not found[0].is_running()


@pytest.mark.parametrize("name", ["query", "checkpoint"])
def test_a_file_of_somebody_else_makes_no_job_of_a_checkpoint(tmp_path, name):
    """Such as a job.json beside it."""
    (tmp_path / name / "sources").mkdir(parents=True)
    (tmp_path / "job.json").write_text("[]")

    assert job_at(str(tmp_path / name)) is None


def test_a_source_that_spark_reads_as_two_has_no_position(tmp_path):
    """The lines of Spark's note are not those of the job's sources: a job that begins with it is refused."""
    folder = Folder(tmp_path, totals, **BY_TWO).read([0])

    (source,) = job_at(str(folder.folder.path)).describe(f"{V1}\n-\n-").sources
    assert (source.position, "more offsets" in source.reason) == (None, True)


def test_sinks_may_be_ahead_of_a_savepoint(tmp_path):
    """Where a driver was killed between the note of the sinks and Spark's commit."""
    folder = run(job(tmp_path))
    found = job_at(str(folder.path))
    before = found.is_ahead_of(found.last_commit)
    Ledger(folder.path / "outputs.json").note(1, [])
    held = JobFolder(job(tmp_path).settings)
    running = found.is_running()
    held.leave(is_over=False)

    assert [False, True] == [before, found.is_ahead_of(found.last_commit)]
    assert [True, False] == [running, found.is_running()]


def test_a_job_without_a_commit_has_no_savepoint(tmp_path):
    """Its sources are at their beginning."""
    folder = run(job(tmp_path), commits=False)

    with pytest.raises(
        SparkSetupError, match=r"has committed no micro-batch yet; wait for its first one"
    ):
        _ = job_at(str(folder.path)).last_commit


def test_a_generator_without_an_end_goes_nowhere(tmp_path):
    """Spark counts its numbers from 0 again."""

    def program(env):
        source = DataGeneratorSource(str, rate_limiter_strategy=RateLimiterStrategy.per_second(5))
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")

    with pytest.raises(SparkSetupError, match="cannot go on from a savepoint"):
        Folder(tmp_path, program, {"offset": "5"})


def test_a_position_of_another_kind_of_source_is_refused(tmp_path, savepoint):
    """Also under one uid."""
    env = local(execution__runtime_mode="STREAMING")
    numbers = env.from_source(
        NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "numbers"
    )
    numbers.uid("source").print()
    (node,) = env._program.graph().of_kind(FromSource)
    stopped_after(lambda each: totals_of(each, "source"), 2, tmp_path / "named")
    settings = env._program._settings(env._program.graph(), None)

    with pytest.raises(IncompatibleStateError, match="got a NumberSequenceSource for the position"):
        begin_with(open_savepoint(tmp_path / "named"), env._program.graph(), settings)
    assert node.uid == "source"


def totals_of(env, uid):
    """Totals whose source has a uid."""
    pairs = env.from_collection(PAIRS)
    pairs.uid(uid)
    return pairs.key_by(lambda pair: pair[0], Types.STRING()).process(Total()).uid("totals")


def test_groups_of_keys_keep_the_rows(savepoint):
    """A column comes behind the others."""
    saved = open_savepoint(savepoint)
    columns = KeyColumns.of(saved.manifest.operator("totals", "test").record)
    (batch,) = saved.dataset("total").to_table().to_batches()
    (found,) = _JobKeys(columns, 7)._add_groups([batch])

    assert batch == found.select(batch.schema.names)
    assert pa.int32() == found.schema.field(found.num_columns - 1).type
