# SPDX-License-Identifier: Apache-2.0
"""Nothing below a host reads the system's time: a retried micro-batch must decide as it did before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pyflinklike"
HOSTS = ("spark", "testing", "retries", "kafka", "pyflink/_spark", "state_processor/_checkpoints")

# A module that has none of these words reads no time; not each is taken apart.
WORDS = re.compile(r"time\.time|from time |_ns\b|monotonic|perf_counter|now\b|today\b")
READS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def clock_reads(source: str) -> Iterator[str]:
    """Where a module asks the system for the time, by names of the standard library."""
    if not WORDS.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            names = READS["time"] & {alias.name for alias in node.names}
            yield from (f"line {node.lineno}: from time import {name}" for name in sorted(names))
        elif isinstance(node, ast.Attribute):
            owner = node.value
            of = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if node.attr in READS.get(of, ()):
                yield f"line {node.lineno}: {of}.{node.attr}"


def test_the_time_is_read_in_one_place():
    """`_clock.wall_clock` is the default of those who take a clock; hosts do as they like."""
    found = [
        f"{path.relative_to(PACKAGE)}: {read}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.relative_to(PACKAGE).as_posix().startswith(HOSTS)
        for read in clock_reads(path.read_text(encoding="utf-8"))
    ]

    assert ["_clock.py"] == [each.partition(":")[0] for each in found], found


@pytest.mark.parametrize(
    "source",
    [
        "import time\nnow = time.time()",
        "import time\ndef f(clock=time.time_ns): ...",
        "from time import monotonic",
        "import datetime as dt\ndt.datetime.now(dt.timezone.utc)",
        "from datetime import date\ndate.today()",
    ],
)
def test_a_planted_read_is_found(source):
    """However it is written, also where it is only named."""
    assert len(list(clock_reads(source))) == 1
