# SPDX-License-Identifier: Apache-2.0
"""`scripts/wheel.py` finds what is wrong with what was built; what `scripts/oracle/known.py` says is there."""

import importlib.util
import zipfile
from pathlib import Path

import pytest
from differences import DIFFERENCES

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def script(name):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel_with(folder, names):
    """A wheel that holds empty files of these names."""
    path = folder / "pyflinklike-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_a_wheel_must_hold_the_package_its_licence_and_nothing_else(tmp_path):
    """A test that slipped in, and a marker of types that did not, are named."""
    wheel = script("wheel")
    info = "pyflinklike-0.1.0.dist-info"
    about = [f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE", f"{info}/METADATA"]
    whole = [*wheel.package_files(), *about]

    wheel.check_wheel(wheel_with(tmp_path, whole))
    with pytest.raises(SystemExit, match=r"should not hold \['tests/x.py'\]"):
        wheel.check_wheel(wheel_with(tmp_path, [*whole, "tests/x.py"]))
    with pytest.raises(SystemExit, match=r"lacks \['pyflinklike/py.typed'\]"):
        wheel.check_wheel(wheel_with(tmp_path, set(whole) - {"pyflinklike/py.typed"}))


@pytest.mark.parametrize(
    ("tag", "changelog", "told"),
    [
        ("v0.1.0", "## [0.1.0] - 2026-12-01\n", None),
        ("v0.1.0", "## [Unreleased] 0.1.0\n", r"must have '## \[0.1.0\] - <the day>'"),
        ("0.1.0", "## [0.1.0] - 2026-12-01\n", "the tag must be v0.1.0"),
        ("v0.1.1", "## [0.1.1] - 2026-12-01\n", "the tag must be v0.1.0"),
    ],
)
def test_a_tag_is_that_of_the_version_and_the_changelog_has_its_day(
    tag, changelog, told, tmp_path, monkeypatch
):
    """PyPI takes a version once: what is wrong is told before it is there."""
    wheel = script("wheel")
    (tmp_path / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    monkeypatch.setattr(wheel, "_ROOT", tmp_path)
    built = wheel_with(tmp_path, [])

    if told is None:
        wheel.check_tag(tag, built)
    else:
        with pytest.raises(SystemExit, match=told):
            wheel.check_tag(tag, built)


def test_what_is_known_to_differ_on_pyflink_is_there():
    """The job in the collection, and what shows a line of the guide to migration."""
    oracle = script("oracle/known")
    known = oracle.KNOWN | oracle.KNOWN_IN_STREAMING | oracle.KNOWN_IN_BATCH
    root = SCRIPTS.parent
    modules = (root / "tests" / "support" / "jobs").glob("*_jobs.py")
    jobs = "".join(path.read_text(encoding="utf-8") for path in modules)

    assert known
    assert [] == [job for job in known if f"\ndef {job}(env):" not in jobs]
    tests = {*oracle.KNOWN.values(), *known.values()}
    shown = {test.partition("::")[2].removeprefix("test_") for test in DIFFERENCES.values()}
    assert [] == sorted(tests - shown)
