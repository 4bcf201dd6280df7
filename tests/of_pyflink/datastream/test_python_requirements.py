# SPDX-License-Identifier: Apache-2.0
"""`set_python_requirements`: packages that functions import, from a folder without an index."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from local_support import local
from own_wheels import write_wheel

from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment

pytest.importorskip("pip", reason="pip is not installed")

SCRIPT = """
import sys
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_python_requirements(sys.argv[1], sys.argv[2])

def greeted(name):
    from greetings_of_a_test import greet
    return greet(name)

env.from_collection(["a"]).map(greeted, Types.STRING()).print()
env.execute()
"""


@pytest.fixture
def given(tmp_path):
    """A requirements file, and a folder with the package that it names."""
    write_wheel(
        tmp_path / "cache", "greetings_of_a_test", "def greet(name): return 'hello ' + name"
    )
    (tmp_path / "requirements.txt").write_text("greetings_of_a_test>=1.0\npip\n")
    return tmp_path


def test_functions_import_the_packages_of_a_requirements_file(given):
    """A program of its own, which has no other way to the package."""
    (given / "job.py").write_text(SCRIPT)
    arguments = ["job.py", "requirements.txt", "cache"]
    command = [sys.executable, "-m", "pyflinklike.run", "--target", "local", *arguments]

    done = subprocess.run(command, cwd=given, capture_output=True, text=True, check=False)

    assert "hello a" in done.stdout, done.stderr


def test_what_is_installed_already_is_not_installed_again(tmp_path):
    """Nothing goes to the workers, and nobody asks an index."""
    (tmp_path / "requirements.txt").write_text("pip\n")
    env = local()

    env.set_python_requirements(str(tmp_path / "requirements.txt"))

    assert () == env._program.requirements


@pytest.mark.thorough
def test_a_later_file_replaces_an_earlier_one(given):
    """As in PyFlink."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_python_requirements(str(given / "requirements.txt"), str(given / "cache"))
    (first,) = env._program.requirements
    env.set_python_requirements(f"file://{given}/requirements.txt", str(given / "cache"))

    (second,) = env._program.requirements
    assert first != second


def test_packages_that_are_missing_are_told_with_what_pip_said(given):
    """When the file is declared, not in a task."""
    (given / "requirements.txt").write_text("greetings_of_a_test>=2\n")

    with pytest.raises(
        SparkSetupError, match=re.escape("No matching distribution found for greetings")
    ):
        local().set_python_requirements(str(given / "requirements.txt"), str(given / "cache"))
    with pytest.raises(DeclarationValueError, match=r"found no file at .*nowhere', got 'nowhere'"):
        local().set_python_requirements("nowhere")
    with pytest.raises(
        DeclarationValueError, match=r"found no folder at .*nowhere', got 'nowhere'"
    ):
        local().set_python_requirements(str(given / "requirements.txt"), "nowhere")
