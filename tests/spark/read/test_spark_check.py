# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on real Spark: what `check` finds in them, and what reports draw of them."""

import json

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
pytest.importorskip("click")
pytest.importorskip("rich")

from pyspark.sql import functions as F
from spark_support import Feed, at, drain, pickle_by_value, reads_state

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.cli import main
from pyflinklike.report import ProgressLog, checkpoint_report, query_report
from pyflinklike.spark import key_by
from pyflinklike.spark._api import inputs
from pyflinklike.state_processor._checkpoints.checkpoint import OperatorAt
from pyflinklike.state_processor._checkpoints.checkpoint_check import check_checkpoint

pytestmark = [
    reads_state,
    pytest.mark.thorough,
    pytest.mark.classic(reason="a listener of a classic session"),
]
pickle_by_value(__name__)

HOUR = 3_600_000
FIRST = [("ann", at(1000), 1), ("bob", at(2000), 2), ("ann", at(3000), 3)]
SECOND = [("bob", at(4000), 4), ("eve", at(5000), 5)]


class Visits(KeyedProcessFunction):
    """Keeps of each user what it has seen, and passes it on."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.LONG())
        last.enable_time_to_live(StateTtlConfig.new_builder(HOUR // 2).build())
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value.n)
        self.all.add(value.n)
        ctx.timer_service().register_event_time_timer(HOUR + value.n)
        yield value.user, value.ts, value.n


class Longer(Visits):
    """With a TTL that brings nothing back, for nothing has expired, and without the list."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.LONG())
        last.enable_time_to_live(StateTtlConfig.new_builder(HOUR).build())
        self.last = runtime_context.get_state(last)


class ByTime(KeyedProcessFunction):
    """Behind it, keyed by a point in time."""

    def open(self, runtime_context):
        self.users = runtime_context.get_list_state(ListStateDescriptor("users", Types.STRING()))

    def process_element(self, value, ctx):
        self.users.add(value.user)
        ctx.timer_service().register_event_time_timer(2 * HOUR)
        yield value.user, value.ts, value.n


SCHEMA = "user string, ts timestamp, n long"


def counted(feed):
    """Visits alone."""
    return key_by(feed.stream(), "user").process(
        Visits(), SCHEMA, event_time="ts", max_parallelism=2, uid="visits"
    )


@pytest.fixture(scope="module")
def feed(spark, tmp_path_factory):
    """Of two batches."""
    made = Feed(spark, tmp_path_factory.mktemp("check") / "feed", SCHEMA)
    made.add(FIRST, SECOND)
    return made


@pytest.fixture(scope="module")
def log(spark, tmp_path_factory):
    """Of the queries of this module."""
    path = tmp_path_factory.mktemp("log") / "progress.jsonl"
    listener = ProgressLog(path)
    spark.streams.addListener(listener)
    yield path
    spark.streams.removeListener(listener)


@pytest.fixture(scope="module")
def chain(spark, feed, log, tmp_path_factory):
    """Of two operators, one behind the other."""
    path = tmp_path_factory.mktemp("chain") / "checkpoint"
    behind = key_by(counted(feed), "ts").process(
        ByTime(), SCHEMA, event_time="ts", max_parallelism=2, uid="by-time"
    )
    drain(behind, path)
    return str(path)


def parts(spark, path, **options):
    """What is found wrong."""
    return [each.part for each in check_checkpoint(spark, path, **options)[0]]


def test_nothing_is_found_in_a_healthy_chain(spark, chain):
    """In any batch of either operator, and everything is looked at."""
    found, checked = check_checkpoint(spark, chain, all_batches=True)
    assert ([], 2 * 3, True) == (found, checked.batches, checked.entries > 30)


def test_keys_in_the_wrong_key_group_are_found(spark, feed, tmp_path, monkeypatch):
    """Of every state, and timers: as a stream with another hash would have put them."""
    right = inputs.group_or_hash
    monkeypatch.setattr(inputs, "group_or_hash", lambda *at: (F.lit(1) - right(*at)).cast("int"))
    drain(counted(feed), tmp_path / "checkpoint")
    found, _ = check_checkpoint(spark, str(tmp_path / "checkpoint"))
    words = {each.message.rpartition("key group")[0].split(", ")[-1] for each in found}
    assert ({"keys"}, True) == ({each.part for each in found}, len(found) >= 3), words
    assert "keys must be in the key group that they hash to" in found[0].message


def test_a_timer_that_spark_has_lost_is_found(spark, chain, monkeypatch):
    """Of each key group whose head asks for one."""
    every = OperatorAt.registered_timers
    monkeypatch.setattr(OperatorAt, "registered_timers", lambda at: every(at).limit(0))
    found = parts(spark, chain, operator="visits")
    assert ({"timers"}, True) == (set(found), len(found) in (1, 2))


def test_a_restart_is_explained(chain, capsys):
    """A program with a longer TTL that has no use for the list."""
    program = ("--function", f"{__name__}:Longer", "--operator", "visits")
    code = main(["state", "explain", chain, *program, "--json"])
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    told = {row["state"]: (row["outcome"], row["note"].partition(",")[0]) for row in rows}
    assert {
        "all": ("left over", "stays in the log as it is"),
        "last": ("same", "TTL of 1 hour"),
        "timers": ("same", "5 registered"),
    } == told
    assert 0 == code


def test_it_is_told_how_the_logs_stand(spark, chain, capsys):
    """Of both operators, with as many entries as there are."""
    code = main(["state", "explain", chain, "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    _, checked = check_checkpoint(spark, chain)
    found = ({row["operator"] for row in rows}, sum(row["entries"] for row in rows))
    assert (0, ({"visits", "by-time"}, checked.entries)) == (code, found)


def test_a_report_has_the_numbers_of_the_checkpoint(spark, chain, tmp_path):
    """As the model has them: four keys of three, entries, timers and batches."""
    report = checkpoint_report(spark, chain, tmp_path / "page.html", operator="visits")
    data = report.data
    hottest = dict(zip(data["hottest_keys"].key, data["hottest_keys"].batches))
    largest = dict(zip(data["largest_keys"].key, data["largest_keys"].entries))
    timers = {row.comes: row.timers for row in data["timers"].itertuples() if row.timers}
    expiry = {row.ends: row.entries for row in data["expiry"].itertuples() if row.entries}
    states = dict(zip(data["states"].state, data["states"].entries))
    grown, skew = data["growth"], data["skew"]
    assert {"ann": 1, "bob": 2, "eve": 1} == hottest
    assert {"ann": 3, "bob": 3, "eve": 2} == largest
    assert [3, 3, 2] == list(data["heaviest_keys"].entries)
    assert ({"next hour": 5}, {"next hour": 3}, 5) == (timers, expiry, states["all"])
    assert ([0, 1, 2], 0) == (list(grown.batch), len(data["check"]))
    assert (skew.bytes.sum(), skew.entries.sum()) == (grown.bytes.iloc[-1], grown.entries.iloc[-1])
    assert "vegaEmbed" in (tmp_path / "page.html").read_text()
    headline = dict(report.headline)
    assert ("3", "5", "2") == (headline["keys"], headline["timers"], headline["after batch"])


def test_a_log_of_progress_is_drawn(spark, chain, log, tmp_path):
    """Each batch with what the operators counted."""
    ids = {json.loads(line)["id"] for line in log.read_text().splitlines()}
    report = query_report(log, tmp_path / "page.html", name=min(ids) if len(ids) > 1 else None)
    operators = report.data["operators"]
    records = operators[operators.metric == "records"]
    assert {"visits", "by-time"} == set(operators.operator) or len(ids) > 1
    assert [3, 2, 0] == list(records[records.operator == "visits"].value)
