# SPDX-License-Identifier: Apache-2.0
"""The metrics of the functions and keyed operators of a job, added up over its tasks.

Some hosts have no place of their own for metrics.  They bring the counts of their tasks to the
program's process, and the program gets the sums with the result of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyflinklike.functions.metric_group import Increment, by_names_of_metrics
from pyflinklike.pyflink._graph.job import JobGraph
from pyflinklike.pyflink._graph.nodes import Node, TwoInputs
from pyflinklike.state.fold_functions import Function

__all__ = ["Count", "JobMetrics", "counts_of_operator", "find_counting_nodes"]


class Count(NamedTuple):
    """A number that was counted in a task: an `Increment`, with the name of the function.

    Args:
        function: The name under which the function or keyed operator reports.
        name: The full name of the metric, and which of its numbers.
        how: How numbers of this name are combined.  "own" marks a number of the operator itself, which
            is added up.
        value: The number that one task has counted.
    """

    function: str
    name: str
    how: str
    value: int


_OWN = "own"


def counts_of_operator(
    function: str, numbers: Mapping[str, int], increments: Iterable[Increment]
) -> list[Count]:
    """Return the counts of a keyed operator.

    Args:
        function: The name under which it reports.
        numbers: The numbers that the operator counts by itself, by their names.
        increments: The counts of the metrics that its function has registered.
    """
    return [
        *(Count(function, name, _OWN, number) for name, number in numbers.items()),
        *(Count(function, *each) for each in increments),
    ]


def find_counting_nodes(graph: JobGraph) -> Mapping[int, str]:
    """Return the nodes without keys whose functions may count, with the names of their reports.

    The name of a report is the uid of the node, or else its name; nodes of one name report together.
    """
    keyed = set(graph.state_names.values())
    found = {
        node.id: node.uid or node.name
        for node in graph.nodes.values()
        if _may_count(node) and not _has_report(graph, node)
    }
    return {at: f"{name}-{at}" if name in keyed else name for at, name in found.items()}


def _has_report(graph: JobGraph, node: Node) -> bool:
    """Return whether a node reports under the name of its state."""
    is_plain = isinstance(node, TwoInputs) and not node.is_keyed
    return node.id in graph.state_names and not is_plain


def _may_count(node: Node) -> bool:
    # A function registers its metrics in `open`, so one that inherits `open` cannot have any.
    function: Any = getattr(node, "function", None)
    return isinstance(function, Function) and type(function).open is not Function.open


class JobMetrics:
    """The sums of all counts of a job."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, Any]] = {}

    def add(self, counts: Iterable[Count]) -> None:
        """Add the counts of a task that has not failed."""
        for each in counts:
            report = self._reports.setdefault(each.function, {"user": {}})
            numbers = report if each.how == _OWN else report["user"]
            former = numbers.get(each.name)
            if former is None:
                numbers[each.name] = each.value
            elif each.how in ("min", "max"):
                numbers[each.name] = (min if each.how == "min" else max)(former, each.value)
            else:
                numbers[each.name] = former + each.value

    def reports(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the numbers of each function, by its name; under "user" are the metrics it registered."""
        return {
            function: {**report, "user": by_names_of_metrics(report["user"])}
            for function, report in self._reports.items()
        }
