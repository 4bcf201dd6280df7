# SPDX-License-Identifier: Apache-2.0
"""Builds the sdist and the wheel, looks at what they hold, and tries both: python scripts/wheel.py.

The wheel is installed into an empty environment, and the README's first example runs there, in a
directory outside the repository: with the wheel and what it requires, and nothing else.  The sdist
is unpacked beside it; all its tests are collected, and those run that look at the repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = _ROOT / "pyflinklike"
_SDIST_TESTS = ("tests/repo", "tests/testing")
_RELATIVE = re.compile(r"""\]\((?![a-z]+:|#)[^)\s]+\)|\bsrc(?:set)?="(?![a-z]+:)[^"]+\"""")
_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def package_files() -> set[str]:
    """The modules of the package, and its marker of types."""
    paths = [*_PACKAGE.rglob("*.py"), _PACKAGE / "py.typed"]
    return {path.relative_to(_ROOT).as_posix() for path in paths}


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    _run([sys.executable, "-m", "build", "--outdir", str(folder), str(_ROOT)], cwd=folder)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def check_wheel(wheel: Path) -> None:
    """See that the wheel holds the package, its licence and its marker of types, and no more."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    expected = package_files()
    licences = {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"}
    inside = {name for name in names if not name.startswith(f"{info}/")}
    _refuse("the wheel lacks", (expected | licences) - names)
    _refuse("the wheel should not hold", inside - expected)


def check_sdist(sdist: Path) -> None:
    """See that the sdist holds every file of the repository but those of its tools."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.check_output(["git", "ls-files"], cwd=_ROOT, text=True)  # noqa: S607
    _refuse("the sdist lacks", {each for each in tracked.split() if each[0] != "."} - names)


def check_description(wheel: Path) -> None:
    """See that PyPI can show the description, and that its links do not need the repository."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(metadata).decode()
    _refuse("the description has relative links", _RELATIVE.findall(text))
    _run([sys.executable, "-m", "twine", "check", "--strict", str(wheel)], cwd=wheel.parent)


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel into an empty environment, and run the README's first example there."""
    example = _EXAMPLE.search((_ROOT / "README.md").read_text(encoding="utf-8"))
    assert example is not None
    (folder / "example.py").write_text(example[1], encoding="utf-8")
    venv.create(folder / "env", with_pip=True)
    python = str(folder / "env" / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", str(wheel)], cwd=folder)
    _run([python, "-I", "example.py"], cwd=folder)


def try_sdist(sdist: Path, wheel: Path, folder: Path) -> None:
    """Unpack the sdist and run tests of it, in the environment of `try_wheel`."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    root = folder / sdist.name.removesuffix(".tar.gz")
    python = str(folder / "env" / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", f"{wheel}[testing]"], cwd=folder)
    pytest = [python, "-m", "pytest", "-q", "-m", "not spark"]
    _run([*pytest, "--collect-only"], cwd=root)
    _run([*pytest, "-x", *_SDIST_TESTS], cwd=root)


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}{command} failed")


def _refuse(what: str, names: Iterable[str]) -> None:
    if found := sorted(names):
        sys.exit(f"{what} {found}")


def main() -> None:
    """Build, look, try."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        check_sdist(sdist)
        check_wheel(wheel)
        check_description(wheel)
        try_wheel(wheel, folder)
        print(f"{wheel.name} holds what it should, and the README's example runs on it")  # noqa: T201
        try_sdist(sdist, wheel, folder)
        print(f"{sdist.name} holds what it should, and its tests run")  # noqa: T201


if __name__ == "__main__":
    main()
