# SPDX-License-Identifier: Apache-2.0
"""A replica of a query that runs: what it answers is what the query knew after the batch it names.

Each batch adds to each key a number that is told by the batch, so that a model of any batch is a sum.
"""

import threading

import pytest
from spark_support import Feed, drain, pickle_by_value, reads_state, start

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import ScanDisabledError, StaleStateError, StateAccessError
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


def test_eight_threads_read_while_it_refreshes(spark, feed, tmp_path):
    """Each snapshot is of one batch, whatever the others and the refresh do."""
    checkpoint = tmp_path / "checkpoint"
    drain(sums(feed), checkpoint)
    failures = []
    with QueryableState.open(spark, checkpoint, refresh=50, allow_scan=True) as state:
        done = threading.Event()

        def read():
            try:
                while not done.wait(0.25):  # the query needs the machine, too
                    with state.snapshot() as at:
                        check(at)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for each in threads:
            each.start()
        feed.add(*map(batch, range(3, 7)))
        drain(sums(feed), checkpoint)
        assert 28 == state["total"].get("user-0", at_least_batch=6, timeout=60_000)
        done.set()
        for each in threads:
            each.join()
    assert [] == failures


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


def test_bounds_and_scans_are_kept(spark, feed, tmp_path):
    """A batch that does not come is an error, and a scan has to be allowed."""
    checkpoint = tmp_path / "checkpoint"
    drain(sums(feed), checkpoint)
    with QueryableState.open(spark, checkpoint, refresh=None, states=["total", "shared"]) as state:
        with pytest.raises(StaleStateError, match="batch 9 or later"):
            state["total"].get("user-1", at_least_batch=9, timeout=0)
        with pytest.raises(ScanDisabledError):
            state.store("shared").all()
        assert 3 == state.store("shared").get("user-0")


def test_a_part_is_followed_as_all_is(spark, feed, tmp_path):
    """Some keys, and some key groups: less is held, and what is asked is answered alike."""
    checkpoint = tmp_path / "checkpoint"
    drain(sums(feed), checkpoint)
    mine = USERS[:2]
    with (
        QueryableState.open(spark, checkpoint, refresh=None) as every,
        QueryableState.open(spark, checkpoint, refresh=None, keys=mine) as some,
        QueryableState.open(
            spark, checkpoint, refresh=None, key_groups=range(3), allow_scan=True
        ) as low,
    ):
        feed.add(*map(batch, range(3, 5)))
        drain(sums(feed), checkpoint)
        assert [True] * 3 == [each.refresh() for each in (every, some, low)]
        assert every["total"].get_many(USERS[:2]) == some["total"].get_many(mine)
        with pytest.raises(StateAccessError, match="opened with other keys=, got 'user-2'"):
            some["total"].get("user-2")
        held = dict(low["total"].items())
        assert held == every["total"].get_many(held)
        assert sorted(held) == [each.key for each in low.store("shared").all()]
        assert 0 < low.metrics.stored_bytes < every.metrics.stored_bytes
        assert 0 < some.metrics.stored_bytes < every.metrics.stored_bytes
        assert 0 == some.metrics.reopens + low.metrics.reopens


def test_a_savepoint_of_it_says_the_same(spark, feed, tmp_path):
    """The directory alone, without Spark."""
    drain(sums(feed), tmp_path / "checkpoint")
    take_savepoint(spark, tmp_path / "checkpoint", tmp_path / "saved")
    with (
        QueryableState.open_savepoint(tmp_path / "saved", allow_scan=True) as state,
        state.snapshot() as at,
    ):
        check(at)
