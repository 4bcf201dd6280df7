# SPDX-License-Identifier: Apache-2.0
"""What a message says to install can be installed."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pyflinklike"


def test_one_place_words_the_command_for_an_extra():
    """No package index has the name yet, so it changes on publication."""
    wording = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if '"' in (text := path.read_text(encoding="utf-8"))
        and "pip install 'pyflinklike[" in text.replace("`pip install 'pyflinklike[", "")
    ]

    assert [] == wording


def test_the_install_page_names_every_extra():
    """And none that is not there."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")
    section = page.partition("\n## Extras\n")[2].partition("\n## ")[0]
    in_table = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    (for_work,) = re.findall(r"^The extras (.*?) are for work", section, re.MULTILINE)

    assert set(settings["options.extras_require"]) == {*in_table, *re.findall(r"`(\w+)`", for_work)}
