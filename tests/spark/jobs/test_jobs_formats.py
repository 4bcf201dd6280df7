# SPDX-License-Identifier: Apache-2.0
"""Files of rows and a database as ends of jobs on Spark, in both modes and over restarts."""

from __future__ import annotations

import sqlite3
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_jobs import on_spark

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink.common import DataTypes, Duration, Row, WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors import (
    BucketAssigner,
    FileSink,
    FileSource,
    HybridSource,
)
from pyflinklike.pyflink.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from pyflinklike.pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from pyflinklike.pyflink.datastream.formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
pytestmark = pytest.mark.usefixtures("shipped_module")

NONE = WatermarkStrategy.no_watermarks()
ROWS = DataTypes.ROW(
    [DataTypes.FIELD("name", DataTypes.STRING()), DataTypes.FIELD("n", DataTypes.BIGINT())]
)
PARQUET = ParquetColumnarRowInputFormat(ROWS)
CSV = CsvSchema.builder().add_string_column("name").add_number_column("n").build()


def add(folder, name, rows):
    """A file of Parquet, which is seen when it is whole."""
    folder.mkdir(exist_ok=True)
    names, numbers = zip(*rows)
    columns = {"name": pa.array(names, pa.string()), "n": pa.array(numbers, pa.int64())}
    pq.write_table(pa.table(columns), folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def sink_to(folder, factory):
    """A sink of files."""
    builder = FileSink.for_bulk_format(str(folder), factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def rows_in(folder):
    """The rows of the files that can be seen; none is hidden in the end."""
    paths = [path for path in folder.glob("*") if not path.name.startswith(".")]
    tables = [pq.read_table(path).to_pylist() for path in paths]
    return sorted(((row["name"], row["n"]) for table in tables for row in table), key=str)


@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_rows_go_from_files_to_files_and_a_database(tmp_path, mode):
    """Parquet and then CSV by a keyed sum to Parquet, CSV and SQLite; tasks write all three."""
    add(tmp_path / "in", "a", [("x", 1), ("x", 10), ("y", 2), (None, 3)])
    add(tmp_path / "in", "b", [("w", 5)])
    (tmp_path / "then.csv").write_text("y,20\nz,30\n", encoding="utf-8")
    database = tmp_path / "sums.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table sums (name text primary key, n integer)")
    env = on_spark(**{"execution.runtime-mode": mode})
    files = FileSource.for_bulk_file_format(PARQUET, str(tmp_path / "in")).build()
    lines = CsvReaderFormat.for_schema(CSV)
    then = FileSource.for_record_stream_format(lines, str(tmp_path / "then.csv")).build()
    source = HybridSource.builder(files).add_source(then).build()
    named = env.from_source(source, NONE, "rows").filter(lambda row: row["name"] is not None)
    sums = named.key_by(lambda row: row["name"]).reduce(lambda a, b: Row(name=a.name, n=a.n + b.n))
    sums.sink_to(sink_to(tmp_path / "out", ParquetBulkWriters.for_row_type(ROWS)))
    sums.sink_to(sink_to(tmp_path / "lines", CsvBulkWriters.for_schema(CSV)))
    url = f"jdbc:sqlite:{database}"
    upsert = (
        "insert into sums values (?, ?) on conflict (name) do update set n = max(n, excluded.n)"
    )
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()
    sums.add_sink(JdbcSink.sink(upsert, ROWS.type_info, options))

    env.execute()

    last = [("w", 5), ("x", 11), ("y", 22), ("z", 30)]
    given = last if mode == "BATCH" else sorted([*last, ("x", 1), ("y", 2)])
    assert given == rows_in(tmp_path / "out")
    texts = "".join(path.read_text() for path in (tmp_path / "lines").glob("[!.]*"))
    assert given == sorted((line.split(",")[0], int(line.split(",")[1])) for line in texts.split())
    assert last == sqlite3.connect(database).execute("select * from sums order by 1").fetchall()
    assert [] == list(tmp_path.rglob(".*inprogress*"))


def started(folder, source):
    """A job that never ends, in the background."""
    env = on_spark(**{"execution.checkpointing.dir": str(folder / "checkpoints")})
    rows = env.from_source(source.monitor_continuously(Duration.of_millis(20)).build(), NONE, "in")
    doubled = rows.map(lambda row: Row(name=row.name, n=row.n * 2), ROWS.type_info)
    doubled.sink_to(sink_to(folder / "out", ParquetBulkWriters.for_row_type(ROWS)))
    return env.execute_async("rows")


def until(folder, count):
    """Wait for so many rows."""
    while len(rows_in(folder / "out")) < count:
        Event().wait(0.05)


def test_a_job_over_files_of_parquet_goes_on(tmp_path):
    """Each row comes once; with another format for its source it is refused by name."""
    folder = str(tmp_path / "in")
    parquet = FileSource.for_bulk_file_format(PARQUET, folder)
    add(tmp_path / "in", "a", [("x", 1), (None, 2)])
    job = started(tmp_path, parquet)
    until(tmp_path, 2)
    job.cancel().result()
    add(tmp_path / "in", "b", [("y", 3)])
    job = started(tmp_path, FileSource.for_bulk_file_format(PARQUET, folder))
    until(tmp_path, 3)
    job.cancel().result()

    assert [("x", 2), ("y", 6), (None, 4)] == rows_in(tmp_path / "out")
    other = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(CSV), folder)
    with pytest.raises(SparkSetupError, match="as Parquet"):
        started(tmp_path, other)
