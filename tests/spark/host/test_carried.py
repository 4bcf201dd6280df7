# SPDX-License-Identifier: Apache-2.0
"""What a worker unpickles of the user's, in processes of their own and without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest
from surroundings import REPOSITORY

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

UTIL = """
from pyflink.datastream.functions import MapFunction

class Doubled(MapFunction):
    def map(self, value):
        return value * 2
"""
SEND = """
import sys
from pathlib import Path
from pyflinklike.run import install
install()
sys.path.insert(0, sys.argv[1])
from myutil import Doubled
from pyspark import cloudpickle
from pyflinklike.spark._host.driver_pickle import PickledByDriver, in_worker
call = Doubled().map
def calls(value):
    yield call(value)
Path("function").write_bytes(cloudpickle.dumps(in_worker(calls)))
Path("object").write_bytes(cloudpickle.dumps(PickledByDriver(call)))
"""
OPEN = """
import pickle, sys
from pathlib import Path
found = pickle.loads(Path(sys.argv[1]).read_bytes())
print(found.value(21) if hasattr(found, "value") else next(found(21)))
"""


def python(program, *arguments, cwd, path=()):
    """What a Python with this library alone prints, and what it says on failure."""
    environment = {"PYTHONPATH": ":".join(map(str, [REPOSITORY, *path]))}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment, text=True, capture_output=True, check=False
    )
    return done.stdout.strip(), done.stderr


@pytest.fixture
def sent(tmp_path):
    """A folder with what a driver sent, whose modules are in another one."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "myutil.py").write_text(UTIL, encoding="utf-8")
    (tmp_path / "worker").mkdir()
    _, said = python(SEND, tmp_path / "modules", cwd=tmp_path / "worker")
    assert "" == said
    return tmp_path / "worker"


@pytest.mark.parametrize("kind", ["function", "object"])
def test_a_module_that_begins_with_pyflink_is_imported_in_a_worker(sent, kind):
    """The finder of the driver is there before it."""
    assert ("42", "") == python(OPEN, kind, cwd=sent, path=[sent.parent / "modules"])


def test_a_module_that_was_not_shipped_is_told_with_the_remedy(sent):
    """By its name, as the last line of what Spark shows."""
    _, said = python(OPEN, "function", cwd=sent)
    *_, last = [line for line in said.splitlines() if line.startswith("pyflinklike.errors.")]
    assert (
        "pyflinklike.errors.SparkSetupError: a worker needs all modules of the program, got none called "
        "'myutil'; ship its file, or a zip of its package: env.add_python_file(path) in a job, else "
        "spark.sparkContext.addPyFile(path), or --py-files of spark-submit "
        "(docs/how-to/run-on-a-cluster.md)"
    ) == last


def test_another_module_of_the_same_name_is_told(sent):
    """What a worker finds first may not be the user's."""
    (sent / "myutil.py").write_text("", encoding="utf-8")
    _, said = python(OPEN, "function", cwd=sent)
    needed = "SparkSetupError: a worker needs the same modules as the driver, got another one of the same name: "
    assert f"{needed}Can't get attribute 'Doubled" in said
