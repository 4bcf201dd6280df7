# SPDX-License-Identifier: Apache-2.0
"""Key groups: commits, the nonce rule, catching up, compaction."""

from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest

from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.backends.heap.warm import WARM_GROUPS
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.key_group_log import KeyGroupLog
from pyflinklike.log.segments import read_segment
from pyflinklike.log.working_state import WorkingState
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.counters import OperatorMetrics
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.state.table import Scope, Shape, TableSpec
from pyflinklike.testing.log_storage import InMemoryLogStorage
from pyflinklike.types import Types

COUNT = TableSpec("count", Shape.SINGLE, "value", Types.LONG())
STAMPED = attrs.evolve(COUNT, paired=True)
OTHER = TableSpec("other", Shape.SINGLE, "value", Types.STRING())


@attrs.define
class Cleanup:
    """What a log is told of expiry: a time, a period, and what a compaction deletes."""

    before: Callable[[], None] = bool
    period: int = 0
    time: int = 0

    def now(self) -> int:
        """By assignment."""
        return self.time

    def is_compaction_due(self, compacted_at: int) -> bool:
        """By age."""
        return bool(self.period) and self.time - compacted_at >= self.period

    def drop_expired(self) -> None:
        """What the test wants."""
        self.before()


class Worker:
    """A process that has some tables and works on key group 0."""

    def __init__(
        self, *specs: TableSpec, max_parallelism: int = 8, before: Callable[[], None] = bool
    ) -> None:
        self.cleanup = Cleanup(before)
        self.metrics = OperatorMetrics()
        self.backend = HashMapStateBackend().create_keyed_state_backend(Scope(), "tested")
        self.specs = specs or (COUNT,)
        self.tables = {spec.name: self.backend.table(spec) for spec in self.specs}
        self.now = 0
        self.log = KeyGroupLog(
            self.backend,
            Types.STRING(),
            OperatorIdentity("totals", max_parallelism),
            self.cleanup,
            self.metrics,
        )
        self.group = WorkingState(0)

    def load(self, store: InMemoryLogStorage, group: WorkingState | None = None) -> WorkingState:
        """Bring the group up to the head; what is warm is used if it may be."""
        self.group = self.log.load(store, store.head, self.group if group is None else group)
        self.backend.enter(0, self.group.tables)
        for spec in self.specs:
            for changes in self.log.restored(self.group, spec, self.now):
                self.backend.apply(changes)
        return self.group

    def put(self, key: str, entry: Any, table: str = "count") -> None:
        """Put an entry."""
        self.backend.scope.key = key
        self.tables[table].put(None, entry)

    def delete(self, key: str) -> None:
        """Delete an entry."""
        self.backend.scope.key = key
        self.tables["count"].delete(None)

    def commit(self, store: InMemoryLogStorage, wake_at: int | None = None) -> Any:
        """Commit; the head now."""
        return self.log.commit(store, store.head, self.group, wake_at)

    def batch(self, store: InMemoryLogStorage, **entries: int) -> None:
        """Load what is warm, put, commit."""
        self.load(store)
        for key, entry in entries.items():
            self.put(key, entry)
        self.commit(store)

    def contents(self, table: str = "count") -> dict[str, Any]:
        """The entries of a table."""
        return {key: entry for key, _, entry in self.tables[table].scan()}


def read_cold(store: InMemoryLogStorage) -> dict[str, Any]:
    """What a new worker finds."""
    worker = Worker()
    worker.load(store)
    return worker.contents()


@pytest.fixture
def store() -> InMemoryLogStorage:
    """A group without state."""
    return InMemoryLogStorage()


def test_a_new_worker_finds_what_was_committed(store):
    """All segments, in order."""
    worker = Worker()
    worker.batch(store, a=1, b=2)
    worker.batch(store, a=3)

    assert {"a": 3, "b": 2} == read_cold(store)


def test_a_commit_writes_only_what_changed(store):
    """The second segment is as small as its batch."""
    worker = Worker()
    worker.batch(store, **{f"k{number}": number for number in range(500)})
    worker.batch(store, k1=0)

    assert len(store.segments[1]) < len(store.segments[0]) / 5


def test_a_commit_without_changes_writes_nothing(store):
    """Neither a segment nor a head."""
    worker = Worker()
    worker.load(store)

    assert (None, InMemoryLogStorage()) == (worker.commit(store), store)


def test_a_commit_without_changes_moves_the_time_to_wake(store):
    """The head alone is written, and the state is the same."""
    worker = Worker()
    worker.batch(store, a=1)
    before = store.head
    worker.commit(store, wake_at=5)

    assert attrs.evolve(before, wake_at=5) == store.head


def test_every_commit_draws_another_nonce(store):
    """Also where it writes the same entries."""
    worker = Worker()
    nonces = set()
    for _ in range(5):
        worker.batch(store, a=1)
        nonces.add(store.head.nonce)

    assert 5 == len(nonces)


def test_the_head_names_its_last_segment(store):
    """Nonce and sequence are those of what was written last."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.batch(store, a=2)
    last = read_segment(store.segments[store.head.next_sequence - 1], "test")

    assert store.head.nonce == last.nonce == worker.group.nonce


def test_a_segment_names_the_state_it_applies_to(store):
    """Its parent is the nonce of the commit before it."""
    worker = Worker()
    worker.batch(store, a=1)
    first = store.head.nonce
    worker.batch(store, a=2)

    assert first == read_segment(store.segments[1], "test").parent


def test_warm_working_state_is_used(store):
    """Where its nonce is the head's, nothing is read."""
    worker = Worker()
    worker.batch(store, a=1)
    warm = worker.group
    unreadable = InMemoryLogStorage(store.head)

    assert warm is worker.load(unreadable)


def test_warm_working_state_of_another_commit_is_not_used(store):
    """Of two that followed one state, only the durable one counts."""
    lost, winner = Worker(), Worker()
    lost.batch(store, a=1)
    winner.load(store)
    lost.batch(store.copy(), a=2)
    winner.batch(store, a=3)
    lost.load(store)

    assert {"a": 3} == lost.contents()


def test_working_state_whose_first_commit_was_lost_is_not_used(store):
    """The group has no head, so it is empty."""
    worker = Worker()
    worker.batch(store.copy(), a=1)
    worker.load(store)

    assert {} == worker.contents()


def test_an_older_working_state_is_caught_up(store):
    """Only the segments since are read."""
    away, here = Worker(), Worker()
    away.batch(store, a=1, b=1)
    here.batch(store, a=2)
    here.batch(store, c=3)
    del store.segments[0]
    away.load(store)

    assert {"a": 2, "b": 1, "c": 3} == away.contents()


def test_a_caught_up_working_state_commits_on(store):
    """Under the next sequence number, readable by all."""
    away, here = Worker(), Worker()
    away.batch(store, a=1)
    here.batch(store, b=2)
    away.batch(store, c=3)

    assert {"a": 1, "b": 2, "c": 3} == read_cold(store)


def test_an_older_working_state_of_a_lost_commit_is_not_caught_up(store):
    """The segment that follows it has another parent."""
    lost, winner = Worker(), Worker()
    lost.batch(store, a=1)
    winner.load(store)
    lost.batch(store.copy(), lost=1)
    winner.batch(store, a=2)
    winner.batch(store, b=3)
    lost.load(store)

    assert {"a": 2, "b": 3} == lost.contents()


def test_a_working_state_older_than_the_snapshot_is_rebuilt(store):
    """The segments that would catch it up are gone."""
    away, here = Worker(), Worker()
    away.batch(store, a=1, b=1)
    here.load(store)
    here.delete("b")
    here.group.rewrite = True
    here.commit(store)
    here.batch(store, c=3)
    away.load(store)

    assert {"a": 1, "c": 3} == away.contents()


def test_a_deletion_is_durable(store):
    """It is logged as any change."""
    worker = Worker()
    worker.batch(store, a=1, b=2)
    worker.delete("a")
    worker.commit(store)

    assert {"b": 2} == read_cold(store)


def test_the_log_stays_within_its_bound(store):
    """Updates of the same few keys do not pile up."""
    worker = Worker()
    sizes = []
    for number in range(200):
        worker.batch(store, a=number, b=number)
        sizes.append(store.size)

    assert max(sizes) < 6_000


def test_the_log_of_much_state_stays_within_its_bound(store):
    """Within 2.5 times what a snapshot of the same entries takes, and some KiB."""
    worker, fresh = Worker(), InMemoryLogStorage()
    keys = [f"k{number}" for number in range(2_000)]
    sizes = []
    for number in range(20):
        worker.batch(store, **dict.fromkeys(keys[:: number % 3 + 1], number))
        sizes.append(store.size)
    Worker().batch(fresh, **dict.fromkeys(keys, 1))

    assert max(sizes) < 2.5 * fresh.size + 8_192


def test_a_log_of_small_commits_is_held_against_a_compressed_snapshot(store):
    """What a snapshot of the same entries takes counts, not what the commits took to write them."""
    random = Random(3)
    keys = [f"user-{number:06}" for number in range(4_000)]
    worker = Worker()
    worker.batch(store, **dict.fromkeys(keys, 1))
    for number in range(150):
        worker.batch(store, **dict.fromkeys(random.sample(keys, 80), number))
    size, fresh = store.size, InMemoryLogStorage()
    Worker().batch(fresh, **worker.contents())

    assert size < 2.1 * fresh.size + 8_192


def test_groups_that_fill_at_one_pace_are_compacted_in_different_batches():
    """Else one batch in many would compact them all."""
    compacted = []
    for index in (0, 20, 40, 60):
        store, worker = InMemoryLogStorage(), Worker()
        worker.group = WorkingState(index)
        worker.batch(store, **{f"key {number}": 0 for number in range(1_000)})
        batches = 0
        while not store.head.snapshot_entries:
            worker.batch(store, **{f"key {number}": batches for number in range(50)})
            batches += 1
        compacted.append(batches)

    assert len(set(compacted)) == len(compacted)


def test_compaction_keeps_the_entries(store):
    """One snapshot segment tells all."""
    worker = Worker()
    for number in range(50):
        worker.batch(store, **{f"k{number % 7}": number})
    worker.group.rewrite = True
    worker.commit(store)

    assert (1, worker.contents()) == (len(store.segments), read_cold(store))


def test_compaction_asks_for_cleanup_first(store):
    """What the cleanup deletes is not in the snapshot."""
    worker = Worker(before=lambda: worker.delete("a"))
    worker.batch(store, a=1, b=2)
    worker.group.rewrite = True
    worker.commit(store)

    assert {"b": 2} == read_cold(store)


def test_compaction_of_an_empty_group_leaves_no_segment(store):
    """Only a head that says what the checkpoint was made with, and refuses anything else."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.delete("a")
    worker.group.rewrite = True
    worker.commit(store)

    assert (0, 0, 8) == (store.head.next_sequence, store.head.log_bytes, store.head.max_parallelism)
    assert not store.segments
    with pytest.raises(IncompatibleStateError, match="fixed by its checkpoint at 8, got 4"):
        Worker(max_parallelism=4).load(store)


def test_an_erased_group_can_be_written_again(store):
    """Its new log declares its tables anew, and a new worker reads it."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.delete("a")
    worker.group.rewrite = True
    worker.commit(store)
    worker.batch(store, b=2)

    assert {"b": 2} == read_cold(store)


def test_the_state_of_a_name_no_longer_declared_survives(store):
    """Through commits and compaction, until it is declared again."""
    Worker(COUNT, OTHER).load(store)
    both = Worker(COUNT, OTHER)
    both.load(store)
    both.put("a", "x", "other")
    both.put("a", 1)
    both.commit(store)
    worker = Worker(COUNT)
    worker.batch(store, a=2)
    worker.group.rewrite = True
    worker.commit(store)
    again = Worker(COUNT, OTHER)
    again.load(store)

    assert ({"a": 2}, {"a": "x"}) == (again.contents(), again.contents("other"))


def test_ttl_switched_on_stamps_the_old_entries_with_the_time_of_the_restore(store):
    """And the next commit, though nothing changed, makes the stamps durable."""
    Worker().batch(store, a=1)
    first, later = Worker(STAMPED), Worker(STAMPED)
    first.now, later.now = 70, 90
    first.load(store)
    first.commit(store)
    later.load(store)

    assert {"a": (70, 1)} == first.contents() == later.contents()


def test_ttl_switched_off_drops_the_stamps(store):
    """The values stay."""
    worker = Worker(STAMPED)
    worker.load(store)
    worker.put("a", (70, 1))
    worker.commit(store)

    assert {"a": 1} == read_cold(store)


def test_another_type_is_refused(store):
    """The message names the state and both types."""
    Worker().batch(store, a=1)

    with pytest.raises(IncompatibleStateError, match=r"'count'.*'Long'.*'String'"):
        Worker(attrs.evolve(COUNT, value_type=Types.STRING())).load(store)


def test_another_max_parallelism_is_refused(store):
    """Keys would be looked for in other groups."""
    Worker().batch(store, a=1)

    with pytest.raises(IncompatibleStateError, match=r"max_parallelism.*8, got 4"):
        Worker(max_parallelism=4).load(store)


def test_a_missing_segment_is_refused(store):
    """The message names the segment."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.batch(store, a=2)
    del store.segments[0]

    with pytest.raises(CorruptStateError, match="'totals', key group 0, segment 0"):
        read_cold(store)


def test_a_last_segment_that_is_not_the_heads_is_refused(store):
    """Head and log belong together."""
    Worker().batch(store, a=1)
    store.head = attrs.evolve(store.head, nonce=b"x" * 16)

    with pytest.raises(CorruptStateError, match="must be the head's"):
        read_cold(store)


def test_a_caught_up_group_fires_the_timers_of_others(store):
    """The order of its timers is rebuilt with them."""
    fired = []

    class Function(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp, ctx):
            fired.append(timestamp)

    def operator():
        made = KeyedProcessOperator(
            Function(), HashMapStateBackend(), Types.STRING(), TaskInfo("timers"), "tested"
        )
        made.open()
        return made

    away, here = operator(), operator()
    groups = {away: WorkingState(0), here: WorkingState(0)}
    for worker, timer in [(away, 1), (here, 2)]:
        groups[worker] = worker.load_group(store, store.head, groups[worker])
        worker.process(["k"], [timer], [None])
        worker.commit(store, store.head, None)
    away.load_group(store, store.head, groups[away])
    away.advance_watermark(5)

    assert [1, 2] == fired


def test_a_group_that_had_records_has_a_head(store):
    """Of the time of the micro-batch, also if the function has left no state; a commit goes on from it."""
    worker = Worker(max_parallelism=8)
    worker.load(store)
    worker.log.commit(store, store.head, worker.group, served_at=70)
    noted = store.head
    worker.load(store)
    worker.put("a", 1)
    worker.commit(store)
    reader = Worker(max_parallelism=8)
    reader.load(store)

    assert (8, 0, 70) == (noted.max_parallelism, noted.log_bytes, noted.served_at)
    assert 70 == store.head.served_at
    assert {"a": 1} == reader.contents()


def test_an_erased_group_keeps_the_time_of_its_records(store):
    """It must still be there when the roll is compared."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.delete("a")
    worker.group.rewrite = True
    worker.log.commit(store, store.head, worker.group, served_at=90)

    assert (b"", 90) == (store.head.nonce, store.head.served_at)


class SometimesDeclares(KeyedProcessFunction):
    """Declares its state in the call that needs it, against the custom."""

    def open(self, runtime_context):
        self.runtime_context = runtime_context

    def process_element(self, value, ctx):
        if value is not None:
            state = self.runtime_context.get_state(ValueStateDescriptor("rare", Types.LONG()))
            state.update((state.value() or 0) + value)
            yield state.value()
        else:
            often = self.runtime_context.get_state(ValueStateDescriptor("often", Types.STRING()))
            often.update("x" * 3_000)


def test_a_warm_state_that_a_task_does_not_declare_outlives_a_compaction(store):
    """A task that never declared a state must not write a snapshot without it."""

    def task(*values):
        operator = KeyedProcessOperator(
            SometimesDeclares(), HashMapStateBackend(), Types.STRING(), TaskInfo("rare"), "rare"
        )
        operator.open()
        operator.load(store, store.head, 0)
        operator.process(["k"] * len(values), values, [None] * len(values))
        operator.commit(store, store.head, None)
        operator.keep_warm()
        return operator.outputs.take().main

    task(5)
    for _ in range(9):
        task(None)

    WARM_GROUPS.clear()

    assert store.head.first_sequence > 0
    assert [7] == task(2)
