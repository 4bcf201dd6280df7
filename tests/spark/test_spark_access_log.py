# SPDX-License-Identifier: Apache-2.0
"""The example over an access log: the shell, a batch and a stream agree."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path

import pytest
from pyspark import cloudpickle

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access_log.py"

pytestmark = pytest.mark.skipif(shutil.which("awk") is None, reason="awk is not installed")


@pytest.fixture(scope="module")
def example():
    """The example as a module whose classes reach the workers."""
    spec = importlib.util.spec_from_file_location("access_log_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module


def _lines(directory):
    """Host, time in ms and page of each line."""
    found = []
    for line in (directory / "access.log").read_text().splitlines():
        host, _, _, day, zone, _, page, *_ = line.split(" ")
        time = datetime.strptime(f"{day} {zone}", "[%d/%b/%Y:%H:%M:%S %z]")
        found.append((host, int(time.timestamp() * 1000), page))
    return found


def test_the_shell_a_batch_and_a_stream_agree(spark, example, tmp_path):
    """On the five most viewed pages, on the hourly windows, and on the visits."""
    example.write_log(tmp_path, 2_000, files=2)
    lines = _lines(tmp_path)
    bounded = example.parsed(spark.read.text(str(tmp_path / "access.log")))
    stream = example.parsed(
        spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "parts"))
    )
    in_batch = example.page_views(bounded).persist()
    in_stream = example.streamed(example.page_views(stream), tmp_path / "pages").persist()
    shell = example.pipeline(tmp_path)

    assert 5 == len(shell)
    assert shell == example.top_five(in_batch) == example.top_five(in_stream)
    hours = Counter((page, time // example.HOUR * example.HOUR) for _, time, page in lines)
    for views in (in_batch, in_stream):
        rows = views.groupBy("page", "hour").max("in_hour").collect()
        assert hours == {(row[0], row[1]): row[2] for row in rows}
    expected = _visits(lines, example.PAUSE.total_seconds() * 1000)
    in_batch_visits = example.visits(example.visit_changes(bounded)).collect()
    changes = example.streamed(example.visit_changes(stream), tmp_path / "visits")
    assert expected == sorted(map(tuple, in_batch_visits))
    assert expected == sorted(map(tuple, example.visits(changes).collect()))
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
