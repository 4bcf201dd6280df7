# SPDX-License-Identifier: Apache-2.0
"""A driver whose environment is not activated: `python3` on the PATH is a Python without packages."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import venv

import pytest
from surroundings import REPOSITORY

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

JOB = """
    from pyflink.common import Types
    from pyflink.datastream import StreamExecutionEnvironment

    def added(one, other):
        return one[0], one[1] + other[1]

    env = StreamExecutionEnvironment.get_execution_environment()
    pairs = env.from_collection([("a", 1), ("b", 5)]).union(env.from_collection([("a", 2)]))
    sums = pairs.key_by(lambda pair: pair[0]).reduce(added)
    sums.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).print()
    env.execute()
"""
FRAMES = """
    from pyspark.sql import SparkSession
    from pyflinklike import KeyedProcessFunction, ValueStateDescriptor, Types
    from pyflinklike.spark import key_by

    class Count(KeyedProcessFunction):
        def open(self, context):
            self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield value.id % 2, self.count.value()

    def counts(rows):
        keyed = key_by(rows.selectExpr("id", "id % 2 as key"), "key")
        return keyed.process(Count(), output_type="key long, count long")

    spark = SparkSession.builder.getOrCreate()
    spark.range(5).write.parquet("rows")
    print(max(row["count"] for row in counts(spark.read.parquet("rows")).collect()))
    stream = counts(spark.readStream.schema("id long").parquet("rows"))
    writing = stream.writeStream.format("memory").queryName("counts").outputMode("update")
    query = writing.option("checkpointLocation", "here").trigger(availableNow=True).start()
    query.awaitTermination()
    print(spark.sql("select max(count) from counts").first()[0])
"""
READS = """
    from pyspark.sql import SparkSession
    from pyflinklike import KeyedProcessFunction
    from pyflinklike.state_processor import write_savepoint, read_timers
    from pyflinklike.testing import KeyedProcessHarness

    class Waiting(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(5)
            return []

    with KeyedProcessHarness(Waiting(), lambda value: value) as harness:
        harness.process_element("a")
        write_savepoint(harness, "saved")
    spark = SparkSession.builder.getOrCreate()
    print(read_timers(spark, "saved").first().timestamp)
"""


def run(program, tmp_path, *options, **variables):
    """What a program prints where PySpark's `python3` has no packages."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    alien = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "SPARK_HOME"}
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(program), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *options, str(script)],
        env={
            **{name: value for name, value in os.environ.items() if name not in alien},
            "PATH": f"{tmp_path / 'bare' / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            **variables,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false "
            "--conf spark.sql.shuffle.partitions=2 "
            "--conf spark.sql.streaming.multipleWatermarkPolicy=min pyspark-shell",
        },
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
        timeout=200,
    )
    return done.stdout, done.stderr


def test_a_job_runs_with_the_python_of_its_driver(tmp_path):
    """Its workers, and what reads its two sources."""
    options = ["-m", "pyflinklike.run", "--target", "spark"]
    told, said = run(JOB, tmp_path, *options)
    ends = {line.rpartition("> ")[2] for line in told.splitlines()}
    assert {"a 1", "a 3", "b 5"} == ends or {"a 2", "a 3", "b 5"} == ends, said


def test_a_session_of_the_user_runs_functions_with_the_python_of_its_driver(tmp_path):
    """A batch, and a stream, which has a worker on the driver, too."""
    told, said = run(FRAMES, tmp_path)
    assert ["3", "3"] == told.split(), said


def test_what_is_read_of_state_runs_with_the_python_of_its_driver(tmp_path):
    """Also where nothing of the session's functions ran before."""
    told, said = run(READS, tmp_path)
    assert ["5"] == told.split(), said


def test_another_python_that_was_named_is_refused_with_what_to_do(tmp_path):
    """A batch fails before Spark runs anything, and not in its words."""
    bare = tmp_path / "bare" / "bin" / "python3"
    told, said = run(FRAMES, tmp_path, PYSPARK_PYTHON=str(bare))
    assert "" == told
    assert said.rstrip().endswith(
        f"SparkSetupError: the workers need pyarrow, got a Python without it, {str(bare)!r}; before the "
        "session begins, unset PYSPARK_PYTHON and spark.pyspark.python, or set "
        f'os.environ["PYSPARK_PYTHON"] = sys.executable, which is {sys.executable!r} here'
    )


def test_an_empty_name_is_none(tmp_path):
    """As a shell leaves it where it exports a variable that is not set."""
    told, said = run(READS, tmp_path, PYSPARK_PYTHON="")
    assert ["5"] == told.split(), said
