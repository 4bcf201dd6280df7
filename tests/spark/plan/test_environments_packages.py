# SPDX-License-Identifier: Apache-2.0
"""A package that is missing or of the wrong version is told in one sentence, before a query starts.

Each environment is a real one: it has what this one has, but for one package, which it lacks or
has in a version from PyPI.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyflinklike.spark needs PySpark (the extra `spark`)")
from pyspark import __version__ as pyspark_version

REPOSITORY = Path(__file__).resolve().parents[3]
PYSPARK = tuple(map(int, pyspark_version.split(".")[:2]))
REMEDY = "; pip install '.[spark]' in a checkout of pyflinklike installs versions that go together"

# A session, and an operator over it: what fails is printed, and is to fail here.
PROGRAM = """
import tempfile
import warnings

try:
    from pyflinklike.spark import key_by
    from pyflinklike import KeyedProcessFunction
    from pyspark.sql import SparkSession

    class Echo(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key(), 1

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    rate = spark.readStream.format("rate").load()
    key_by(rate, "value").process(Echo(), "k long, n long")
except Exception as error:
    print(f"{type(error).__module__}.{type(error).__name__}: {error}")
else:
    print("no error")
"""


def environment(directory: Path, without: str, instead: str | None = None) -> Path:
    """The Python of an environment that has what this one has, but for one package.

    Args:
        directory: Where it is made.
        without: How the names of the files of what it lacks begin.
        instead: What is installed in its place, as pip writes it.
    """
    made = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(directory)]
    subprocess.run(made, check=True)
    scheme = {"base": str(directory), "platbase": str(directory)}
    packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    import pyspark

    for each in Path(pyspark.__file__).parents[1].iterdir():
        if not each.name.startswith(tuple(without.split())):
            (packages / each.name).symlink_to(each)
    if instead is not None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        target = ["--only-binary", ":all:", "--target", str(packages), instead]
        subprocess.run([*pip, *target], check=True, timeout=300)
    return directory / "bin" / "python"


def told_by(python: Path) -> str:
    """What the program prints in an environment: its last line."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    variables.pop("SPARK_HOME", None)
    run = subprocess.run(
        [str(python), "-c", textwrap.dedent(PROGRAM)],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert run.stdout, run.stderr
    return run.stdout.splitlines()[-1]


def test_a_missing_pyspark_is_told_at_the_import(tmp_path: Path) -> None:
    """The harness needs none, so it is not among what pyflinklike itself installs."""
    assert told_by(environment(tmp_path / "env", "pyspark")) == (
        "pyflinklike.errors.RequirementError: pyflinklike.spark needs PySpark and its packages, "
        f"got No module named 'pyspark'{REMEDY}"
    )


@pytest.mark.skipif(PYSPARK < (4, 0), reason="PySpark 3.5 uses no protobuf for state")
def test_a_missing_protobuf_is_told_before_the_stream_starts(tmp_path: Path) -> None:
    """No requirement of PySpark names it, and `transformWithState` cannot do without."""
    assert told_by(environment(tmp_path / "env", "google protobuf")) == (
        f"pyflinklike.errors.RequirementError: streams on PySpark {pyspark_version} need a "
        "protobuf that its generated code accepts, got no protobuf (No module named 'google')"
        f"{REMEDY}"
    )


@pytest.mark.skipif(PYSPARK < (4, 1), reason="PySpark 4.0 was made with protobuf 5.28")
def test_a_protobuf_older_than_the_generated_code_is_told(tmp_path: Path) -> None:
    """Its own message is of the file and the two versions, and knows no remedy."""
    told = told_by(environment(tmp_path / "env", "google protobuf", "protobuf==5.29.6"))
    assert (True, True) == (
        told.startswith(
            f"pyflinklike.errors.RequirementError: streams on PySpark {pyspark_version} need a "
            "protobuf that its generated code accepts, got protobuf 5.29.6 (Detected "
        ),
        told.endswith(REMEDY),
    )


@pytest.mark.skipif(PYSPARK < (4, 2), reason="PyArrow 17 is enough for PySpark up to 4.1")
def test_a_pyarrow_too_old_for_this_pyspark_is_told(tmp_path: Path) -> None:
    """PySpark knows which it needs."""
    told = told_by(environment(tmp_path / "env", "pyarrow", "pyarrow==17.0.0"))
    assert (
        f"pyflinklike.errors.RequirementError: PySpark {pyspark_version} needs other packages, "
        "got [UNSUPPORTED_PACKAGE_VERSION] PyArrow >= 18.0.0 must be installed; "
        f"however, your version is 17.0.0{REMEDY}"
    ) == told
