# SPDX-License-Identifier: Apache-2.0
"""What a message says to install can be installed."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "pyflinklike"


def test_one_place_words_the_command_for_an_extra():
    """No package index has the name yet, so it changes on publication."""
    wording = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if '"' in (text := path.read_text(encoding="utf-8"))
        and "pip install 'pyflinklike[" in text.replace("`pip install 'pyflinklike[", "")
    ]

    assert [] == wording
