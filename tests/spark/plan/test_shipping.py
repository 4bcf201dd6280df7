# SPDX-License-Identifier: Apache-2.0
"""What `process` arranges on the driver for code that was shipped, without a cluster."""

from __future__ import annotations

import re
import sys
import venv

import pytest
from surroundings import REPOSITORY

from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._plan.session import (
    check_python,
    link_python,
)

PYTHON = "./environment/bin/python"


def archive(directory):
    """An unpacked archive with a Python, in the directory of shipped files."""
    binary = directory / "environment" / "bin"
    binary.mkdir(parents=True)
    (binary / "python").touch()
    return directory


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory of a driver."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_a_python_in_an_archive_is_found_from_the_working_directory(here, tmp_path):
    """Spark unpacks it elsewhere on the driver, and starts a worker with the relative path."""
    shipped = archive(tmp_path / "shipped")
    link_python(PYTHON, shipped)
    assert shipped / "environment" == (here / "environment").readlink()


def test_a_python_that_is_here_is_left_alone(here, tmp_path):
    """The user has unpacked the archive; another one was shipped beside."""
    archive(here)
    link_python(PYTHON, archive(tmp_path / "shipped"))
    assert not (here / "environment").is_symlink()


def test_the_link_of_a_driver_that_was_killed_is_replaced(here, tmp_path):
    """It points to a directory that went with the driver."""
    (here / "environment").symlink_to(tmp_path / "gone")
    shipped = archive(tmp_path / "shipped")
    link_python(PYTHON, shipped)
    assert shipped / "environment" == (here / "environment").readlink()


def test_a_python_in_no_archive_is_refused_with_the_way_to_unpack_it(here, tmp_path):
    """On YARN the driver of a client does not get the archives."""
    with pytest.raises(
        SparkSetupError, match=r"\./environment/bin/python.*mkdir environment && tar"
    ):
        link_python(PYTHON, tmp_path)


def test_a_directory_in_the_way_of_the_link_is_refused(here, tmp_path):
    """It is the user's, and stays."""
    (here / "environment").mkdir()
    with pytest.raises(SparkSetupError, match=r"nor can be linked there .*File exists"):
        link_python(PYTHON, archive(tmp_path / "shipped"))


@pytest.mark.parametrize("python", ["python3", "/opt/environment/bin/python"])
def test_a_python_that_is_the_same_everywhere_needs_no_link(here, tmp_path, python):
    """A name on PATH and an absolute path do not depend on the working directory."""
    link_python(python, archive(tmp_path / "shipped"))
    assert [] == list(here.iterdir())


def test_a_python_without_pyflinklike_is_refused(tmp_path, monkeypatch):
    """The workers' Python is not the driver's, and nothing was shipped."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(
        SparkSetupError, match=f"got a Python without it, {re.escape(repr(python))}; .*--py-files"
    ):
        check_python(python, {})


def test_a_python_that_gets_pyflinklike_by_the_path_is_taken(tmp_path, monkeypatch):
    """The environment of the workers has it, as `spark.executorEnv.PYTHONPATH` sets it."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    venv.create(tmp_path / "bare", with_pip=False)
    (tmp_path / "shipped" / "pyflinklike").mkdir(parents=True)
    (tmp_path / "shipped" / "pyflinklike" / "__init__.py").touch()
    python = str(tmp_path / "bare" / "bin" / "python")
    check_python(python, {"PYTHONPATH": str(tmp_path / "shipped")})


def test_a_python_that_the_driver_does_not_have_is_refused():
    """It may be on all other nodes, and the driver's worker still needs it."""
    with pytest.raises(SparkSetupError, match="'/opt/nowhere/python', which cannot be run here"):
        check_python("/opt/nowhere/python", {})


def test_a_python_that_got_pyflinklike_meanwhile_is_taken(tmp_path, monkeypatch):
    """In a notebook the error is put right, and `process` is called again."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(SparkSetupError):
        check_python(python, {})
    (tmp_path / "pyflinklike.py").touch()
    check_python(python, {})


def test_a_local_python_that_will_not_do_is_refused_with_what_to_set(tmp_path, monkeypatch):
    """It may have pyflinklike by the path of a checkout, and needs PyArrow, too."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    here = re.escape(f"sys.executable, which is {sys.executable!r} here")
    with pytest.raises(
        SparkSetupError,
        match=rf"need pyarrow, got a Python without it, .*; before the session .*{here}",
    ):
        check_python(python, {}, is_local=True)
    with pytest.raises(SparkSetupError, match=rf"'/opt/nowhere/python', which PYSPARK.*{here}"):
        check_python("/opt/nowhere/python", {}, is_local=True)
