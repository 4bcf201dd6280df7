# SPDX-License-Identifier: Apache-2.0
"""The example over an access log: the shell, a batch and a stream agree."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter, defaultdict
from datetime import datetime
from functools import reduce

import pytest
from example_support import example
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(shutil.which("awk") is None, reason="awk is not installed")


def _lines(directory):
    """Host, time in ms and page of each line."""
    found = []
    for line in (directory / "access.log").read_text().splitlines():
        host, _, _, day, zone, _, page, *_ = line.split(" ")
        time = datetime.strptime(f"{day} {zone}", "[%d/%b/%Y:%H:%M:%S %z]")
        found.append((host, int(time.timestamp() * 1000), page))
    return found


@pytest.mark.thorough
def test_the_shell_a_batch_and_a_stream_agree(spark, tmp_path):
    """On the five most viewed pages, on the hourly windows, and on the visits."""
    log = example("access_log")
    log.write_log(tmp_path, 2_000, files=2)
    lines = _lines(tmp_path)
    bounded = log.parsed(spark.read.text(str(tmp_path / "access.log")))
    stream = log.parsed(
        spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "parts"))
    )
    in_batch = log.page_views(bounded).persist()
    in_stream = log.streamed(log.page_views(stream), tmp_path / "pages").persist()
    shell = log.pipeline(tmp_path)

    assert 5 == len(shell)
    assert shell == log.top_five(in_batch) == log.top_five(in_stream)
    hours = Counter((page, time // log.HOUR * log.HOUR) for _, time, page in lines)
    for views in (in_batch, in_stream):
        rows = views.groupBy("page", "hour").max("in_hour").collect()
        assert hours == {(row[0], row[1]): row[2] for row in rows}
    expected = _visits(lines, log.PAUSE.total_seconds() * 1000)
    in_batch_visits = log.visits(log.visit_changes(bounded)).collect()
    changes = log.streamed(log.visit_changes(stream), tmp_path / "visits")
    assert expected == sorted(map(tuple, in_batch_visits))
    assert expected == sorted(map(tuple, log.visits(changes).collect()))
    for views in (in_batch, in_stream):
        views.unpersist()


def _visits(lines, pause):
    """The visits of each host by its sorted views."""
    views = defaultdict(list)
    for host, time, _ in lines:
        views[host].append(time)
    found = []
    for host, times in views.items():
        mine = []
        for time in sorted(times):
            if mine and time - mine[-1][2] <= pause:
                mine[-1] = (host, mine[-1][1], time, mine[-1][3] + 1)
            else:
                mine.append((host, time, time, 1))
        found += mine
    return sorted(found)


# Sessions out of order

_clicks = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=6)


@given(_clicks)
def test_clicks_of_one_second_are_ordered_as_by_the_loop(made):
    """By their pages, in whatever order they come."""
    sessions = example("click_sessions")
    group = [
        sessions.Click("ann", page, at := sessions.DAY + dt.timedelta(seconds=second), at)
        for page, second in made
    ]
    visit = sessions.Visit()
    accumulator = reduce(
        lambda kept, each: visit.add(each, kept), group, visit.create_accumulator()
    )
    _, _, _, *expected = sessions._row(group)

    assert tuple(expected) == visit.get_result(accumulator)
