# SPDX-License-Identifier: Apache-2.0
"""State in SQL: views of a checkpoint's and of a savepoint's states."""

import re

import pytest
from spark_support import Feed, at, drain, pickle_by_value, reads_state

from pyflinklike import (
    KeyedProcessFunction,
    MapStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    UnknownStateError,
)
from pyflinklike.spark import key_by
from pyflinklike.state_processor import StateViews, create_state_views, read_state, write_savepoint
from pyflinklike.state_processor._checkpoints import group_job
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness

pytestmark = reads_state
pickle_by_value(__name__)

FIRST = [("a", 1, at(1000), 1), ("b", 1, at(2000), 2), ("a", 2, at(3000), 3)]
SECOND = [("b", 1, at(4000), 4), ("c", 1, at(5000), 5)]


class Visits(KeyedProcessFunction):
    """Keeps of each user in each shop what it has seen."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.SQL_TIMESTAMP())
        last.enable_time_to_live(StateTtlConfig.new_builder(3_600_000).build())
        self.last = runtime_context.get_state(last)
        counts = MapStateDescriptor("all counts", Types.BOOLEAN(), Types.LONG())
        self.counts = runtime_context.get_map_state(counts)
        shared = KeyValueStoreDescriptor("user", Types.STRING(), Types.LONG(), scope="partition")
        self.shared = runtime_context.get_store(shared)

    def process_element(self, value, ctx):
        self.last.update(value.ts)
        even = value.n % 2 == 0
        self.counts.put(even, (self.counts.get(even) or 0) + 1)
        self.shared.put(value.user, value.n)
        ctx.timer_service().register_event_time_timer(value.n * 10_000)
        yield value.user, ctx.timer_service().list_event_time_timers()


@pytest.fixture(scope="module")
def visited(spark, tmp_path_factory):
    """The rows and the checkpoint of a query that has read two batches, keyed by two columns."""
    directory = tmp_path_factory.mktemp("state_views")
    feed = Feed(spark, directory / "feed", "user string, shop long, ts timestamp, n long")
    feed.add(FIRST, SECOND)
    visits = key_by(feed.stream(), "user", "shop").process(
        Visits(),
        "user string, timers array<long>",
        event_time="ts",
        max_parallelism=8,
        uid="visits",
    )
    rows = drain(visits, directory / "checkpoint")
    return rows, directory / "checkpoint"


@pytest.fixture(scope="module")
def checkpoint(visited):
    """The checkpoint alone."""
    return visited[1]


@pytest.mark.thorough
def test_a_stream_lists_the_timers_of_a_key(visited):
    """As the harness does: those of this key, of all batches so far."""
    rows = sorted(tuple(row) for batch in visited[0].values() for row in batch)
    assert [
        ("a", [10_000]),
        ("a", [30_000]),
        ("b", [20_000]),
        ("b", [20_000, 40_000]),
        ("c", [50_000]),
    ] == rows


def rows_of(frame):
    """Rows as tuples, in order."""
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.telling
def test_each_state_store_and_queue_of_timers_is_a_view_of_one_batch(spark, checkpoint):
    """SQL joins them with the user's tables; another call shows another batch."""
    views = create_state_views(spark, checkpoint, "visits")
    assert [
        ("`visits_all counts`", "map", ("user", "shop", "user_key", "all counts", "key_group")),
        (
            *("visits_last", "value"),
            ("user", "shop", "last", "stamp", "expires_at", "alive", "key_group"),
        ),
        ("visits_user", "key-value", ("store_key", "user", "key_group")),
        (
            *("visits_timers", "timers"),
            ("user", "shop", "domain", "timestamp", "time", "due", "key_group"),
        ),
    ] == [(each.view, each.kind, each.columns) for each in views]
    spark.createDataFrame([("a", "Ann"), ("c", "Cid")], "user string, name string").createTempView(
        "named_users"
    )
    joined = spark.sql(
        "SELECT name, shop, last, alive FROM named_users JOIN visits_last USING (user)"
    )
    expected = [("Ann", 1, at(1000), True), ("Ann", 2, at(3000), True), ("Cid", 1, at(5000), True)]
    assert expected == rows_of(joined)
    assert [(5,)] == rows_of(spark.sql("SELECT count(*) FROM visits_timers"))

    create_state_views(spark, checkpoint, "visits", 0, states=["last", "all counts"])
    before = spark.sql("SELECT user, shop, `all counts` FROM `visits_all counts`")
    assert [("a", 1, 1), ("a", 2, 1), ("b", 1, 1)] == rows_of(before)
    there = {each.name for each in spark.catalog.listTables() if each.name.startswith("visits")}
    assert {"visits_last", "visits_all counts"} == there


@pytest.mark.telling
@pytest.mark.thorough
def test_a_condition_on_all_key_columns_reads_one_key_group(spark, checkpoint, capsys):
    """Catalyst makes the key group of it, and decides by that what comes to Python at all."""
    create_state_views(spark, checkpoint, "pruned")
    one = spark.sql("SELECT * FROM pruned_last WHERE shop = 1 AND user = 'b'")
    wanted = read_state(spark, checkpoint, "last", keys=[("b", 1)])
    assert rows_of(wanted) == rows_of(one)
    assert rows_of(read_state(spark, checkpoint, "last")) == rows_of(spark.table("pruned_last"))
    one.explain()
    (is_one, *_) = (*re.findall(r"__key_group = \d+\)", capsys.readouterr().out), None)
    assert (group_job._arrow_udf is not None) == (is_one is not None)


def test_a_savepoint_has_views_too(spark, tmp_path):
    """Also one that a harness has written, which has no key columns of its own."""
    with KeyedProcessHarness(
        Visits(), key_selector=lambda row: row.user, key_type=Types.STRING()
    ) as harness:
        harness.set_processing_time(10_000)
        harness.process_element(Row(user="ann", ts=at(7), n=3), timestamp=7)
        write_savepoint(harness, tmp_path / "saved")
    views = create_state_views(spark, tmp_path / "saved", "saved", now=20_000)
    assert isinstance(views, StateViews)
    assert "`saved_all counts`" in views._repr_html_()
    last = spark.sql("SELECT key, last, alive FROM saved_last")
    assert [("ann", at(7), True)] == rows_of(last)
    assert [("ann", 30_000)] == rows_of(spark.sql("SELECT key, timestamp FROM saved_timers"))
    with pytest.raises(UnknownStateError, match="did you mean 'last'"):
        create_state_views(spark, tmp_path / "saved", "saved", states=["lost"])


class Alike(KeyedProcessFunction):
    """Has states whose views SQL could not tell apart."""

    def __init__(self, *names):
        self.names = names

    def open(self, runtime_context):
        for name in self.names:
            runtime_context.get_state(ValueStateDescriptor(name, Types.LONG()))

    def process_element(self, value, ctx):
        return ()


def saved(path, *names):
    """The directory of a savepoint with states of these names."""
    with KeyedProcessHarness(
        Alike(*names), key_selector=lambda row: row.user, key_type=Types.STRING()
    ) as harness:
        write_savepoint(harness, path)
    return path


def test_names_that_sql_cannot_tell_apart_are_refused(spark, tmp_path):
    """Spark does not tell capital letters from small ones; a choice of states goes on."""
    pages = saved(tmp_path / "pages", "Pages", "pages")
    timers = saved(tmp_path / "timers", "timers")
    with pytest.raises(DeclarationValueError, match=r"'v_pages' for state 'Pages'.*state 'pages'"):
        create_state_views(spark, pages, "v")
    with pytest.raises(
        DeclarationValueError, match=r"'v_timers' for state 'timers'.*the timers of"
    ):
        create_state_views(spark, timers, "v")
    (view,) = create_state_views(spark, timers, "v`x", states=["timers"])
    assert "`v``x_timers`" == view.view
    assert [] == rows_of(spark.table(view.view))
    with pytest.raises(DeclarationValueError, match="got ''; write prefix="):
        create_state_views(spark, pages, "")
    with pytest.raises(DeclarationTypeError, match="write states="):
        create_state_views(spark, pages, "v", states="pages")
