# SPDX-License-Identifier: Apache-2.0
"""A replica of a query that runs: what it answers is what the query knew after the batch it names.

Each batch adds to each key a number that is told by the batch, so that a model of any batch is a sum.
"""

import pytest
from spark_support import Feed, drain, pickle_by_value, reads_state, start

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.queryable_state import QueryableState
from pyflinklike.spark import key_by
from pyflinklike.state_processor import take_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor, WindowStoreDescriptor

pytestmark = reads_state
pickle_by_value(__name__)

USERS = [f"user-{number}" for number in range(40)]
SCHEMA = "user string, n long"


class Sums(KeyedProcessFunction):
    """What each user, and all of a key group, have sent."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        last = MapStateDescriptor("last", Types.STRING(), Types.LONG())
        self.last = runtime_context.get_map_state(last)
        shared = KeyValueStoreDescriptor("shared", Types.STRING(), Types.LONG(), scope="partition")
        self.shared = runtime_context.get_store(shared)
        windows = WindowStoreDescriptor("windows", Types.STRING(), Types.LONG(), window_size=10)
        self.windows = runtime_context.get_store(windows)

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.n)
        self.all.add(value.n)
        self.last.put("n", value.n)
        self.shared.put(value.user, value.n)
        self.windows.put("w", value.n, value.n * 10)
        yield value.user, value.n


def sums(feed):
    """The stream."""
    return key_by(feed.stream(), "user").process(Sums(), SCHEMA, max_parallelism=8, uid="sums")


def batch(number):
    """What is fed in a batch: all users at first, then every other one."""
    return [(user, number + 1) for user in USERS[:: 1 if number % 3 == 0 else 2]]


def expected(last):
    """What each user has sent after a batch."""
    sent = {}
    for number in range(last + 1):
        for user, n in batch(number):
            sent.setdefault(user, []).append(n)
    return sent


def check(at):
    """All that a snapshot says, against the sums of its batch."""
    sent = expected(at.position.batch_id)
    assert {user: sum(each) for user, each in sent.items()} == at["total"].get_many(USERS)
    assert sent == dict(at["all"].items())
    assert {"n": sent["user-1"][-1]} == at["last"].get("user-1")
    assert [(u, sent[u][-1]) for u in sorted(sent)] == [tuple(e) for e in at.store("shared").all()]
    mine = at.store("windows", key="user-2").fetch("w", None, None)
    assert [(n * 10, n) for n in sent["user-2"]] == list(mine)


@pytest.fixture
def feed(spark, tmp_path):
    """Of three batches, to begin with."""
    feed = Feed(spark, tmp_path / "feed", SCHEMA)
    feed.add(*map(batch, range(3)))
    return feed


def test_each_answer_is_of_the_batch_that_it_names(spark, feed, tmp_path):
    """A hundred reads beside a query that runs, each equal to the model at its batch."""
    checkpoint = tmp_path / "checkpoint"
    drain(sums(feed), checkpoint)
    feed.add(*map(batch, range(3, 12)))
    query, _ = start(sums(feed), checkpoint, availableNow=True)
    seen = set()
    with QueryableState.open(spark, checkpoint, refresh=100, allow_scan=True) as state:
        for _ in range(100):
            with state.snapshot() as at:
                check(at)
                seen.add(at.position.batch_id)
        query.awaitTermination()
        with state.snapshot(at_least_batch=11, timeout=60_000) as at:
            check(at)
        assert (11, 0) == (state.position.batch_id, state.metrics.reopens)
        assert state.metrics.caught_up_loads
    assert seen


def test_a_query_that_went_back_is_read_anew(spark, feed, tmp_path):
    """Its batches get the numbers again, with other contents."""
    checkpoint = tmp_path / "checkpoint"
    drain(sums(feed), checkpoint)
    state = QueryableState.open(spark, checkpoint, refresh=None, allow_scan=True)
    for folder in ("commits", "offsets"):
        for name in ("2", ".2.crc"):
            (checkpoint / folder / name).unlink(missing_ok=True)
    drain(sums(feed), checkpoint)
    assert state.refresh()
    with state.snapshot() as at:
        check(at)
    assert 1 == state.metrics.reopens


def test_a_savepoint_of_it_says_the_same(spark, feed, tmp_path):
    """The directory alone, without Spark."""
    drain(sums(feed), tmp_path / "checkpoint")
    take_savepoint(spark, tmp_path / "checkpoint", tmp_path / "saved")
    with (
        QueryableState.open_savepoint(tmp_path / "saved", allow_scan=True) as state,
        state.snapshot() as at,
    ):
        check(at)
