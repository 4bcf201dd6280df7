# SPDX-License-Identifier: Apache-2.0
"""What GitHub runs and shows: its forms, its pins, and that the commands in it are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
NAMES = [path.name for path in WORKFLOWS]
SCHEMAS = {
    **{f"workflows/{name}": "github-workflows" for name in NAMES},
    "dependabot.yml": "dependabot",
    "ISSUE_TEMPLATE/config.yml": "github-issue-config",
    "ISSUE_TEMPLATE/bug.yml": "github-issue-forms",
    "ISSUE_TEMPLATE/wish.yml": "github-issue-forms",
}
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def text_of(name):
    """A workflow as it stands there."""
    return (GITHUB / "workflows" / name).read_text(encoding="utf-8")


def parsed(name):
    """A workflow as GitHub reads it."""
    yaml = pytest.importorskip("ruamel.yaml", reason="check-jsonschema is not installed (`dev`)")
    return yaml.YAML(typ="safe").load(text_of(name))


def commands():
    """The lines that shells of all workflows run, after `run:` and in `command:`."""
    found = []
    for name in NAMES:
        workflow = parsed(name)
        for job in workflow["jobs"].values():
            found += [
                line for step in job.get("steps", ()) for line in step.get("run", "").splitlines()
            ]
            matrix = job.get("strategy", {}).get("matrix", {})
            found += [each["command"] for each in matrix.get("include", ())]
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_github_accepts_the_file(name):
    """It has the form that GitHub's schema asks for."""
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed (`dev`)")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    subprocess.run([*check, f"vendor.{SCHEMAS[name]}", str(GITHUB / name)], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_by_commit(name):
    """A tag can be moved by whoever holds the action's repository; dependabot moves commits."""
    used = re.findall(r"uses: (.+)", text_of(name))

    assert used
    assert [] == [each for each in used if each[:2] != "./" and not PINNED.fullmatch(each)]


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_may_only_read(name):
    """A job that writes says so itself, and a job that runs the suite has no such right."""
    workflow = parsed(name)
    wide = {
        job: rights
        for job, each in workflow["jobs"].items()
        if "write" in (rights := each.get("permissions") or {}).values()
    }

    assert {"contents": "read"} == workflow["permissions"]
    assert (
        {}
        if name != "release.yml"
        else {
            "attest": {"attestations": "write", "contents": "read", "id-token": "write"},
            "pypi": {"id-token": "write"},
            "github": {"contents": "write"},
            "documentation": {"contents": "write"},
        }
    ) == wide


def test_nothing_of_an_event_is_written_into_a_command():
    """A tag or a branch may have any name: it comes as a variable of the environment."""
    taken = re.compile(r"\$\{\{\s*(github|inputs|needs|steps)\b")

    assert [] == [line for line in commands() if taken.search(line)]


def test_the_scripts_that_are_run_are_there():
    """By the path and, without `python`, with the right to be run."""
    named = {each for line in commands() for each in re.findall(r"(?<![\w/])scripts/[\w.]+", line)}

    assert {"scripts/test", "scripts/soak", "scripts/wheel.py"} <= named
    assert [] == [each for each in named if not (ROOT / each).is_file()]
    assert [] == [
        each for each in named if "." not in each and not (ROOT / each).stat().st_mode & 0o111
    ]


def test_every_option_that_asks_for_more_is_asked_for_at_night():
    """But `--environments`, which installs packages into empty environments for an hour."""
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    options = set(re.findall(r'^    "test_\w+": \("(--\w+)"', conftest, re.MULTILINE))
    asked = set(re.findall(r"scripts/test (--\w+)", text_of("nightly.yml")))

    assert options - {"--environments"} == asked
