# SPDX-License-Identifier: Apache-2.0
"""Builds the sdist and the wheel, looks at what they hold, and tries both: python scripts/wheel.py.

`--tag v0.1.0 --into dist --sbom sbom` is what a release asks for: that the version is the tag's, the
files that were tried, and a list of what the wheel brings (CycloneDX, by cyclonedx-bom).

The wheel is installed into an empty environment, and the README's first example runs there, in a
directory outside the repository: with the wheel and what it requires, and nothing else.  The sdist
is unpacked beside it; all its tests are collected, and those run that look at the repository.
"""

from __future__ import annotations

import argparse
import re
import shutil
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
    """The modules of the package, its marker of types, and the names of PyFlink."""
    paths = [*_PACKAGE.rglob("*.py"), _PACKAGE / "py.typed", _PACKAGE / "pyflink" / "pyflink.json"]
    return {path.relative_to(_ROOT).as_posix() for path in paths}


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    _run([sys.executable, "-m", "build", "--outdir", str(folder), str(_ROOT)], cwd=folder)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def check_wheel(wheel: Path) -> None:
    """See that the wheel holds the package and its licence, and no more."""
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


def check_tag(tag: str, wheel: Path) -> None:
    """See that a tag is that of the version that was built, and that the changelog has a part for it."""
    version = wheel.name.split("-")[1]
    if tag != f"v{version}":
        sys.exit(f"the tag must be v{version}, as setup.cfg says, got {tag!r}")
    heading = rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        sys.exit(
            f"CHANGELOG.md must have '## [{version}] - <the day>', got none; name the part of it"
        )


def list_parts(wheel: Path, folder: Path) -> Path:
    """Write the list of what an installed wheel consists of, itself and what it requires."""
    env, listed = folder / "parts", folder / "pyflinklike.cdx.json"
    venv.create(env)  # without pip, which is no part
    python = str(env / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    _run([*pip, "install", "--quiet", str(wheel)], cwd=folder)
    write = [sys.executable, "-m", "cyclonedx_py", "environment", "--mc-type", "library"]
    options = ["--output-reproducible", "--validate", "--output-file", str(listed)]
    _run([*write, *options, python], cwd=folder)
    return listed


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
        # Early patches of Python 3.10 and 3.11 have no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202 - the archive is ours
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, help="a folder for the files, once they are tried")
    parser.add_argument("--sbom", type=Path, help="a folder for the list of what they bring")
    parser.add_argument("--tag", help="of the release, such as v0.1.0")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        if options.tag:
            check_tag(options.tag, wheel)
        check_sdist(sdist)
        check_wheel(wheel)
        check_description(wheel)
        try_wheel(wheel, folder)
        print(f"{wheel.name} holds what it should, and the README's example runs on it")  # noqa: T201
        try_sdist(sdist, wheel, folder)
        print(f"{sdist.name} holds what it should, and its tests run")  # noqa: T201
        if options.sbom:
            _keep(options.sbom, list_parts(wheel, folder))
        if options.into:
            _keep(options.into, sdist, wheel)


def _keep(folder: Path, *files: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy2(file, folder)


if __name__ == "__main__":
    main()
