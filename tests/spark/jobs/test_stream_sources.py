# SPDX-License-Identifier: Apache-2.0
"""Sources as the files that a stream reads: written once, also over restarts."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.job import JobSettings
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._graph.sources import HybridSource
from pyflinklike.pyflink._spark.stream_sources import StreamSource
from pyflinklike.pyflink.common import WatermarkStrategy
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors.file_system import FileSource, StreamFormat

INTERVAL = 100


def files_in(path):
    """The node of a source that looks for files."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path))
    return node_of(source.monitor_continuously(INTERVAL).build())


def node_of(source):
    """The node of a source."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "source")
    stream.print()
    (node,) = env._program.graph().of_kind(FromSource)
    return node


def collection(*elements):
    """The node of a collection."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(list(elements))
    stream.print()
    (node,) = env._program.graph().of_kind(FromSource)
    return node


def rows(folder):
    """What each file holds, in the order in which Spark reads them: parts, or None and whether it is the end."""
    paths = sorted(folder.glob("[0-9]*.parquet"), key=lambda path: path.stat().st_mtime)
    return [
        [
            os.path.basename(row["part"]) if row["part"] else row["is_last"]
            for row in pq.read_table(path).to_pylist()
        ]
        for path in paths
    ]


@pytest.fixture
def input_folder(tmp_path):
    """With two files and what is hidden."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    for name in ("b", "deep/a", ".hidden", "_hidden"):
        (folder / name).write_text("line\n")
    os.utime(folder / "b", (1, 1))
    return folder


def test_each_file_is_found_once(tmp_path, input_folder):
    """The older ones first, those in folders too."""
    source = StreamSource(files_in(input_folder), JobSettings(), tmp_path / "rows")
    source.look(0)
    source.look(INTERVAL)
    (input_folder / "c").touch()
    source.look(2 * INTERVAL)

    assert rows(tmp_path / "rows") == [["b", "a"], ["c"]]


def test_files_are_looked_for_when_it_is_time(tmp_path, input_folder):
    """Not before."""
    source = StreamSource(files_in(input_folder), JobSettings(), tmp_path / "rows")
    source.look(5)
    (input_folder / "c").touch()
    source.look(INTERVAL + 4)
    before = rows(tmp_path / "rows")
    source.look(INTERVAL + 5)

    assert ([["b", "a"]], [["b", "a"], ["c"]]) == (before, rows(tmp_path / "rows"))


def test_a_source_that_is_ahead_of_others_looks_for_nothing(tmp_path, input_folder):
    """Until it may go on, also over a restart."""
    source = StreamSource(files_in(input_folder), JobSettings(), tmp_path / "rows")
    source.hold(is_ahead=True)
    source.look(0)
    again = StreamSource(files_in(input_folder), JobSettings(), tmp_path / "rows")
    again.look(0)
    before = rows(tmp_path / "rows")
    again.hold(is_ahead=False)
    again.look(0)

    assert ([[False]], [[False], ["b", "a"]]) == (before, rows(tmp_path / "rows"))


def test_files_are_found_once_over_restarts(tmp_path, input_folder):
    """After one there is a row without elements, for timers that are due."""
    for _ in range(3):
        StreamSource(files_in(input_folder), JobSettings(), tmp_path / "rows").look(0)

    assert rows(tmp_path / "rows") == [["b", "a"], [False], [False]]


def test_a_file_that_is_half_written_at_a_kill_is_written_anew(tmp_path, input_folder):
    """It is hidden until it is whole."""
    StreamSource(files_in(input_folder), JobSettings(), tmp_path / "rows")
    (tmp_path / "rows" / ".0000000000.parquet").write_bytes(b"PAR1")
    source = StreamSource(files_in(input_folder), JobSettings(), tmp_path / "rows")
    source.look(0)

    assert rows(tmp_path / "rows") == [[False], ["b", "a"]]


def test_a_micro_batch_has_so_many_files(tmp_path, input_folder):
    """As the settings say."""
    settings = JobSettings(files_per_batch=1)
    StreamSource(files_in(input_folder), settings, tmp_path / "rows").look(0)

    assert rows(tmp_path / "rows") == [["b"], ["a"]]


def test_a_source_that_ends_reads_the_files_that_were_there(tmp_path, input_folder):
    """In the order of their names, each a part: tasks that list them would not all see the same."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(input_folder))
    for number in range(2):
        StreamSource(node_of(source.build()), JobSettings(), tmp_path / "rows")
        (input_folder / f"a{number}").touch()

    assert rows(tmp_path / "rows") == [["b", "a"], [True], [True]]


def test_a_folder_that_is_gone_is_an_error(tmp_path):
    """An empty one is none."""
    (tmp_path / "in").mkdir()
    source = StreamSource(files_in(tmp_path / "in"), JobSettings(), tmp_path / "rows")
    source.look(0)
    (tmp_path / "in").rmdir()

    with pytest.raises(SparkSetupError, match="reads files that exist"):
        source.look(INTERVAL)


def test_lines_of_a_part_are_those_of_its_file(input_folder):
    """And one that is gone is an error."""
    source = files_in(input_folder).source
    part = source.discover(())[0]
    lines = list(source.read_split(part))
    (input_folder / "b").unlink()

    assert lines == [("line", None)]
    with pytest.raises(FileNotFoundError):
        list(source.read_split(part))


def test_a_bounded_source_is_written_once_and_tells_its_end_again(tmp_path):
    """The timers of the end may not have fired when the driver was killed."""
    settings = JobSettings(records_per_batch=2)
    for _ in range(2):
        StreamSource(collection(1, 2, 3), settings, tmp_path / "rows")

    assert rows(tmp_path / "rows") == [[False], [False], [True], [True]]


def test_a_bounded_source_that_was_not_written_wholly_is_written_anew(tmp_path):
    """No stream has read it."""
    settings = JobSettings(records_per_batch=2)
    StreamSource(collection(1, 2, 3), settings, tmp_path / "rows")
    (tmp_path / "rows" / "_begun").unlink()
    (tmp_path / "rows" / "0000000001.parquet").unlink()
    StreamSource(collection(1, 2, 3), settings, tmp_path / "rows")

    assert rows(tmp_path / "rows") == [[False], [False], [True]]


def lines_of(path):
    """A source of the files that are there."""
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()


def names_of(rows_of_files):
    """The numbers of sources with the files of their splits."""
    return [
        [each if isinstance(each, bool) else each.rstrip('"]') for each in rows]
        for rows in rows_of_files
    ]


def test_sources_one_after_the_other_have_micro_batches_of_their_own(tmp_path, input_folder):
    """What was written is what is read, also after a restart in the middle."""
    (tmp_path / "then").write_text("line")
    node = node_of(
        HybridSource.builder(lines_of(input_folder)).add_source(lines_of(tmp_path / "then")).build()
    )

    StreamSource(node, JobSettings(), tmp_path / "source")
    (input_folder / "later").write_text("line")

    assert [["b", "a"], ["then"], [True]] == names_of(rows(tmp_path / "source"))
    StreamSource(node, JobSettings(), tmp_path / "source")
    assert [["b", "a"], ["then"], [True], [True]] == names_of(rows(tmp_path / "source"))


def test_files_that_are_looked_for_come_behind_the_sources_before(tmp_path, input_folder):
    """Each is found once, over restarts too."""
    first, new = tmp_path / "first", tmp_path / "new"
    first.write_text("line")
    new.mkdir()
    (new / "x").write_text("line")
    looking = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(new))
    source = HybridSource.builder(lines_of(first)).add_source(
        looking.monitor_continuously(INTERVAL).build()
    )
    node, folder = node_of(source.build()), tmp_path / "source"

    StreamSource(node, JobSettings(), folder).look(0)
    (new / "y").write_text("line")
    again = StreamSource(node, JobSettings(), folder)
    again.look(0)
    again.look(INTERVAL)

    assert [["first"], ["x"], [False], ["y"]] == names_of(rows(folder))
    assert ["line"] * 3 == [
        element
        for path in sorted(folder.glob("[0-9]*.parquet"))
        for row in pq.read_table(path).to_pylist()
        if row["part"]
        for element, _ in node.source.read_split(row["part"])
    ]


def test_a_source_of_sources_goes_on_with_what_a_savepoint_has_not_read(tmp_path, input_folder):
    """In each of its sources: also where a former one was not at its end."""
    new = tmp_path / "new"
    new.mkdir()
    (new / "x").write_text("line")
    looking = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(new))
    source = HybridSource.builder(lines_of(input_folder)).add_source(
        looking.monitor_continuously(INTERVAL).build()
    )
    node, folder = node_of(source.build()), tmp_path / "source"
    read = [node.source.splits()[0], *node.source.discover(())]
    (new / "y").write_text("line")

    StreamSource(node, JobSettings(), folder, {"found": read}).look(0)

    assert [["a"], [False], ["y"]] == names_of(rows(folder))
