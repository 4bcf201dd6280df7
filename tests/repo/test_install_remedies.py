# SPDX-License-Identifier: Apache-2.0
"""What a message says to install can be installed."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pyflinklike"


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md")),
    *sorted(path for path in (ROOT / "bench").rglob("*.md")),
    *sorted(
        path for path in (ROOT / "examples").rglob("*") if path.suffix in (".md", ".py", ".ipynb")
    ),
    *sorted(PACKAGE.rglob("*.py")),
]
_FROM_AN_INDEX = re.compile(r"pip install[^`\n]*(?<!of)[ ']pyflinklike(?![-\w/.])")


def test_nothing_says_to_install_from_a_package_index():
    """None has the name yet: the command is one of a checkout, and finds nothing elsewhere."""
    found = {
        str(page.relative_to(ROOT)): said
        for page in PAGES
        if (said := _FROM_AN_INDEX.findall(page.read_text("utf-8")))
    }

    assert {} == found


def test_the_install_page_names_every_extra():
    """And none that is not there."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")
    section = page.partition("\n## Extras\n")[2].partition("\n## ")[0]
    in_table = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    (for_work,) = re.findall(r"^The extras (.*?) are for work", section, re.MULTILINE)

    assert set(settings["options.extras_require"]) == {*in_table, *re.findall(r"`(\w+)`", for_work)}
