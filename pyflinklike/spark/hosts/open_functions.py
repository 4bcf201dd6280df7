# SPDX-License-Identifier: Apache-2.0
"""Functions that stay open between the tasks of a streaming query.

Spark makes a new processor for every task of every micro-batch.  Flink opens a function once and
closes it when its job ends; so here the opened operator waits in the Python worker for the
next task of its query.  One function serves all subtasks that come to a worker, for
Spark hands tasks to whatever worker is free, and a copy for each subtask in each worker would hold a
model many times over.  Only a function that asks for the index of its subtask, or for the number of
its attempt, is kept for that one: Flink, too, opens a function again for another attempt.

It is closed when a later run of its query comes to the worker, when others have been used since, or
at once where it cannot be kept.  Spark ends a worker without a word to the Python code in it:
then nothing is closed, as in Flink when a task manager is killed.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections import OrderedDict
from typing import NamedTuple

from pyspark import TaskContext

from pyflinklike.errors import PyflinklikeError
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.operator import KeyedProcessOperator

__all__ = ["MAX_OPEN", "OPEN_FUNCTIONS", "OpenFunctions", "QueryRun", "query_run"]

MAX_OPEN = 8
"""How many functions wait in a worker at most, if there are not more operators in the query."""

Told = tuple[tuple[str, int], ...]
"""What a function has asked of its task."""

_log = logging.getLogger(__name__)


class QueryRun(NamedTuple):
    """One run of an operator of a streaming query.

    Args:
        query: Spark's id of the query, which is the checkpoint's.
        run: Spark's id of the run.
        plan: The operator's.
    """

    query: str
    run: str
    plan: str


def query_run(context: TaskContext | None, plan: str) -> QueryRun | None:
    """The run that a task belongs to, or None where its worker does not live on.

    Args:
        context: Of the task.
        plan: The operator's.
    """
    if context is None or not os.environ.get("SPARK_REUSE_WORKER"):
        return None
    query = context.getLocalProperty("sql.streaming.queryId")
    run = context.getLocalProperty("spark.jobGroup.id")
    return QueryRun(query, run, plan) if query and run else None


class OpenFunctions:
    """Operators with an open function, the least recently used closed first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[QueryRun, Told], KeyedProcessOperator] = OrderedDict()

    def take(self, run: QueryRun, task: TaskInfo) -> KeyedProcessOperator | None:
        """Remove and return an operator that can serve a task, if one is here."""
        for key in list(self._waiting):
            if key[0].query == run.query and key[0].run != run.run:
                _close(self._waiting.pop(key))
        for key, operator in self._waiting.items():
            if key[0] == run and operator.serves(task):
                return self._waiting.pop(key)
        return None

    def keep(self, run: QueryRun, operator: KeyedProcessOperator) -> None:
        """Have an operator wait that is at rest."""
        key = run, operator.told()
        former = self._waiting.pop(key, None)
        if former is not None:
            _close(former)
        self._waiting[key] = operator
        operators = {key[0].plan for key in self._waiting if key[0].run == run.run}
        while len(self._waiting) > max(MAX_OPEN, len(operators)):
            _close(self._waiting.popitem(last=False)[1])

    def close_all(self) -> None:
        """Close whatever waits."""
        while self._waiting:
            _close(self._waiting.popitem()[1])

    def __len__(self) -> int:
        return len(self._waiting)


def _close(operator: KeyedProcessOperator) -> None:
    try:
        operator.close()
    except PyflinklikeError:
        # The task at hand is another one's: it must not fail for this.
        _log.exception("a function could not be closed after its last task")


OPEN_FUNCTIONS = OpenFunctions()
"""Of this process."""
# Spark's daemon ends its workers by os._exit; where there is no daemon a worker ends as any program.
atexit.register(OPEN_FUNCTIONS.close_all)
