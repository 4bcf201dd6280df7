# SPDX-License-Identifier: Apache-2.0
"""Scripts of several modules on Spark, started from another folder, as PyFlink's users have them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest
from surroundings import REPOSITORY

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

FILES = {
    "job.py": """
import sys
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

sys.path[:0] = sys.argv[1:]
from myutil import Doubled
from parts.sums import Sums, first

env = StreamExecutionEnvironment.get_execution_environment()
for path in sys.argv[1:]:
    env.add_python_file(path)
pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).map(Doubled())
sums = pairs.key_by(first).process(Sums())
sums.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).print()
env.execute("of modules")
""",
    "myutil.py": """
import os
from pyflink.datastream.functions import MapFunction

class Doubled(MapFunction):
    def map(self, value):
        if value[1] == 3 and os.environ.get("FAILS"):
            raise ValueError("not yet")
        return value[0], value[1] * 2
""",
    "parts/__init__.py": "",
    "parts/names.py": "from pyflink.common import Types\nSTATE = 'sum'\n",
    "parts/sums.py": """
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor
from .names import STATE

def first(value):
    return value[0]

class Sums(KeyedProcessFunction):
    def open(self, ctx):
        self.sum = ctx.get_state(ValueStateDescriptor(STATE, Types.LONG()))

    def process_element(self, value, ctx):
        from pyflink.datastream import OutputTag
        self.sum.update((self.sum.value() or 0) + value[1])
        yield value[0], self.sum.value()
""",
}
SUMS = ["a 2", "a 8", "b 4"]


@pytest.fixture
def project(tmp_path):
    """A script beside its modules, none of which is in the working directory."""
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "project"


def run(script, *arguments, settings=(), **environment):
    """The elements that a script prints, and what it says."""
    given = [each for setting in settings for each in ("-D", setting)]
    command = [sys.executable, "-m", "pyflinklike.run", "--target", "spark", *given]
    done = subprocess.run(
        [*command, *map(str, [script, *arguments])],
        cwd="/",
        env={
            **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
            "PYTHONPATH": str(REPOSITORY),
            "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false "
            "--conf spark.sql.shuffle.partitions=2 pyspark-shell",
            **environment,
        },
        text=True,
        capture_output=True,
        check=False,
    )
    lines = [line.rpartition("> ")[2] for line in done.stdout.splitlines()]
    return sorted(line for line in lines if line[1:2] == " " and line[:1] in "ab"), done.stderr


@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_a_script_finds_the_modules_beside_it(project, mode):
    """Each of them begins with an import of PyFlink, and one is a package."""
    found, said = run(project / "job.py", settings=[f"execution.runtime-mode={mode}"])
    assert SUMS == found, said


def test_a_script_of_modules_goes_on_after_a_failure(project):
    """With the state that a function of its package has kept."""
    settings = [
        f"execution.checkpointing.dir={project.parent / 'checkpoints'}",
        "pyflinklike.source.records-per-batch=1",
    ]
    before, said = run(project / "job.py", settings=settings, FAILS="1")
    assert "Doubled.map failed for element ('a', 3)" in said
    after, said = run(project / "job.py", settings=settings)
    assert (["a 2", "b 4"], ["a 8"]) == (before, after), said


def test_the_modules_of_an_archive_are_found(project):
    """Given by add_python_file, and nowhere else."""
    archive = project.parent / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in FILES:
            if name != "job.py":
                file.write(project / name, name)
                (project / name).unlink()
    found, said = run(project / "job.py", archive, settings=["execution.runtime-mode=BATCH"])
    assert SUMS == found, said


def test_the_modules_of_a_folder_are_found(project):
    """Which add_python_file takes, too, and Spark does not."""
    script = (project / "job.py").rename(project.parent / "job.py")
    found, said = run(script, project, settings=["execution.runtime-mode=BATCH"])
    assert SUMS == found, said
