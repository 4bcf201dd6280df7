# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation as a site, and checks what was built: python scripts/site.py [folder].

A link, an anchor or a page that is not there fails the build (mkdocs.yml).  The built pages must
have an entry for every public name, with the first sentence of its docstring, and must show no
section of a docstring as plain text, which is what becomes of one that is not well formed.
If there is Node.js, the site's search must answer the questions of `site_search.py`.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

from pyflinklike._exports import PUBLIC_MODULES

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = "pyflinklike"
_PUBLIC = (
    *sorted(PUBLIC_MODULES),
    "pyflinklike.conformance",
    "pyflinklike.testing.strategies",
)
"""What is public is the `__all__` of these."""

_ENTRY = re.compile(rf'id="({_PACKAGE}[\w.]*)"')
_RAW_SECTION = re.compile(r"<p>\s*((?:Args|Raises|Returns|Yields)\b[^<:]{0,30}:)")


def build(folder: Path) -> None:
    """Make the site in a folder; warnings are errors."""
    # Not --quiet: what is not logged is not counted as a warning.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=_ROOT, env=env, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def faults(folder: Path) -> Iterator[str]:
    """What is wrong with a built site, one sentence each."""
    package = griffe.load(_PACKAGE, search_paths=[str(_ROOT)], resolve_aliases=True)
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    entries: dict[str, str] = {}
    for path, page in pages.items():
        words = _words(html.unescape(re.sub(r"<[^>]+>", "", page)))
        for entry in _ENTRY.findall(page):
            entries[package[entry.partition(".")[2]].canonical_path] = words
        for section in _RAW_SECTION.findall(page):
            yield f"{path.relative_to(folder)}: {section!r} is shown as text"
    for door in _PUBLIC:
        module = package[door.partition(".")[2]] if "." in door else package
        for name in module.exports or ():
            public = module[str(name)]
            found = entries.get(public.canonical_path)
            if found is None:
                yield f"{door}.{name} has no entry in the reference"
            elif public.docstring is None:
                yield f"{door}.{name} has no docstring"
            elif _first_sentence(public) not in found:
                yield f"{door}.{name}: its page lacks {_first_sentence(public)!r}"


def _words(text: str) -> str:
    return " ".join(text.split())


def _first_sentence(public: griffe.Object | griffe.Alias) -> str:
    text = public.docstring.value if public.docstring else ""
    return _words(text.split("\n\n")[0].replace("`", ""))


def main() -> None:
    """Build and check."""
    import site_search  # its folder is on the path of a script only

    parser = argparse.ArgumentParser(description="the documentation as a site, checked")
    parser.add_argument("folder", nargs="?", type=Path, default=_ROOT / "site")
    folder = parser.parse_args().folder
    build(folder)
    found = list(faults(folder))
    if site_search.node() is not None:
        found += site_search.faults(folder)
    print("\n".join(found) or f"{folder} has an entry for every public name")  # noqa: T201
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
