# SPDX-License-Identifier: Apache-2.0
"""How fast we want to be beside each other side, judged from figures of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from matrix import SIDES
from results import Result

Results = Mapping[tuple[str, str], Result]
"""By side and workload; W8 also as `W8-few` (10 k keys in state), small batches as `small`."""

_AT_LEAST = {
    "spark_pandas": 60.0,
    "spark_rows": 15.0,
    "spark_apply": 15.0,
    "pyflink_heap": 10.0,
    "spark_scala": 1.3,
    "java_rocksdb": 1.0,
}
_AT_LEAST_COLUMNS = {"spark_pandas": 150.0, "java_rocksdb": 1.0}
_LARGE = 1_000_000
"""Records of a micro-batch from which on more is wanted of columns."""
_AT_LEAST_ROCKSDB = {"pyflink_rocksdb": 10.0, "spark_scala": 1.0}


@attrs.frozen
class Verdict:
    """One goal.

    Args:
        goal: The goal in words.
        wanted: The bound.
        got: The figure, or None if it was not measured.
        at_most: Whether the bound is an upper one.
        unit: The unit of both.
    """

    goal: str
    wanted: float
    got: float | None
    at_most: bool = False
    unit: str = "x"

    @property
    def outcome(self) -> str:
        """Met, missed or not measured."""
        if self.got is None:
            return "not measured"
        met = self.got <= self.wanted if self.at_most else self.got >= self.wanted
        return "met" if met else "MISSED"


def verdicts(results: Results, micro: Mapping[str, float]) -> Iterator[Verdict]:
    """Every goal: against each peer, between our own workloads, and of single parts.

    Args:
        results: The results of this run.
        micro: The figures of `micro.py`, by name.
    """
    for number in range(1, 7):
        yield from _against_peers(results, f"W{number}")
    yield from _of_operators(results)
    goal = f"PJ1, heap: rate over {SIDES['pyflink_heap'].title}"
    yield Verdict(goal, 8.0, _rate(results, "ours_heap", "pyflink_heap", "PJ1"))
    for workload in ("W1", "W2", "W3", "W4", "W5", "W6"):
        for side, bound in _AT_LEAST_ROCKSDB.items():
            goal = f"{workload}, RocksDB: rate over {SIDES[side].title}"
            yield Verdict(goal, bound, _rate(results, "ours_rocksdb", side, workload))
    for workload in ("W1", "W5", "W6"):
        yield from _columns(results, workload)
    for side in ("ours_heap", "ours_rocksdb"):
        title = SIDES[side].title
        for name, base, bound in (("W2", "W1", 1.3), ("W7", "W1", 2.0), ("W8", "W8-few", 1.3)):
            got = _time(results, (side, name), (side, base))
            goal = f"{title}: time of a batch, {name} over {base}"
            yield Verdict(goal, bound, got, at_most=True)
        got = _time(results, (side, "small"), ("empty", "small"))
        goal = f"{title}: time of 100 records over an empty transformWithStateInPandas"
        yield Verdict(goal, 0.9, got, at_most=True)
    for backend in ("heap", "rocksdb"):
        got = micro.get(f"cold_{backend}")
        yield Verdict(f"cold rebuild, {backend}: entries/s and core", 1e6, got, unit="")
    got = micro.get("harness_heap")
    yield Verdict("harness, W1: process_element calls/s and core", 4e5, got, unit="")


def _of_operators(results: Results) -> Iterator[Verdict]:
    for workload in ("W9", "W10", "W11", "J1", "B1"):
        over_pandas = 30.0 if workload[0] in "JB" else 60.0
        for side, bound in (("spark_pandas", over_pandas), ("pyflink_heap", 10.0)):
            goal = f"{workload}, heap: rate over {SIDES[side].title}"
            yield Verdict(goal, bound, _rate(results, "ours_heap", side, workload))


def _columns(results: Results, workload: str) -> Iterator[Verdict]:
    measured = results.get(("ours_columns", workload))
    is_large = measured is not None and measured.shape.records >= _LARGE
    bounds = {"spark_scala": 3.0 if is_large else 1.8, **_AT_LEAST_COLUMNS}
    if is_large:
        bounds["floor"] = 1.2
    for side, bound in bounds.items():
        goal = f"{workload}, columnar: rate over {SIDES[side].title}"
        yield Verdict(goal, bound, _rate(results, "ours_columns", side, workload))


def _against_peers(results: Results, workload: str) -> Iterator[Verdict]:
    for side, bound in _AT_LEAST.items():
        if workload not in SIDES[side].possible:
            continue
        goal = f"{workload}, heap: rate over {SIDES[side].title}"
        yield Verdict(goal, bound, _rate(results, "ours_heap", side, workload))
    goal = f"{workload}, heap: time over the floor on Spark"
    got = _time(results, ("ours_heap", workload), ("floor", workload))
    yield Verdict(goal, 2.0, got, at_most=True)


def _rate(results: Results, ours: str, peer: str, workload: str) -> float | None:
    if (ours, workload) not in results or (peer, workload) not in results:
        return None
    return results[ours, workload].median / results[peer, workload].median


def _time(results: Results, ours: tuple[str, str], other: tuple[str, str]) -> float | None:
    if ours not in results or other not in results:
        return None
    return results[ours].median_seconds / results[other].median_seconds
