# SPDX-License-Identifier: Apache-2.0
"""A function that stays open from one task to the next."""

from __future__ import annotations

import pytest

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.log_storage import Head
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.micro_batch import Records, serve
from pyflinklike._runtime.operator_metrics import OperatorMetrics

open_functions = pytest.importorskip("pyflinklike.spark._host.task")
QueryRun = open_functions.QueryRun

RUN = QueryRun("query", "run", "plan")


class Count(KeyedProcessFunction):
    """Counts per key, in all with a counter, and notes its size in a distribution."""

    closed = 0

    def open(self, runtime_context):
        self.runtime_context = runtime_context
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.sizes = runtime_context.get_metrics_group().distribution("sizes")

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.sizes.update(value)
        yield ctx.get_current_key(), self.count.value()

    def close(self):
        self.closed += 1
        if self.closed > 1:
            msg = "closed twice"
            raise RuntimeError(msg)


class MemoryStore:
    """The log of one key group."""

    def __init__(self):
        self.blobs = {}

    def read_head(self, where):
        blob = self.blobs.get(-1)
        return None if blob is None else Head.from_bytes(blob, where)

    def write_head(self, head):
        self.blobs[-1] = head.to_bytes()

    def read_segment(self, sequence):
        return self.blobs.get(sequence)

    def write_segment(self, sequence, blob):
        self.blobs[sequence] = blob

    def clear_segments(self):
        self.blobs.clear()


def _task(index=0, attempt=0):
    return TaskInfo("count", index=index, max_parallelism=4, attempt=attempt)


def _operator(backend=None, owner="owner/0", index=0):
    operator = make_keyed_operator(
        OperatorDeclaration(
            Count(),
            backend or HashMapStateBackend(),
            Types.LONG(),
            _task(index),
            owner,
        )
    )
    operator.open()
    return operator


def _serve(operator, store, group, keys):
    serve(operator, store, group, Records(keys, keys, [None] * len(keys)))
    results = operator.outputs.take().main
    numbers, increments = operator.take_metrics()
    operator.group.cache()
    counts = dict(zip(OperatorMetrics.names(), numbers))
    return list(results), counts["warm_loads"], {each.name: each.value for each in increments}


@pytest.mark.parametrize("kind", ["heap", "rocksdb"])
def test_a_function_serves_one_task_after_another(kind, tmp_path):
    """State, counts and least and greatest values are those of the task, whichever subtask it is of; at rest nothing is held."""
    backend = HashMapStateBackend()
    if kind == "rocksdb":
        pytest.importorskip("rocksdict")
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths(str(tmp_path))
    stores = [MemoryStore(), MemoryStore()]
    operator, other = _operator(backend), _operator(backend, "owner/1", 1)

    assert [(7, 1), (9, 1)] == _serve(operator, stores[0], 0, [7, 9])[0]
    operator.rest()
    # A second function takes over the same subtask, as in another worker.
    other.resume(_task(0), "owner/0")
    assert ([(7, 2)], 1) == _serve(other, stores[0], 0, [7])[:2]
    other.rest()

    operator.resume(_task(1), "owner/1")
    sizes = {"sizes.count": 1, "sizes.sum": 8, "sizes.min": 8, "sizes.max": 8}
    assert ([(8, 1)], 0, sizes) == _serve(operator, stores[1], 1, [8])
    assert operator.function.runtime_context.get_index_of_this_subtask() == 1
    operator.rest()

    operator.resume(_task(0), "owner/0")
    assert ([(7, 3), (9, 2)], 1) == _serve(operator, stores[0], 0, [7, 9])[:2]
    for each in (operator, other):
        each.close()


def test_a_function_waits_for_the_next_task_of_its_run():
    """Of any subtask; for another run, plan or query it is not taken."""
    waiting = open_functions.OpenFunctions()
    operator = _operator()
    waiting.keep(RUN, operator)

    assert waiting.take(RUN._replace(query="other"), _task()) is None
    assert waiting.take(RUN._replace(plan="other"), _task()) is None
    assert waiting.take(RUN, _task(3)) is operator
    assert waiting.take(RUN, _task(3)) is None
    assert 0 == operator.function.closed


def test_a_function_that_asks_for_its_index_waits_for_that_subtask():
    """What it made of the number must not serve another."""
    waiting = open_functions.OpenFunctions()
    operator = _operator(index=2)
    operator.function.runtime_context.get_index_of_this_subtask()
    waiting.keep(RUN, operator)

    assert waiting.take(RUN, _task(1)) is None
    assert waiting.take(RUN, _task(2)) is operator


def test_a_function_that_asks_for_its_attempt_waits_for_no_other_attempt():
    """The second attempt of a task must not be told that it is the first, which an open function was."""
    waiting = open_functions.OpenFunctions()
    operator = _operator()
    operator.function.runtime_context.get_attempt_number()
    waiting.keep(RUN, operator)

    assert waiting.take(RUN, _task(1, attempt=1)) is None
    assert waiting.take(RUN, _task(1, attempt=0)) is operator


def test_a_function_is_closed_when_a_later_run_begins_and_when_others_were_used_since():
    """Once, and a close that fails is not the error of the task that comes across it."""
    waiting = open_functions.OpenFunctions()
    former, failing = _operator(), _operator()
    failing.function.closed = 1
    waiting.keep(RUN._replace(run="former"), former)
    waiting.keep(RUN._replace(run="former", plan="failing"), failing)
    assert waiting.take(RUN, _task(0)) is None
    assert (1, 2, 0) == (former.function.closed, failing.function.closed, len(waiting))

    operators = [_operator() for _ in range(open_functions.MAX_OPEN + 1)]
    for number, operator in enumerate(operators):
        waiting.keep(RUN._replace(query=str(number)), operator)
    assert [1] + [0] * open_functions.MAX_OPEN == [each.function.closed for each in operators]
    waiting.close_all()
    assert {1} == {each.function.closed for each in operators}


def test_the_functions_of_a_query_with_many_operators_all_wait():
    """Each task comes to all operators that share a state operator; none is opened anew for it."""
    waiting = open_functions.OpenFunctions()
    operators = {str(at): _operator() for at in range(open_functions.MAX_OPEN + 4)}
    for plan, operator in operators.items():
        waiting.keep(RUN._replace(plan=plan), operator)

    for plan, operator in operators.items():
        assert waiting.take(RUN._replace(plan=plan), _task()) is operator


def test_the_operators_of_another_run_let_no_more_functions_wait():
    """As many wait as the query has operators of which a task ran last."""
    waiting = open_functions.OpenFunctions()
    for at in range(open_functions.MAX_OPEN + 4):
        waiting.keep(RUN._replace(query="other", run="earlier", plan=str(at)), _operator())

    waiting.keep(RUN, _operator())

    assert open_functions.MAX_OPEN == len(waiting)
