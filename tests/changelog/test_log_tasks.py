# SPDX-License-Identifier: Apache-2.0
"""The logs of operators: timers and warm state of other tasks, and heads without entries."""

from group_log_support import Worker
from tasks import Task, opened

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import HeadTimes
from pyflinklike.backends.heap.heap_backend import WARM_GROUPS, HashMapStateBackend
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.types import Types


def test_a_caught_up_group_fires_the_timers_of_others(store):
    """The order of its timers is rebuilt with them."""
    fired = []

    class Function(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp, ctx):
            fired.append(timestamp)

    away, here = opened(Function()), opened(Function())
    groups = {away: KeyGroupState(0), here: KeyGroupState(0)}
    for worker, timer in [(away, 1), (here, 2)]:
        groups[worker] = worker.load(store, store.head, groups[worker])
        worker.process(["k"], [timer], [None])
        worker.commit(store, store.head)
    away.load(store, store.head, groups[away])
    away.advance_watermark(5)

    assert [1, 2] == fired


def test_a_group_that_had_records_has_a_head(store):
    """Of the time of the micro-batch, also if the function has left no state; a commit goes on from it."""
    worker = Worker(max_parallelism=8)
    worker.load(store)
    worker.log.commit(store, store.head, worker.group, HeadTimes(served_at=70))
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
    """It must still be there when the registry is compared."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.delete("a")
    worker.group.rewrite = True
    worker.log.commit(store, store.head, worker.group, HeadTimes(served_at=90))

    assert (b"", 90) == (store.head.nonce, store.head.served_at)


class SometimesDeclares(KeyedProcessFunction):
    """Declares its state only in a call that needs it, which few functions do."""

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


def test_a_warm_state_that_a_task_does_not_declare_outlives_a_compaction():
    """A task that never declared a state must not write a snapshot without it."""
    task = Task(SometimesDeclares(), HashMapStateBackend())
    task.serve([("k", 5, None)])
    for _ in range(9):
        task.serve([("k", None, None)])

    WARM_GROUPS.clear()

    assert task.store.head.first_sequence > 0
    assert [7] == task.serve([("k", 2, None)])
