# SPDX-License-Identifier: Apache-2.0
"""How many dead letters a query takes: by the micro-batch, and by the last ones if these are small."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tasks import opened

from pyflinklike import DeadLetters, KeyedProcessFunction, OutputTag, Types
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.micro_batch import Records, serve
from pyflinklike.errors import UserFunctionError

DEAD = OutputTag("dead")


class Picky(KeyedProcessFunction):
    """Raises for a record that is bad."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value:
            raise ValueError("bad")
        yield 1


class Query:
    """A query of one task, whose tasks run in a new worker each."""

    def __init__(self, on_error: Any = None) -> None:
        self.on_error = DeadLetters(DEAD) if on_error is None else on_error
        self.logs = [InMemoryLogStorage() for _ in range(8)]
        self.batch = 0
        self.letters = 0

    def micro_batch(self, *groups: tuple[int, int, int]) -> None:
        """Process records of key groups: the number of each, of bad records and of good ones."""
        task = TaskInfo("picky", max_parallelism=8, batch=self.batch)
        operator = opened(Picky(), task=task, key_type=Types.LONG(), on_error=self.on_error)
        logs = [each.copy() for each in self.logs]
        for index, bad, good in groups:
            values = [True] * bad + [False] * good
            records = Records([index] * len(values), values, [None] * len(values))
            serve(operator, logs[index], index, records, served_at=self.batch)
        operator.check_letters()
        # What a micro-batch has written stands from here on.
        self.logs, self.batch = logs, self.batch + 1
        self.letters += operator.take_metrics()[0][operator.metrics.names().index("dead_letters")]

    def failure(self, *groups: tuple[int, int, int]) -> str:
        """Return what a micro-batch fails with; an empty text if it does not."""
        try:
            self.micro_batch(*groups)
        except UserFunctionError as error:
            return str(error)
        return ""


counts = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 300)), min_size=8, max_size=8)


@given(counts, st.permutations(range(8)))
@example([(12, 0), (0, 4_000), *[(0, 0)] * 6], list(range(8)))
@example([(50, 0), (0, 4_000), *[(0, 0)] * 6], list(range(8)))
def test_the_share_is_that_of_a_task_however_its_keys_are_spread(found, order):
    """In whatever order its key groups come: judged at each of them, 12 bad of 4,012 would fail."""
    bad, every = sum(bad for bad, _ in found), sum(map(sum, found))
    told = Query().failure(*((index, *found[index]) for index in order))
    fails = bad > max(10, every // 100)
    assert (fails, fails) == (bool(told), f"got {bad:,} of {every:,}; mend" in told)


@pytest.mark.parametrize("groups", [1, 8], ids=["one key", "eight keys"])
def test_a_slow_topic_is_not_drained_into_letters(groups):
    """Of 8 records a micro-batch, all of which raise, the second micro-batch has too many."""
    query = Query()
    batch = [(index, 8 // groups, 0) for index in range(groups)]
    query.micro_batch(*batch)
    told = [query.failure(*batch) for _ in range(2)]
    assert (8, told[0]) == (query.letters, told[1])
    assert "got 16 of 16 with those of the last micro-batches; mend" in told[0]


def test_a_micro_batch_without_letters_never_fails():
    """A mended function goes on at once, whatever the former one has left."""
    query = Query()
    query.micro_batch((0, 6, 0))
    query.micro_batch((1, 4, 0))
    assert ["", ""] == [query.failure((0, 0, 1), (1, 0, 1)), query.failure((0, 0, 1))]
    assert "got 11 of 14 with those of the last micro-batches" in query.failure(
        (0, 1, 0), (1, 0, 0)
    )


def test_letters_are_forgotten_once_ten_are_no_more_than_the_share():
    """After a thousand records of a key group, at one in a hundred."""
    query = Query()
    query.micro_batch((0, 9, 900))
    assert (9, 909) == query.logs[0].head.letters
    query.micro_batch((0, 0, 91))
    assert (0, 0) == query.logs[0].head.letters
    assert "" == query.failure((0, 9, 0))


def test_a_query_without_letters_writes_the_log_of_one_that_makes_none():
    """Its heads say nothing of letters; nor do those of a number in a micro-batch."""
    query, failing = Query(), Query(DeadLetters(DEAD, at_most=9, per="batch"))
    query.micro_batch((0, 0, 5))
    failing.micro_batch((0, 5, 0))
    assert query.logs[0].head == failing.logs[0].head
    assert (0, 0) == query.logs[0].head.letters


def test_a_number_is_one_in_a_micro_batch():
    """The letter above it fails at once, and the next micro-batch begins anew."""
    query = Query(DeadLetters(DEAD, at_most=5, per="batch"))
    assert ["", ""] == [query.failure((0, 2, 0), (1, 3, 0)) for _ in range(2)]
    told = query.failure((0, 2, 0), (1, 4, 0))
    assert "takes at most 5 records and timers of a task in a micro-batch, got 6" in told
    assert "ValueError: bad" in told
