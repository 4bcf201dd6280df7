# SPDX-License-Identifier: Apache-2.0
"""Why a function does not give the same twice: experiments, each of which changes one thing.

The same micro-batches are run by the oracle, in which nothing fails: again, with other random
numbers, by another clock.  What the function keeps outside of state is compared before and after.
What no experiment shows is told as a list of what may be the reason.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from pyflinklike.testing.simulation.attempt_clock import CLOCK
from pyflinklike.testing.simulation.oracle import Model
from pyflinklike.testing.simulation.program import MicroBatch, Rows, SimulatedOperator
from pyflinklike.testing.simulation.user_code import UserCode

__all__ = ["find_causes", "use_random_seed"]

_NOON = 1_700_000_000.0
_RANDOM = (
    "it draws random numbers, and an attempt that is repeated draws others: make them of the record, "
    "as `random.Random(f'{key} {value}')` does"
)
_CLOCK = (
    "it reads the wall clock, and an attempt that is repeated reads another time: take "
    "`ctx.timer_service().current_processing_time()`, which is that of the micro-batch, or "
    "`ctx.timestamp()`"
)
_UNKNOWN_SOURCE = (
    "two runs over the same records in one process differ: it depends on something that is neither "
    "in the records nor in state, such as a global, a generator of random numbers that the system "
    "seeds, a clock of pandas, a file or a service"
)
_TASK = "it asks in which task it runs, which another number of partitions or key groups changes"
_TASK_NAMES = {
    "get_index_of_this_subtask",
    "get_number_of_parallel_subtasks",
    "get_task_name_with_subtasks",
    "get_attempt_number",
}
_EXPIRED_NAMES = {"return_expired_if_not_cleaned_up", "ReturnExpiredIfNotCleanedUp"}
_ORDER = (
    "an operator behind another one depends on the order in which records of one time and key "
    "arrive, which is Spark's to choose"
)
_EXPIRED = (
    "a state shows values that have expired until they are cleaned up, and when that is differs: "
    "let the TTL never return what is expired"
)
_NONE = (
    "none of self, globals, random numbers and the clock was seen to be it: look for what differs "
    "between attempts, workers and partitions (a cache, a file, a service, a number of calls)"
)


@attrs.frozen
class _Result:
    rows: tuple[Rows, ...]
    kept: tuple[str, ...]


def find_causes(history: Sequence[MicroBatch], operators: Sequence[SimulatedOperator]) -> list[str]:
    """Return the likely causes in words, the likeliest first.

    Args:
        history: Micro-batches for which operators did not give the same under faults.
        operators: The operators.
    """
    code = UserCode(*(each.plan.function for each in operators))
    found: list[str] = []
    try:
        first = _experiment(history, operators)
        found += [_blame(name) for name in first.kept]
        again = _experiment(history, operators)
        if first.rows == again.rows:
            if first.rows != _experiment(history, operators, seed=2).rows:
                found.append(_RANDOM)
            if first.rows != _experiment(history, operators, later=40_000_000.0).rows:
                found.append(_CLOCK)
        elif not found:
            found.append(_UNKNOWN_SOURCE)
    except Exception:  # the function fails where nothing else does: the history says enough
        pass
    names = code.names
    if not found and names & _TASK_NAMES:
        found.append(_TASK)
    if not found and names & _EXPIRED_NAMES:
        found.append(_EXPIRED)
    if not found and not all(each.is_ordered for each in operators):
        found.append(_ORDER)
    return found or [_NONE]


def _blame(name: str) -> str:
    return (
        f"{name} changes while records are processed, and is not state: it is lost when its worker "
        "ends, an attempt that is repeated finds what a failed one has left, and all keys of a "
        "worker share it; keep it in state"
    )


def _experiment(
    history: Sequence[MicroBatch],
    operators: Sequence[SimulatedOperator],
    seed: int = 1,
    later: float = 0.0,
) -> _Result:
    """Run micro-batches with these random numbers, and by a clock that stands still."""
    with use_random_seed(seed):
        CLOCK.stands_at, CLOCK.offset = _NOON, later
        try:
            model = Model()
            model.start(operators)
            before = UserCode(*model.functions).digest_kept()
            rows = tuple(model.run(each, operators) for each in history)
            after = UserCode(*model.functions).digest_kept()
        finally:
            CLOCK.stands_at, CLOCK.offset = None, 0.0
    kept = sorted(name for name, value in after.items() if before.get(name) != value)
    return _Result(rows, tuple(kept))


@contextmanager
def use_random_seed(seed: int) -> Iterator[None]:
    """Seed the generators that functions draw from, and put them back.

    Args:
        seed: For `random`, for NumPy's global generator, and for what `os.urandom` gives.
    """
    numbers = random.Random(seed)  # a simulation guards nothing
    state, urandom = random.getstate(), os.urandom
    numpy: Any = sys.modules.get("numpy")
    former = numpy.random.get_state() if numpy is not None else None
    random.seed(seed)
    os.urandom = numbers.randbytes
    _set_system_source(numbers.randbytes)
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
    try:
        yield
    finally:
        random.setstate(state)
        os.urandom = urandom
        _set_system_source(urandom)
        if numpy is not None:
            numpy.random.set_state(former)


def _set_system_source(source: Callable[[int], bytes]) -> None:
    """Set what `random.SystemRandom` and `secrets` draw from: the module has a name of its own."""
    random._urandom = source  # type: ignore[attr-defined]
