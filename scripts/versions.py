# SPDX-License-Identifier: Apache-2.0
"""Runs the suite's telling part on every Python and PySpark, and writes down what came of it.

    python scripts/versions.py list              the cells, and what is known of each
    python scripts/versions.py run               those without a result of this commit
    python scripts/versions.py run py310-spark40 py314
    python scripts/versions.py table             the page of the results, anew

A cell is an environment of tox: `py310-spark40`, or `py310` for what needs neither PySpark nor a
JVM.  Each result goes into docs/reference/versions.json as soon as it is there, so a run that was
stopped goes on where it was.  tox finds the Pythons on PATH.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
RESULTS = _ROOT / "docs" / "reference" / "versions.json"
PAGE = _ROOT / "docs" / "reference" / "versions.md"

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
SPARKS = ("3.5", "4.0", "4.1", "4.2", "4.3")
NOT_POSSIBLE = {
    "py312-spark35": "PySpark 3.5 names Python up to 3.11",
    "py313-spark35": "PySpark 3.5 names Python up to 3.11",
    "py314-spark35": "PySpark 3.5 names Python up to 3.11",
    "py314-spark40": "PySpark 4.0 names Python up to 3.13",
    "py310-spark43": "PySpark 4.3 requires Python 3.11",
}
"""The pairs that are no cell, and why."""

Result = dict[str, Any]

_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "protobuf", "rocksdict", "msgspec", "attrs")
_SHOWN = {
    "python": "Python",
    "pyspark": "PySpark",
    "pyarrow": "PyArrow",
    "pandas": "pandas",
    "numpy": "NumPy",
    "protobuf": "protobuf",
    "rocksdict": "rocksdict",
}
"""The packages whose versions the page has, and how it writes their names."""
_ASK = """
import importlib.metadata as metadata, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_RUN = ("pyflinklike", "tests", "examples", "setup.cfg", "tox.ini")
_BEGIN, _END = "<!-- results: scripts/versions.py table -->", "<!-- end of the results -->"


def cell_name(python: str, spark: str | None) -> str:
    """The environment of tox for a Python and a PySpark, or for a Python without one."""
    name = "py" + python.replace(".", "")
    return name if spark is None else f"{name}-spark{spark.replace('.', '')}"


def cells() -> list[str]:
    """All cells: first those without PySpark."""
    pairs = [(python, spark) for spark in (None, *SPARKS) for python in PYTHONS]
    return [name for name in (cell_name(*pair) for pair in pairs) if name not in NOT_POSSIBLE]


def read_report(path: Path) -> Result:
    """What pytest's JUnit report at `path` says: counts, what failed, and why tests were skipped."""
    suite = next(ElementTree.parse(path).iter("testsuite"))  # noqa: S314 - pytest wrote it
    failed, skipped = [], Counter[str]()
    for case in suite.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname', '').split('.')[-1]}::{case.get('name')}")
        skip = case.find("skipped")
        if skip is not None:
            skipped[skip.get("message", "")] += 1
    total = int(suite.get("tests", 0))
    return {
        "passed": total - len(failed) - skipped.total(),
        "failed": sorted(set(failed)),
        "skipped": dict(sorted(skipped.items())),
        "seconds": round(float(suite.get("time", 0))),
    }


def run_cell(cell: str, workdir: Path, limit: float) -> Result:
    """Run one cell by tox.

    Args:
        cell: Its environment.
        workdir: Where tox keeps the environments.
        limit: After how many seconds it is stopped, and counts as failed.

    Returns:
        What is kept of it.

    Raises:
        SystemExit: No test was run, since tox could not make the environment, or found no such Python.
    """
    at = commit()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        chosen = ["tests/spark"] if "-spark" in cell else []
        tox = [sys.executable, "-m", "tox", "run", "--workdir", str(workdir), "-e", cell, "--"]
        code = _run([*tox, "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *chosen], limit)
        if report.exists():
            result = read_report(report)
        elif code is None:
            result = {"failed": [f"stopped after {limit:.0f} s"]}
        else:
            sys.exit(
                f"{cell}: no tests ran, see above; tox looks for its Python on PATH (exit {code})"
            )
    if code and not result["failed"]:
        result["failed"] = [f"tox ended with {code}"]
    return {
        "commit": at,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "packages": packages(workdir / cell / "bin" / "python"),
        "java": java() if "-spark" in cell else None,
        **result,
    }


def _run(command: list[str], limit: float) -> int | None:
    """The exit code of a command, or None if it was stopped after `limit` seconds."""
    with subprocess.Popen(command, cwd=_ROOT) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # tox stops what it started
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
            return None


def packages(python: Path) -> dict[str, str]:
    """The versions that an environment has of Python and of the packages that matter."""
    command = [str(python), "-I", "-c", _ASK, *_PACKAGES]
    found: dict[str, str] = json.loads(subprocess.check_output(command, text=True))
    return found


def java() -> str:
    """The version of the Java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    done = subprocess.run([program, "-version"], text=True, capture_output=True, check=True)
    return done.stderr.split('"')[1]


def commit() -> str:
    """The commit that last changed what is run, with a `+` where files differ from it."""
    last = _git("log", "-1", "--format=%h", "--abbrev=10", "--", *_RUN)
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *_RUN)
    return last + ("+" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=_ROOT, text=True).strip()  # noqa: S607


def load(path: Path) -> dict[str, Result]:
    """The results by cell; none where there is no file yet."""
    if not path.exists():
        return {}
    results: dict[str, Result] = json.loads(path.read_text(encoding="utf-8"))
    return results


def keep(path: Path, cell: str, result: Result) -> None:
    """Put one result into the file, in the order of the cells; the file is never half written."""
    results = {**load(path), cell: result}
    ordered = {name: results[name] for name in (*cells(), *NOT_POSSIBLE) if name in results}
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def missing(results: Mapping[str, Result], at: str) -> list[str]:
    """The cells that have no result of the commit `at`, or one with failures."""
    return [
        cell
        for cell in cells()
        if cell not in results or results[cell]["commit"] != at or results[cell]["failed"]
    ]


def table(results: Mapping[str, Result]) -> str:
    """The results in Markdown: who runs on what, and what was installed."""
    return "\n".join([*_grid(results), "", *_notes(results), "", *_installed(results)])


def _grid(results: Mapping[str, Result]) -> Iterable[str]:
    yield "| Python | without PySpark | " + " | ".join(f"PySpark {each}" for each in SPARKS) + " |"
    yield "|---" * (2 + len(SPARKS)) + "|"
    for python in PYTHONS:
        row = [_shown(cell_name(python, spark), results) for spark in (None, *SPARKS)]
        yield f"| **{python}** | " + " | ".join(row) + " |"


def _shown(cell: str, results: Mapping[str, Result]) -> str:
    if cell in NOT_POSSIBLE:
        return "no"
    if cell not in results:
        return "not run"
    result = results[cell]
    if result["failed"]:
        return f"**{len(result['failed'])} failed**"
    return f"{result['passed']} passed"


def _notes(results: Mapping[str, Result]) -> Iterable[str]:
    for reason in dict.fromkeys(NOT_POSSIBLE.values()):
        yield f"- {reason}."
    for cell, result in results.items():
        for test in result["failed"]:
            yield f"- `{cell}` failed: `{test}`."


def _installed(results: Mapping[str, Result]) -> Iterable[str]:
    found = {
        shown: {result["packages"].get(name) for result in results.values()} - {None}
        for name, shown in _SHOWN.items()
    }
    lists = (
        f"{shown} {', '.join(sorted(them, key=_as_numbers))}"
        for shown, them in found.items()
        if them
    )
    yield f"Installed in these cells: {'; '.join(lists)}."


def _as_numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def write_page(page: Path, results: Mapping[str, Result]) -> None:
    """Put the tables between the two marks of the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, found, after = rest.partition(_END)
    if not found:
        sys.exit(
            f"{page} must have the lines {_BEGIN!r} and {_END!r}, for the tables to go between"
        )
    page.write_text(f"{before}{_BEGIN}\n\n{table(results)}\n\n{_END}{after}", encoding="utf-8")


def main() -> None:
    """Do what the command line says."""
    options = _arguments()
    results = load(options.results)
    if options.do == "table":
        write_page(PAGE, results)
    elif options.do == "list":
        lines = [f"{each}: {_shown(each, results)}" for each in cells()]
        sys.stdout.write((json.dumps(cells()) if options.json else "\n".join(lines)) + "\n")
    else:
        chosen = options.cell or missing(results, commit())
        for cell in chosen:
            keep(options.results, cell, run_cell(cell, options.workdir, options.limit))
        results = load(options.results)
        sys.stdout.write("".join(f"{cell}: {_shown(cell, results)}\n" for cell in chosen))
        sys.exit(any(results[cell]["failed"] for cell in chosen))


def _arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["list", "run", "table"])
    parser.add_argument("cell", nargs="*", help="which to run, in this order")
    parser.add_argument("--json", action="store_true", help="list: only the names, as JSON")
    parser.add_argument("--workdir", type=Path, default=_ROOT / ".tox", help="where tox works")
    parser.add_argument("--limit", type=float, default=1_800, help="seconds for a cell")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of the results")
    options = parser.parse_args()
    unknown = set(options.cell) - {*cells(), *NOT_POSSIBLE}
    if unknown:
        parser.error(f"there is no cell {', '.join(sorted(unknown))}; `list` shows those there are")
    return options


if __name__ == "__main__":
    main()
