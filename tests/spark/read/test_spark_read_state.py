# SPDX-License-Identifier: Apache-2.0
"""State of a checkpoint as DataFrames: what users see of a stream's state while it stands or runs."""

import attrs
import pytest
from pyspark.errors import PySparkException
from spark_support import Feed, at, drain, pickle_by_value, reads_state

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    SparkSetupError,
    StateValueError,
    UnknownBatchError,
    UnknownStateError,
)
from pyflinklike.spark import key_by
from pyflinklike.state_processor import (
    list_states,
    read_heads,
    read_segments,
    read_state,
    read_timers,
)
from pyflinklike.state_processor._checkpoints.checkpoint import checkpoint_states
from pyflinklike.state_processor._checkpoints.state_changes import changes_up_to
from pyflinklike.state_processor._logs.log_rows import StateChanges
from pyflinklike.state_processor._logs.state_infos import describe_states, state_of
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.stores import KeyValueStoreDescriptor

pytestmark = reads_state
pickle_by_value(__name__)

FIRST = [("a", at(1000), 1), ("b", at(2000), 2), ("a", at(3000), 3)]
SECOND = [("b", at(4000), 4), ("c", at(5000), 5)]


class Visits(KeyedProcessFunction):
    """Keeps of each user what it has seen."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.LONG())
        ttl = StateTtlConfig.new_builder(2500)
        ttl.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)
        last.enable_time_to_live(ttl.build())
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        counts = MapStateDescriptor("counts", Types.BOOLEAN(), Types.LONG())
        self.counts = runtime_context.get_map_state(counts)
        runtime_context.get_state(ValueStateDescriptor("never", Types.STRING()))
        shared = KeyValueStoreDescriptor("shared", Types.STRING(), Types.LONG(), scope="partition")
        self.shared = runtime_context.get_store(shared)

    def process_element(self, value, ctx):
        self.last.update(value.n)
        self.all.add(value.n)
        even = value.n % 2 == 0
        self.counts.put(even, (self.counts.get(even) or 0) + 1)
        self.shared.put(value.user, value.n)
        ctx.timer_service().register_event_time_timer(value.n * 10_000)
        yield value.user, value.n


def begun(spark, directory, *batches):
    """The feed of these batches, and the checkpoint of a query that has read them."""
    feed = Feed(spark, directory / "feed", "user string, ts timestamp, n long")
    feed.add(*batches)
    checkpoint = directory / "checkpoint"
    drain(visits(feed), checkpoint)
    return feed, checkpoint


def visits(feed):
    """The stream, keyed and processed."""
    return key_by(feed.stream(), "user").process(
        Visits(), "user string, n long", event_time="ts", max_parallelism=4, uid="visits"
    )


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Of a query that has read two batches."""
    return begun(spark, tmp_path_factory.mktemp("read_state"), FIRST, SECOND)[1]


def values(frame, *columns):
    """Rows as tuples, in order."""
    return sorted(tuple(row) for row in frame.select(*columns).collect())


@pytest.mark.telling
def test_state_is_read_of_any_batch_that_spark_retains(spark, checkpoint):
    """Each read is of one batch, whatever came after."""
    first = values(read_state(spark, checkpoint, "all", batch_id=0), "user", "value")
    last = values(read_state(spark, checkpoint, "all", operator="visits"), "user", "value")
    assert [("a", 1), ("a", 3), ("b", 2)] == first
    assert [("a", 1), ("a", 3), ("b", 2), ("b", 4), ("c", 5)] == last


@pytest.mark.thorough
def test_states_are_listed_also_where_nothing_was_written(spark, checkpoint):
    """The log describes itself: no class of the program is needed."""
    infos = list_states(spark, checkpoint, sizes=True)
    told = [(each.name, each.kind, each.key_columns, each.entries) for each in infos]
    user = (("user", "string"),)
    assert [
        ("all", "list", user, 5),
        ("counts", "map", user, 4),
        ("last", "value", user, 4),
        ("never", "value", user, 0),
        ("shared", "key-value", (), 4),
    ] == told
    assert 0 == read_state(spark, checkpoint, "never").count()


@pytest.mark.thorough
def test_expiry_is_judged_by_the_clock_of_the_batch(spark, checkpoint):
    """The last batch had a watermark of 4999 ms or so; `now` overrides it."""
    alive = values(read_state(spark, checkpoint, "last"), "user", "stamp", "alive")
    assert [("a", 3000, True), ("b", 4000, True), ("c", 5000, True)] == alive
    later = read_state(spark, checkpoint, "last", expired=False, now=6000)
    assert [("b", 4, at(6500)), ("c", 5, at(7500))] == values(later, "user", "value", "expires_at")


@pytest.mark.thorough
def test_timers_and_shared_stores_are_read(spark, checkpoint):
    """Timers are due by the batch's clock; entries of a key group belong to no key."""
    timers = values(read_timers(spark, checkpoint), "user", "domain", "timestamp", "due")
    assert [
        ("a", "event_time", 10_000, False),
        ("a", "event_time", 30_000, False),
        ("b", "event_time", 20_000, False),
        ("b", "event_time", 40_000, False),
        ("c", "event_time", 50_000, False),
    ] == timers
    shared = read_state(spark, checkpoint, "shared")
    assert ["store_key", "value", "key_group"] == shared.columns
    assert [("a", 3), ("b", 4), ("c", 5)] == values(shared, "store_key", "value")


@pytest.mark.thorough
def test_only_some_keys_are_read(spark, checkpoint):
    """Those that were never seen have no rows."""
    found = read_state(spark, checkpoint, "counts", keys=["b", "nobody"])
    assert [("b", True, 2)] == values(found, "user", "user_key", "value")


@pytest.mark.thorough
def test_the_log_is_read_as_rows(spark, checkpoint):
    """What segments weigh adds up to what the heads say of them."""
    groups = values(read_heads(spark, checkpoint), "key_group", "log_entries")
    counted = {}
    for row in read_segments(spark, checkpoint).collect():
        counted[row.key_group] = counted.get(row.key_group, 0) + sum(row.entries.values())
    assert dict(groups) == counted


def test_changes_that_do_not_lead_from_one_state_to_the_other_are_refused(spark, checkpoint):
    """Spark's feed is read from its changelogs alone, where one may stand in another's place."""
    (first,) = checkpoint_states(spark, str(checkpoint), 0, 0)
    (last,) = checkpoint_states(spark, str(checkpoint), 0, None)
    counts = state_of(describe_states(last.record, 0), "counts", "tested")
    changes = StateChanges(StateRows.of(last.record, counts))
    assert 2 == changes_up_to(first, 0, changes).count()
    with pytest.raises(PySparkException, match="must lead to the head"):
        changes_up_to(attrs.evolve(last, heads=first.heads), 0, changes).collect()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"state": "al"}, UnknownStateError, "did you mean 'all'"),
        ({"batch_id": 99}, UnknownBatchError, "its batches are 0 to"),
        ({"operator": "clicks"}, UnknownStateError, "got 'clicks'"),
        ({"keys": [1.5]}, StateValueError, "user string"),
        ({"checkpoint": "/nowhere"}, SparkSetupError, "wait for its first batch"),
    ],
)
def test_what_is_not_there_is_named(spark, checkpoint, arguments, error, says):
    """Errors come before any row is read, and name what there is."""
    given = {"checkpoint": checkpoint, "state": "all", **arguments}
    with pytest.raises(error, match=says):
        read_state(spark, **given)
