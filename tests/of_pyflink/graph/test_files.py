# SPDX-License-Identifier: Apache-2.0
"""Files as sources and sinks, on the local runner."""

from __future__ import annotations

import bz2
import gzip
import re
import zlib

import attrs
import pytest
from local_support import local

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.pyflink.common import Duration, Encoder, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)

NONE = WatermarkStrategy.no_watermarks()
TEXT = StreamFormat.text_line_format()
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def lines_of(*paths, charset="UTF-8", parallelism="1"):
    """What a job reads of some paths."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *paths)
    env = local(parallelism__default=parallelism)
    return list(env.from_source(source.build(), NONE, "files").execute_and_collect())


def sink_to(path, **settings):
    """A sink without folders for hours."""
    sink = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return attrs.evolve(sink.build(), **settings)


def test_a_file_gives_its_lines(tmp_path):
    """Without their ends, whichever these are; the last one may have none."""
    path = tmp_path / "lines"
    path.write_bytes("a\nb c\r\n\nü".encode())

    assert ["a", "b c", "", "ü"] == lines_of(str(path))
    assert ["a", "b c", "", "ü"] == lines_of(path.as_uri())


def test_a_folder_gives_the_lines_of_its_files(tmp_path):
    """Those in folders within it, too, but none that is hidden."""
    (tmp_path / "2023").mkdir()
    for name in ("b", "a", "2023/c", ".hidden", "_temporary"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")

    assert ["2023/c", "a", "b"] == lines_of(str(tmp_path))


def test_several_instances_share_the_files(tmp_path):
    """Each line comes once."""
    for number in range(5):
        (tmp_path / str(number)).write_text(f"{number}\n", encoding="utf-8")

    assert list("01234") == sorted(lines_of(str(tmp_path), parallelism="2"))


def test_a_file_that_comes_between_two_instances_moves_no_other(tmp_path):
    """Each finds its own by their names, so none is read twice or not at all."""
    for number in range(5):
        (tmp_path / str(number)).write_text(f"{number}\n", encoding="utf-8")
    source = FileSource.for_record_stream_format(TEXT, str(tmp_path)).build()
    first = [line for line, _ in source.read(0, 2)]
    (tmp_path / "00").write_text("new\n", encoding="utf-8")
    second = [line for line, _ in source.read(1, 2)]

    assert list("01234") == sorted(line for line in first + second if line != "new")


@pytest.mark.parametrize(
    ("ending", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("deflate", zlib.compress)],
)
def test_a_compressed_file_is_told_by_its_ending(tmp_path, ending, compress):
    """As in Flink."""
    path = tmp_path / f"lines.{ending}"
    path.write_bytes(compress(b"a\nb\n"))

    assert ["a", "b"] == lines_of(str(path))


def test_a_file_has_the_charset_that_is_said(tmp_path):
    """UTF-8 where none is."""
    path = tmp_path / "lines"
    path.write_bytes("ü\n".encode("latin-1"))

    assert ["ü"] == lines_of(str(path), charset="latin-1")


@pytest.mark.parametrize("path", ["/nowhere/at/all", "s3://bucket/lines"])
def test_a_path_that_is_not_there_fails_the_job(path):
    """Nothing is read in its place."""
    with pytest.raises(SparkSetupError, match=re.escape(path)):
        lines_of(path)


def test_new_files_are_looked_for_on_spark_only():
    """The local runner does not wait for any."""
    source = FileSource.for_record_stream_format(TEXT, "/tmp").monitor_continuously(
        Duration.of_seconds(1)
    )
    stream = local().from_source(source.build(), NONE, "files")

    with pytest.raises(SparkSetupError, match=r"execution\.target"):
        stream.execute_and_collect()


def test_wrong_arguments_are_refused():
    """Where they are given."""
    with pytest.raises(DeclarationTypeError):
        FileSource.for_record_stream_format("text", "/tmp")
    with pytest.raises(DeclarationValueError):
        FileSource.for_record_stream_format(TEXT)
    with pytest.raises(DeclarationTypeError):
        FileSink.for_row_format("/tmp", "text")


def test_a_sink_writes_a_line_for_each_element(tmp_path):
    """In the text that Java has for it, and what it wrote can be read."""
    env = local()
    env.from_collection([("a", 1), (None, 2)], PAIR).sink_to(sink_to(tmp_path / "out"))

    env.execute()

    assert ["(a,1)", "(null,2)"] == lines_of(str(tmp_path / "out"))


def test_files_are_called_as_the_program_says(tmp_path):
    """A file for each instance."""
    env = local(parallelism__default="2")
    config = OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".txt").build()
    env.from_collection([1, 2]).sink_to(sink_to(tmp_path, file_config=config))

    env.execute()

    names = [path.name for path in tmp_path.iterdir()]
    assert 2 == len(names)
    assert all(re.fullmatch(r"pre-[0-9a-f-]{36}-0\.txt", name) for name in names)


def test_a_file_that_is_large_enough_is_followed_by_another(tmp_path):
    """Each has its number."""
    env = local()
    policy = RollingPolicy.default_rolling_policy(part_size=4)
    env.from_collection(["ab", "cd", "ef"]).sink_to(sink_to(tmp_path, rolling_policy=policy))

    env.execute()

    contents = {path.name[-1]: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert {"0": "ab\ncd\n", "1": "ef\n"} == contents


def test_a_bucket_is_named_after_the_hour(tmp_path):
    """Of the processing time, in the time zone that is said."""
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "Asia/Tokyo")
    env = local()
    env.from_collection([1]).sink_to(sink_to(tmp_path, bucket_assigner=assigner, clock=_hour))

    env.execute()

    assert ["1970-01-01--10"] == [path.name for path in tmp_path.iterdir()]


def _hour():
    return 3_600_000


def test_a_job_that_fails_leaves_no_file(tmp_path):
    """Not even a hidden one."""
    env = local()
    env.from_collection([1, 0]).map(lambda n: 1 // n).sink_to(sink_to(tmp_path))

    with pytest.raises(Exception, match="ZeroDivision"):
        env.execute()

    assert [] == list(tmp_path.iterdir())
