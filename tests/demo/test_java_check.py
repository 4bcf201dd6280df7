# SPDX-License-Identifier: Apache-2.0
"""A missing or old Java is told in one sentence, before Spark stumbles over it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from demo.java_check import check_java, parse_java_version

from pyflinklike.errors import SparkSetupError

JAVA_8 = 'openjdk version "1.8.0_392"\nOpenJDK Runtime Environment (build 1.8.0_392-b08)\n'
JAVA_11 = 'openjdk version "11.0.22" 2024-01-16 LTS\n'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK 64-Bit Server VM (build 17.0.15+6)\n'


def java_home(directory: Path, version_text: str) -> Path:
    """A JAVA_HOME whose java prints this text on stderr, as every java does."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{version_text}END\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(JAVA_8, 8, id="1.8 style"),
        pytest.param('java version "1.7.0_80"\n', 7, id="Oracle, 1.7 style"),
        pytest.param('java version "9"\n', 9, id="no minor version"),
        pytest.param(JAVA_11, 11, id="LTS suffix"),
        pytest.param(JAVA_17, 17, id="17 style"),
        pytest.param('openjdk version "22-ea" 2024-03-19\n', 22, id="early access"),
        pytest.param("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n" + JAVA_17, 17, id="a line before"),
        pytest.param("Unable to locate a Java Runtime.\n", None, id="macOS without a JDK"),
        pytest.param("", None, id="silence"),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(text: str, expected: int | None):
    """Both styles of version number are understood, and noise around them."""
    assert parse_java_version(text) == expected


def test_java_17_in_java_home_is_accepted(tmp_path: Path):
    """The version found is returned."""
    home = java_home(tmp_path / "jdk", JAVA_17)

    assert check_java({"JAVA_HOME": str(home), "PATH": os.environ["PATH"]}) == 17


def test_java_on_path_is_found_when_java_home_is_not_set(tmp_path: Path):
    """PATH is searched as Spark's launcher does."""
    home = java_home(tmp_path / "jdk", JAVA_17)

    assert check_java({"PATH": str(home / "bin")}) == 17


def test_java_home_wins_over_path(tmp_path: Path):
    """An old JAVA_HOME is refused although PATH has a new one: Spark would use the old."""
    old = java_home(tmp_path / "old", JAVA_8)
    new = java_home(tmp_path / "new", JAVA_17)

    with pytest.raises(SparkSetupError, match=r"is Java 8;"):
        check_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})


@pytest.mark.parametrize(("text", "major"), [(JAVA_8, 8), (JAVA_11, 11)])
def test_an_old_java_is_refused_with_what_was_found_and_the_remedy(
    tmp_path: Path, text: str, major: int
):
    """The message is the rule, the culprit with its version, and what to do."""
    home = java_home(tmp_path / "jdk", text)

    with pytest.raises(SparkSetupError) as caught:
        check_java({"JAVA_HOME": str(home)})

    assert str(caught.value) == (
        f"Spark needs Java 17 or newer, but '{home}/bin/java' is Java {major}; "
        "install a JDK 17 or newer and set JAVA_HOME to it"
    )


@pytest.mark.parametrize("environ", [{"PATH": ""}, {}, {"JAVA_HOME": "", "PATH": ""}])
def test_a_missing_java_is_told_in_one_sentence(environ: dict[str, str]):
    """Nothing is found where nothing is to be found, whatever this machine has."""
    with pytest.raises(SparkSetupError) as caught:
        check_java(environ)

    assert str(caught.value) == (
        "Spark needs Java 17 or newer, but there is no java on PATH; "
        "install a JDK 17 or newer and set JAVA_HOME to it"
    )


def test_a_java_home_without_java_is_named(tmp_path: Path):
    """A JAVA_HOME that points nowhere is told as such, not skipped."""
    with pytest.raises(SparkSetupError, match=r"JAVA_HOME is .*, which has no bin/java"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_a_java_that_tells_no_version_is_refused(tmp_path: Path):
    """As macOS' placeholder does when no JDK is installed."""
    home = java_home(tmp_path / "jdk", "Unable to locate a Java Runtime.\n")

    with pytest.raises(SparkSetupError, match="does not print its version"):
        check_java({"JAVA_HOME": str(home), "PATH": os.environ["PATH"]})


def test_a_java_that_cannot_be_run_is_refused(tmp_path: Path):
    """A file that is no program gives the same kind of error, with its cause."""
    home = java_home(tmp_path / "jdk", "")
    (home / "bin" / "java").write_bytes(b"\x7fELF nonsense")

    with pytest.raises(SparkSetupError, match="cannot be run"):
        check_java({"JAVA_HOME": str(home), "PATH": os.environ["PATH"]})
