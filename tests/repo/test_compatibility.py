# SPDX-License-Identifier: Apache-2.0
"""The page on compatibility lists what is public and what is durable."""

from __future__ import annotations

import re
from pathlib import Path

from pyflinklike._exports import PUBLIC_MODULES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pyflinklike"
PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text("utf-8")

FORMATS = {
    "log of an operator": ("_changelog/segments.py", "FORMAT_VERSION"),
    "directory of a savepoint": ("state_processor/_savepoints/manifest.py", "_FORMAT"),
    "folder of a job": ("pyflink/_spark/job_folder.py", "_FORMAT"),
    "file of a view": ("views/file_tables.py", "_FORMAT"),
    "mark beside the file of a view": ("views/file_database.py", "_MAGIC"),
    "view in PostgreSQL": ("views/postgres_tables.py", "_FORMAT"),
    "seal of a Parquet file that a job writes": (
        "pyflink/datastream/formats/parquet.py",
        "_SEAL_MAGIC",
    ),
    "local files of `EmbeddedRocksDBStateBackend`": (
        "backends/rocksdb/rocksdb_backend.py",
        "_LAYOUT",
    ),
}
"""Each format of the page, with the constant that has its number."""

_NUMBERED = re.compile(
    r'^(_?FORMAT(?:_VERSION)?|_LAYOUT|_\w*MAGIC)(?:: Final)? = (?:(\d+)|b"[A-Za-z]+(\d+)")$',
    re.MULTILINE,
)


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading of the page."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def numbers_in_code() -> dict[tuple[str, str], int]:
    """The number of each format in the package, by module and constant."""
    return {
        (path.relative_to(PACKAGE).as_posix(), found[1]): int(found[2] or found[3])
        for path in PACKAGE.rglob("*.py")
        for found in _NUMBERED.finditer(path.read_text("utf-8"))
    }


def test_the_page_has_the_number_of_each_format_in_the_code():
    """A format that is new, gone, or has another number must be told on the page."""
    told = {FORMATS[row[0]]: int(row[1]) for row in rows_of("What is durable")}

    assert numbers_in_code() == told
    assert len(FORMATS) == len(told)


def documented() -> set[str]:
    """The modules of the names in the reference."""
    modules = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for name in re.findall(r"^::: (pyflinklike[\w.]*)", page.read_text("utf-8"), re.MULTILINE):
            parts = name.split(".")
            while not is_module(parts):
                parts.pop()
            modules.add(".".join(parts))
    return modules


def is_module(parts: list[str]) -> bool:
    """Whether a name is that of a module of the package."""
    path = ROOT.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def as_listed(module: str) -> str:
    """A module as the page lists it: those that mirror PyFlink are under its three packages."""
    parts = module.split(".")
    return ".".join(parts[:3]) if parts[:2] == ["pyflinklike", "pyflink"] else module


def test_the_page_lists_each_module_that_is_public():
    """Each door, and each other module that the reference shows."""
    listed = [
        name for row in rows_of("The public API") for name in re.findall(r"`([\w.]+)`", row[0])
    ]

    assert sorted({as_listed(each) for each in PUBLIC_MODULES | documented()}) == sorted(listed)
