# SPDX-License-Identifier: Apache-2.0
"""The chart of README and the table of the docs show the figures that `bench/` keeps."""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "img"
THEMES = ["light", "dark"]


@pytest.fixture(scope="module")
def rates():
    """The median records per second of each side in W1 but the floor, as text."""
    raw = json.loads((ROOT / "bench" / "figures.json").read_text("utf-8"))
    medians = [
        each["shape"]["records"] / statistics.median(each["seconds"])
        for each in raw["results"]
        if each["workload"] == "W1" and each["side"] != "floor"
    ]
    return [f"{each:,.0f}" for each in medians]


@pytest.mark.parametrize("theme", THEMES)
def test_the_chart_is_what_the_script_draws(theme, tmp_path):
    """`python bench/chart.py` would change nothing."""
    for needed in ("altair", "vl_convert", "numpy"):
        pytest.importorskip(needed, reason=f"{needed} is not installed (the extra `report`)")
    name = f"throughput-{theme}.svg"

    script = [sys.executable, str(ROOT / "bench" / "chart.py"), str(tmp_path)]
    subprocess.run(script, check=True)

    assert (IMAGES / name).read_text("utf-8") == (tmp_path / name).read_text("utf-8")


def test_the_table_of_the_docs_has_every_figure(rates):
    """It is written by hand, beside ratios."""
    page = (ROOT / "docs" / "explanation" / "performance.md").read_text("utf-8")
    section = page.partition("\n## Against the others\n")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| [^|]+ \| ([\d,]+) \|", section, re.MULTILINE)

    assert sorted(rates) == sorted(shown)


def test_the_readme_says_in_words_what_the_chart_shows(rates):
    """For those who cannot see it, and for PyPI while it cannot show it."""
    text = re.search(r'<img alt="([^"]+)"', (ROOT / "README.md").read_text("utf-8"))[1]

    assert set() == set(re.findall(r"\d[\d,]+\d", text)) - set(rates)
    assert "pyflinklike" in text
