# SPDX-License-Identifier: Apache-2.0
"""Reports of queries, from files of their progress: what Spark 4.3 wrote, shortened."""

import json
import re

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.errors import DeclarationValueError
from pyflinklike.report import Picture, Report, query_report
from pyflinklike.report.page import bars, flat_bars, size_in_words, stack_bars

COUNTS = dict.fromkeys(OperatorMetrics.names(), 0)


def progress(batch, **changes):
    """What a listener is told of a batch."""
    told = {
        "id": "one",
        "runId": "first",
        "name": "clicks",
        "timestamp": f"2026-11-23T05:00:{batch:02}.500Z",
        "batchId": batch,
        "numInputRows": 100,
        "inputRowsPerSecond": 50.0,
        "processedRowsPerSecond": 200.0,
        "durationMs": {"addBatch": 300, "walCommit": 20, "triggerExecution": 350},
        "eventTime": {"watermark": f"2026-11-23T05:00:{batch:02}.000Z"},
        "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 1000}],
        "observedMetrics": {"count": {**COUNTS, "cold_loads": 4 - batch, "user": {"late": batch}}},
        "sources": [{"startOffset": {"offset": 1}, "endOffset": None}],
    }
    return {**told, **changes}


@pytest.fixture
def logged(tmp_path):
    """Writes a progress log; its path."""

    def write(*batches, end="\n"):
        path = tmp_path / "progress.jsonl"
        path.write_text("\n".join(map(json.dumps, batches)) + end)
        return path

    return write


@pytest.fixture
def report(logged, tmp_path):
    """The report of batches."""
    return lambda *batches, **options: query_report(
        logged(*batches), tmp_path / "page.html", **options
    )


def rows(frame):
    """Of a DataFrame, as dicts."""
    return frame.to_dict("records")


def test_each_picture_has_its_numbers(report):
    """Rates, the watermark's lag, loads and what the function counts."""
    data = report(progress(0), progress(1)).data
    operators = data["operators"]
    cold = operators[operators.metric == "cold_loads"]
    found = {
        "rates": list(data["throughput"].processed_per_second),
        "lag": list(data["watermark"].lag_ms),
        "bytes": list(data["state"].memory_bytes),
        "cold": list(cold.value),
        "user": rows(data["metrics"])[1],
    }
    assert {
        "rates": [200.0, 200.0],
        "lag": [500, 500],
        "bytes": [1000, 1000],
        "cold": [4, 3],
        "user": {"batch": 1, "operator": "count", "metric": "late", "value": 1},
    } == found


def test_the_phases_of_a_batch_add_up_to_its_time(report):
    """What Spark does not tell is there, too."""
    durations = report(progress(0)).data["durations"]
    assert {"addBatch": 300, "walCommit": 20, "other": 30} == dict(
        zip(durations.phase, durations.ms)
    )


def test_a_batch_that_is_done_again_counts_once(report):
    """After a restart Spark does the last one again, and a trigger without data does none."""
    again = progress(1, runId="second", numInputRows=5)
    idle = progress(2, durationMs={"latestOffset": 1, "triggerExecution": 1})
    data = report(progress(0), progress(1), again, idle).data
    assert [(0, 100), (1, 5)] == [(r["batch"], r["rows"]) for r in rows(data["throughput"])]


def test_rates_over_no_time_are_left_out(report, tmp_path):
    """Spark writes NaN and Infinity, which are no JSON: the page has none."""
    odd = progress(0, inputRowsPerSecond=float("nan"), processedRowsPerSecond=float("inf"))
    throughput = report(odd, progress(1)).data["throughput"]
    assert [True, False] == list(throughput.in_per_second.isna())
    specs = re.search(
        r'type="application/json">(.*?)</script>', (tmp_path / "page.html").read_text()
    )
    assert json.loads(specs[1], parse_constant=pytest.fail)


def test_without_event_time_there_is_no_lag(report):
    """And before the first event the watermark is Spark's 1970."""
    early = progress(1, eventTime={"watermark": "1970-01-01T00:00:00.000Z"})
    assert 0 == len(report(progress(0, eventTime={}), early).data["watermark"])


def test_the_page_fetches_nothing(report, tmp_path):
    """No element names an address, and the browser is told to refuse what a script would ask for."""
    report(progress(0), progress(1))
    page = (tmp_path / "page.html").read_text()
    elements = re.sub(r"<script[^>]*>.*?</script>", "<script></script>", page, flags=re.S)
    found = re.findall(
        r"""\b(?:src|href|action|data)\s*=|@import|url\(|<link|<iframe|<img""", elements
    )
    assert ([], True, True) == (
        found,
        "default-src 'none'" in elements,
        "connect-src" not in page[:2000],
    )


def test_nothing_in_a_name_is_markup(report, tmp_path):
    """Names of queries, operators and metrics are the user's."""
    hostile = "</script><img src=x onerror=alert(1)>"
    told = progress(0)["observedMetrics"]["count"]
    report(progress(0, name=hostile, observedMetrics={hostile: {**told, "user": {hostile: 1}}}))
    page = (tmp_path / "page.html").read_text()
    assert (0, 3) == (page.count("<img src=x"), page.count("</script>"))


def test_a_cut_last_line_is_left_out(logged, tmp_path):
    """The driver may end while it is written; another line that is no progress is refused."""
    path = logged(progress(0), progress(1))
    path.write_text(path.read_text()[:-9])
    assert 1 == len(query_report(path, tmp_path / "page.html").data["throughput"])
    with pytest.raises(DeclarationValueError, match="in line 1; write it with ProgressLog"):
        query_report(logged({"other": 1}, progress(0)), tmp_path / "page.html")


def test_one_of_several_queries_is_chosen_by_name(report):
    """A listener logs all of a session."""
    other = progress(0, id="two", name="views", numInputRows=1)
    with pytest.raises(DeclarationValueError, match=r"\['clicks', 'views'\]; choose with name="):
        report(progress(0), other)
    assert [1] == list(report(progress(0), other, name="views").data["throughput"].rows)


def test_a_query_without_batches_is_refused(report):
    """There is nothing to draw yet."""
    with pytest.raises(DeclarationValueError, match="wait for its first progress"):
        report(progress(0, durationMs={}))


def test_notebooks_show_the_numbers(report):
    """As tables, without a script."""
    shown = report(progress(0))._repr_html_()
    assert (True, False) == ('<td style="text-align:right">300</td>' in shown, "<script" in shown)


# The page

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
