# SPDX-License-Identifier: Apache-2.0
"""The command line on the checkpoint of a stream."""

import json
import re
import shutil

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from spark_support import Feed, at, drain, pickle_by_value, reads_state

from pyflinklike import (
    KeyedProcessFunction,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.cli import main
from pyflinklike.spark import key_by

pytestmark = [reads_state, pytest.mark.classic(reason="the command line has a session of its own")]
pickle_by_value(__name__)

FIRST = [("ann", at(1000), 1), ("bob", at(2000), 2), ("ann", at(3000), 3)]
SECOND = [("bob", at(4000), 4), ("eve", at(5000), 5)]


class Visits(KeyedProcessFunction):
    """Keeps of each user what it has seen."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.LONG())
        last.enable_time_to_live(StateTtlConfig.new_builder(3_600_000).build())
        self.last = runtime_context.get_state(last)
        counts = MapStateDescriptor("counts", Types.BOOLEAN(), Types.LONG())
        self.counts = runtime_context.get_map_state(counts)

    def process_element(self, value, ctx):
        self.last.update(value.n)
        even = value.n % 2 == 0
        self.counts.put(even, (self.counts.get(even) or 0) + 1)
        ctx.timer_service().register_event_time_timer(value.n * 10_000)
        yield value.user, value.n


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Of a query that has read two batches."""
    directory = tmp_path_factory.mktemp("command_line")
    feed = Feed(spark, directory / "feed", "user string, ts timestamp, n long")
    feed.add(FIRST, SECOND)
    counted = key_by(feed.stream(), "user").process(
        Visits(), "user string, n long", event_time="ts", max_parallelism=2, uid="visits"
    )
    drain(counted, directory / "checkpoint")
    return directory / "checkpoint"


@pytest.fixture
def lines(capsys):
    """Runs `pyflinklike state ... --json`: the exit code, the objects, and the errors."""

    def run(*arguments):
        code = main(["state", *map(str, arguments), "--json"])
        told = capsys.readouterr()
        return code, [json.loads(line) for line in told.out.splitlines()], told.err

    return run


def test_a_key_is_got_of_a_checkpoint(lines, checkpoint):
    """Of the last batch, which the answer names: it had no records, but moved the watermark."""
    code, rows, _ = lines("get", checkpoint, "counts", "bob")
    assert (0, [(2, "bob", True, 2)]) == (
        code,
        [(row["batch_id"], row["user"], row["user_key"], row["value"]) for row in rows],
    )


@pytest.mark.thorough
def test_a_healthy_checkpoint_passes_and_a_damaged_one_does_not(lines, checkpoint, tmp_path):
    """A byte of a file of the state is enough."""
    damaged = tmp_path / "damaged"
    shutil.copytree(checkpoint, damaged)
    for file in (damaged / "state").rglob("*"):
        if file.is_file() and re.fullmatch(r"\d+(_.*)?\.(changelog|zip|delta)", file.name):
            blob = bytearray(file.read_bytes())
            blob[len(blob) // 2] ^= 1
            file.write_bytes(bytes(blob))
    healthy, broken = lines("check", checkpoint), lines("check", damaged)
    assert (0, [], 1, True) == (*healthy[:2], broken[0], bool(broken[1]))


@pytest.mark.thorough
def test_two_batches_are_compared(lines, checkpoint):
    """What the second did."""
    code, rows, _ = lines("diff", checkpoint, "--batches", "0..1")
    found = [
        (row["state"], row["change"], row["user"], row["before"], row["after"])
        for row in rows
        if row["state"] != "timers"
    ]
    timers = [(r["change"], r["user"], r["timestamp"]) for r in rows if r["state"] == "timers"]
    assert [("insert", "bob", 40_000), ("insert", "eve", 50_000)] == timers
    assert 1 == code
    assert [
        ("counts", "update", "bob", 1, 2),
        ("counts", "insert", "eve", None, 1),
        ("last", "update", "bob", 2, 4),
        ("last", "insert", "eve", None, 5),
    ] == found


@pytest.mark.thorough
def test_all_other_commands_read_checkpoints(lines, checkpoint, tmp_path):
    """Their exit codes, and what they found."""
    code, rows, _ = lines("list", checkpoint)
    assert (0, [("counts", 4), ("last", 4)]) == (code, [(r["name"], r["entries"]) for r in rows])
    assert {3} == {row["keys"] for row in rows}
    code, rows, _ = lines("show", checkpoint, "last", "--where", "value > 3", "--batch", "1")
    assert (0, [("bob", 4), ("eve", 5)]) == (code, [(r["user"], r["value"]) for r in rows])
    code, rows, _ = lines("timers", checkpoint, "--limit", "2")
    assert (0, [10_000, 20_000]) == (code, [row["timestamp"] for row in rows])
    assert 0 == lines("export", checkpoint, tmp_path / "saved")[0]
    assert (0, [], "") == lines("check", tmp_path / "saved")
    assert 0 == lines("export", checkpoint, tmp_path / "files", "--format", "jsonl")[0]
    assert 0 == lines("export", checkpoint, tmp_path / "csv", "--format", "csv")[0]
    parts = (tmp_path / "csv").rglob("states/last/*.csv")
    cells = sorted(line for part in parts for line in part.read_text().splitlines()[1:])
    assert ["ann,3,", "bob,4,", "eve,5,"] == [line[:6] for line in cells]
    assert 1 == lines("get", checkpoint, "last", "nobody")[0]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "CHECKPOINT", "lost"], "did you mean 'last'?"),
        (["show", "CHECKPOINT", "last", "--batch", "7"], "its batches are 0 to 2"),
        (["show", "CHECKPOINT", "last", "--where", "nope = 1"], "its columns are"),
        (["list", "CHECKPOINT", "--operator", "other"], "operator must be one that process() made"),
        (["list", "FEED"], "give the checkpointLocation of the query"),
    ],
)
def test_what_spark_cannot_read_is_one_sentence(lines, checkpoint, arguments, words):
    """With exit code 2."""
    paths = {"CHECKPOINT": checkpoint, "FEED": checkpoint.parent / "feed"}
    code, rows, err = lines(*(paths.get(each, each) for each in arguments))
    assert (2, [], True, 1) == (code, rows, words in err, len(err.splitlines()))
