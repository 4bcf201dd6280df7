# SPDX-License-Identifier: Apache-2.0
"""Metrics of a stream, through Spark's observed metrics.

The state operator gives, beside its payloads, what it counted while it served a key
group.  Spark adds these numbers up per micro-batch on their way to the unpacking
stage and shows the sums under the operator's name in `query.lastProgress` and to
every `StreamingQueryListener`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.api.metrics import Increment
from pyflinklike.errors import DeclarationValueError
from pyflinklike.runtime.counters import OperatorMetrics
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.parcels import PASSED_ON

__all__ = ["COUNTED_TYPE", "OF_INPUTS", "counted", "numbers_by_name", "observed", "observed_inputs"]

OF_INPUTS = " (inputs)"
"""Behind the name of an operator: under this its inputs are shown, where it has two with event time."""
COUNTED_TYPE = "counts array<long>, user_counts array<struct<name string, how string, value long>>"
_INCREMENT: Any = SparkRow(*Increment._fields)


def counted(numbers: list[int], increments: list[Increment]) -> tuple[Any, ...]:
    """The cells of one call for a key group."""
    return numbers, [_INCREMENT(*each) for each in increments] or None


def observed_inputs(
    keyed: DataFrame, name: str, inputs: Sequence[tuple[Column, Column]]
) -> DataFrame:
    """The records of several inputs, of which each is observed: the watermark is the slowest one's.

    Args:
        keyed: The records of all inputs.
        name: Of the operator.
        inputs: Of each, whether a record is of it, and the event time of such a record in ms.
    """
    numbers = [
        column
        for number, (is_its, time) in enumerate(inputs, 1)
        for column in (
            F.count(F.when(is_its, 1)).alias(f"records_{number}"),
            F.max(F.when(is_its, time)).alias(f"latest_{number}"),
        )
    ]
    return keyed.observe(f"{name}{OF_INPUTS}", *numbers)


def observed(
    transformed: DataFrame, plans: Sequence[Plan], names: Mapping[str, str] | None = None
) -> DataFrame:
    """The payloads of a state operator, with the numbers of its operators observed.

    Args:
        transformed: What the state operator gives.
        plans: Of the operators that share it, in the order of their places.
        names: Under which their numbers are shown, where it is not their own ones.

    Raises:
        DeclarationValueError: Two operators of the query have one name.
    """
    firsts = [each.first_output for each in plans[1:]]
    for plan, end in zip_longest(plans, firsts):
        own = _is_of(plan.first_output, end) if firsts else None
        name = plan.task.name
        transformed = _observed(transformed, (names or {}).get(name, name), own)
    return transformed.where("payload is not null").select("output", "payload")


def _is_of(first: int, end: int | None) -> Column:
    """Whether a row is of the operator whose outputs have these numbers."""
    # What came before the watermark has the number's complement.
    output = F.greatest("output", F.bitwise_not("output"))
    return output.between(first, PASSED_ON if end is None else end - 1)


def _observed(transformed: DataFrame, name: str, own: Column | None) -> DataFrame:
    counts, user_counts = (
        F.col(each) if own is None else F.when(own, F.col(each))
        for each in ("counts", "user_counts")
    )
    numbers = [
        F.coalesce(F.sum(F.get(counts, F.lit(at))), F.lit(0)).alias(number)
        for at, number in enumerate(OperatorMetrics.names())
    ]
    try:
        seen = transformed.observe(name, *numbers, numbers_by_name(user_counts).alias("user"))
        seen.schema  # noqa: B018 - Spark Connect looks at a plan only when it is asked something
    except AnalysisException as error:
        if "DUPLICATED_METRICS_NAME" not in str(error):
            raise
        msg = (
            f"the operators of a query must differ in name, got {name!r} twice; pass "
            'process(..., uid="<a name of its own>") to one of them'
        )
        raise DeclarationValueError(msg) from error
    return seen


def numbers_by_name(increments: Column) -> Column:
    """The user's metrics as a map from full name to number, to be observed.

    Args:
        increments: Arrays of the fields of `Increment`, or null.
    """
    everything = F.flatten(F.collect_list(increments))
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
