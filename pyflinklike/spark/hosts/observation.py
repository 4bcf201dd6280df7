# SPDX-License-Identifier: Apache-2.0
"""Metrics of a stream, through Spark's observed metrics.

The state operator gives, beside its payloads, what it counted while it served a key
group.  Spark adds these numbers up per micro-batch on their way to the unpacking
stage and shows the sums under the operator's name in `query.lastProgress` and to
every `StreamingQueryListener`.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.api.metrics import Increment
from pyflinklike.errors import DeclarationValueError
from pyflinklike.runtime.counters import OperatorMetrics

__all__ = ["COUNTED_TYPE", "counted", "observed"]

COUNTED_TYPE = "counts array<long>, user_counts array<struct<name string, how string, value long>>"
_INCREMENT: Any = SparkRow(*Increment._fields)


def counted(numbers: list[int], increments: list[Increment]) -> tuple[Any, ...]:
    """The cells of one call for a key group."""
    return numbers, [_INCREMENT(*each) for each in increments] or None


def observed(transformed: DataFrame, name: str) -> DataFrame:
    """The payloads of a state operator, with its numbers observed.

    Args:
        transformed: What the state operator gives.
        name: Of the operator.

    Raises:
        DeclarationValueError: Another operator of the query has the name.
    """
    numbers = [
        F.coalesce(F.sum(F.get("counts", F.lit(at))), F.lit(0)).alias(number)
        for at, number in enumerate(OperatorMetrics.names())
    ]
    try:
        seen = transformed.observe(name, *numbers, _of_the_user().alias("user"))
        seen.schema  # noqa: B018 - Spark Connect looks at a plan only when it is asked something
    except AnalysisException as error:
        if "DUPLICATED_METRICS_NAME" not in str(error):
            raise
        msg = (
            f"the operators of a query must differ in name, got {name!r} twice; pass "
            'process(..., uid="<a name of its own>") to one of them'
        )
        raise DeclarationValueError(msg) from error
    return seen.where("payload is not null").select("output", "payload")


def _of_the_user() -> Column:
    """The user's metrics as a map from full name to number."""
    everything = F.flatten(F.collect_list("user_counts"))
    return F.aggregate(everything, F.expr("cast(map() as map<string, bigint>)"), _combined)


def _combined(so_far: Column, increment: Column) -> Column:
    # One name at a time: a wider expression overflows the stack of Spark's plan printer.
    name, how, value = increment["name"], increment["how"], increment["value"]
    former = F.try_element_at(so_far, name)
    number = (
        F.when(how == "min", F.least(former, value))
        .when(how == "max", F.greatest(former, value))
        .otherwise(F.coalesce(former, F.lit(0)) + value)
    )
    others = F.map_filter(so_far, lambda other, _: other != name)
    return F.map_concat(others, F.create_map(name, number))
