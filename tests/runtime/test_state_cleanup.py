# SPDX-License-Identifier: Apache-2.0
"""Expired entries that nobody reads: sweeps of idle key groups, and compaction by age."""

import pytest
from tasks import Task, opened

from pyflinklike import (
    Duration,
    HashMapStateBackend,
    KeyedProcessFunction,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._runtime.micro_batch import Records, serve
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.state.ttl_table import TtlTable

EVENT, PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
ONLY_COMPACTION = (0, Duration.of_days(0))


class Last(KeyedProcessFunction):
    """Keeps the last element of each key in as many states as there are configurations."""

    def __init__(self, *configs):
        self.configs = configs

    def open(self, runtime_context):
        self.states = []
        for number, config in enumerate(self.configs):
            descriptor = ValueStateDescriptor(f"state {number}", Types.LONG())
            descriptor.enable_time_to_live(config)
            self.states.append(runtime_context.get_state(descriptor))

    def process_element(self, value, ctx):
        for state in self.states:
            state.update(value)


def ttl(milliseconds, *, event_time=False, background=True, compaction=None):
    """A TTL without incremental cleanup; `compaction` is (entries, period)."""
    builder = StateTtlConfig.new_builder(milliseconds)
    if event_time:
        builder = builder.use_event_time()
    builder = builder.disable_cleanup_in_background()
    if background:
        builder = builder.cleanup_in_rocksdb_compact_filter(*(compaction or (1_000,)))
    return builder.build()


@pytest.fixture(params=["heap", "rocksdb"])
def backend(request, tmp_path):
    """Either backend."""
    if request.param == "heap":
        return HashMapStateBackend()
    pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    from pyflinklike import EmbeddedRocksDBStateBackend

    made = EmbeddedRocksDBStateBackend()
    made.set_db_storage_paths(str(tmp_path))
    return made


# Idle key groups


def test_an_idle_group_is_clean_a_ttl_after_its_last_entry_expired(backend):
    """It is called when it asked to be, and then never again."""
    task = Task(Last(ttl(100)), backend)
    task.serve([("a", 1, None), ("b", 1, None)])
    task.serve([("c", 1, None)], processing_time=60)
    assert 100 == task.sweep_at
    task.serve(processing_time=100)
    assert (2, 1, 200) == (
        task.counts["expired_entries"],
        task.counts["live_entries"],
        task.sweep_at,
    )
    task.serve(processing_time=200)

    assert (1, 0, None) == (
        task.counts["expired_entries"],
        task.counts["live_entries"],
        task.sweep_at,
    )


def test_a_sweep_reaches_the_durable_state(backend):
    """A worker that has nothing of the group finds nothing of what expired."""
    task = Task(Last(ttl(100)), backend)
    task.serve([("a", 1, None)])
    task.serve([("b", 1, None)], processing_time=60)
    task.serve(processing_time=100)
    task.lose()
    task.serve(processing_time=101)

    assert 1 == task.counts["live_entries"]


def test_a_sweep_of_everything_leaves_a_log_without_entries(backend):
    """Compaction by size forgets the rest; what counts is that nothing can be read from it."""
    task = Task(Last(ttl(100)), backend)
    task.serve([(f"key {number}", number, None) for number in range(200)])
    task.serve(processing_time=100)

    assert {} == task.store.segments
    assert b"" == task.store.head.nonce


def test_a_busy_group_keeps_the_time_it_asked_for(backend):
    """A record does not move it, so that Spark's timer need not be moved either."""
    task = Task(Last(ttl(100)), backend)
    task.serve([("a", 1, None)])
    task.serve([("a", 1, None)], processing_time=99)

    assert 100 == task.sweep_at


def test_the_shortest_ttl_that_has_entries_decides(backend):
    """Of two states the one with the shorter TTL first, then the other."""
    task = Task(Last(ttl(100), ttl(1_000)), backend)
    task.serve([("a", 1, None)])
    assert 100 == task.sweep_at
    task.serve(processing_time=100)
    assert (1, 1_100) == (task.counts["expired_entries"], task.sweep_at)
    task.serve(processing_time=1_100)

    assert (1, None) == (task.counts["expired_entries"], task.sweep_at)


@pytest.mark.parametrize(
    ("domain", "config"),
    [
        (PROCESSING, ttl(100, background=False)),
        (EVENT, ttl(100)),
        (PROCESSING, ttl(100, event_time=True)),
    ],
)
def test_a_group_that_nothing_can_be_swept_in_does_not_ask_to_be_called(backend, domain, config):
    """Background cleanup is off, or the host's time is not the TTL's."""
    task = Task(Last(config), backend, domain)
    task.serve([("a", 1, 5)], watermark=3)
    task.serve(processing_time=10_000, watermark=10_000)

    assert (None, 1) == (task.sweep_at, task.counts["live_entries"])


def test_an_event_time_ttl_is_swept_as_the_watermark_comes(backend):
    """Before the first watermark the group asks to be called as soon as there is one."""
    task = Task(Last(ttl(100, event_time=True)), backend, EVENT)
    task.serve([("a", 1, 50)])
    assert task.sweep_at < 0
    task.serve(watermark=40)
    assert (0, 140) == (task.counts["expired_entries"], task.sweep_at)
    task.serve(watermark=140)
    assert (0, 240) == (task.counts["expired_entries"], task.sweep_at)
    task.serve(watermark=240)

    assert (1, None) == (task.counts["expired_entries"], task.sweep_at)


# Compaction by age


def test_a_log_older_than_the_period_is_compacted_without_its_expired_entries(backend):
    """With the next commit, however small the log is."""
    task = Task(Last(ttl(100, compaction=(1_000, Duration.of_millis(500)))), backend, EVENT)
    task.serve([("a", 1, None)], processing_time=1)
    task.serve([("b", 1, None)], processing_time=500)
    assert (0, 2) == (task.counts["compactions"], task.counts["live_entries"])
    task.serve([("b", 2, None)], processing_time=501)

    assert (1, 1, 1) == tuple(
        task.counts[name] for name in ("compactions", "live_entries", "expired_entries")
    )
    assert [2] == list(task.store.segments)


def test_the_age_counts_from_the_last_compaction(backend):
    """Not from the last commit, and not from the first."""
    task = Task(Last(ttl(100, compaction=(1_000, Duration.of_millis(500)))), backend, EVENT)
    compacted = []
    for time in range(0, 1_600, 100):
        task.serve([("a", 1, None)], processing_time=time)
        compacted += [time] * task.counts["compactions"]

    assert [500, 1_000, 1_500] == compacted


@pytest.mark.parametrize(
    "config", [ttl(100, compaction=ONLY_COMPACTION), ttl(10, background=False)]
)
def test_a_period_of_zero_or_no_background_cleanup_compacts_nothing_by_age(backend, config):
    """As Flink's, where 0 switches it off."""
    task = Task(Last(config), backend, EVENT)
    task.serve([("a", 1, None)])
    task.serve([("a", 1, None)], processing_time=10**12)

    assert 0 == task.counts["compactions"]


def test_the_default_period_is_thirty_days(backend):
    """As Flink's."""
    task = Task(Last(StateTtlConfig(ttl=100)), backend, EVENT)
    month = Duration.of_days(30).to_milliseconds()
    task.serve([("a", 1, None)])
    task.serve([("a", 1, None)], processing_time=month - 1)
    assert 0 == task.counts["compactions"]
    task.serve([("a", 1, None)], processing_time=month)

    assert 1 == task.counts["compactions"]


class Passing:
    """A table of ten entries that expire at 1000, where looking at one takes a millisecond."""

    spec = TableSpec("swept", Shape.SINGLE, "value", Types.LONG(), paired=True)
    get = put = append = None

    def __init__(self, clock):
        self.clock = clock
        clock.processing_time = 995

    def sweep_all(self, is_dead):
        dead = 0
        for number in range(10):
            self.clock.processing_time += 1
            dead += is_dead((900, number))
        return dead


@pytest.mark.parametrize(("entries", "dropped"), [(0, 6), (1, 6), (3, 4), (6, 4), (10, 0)])
def test_a_sweep_looks_at_the_clock_again_after_so_many_entries(entries, dropped):
    """`query_time_after_num_entries`, as Flink's compaction filter; 0 is before each."""
    clock = Clock()
    swept = TtlTable(Passing(clock), ttl(100, compaction=(entries,)), clock)

    assert dropped == swept.drop_expired()


# Incremental cleanup across key groups


def test_incremental_cleanup_of_one_group_does_not_spare_the_next(backend):
    """That nothing is left to find in a group says nothing about another one at the same time."""
    config = StateTtlConfig.new_builder(100).cleanup_incrementally(1, False).build()
    stores = [InMemoryLogStorage(), InMemoryLogStorage()]

    def every_one(keys):
        return Records(keys, [1] * len(keys), [None] * len(keys))

    def batch(time, records):
        operator = opened(Last(config), backend)
        operator.clock.processing_time = time
        left = []
        for index, store in enumerate(stores):
            serve(operator, store, index, every_one(["new"] * records))
            left.append(operator.backend.count())
            keys = [f"old {number}" for number in range(20)] if not time else []
            serve(operator, store, index, every_one(keys))
        operator.close()
        return left

    batch(0, 1)
    assert [1, 1] == batch(100, 60)
