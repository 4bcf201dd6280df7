# SPDX-License-Identifier: Apache-2.0
"""Metrics of a stream, through Spark's observed metrics.

The state operator emits the counts of each call for a key group beside its payloads.  Spark adds
them up per micro-batch before the unpacking stage, and shows the sums under the operator's name in
`query.lastProgress` and to every `StreamingQueryListener`.

`metrics_of` reads them from the progress of a stream, in whatever form Spark gives it:

| where                                         | `observedMetrics`, by name                 |
|-----------------------------------------------|--------------------------------------------|
| a classic session                             | a `Row` of the metrics                     |
| Spark Connect                                 | a `Row` of two lists: values, and a schema |
| `progress.json`, and `lastProgress` up to 3.5 | a dict, like one of the two                |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._messages import short_repr
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.metric_group import Increment, by_names_of_metrics
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.stage_records import PASSED_ON

OF_STATE = ("live_entries", "timers", "state_bytes")
"""The metrics that measure the state of the key groups that a micro-batch served."""
OF_INPUTS = " (inputs)"
"""The suffix of the name under which Spark shows the inputs of an operator, if two have event time."""
_INCREMENT_TYPES = (pa.string(), pa.string(), pa.int64())
COUNTED_FIELDS = (
    ("counts", pa.list_(pa.int64())),
    ("user_counts", pa.list_(pa.struct(list(zip(Increment._fields, _INCREMENT_TYPES))))),
)
"""The columns in which a state operator reports its counts."""
_INCREMENT: Any = SparkRow(*Increment._fields)


def make_count_cells(numbers: list[int], increments: list[Increment]) -> tuple[Any, ...]:
    """Make the cells with the counts of one call for a key group."""
    return numbers, [_INCREMENT(*each) for each in increments] or None


def observe_inputs(
    keyed: DataFrame, name: str, inputs: Sequence[tuple[Column, Column]]
) -> DataFrame:
    """Observe each of several inputs.

    Args:
        keyed: The records of all inputs.
        name: The name of the operator.
        inputs: Two columns for each input: whether a record is of it, and its event time in ms.
    """
    # The slowest input makes the watermark.  These numbers show which input that is.
    numbers = [
        column
        for number, (is_its, time) in enumerate(inputs, 1)
        for column in (
            F.count(F.when(is_its, 1)).alias(f"records_{number}"),
            F.max(F.when(is_its, time)).alias(f"latest_{number}"),
        )
    ]
    return keyed.observe(f"{name}{OF_INPUTS}", *numbers)


def observe_payloads(
    transformed: DataFrame, plans: Sequence[Plan], names: Mapping[str, str] | None = None
) -> DataFrame:
    """Observe the counts of a state operator's operators, and return its payloads.

    Args:
        transformed: The rows of the state operator.
        plans: The plans of the operators that share it, by operator index.
        names: Other names under which to show their metrics, by operator name.

    Raises:
        DeclarationValueError: Two operators of the query have one name.
    """
    firsts = [each.first_output for each in plans[1:]]
    for plan, end in zip_longest(plans, firsts):
        own = _is_of(plan.first_output, end) if firsts else None
        name = plan.task.name
        transformed = _observe(transformed, (names or {}).get(name, name), own)
    return transformed.where("payload is not null").select("output", "payload")


def _is_of(first: int, end: int | None) -> str:
    """Return the condition that a row is of the operator whose outputs have these numbers."""
    # Outputs before the watermark have the complement of the number.
    last = PASSED_ON if end is None else end - 1
    return f"greatest(output, ~output) BETWEEN {first} AND {last}"


# The expressions are text for Spark's parser: built call by call, they took a thousand round trips
# to the JVM before the query even started.  They have `counts[0]` because Spark replaces
# `get(counts, 0)` by it in the plan of every micro-batch.


def _observe(transformed: DataFrame, name: str, own: str | None) -> DataFrame:
    counts, user_counts = (
        each if own is None else f"IF({own}, {each}, NULL)" for each in ("counts", "user_counts")
    )
    names = OperatorMetrics.names()
    sums = {number: f"sum(({counts})[{at}])" for at, number in enumerate(names)}
    # If there is no row, no key group was served and its state is unknown: so null, and not 0.
    numbers = [
        f"{total if number in OF_STATE else f'coalesce({total}, 0L)'} AS {number}"
        for number, total in sums.items()
    ]
    # A row has the counts of one call for a key group.  Beside the mean, the greatest shows skew.
    records = f"({counts})[{names.index('records')}]"
    numbers.append(f"coalesce(max({records}), 0L) AS busiest_records")
    try:
        seen = transformed.observe(
            name, *map(F.expr, numbers), numbers_by_name(user_counts).alias("user")
        )
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


def numbers_by_name(increments: str) -> Column:
    """Combine the user's metrics to a map from full name to number, for Spark to observe.

    Args:
        increments: An expression of arrays of the fields of `Increment`, or null.
    """
    # One name at a time: a wider expression overflows the stack of Spark's plan printer.
    former = "try_element_at(so_far, each.name)"
    return F.expr(
        f"""
        aggregate(
            flatten(collect_list({increments})),
            cast(map() AS map<string, bigint>),
            (so_far, each) -> map_concat(
                map_filter(so_far, (name, number) -> name != each.name),
                map(each.name, CASE each.how
                    WHEN 'min' THEN least({former}, each.value)
                    WHEN 'max' THEN greatest({former}, each.value)
                    ELSE coalesce({former}, 0L) + each.value
                END)
            )
        )
        """
    )


def metrics_of(progress: Any, uid: str) -> SparkRow | None:
    """Return an operator's metrics of one micro-batch, in a classic session or over Connect.

    Args:
        progress: `query.lastProgress`, one of `query.recentProgress`, the event of
            `StreamingQueryListener.onQueryProgress`, or the dict of its JSON.
        uid: The operator's name: the `uid` given to `process`, or the name of the function's class.

    Returns:
        The metrics, by name: ints, and under `user` a dict of ints by the full name of the
        function's metrics.  `live_entries`, `timers` and `state_bytes` are None if the micro-batch
        served no key group, for example because it had no data.  An operator of two inputs with
        event time has `inputs` as well: how many `records` each brought, and the `latest` event
        time among them in ms, or None.  The watermark waits for the input that brings no records
        or older ones.  The result is None if there are no metrics: no micro-batch has run yet, or
        the trigger had nothing to do.

    Raises:
        DeclarationTypeError: `progress` is not the progress of a stream.
        DeclarationValueError: The stream has no operator of that name.
    """
    found = read_metrics(progress, uid)
    if found is None or "user" not in found:
        return found
    fields = {**found.asDict(), "user": by_names_of_metrics(found.user or {})}
    return SparkRow(*fields)(*fields.values())


def read_metrics(progress: Any, uid: str) -> SparkRow | None:
    """Return the metrics as `metrics_of` does, but with the names of increments under `user`."""
    observed = {} if progress is None else _read_observed(progress)
    if not observed:
        return None
    if uid not in observed:
        msg = (
            f"metrics_of takes the uid of an operator of the stream, got {short_repr(uid)}; "
            f"choose from {sorted(each for each in observed if not each.endswith(OF_INPUTS))}"
        )
        raise DeclarationValueError(msg)
    names, values = _columns(observed[uid])
    if "key_groups" in names:  # JSON may leave out what is null
        missing = [name for name in OF_STATE if name not in names]
        names, values = [*names, *missing], [*values, *[None] * len(missing)]
    if uid + OF_INPUTS in observed:
        names, values = [*names, "inputs"], [*values, _inputs(observed[uid + OF_INPUTS])]
    return SparkRow(*names)(*values)


def _inputs(observed: Any) -> list[SparkRow]:
    by_name = dict(zip(*_columns(observed)))
    of_input, numbers = SparkRow("records", "latest"), range(1, len(by_name) // 2 + 1)
    return [of_input(by_name[f"records_{at}"], by_name[f"latest_{at}"]) for at in numbers]


def _read_observed(progress: Any) -> Mapping[str, Any]:
    progress = getattr(progress, "progress", progress)  # of a listener's event
    if isinstance(progress, Mapping):
        # Spark leaves the entry out if a stream observes nothing.
        observed = progress.get("observedMetrics", {})
    else:
        observed = getattr(progress, "observedMetrics", None)
    if not isinstance(observed, Mapping):
        msg = (
            f"metrics_of takes the progress of a stream, got {short_repr(progress)}; "
            "for example query.lastProgress"
        )
        raise DeclarationTypeError(msg)
    return observed


def _columns(metrics: Any) -> tuple[list[str], list[Any]]:
    by_name = metrics.asDict() if isinstance(metrics, SparkRow) else dict(metrics)
    if by_name.keys() == {"values", "schema"}:
        names = [field["name"] for field in by_name["schema"]["fields"]]
        return names, list(by_name["values"])
    return list(by_name), list(by_name.values())
