# SPDX-License-Identifier: Apache-2.0
"""What a page looks like, whatever it is about."""

import re

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from pyflinklike.report import Picture, Report
from pyflinklike.report.page import bars, flat_bars, size_in_words, stack_bars

ROWS = [{"key_group": 3, "log_bytes": 40_000_000, "entries": 12_000}]


def page(tmp_path, **options):
    """The text of a page with one picture."""
    picture = Picture("skew", "Key groups", "", list(ROWS[0]), ROWS)
    report = Report(str(tmp_path / "page.html"), "State", "facts", [picture], **options).write()
    assert [40_000_000] == list(report.data["skew"].log_bytes)
    return (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (40_000_000, "40.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (7 * 10**15, "7,000.0 TB"),
    ],
)
def test_a_size_has_the_unit_that_suits_it(size, words):
    """Down to a byte where it is small."""
    assert words == size_in_words(size)


def test_a_page_has_names_and_sizes_as_people_read_them(tmp_path):
    """The numbers behind it stay what they are."""
    table = page(tmp_path).partition("<table>")[2].partition("</table>")[0]
    cells = [text for text in re.sub("<[^>]*>", "|", table).split("|") if text]

    assert ["key group", "log bytes", "entries", "3", "40.0 MB", "12,000"] == cells


def test_a_page_begins_with_its_headline(tmp_path):
    """Before all pictures; what comes from the state is no markup."""
    text = page(tmp_path, headline=[("keys of <a>", "1,200")])

    assert "<b>1,200</b><span>keys of &lt;a&gt;</span>" in text.partition("<h2>")[0]


@pytest.mark.parametrize(
    "chart",
    [
        bars(ROWS, "log_bytes", "key_group"),
        bars(ROWS, "log_bytes", "key_group", rule=5.0)["layer"][0],
        stack_bars(ROWS, "log_bytes", "key_group", "entries", []),
    ],
    ids=["bars", "with a rule", "stacked"],
)
def test_names_below_bars_are_upright(chart):
    """And those of axes are words; numbers of bytes have their unit."""
    x, y = chart["encoding"]["x"], chart["encoding"]["y"]

    assert (0, "key group", "log bytes") == (x["axis"]["labelAngle"], x["title"], y["title"])
    assert "'B'" in y["axis"]["labelExpr"]


def test_long_numbers_are_shortened():
    """Those of entries without a unit, and without halves."""
    axis = flat_bars(ROWS, "entries", "key_group")["encoding"]["x"]["axis"]

    assert ("'~s'" in axis["labelExpr"], 1) == (True, axis["tickMinStep"])
    assert "'B'" not in axis["labelExpr"]
