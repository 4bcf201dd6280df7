# SPDX-License-Identifier: Apache-2.0
"""Metrics of a job's functions without keys, which have no state operator that could report them.

What a task counts goes in a parcel through all operators to the last stage, and from there as
columns to Spark, which observes it beside what the keyed operators report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.functions import Function
from pyflinklike.graph.job import JobGraph
from pyflinklike.graph.nodes import Node
from pyflinklike.spark.hosts.observation import numbers_by_name
from pyflinklike.spark.jobs.stages import is_keyed

__all__ = ["COUNTS", "COUNTS_TYPE", "Count", "counting_nodes", "observed_functions"]

COUNTS = -1
"""The number by which counts go to the last stage; those of nodes begin with 1."""
COUNTS_TYPE = "counts array<struct<function string, name string, how string, value long>>"


class Count(NamedTuple):
    """What a function has counted in a task: an `Increment`, and of whom.

    Args:
        function: Its name in the progress of the query.
        name: Full name of the metric, and what of it.
        how: How the numbers of this name are to be combined.
        value: An int.
    """

    function: str
    name: str
    how: str
    value: int


def counting_nodes(graph: JobGraph) -> Mapping[int, str]:
    """The nodes whose functions are without keys and may count, with what reports are called.

    That is the uid, or else the name; nodes of one name report together.

    Args:
        graph: Of the job.
    """
    keyed = set(graph.state_names.values())
    found = {node.id: node.uid or node.name for node in graph.nodes.values() if _may_count(node)}
    return {at: f"{name}-{at}" if name in keyed else name for at, name in found.items()}


def _may_count(node: Node) -> bool:
    function: Any = getattr(node, "function", None)
    return (
        isinstance(function, Function)
        and not is_keyed(node)
        and type(function).open is not Function.open
    )


def observed_functions(results: DataFrame, names: Iterable[str]) -> DataFrame:
    """The results of a job without the counts, which are observed.

    Args:
        results: Of the last stage.
        names: Of the functions that may count.
    """
    for name in sorted(set(names)):
        results = results.observe(name, numbers_by_name(_counts_of(name)).alias("user"))
    return results.where("payload is not null").select("output", "payload")


def _counts_of(function: str) -> Column:
    return F.filter("counts", lambda count: count["function"] == function)
