# SPDX-License-Identifier: Apache-2.0
"""Reads an operator's metrics from the progress of a stream, in whatever form Spark gives it.

| where                                         | what `observedMetrics` has by name         |
|-----------------------------------------------|--------------------------------------------|
| a classic session                             | a `Row` of the metrics                     |
| Spark Connect                                 | a `Row` of two lists: values, and a schema |
| `progress.json`, and `lastProgress` up to 3.5 | a dict, like one of the two                |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Row as SparkRow

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import shown
from pyflinklike.spark.hosts.observation import OF_INPUTS

__all__ = ["metrics_of"]


def metrics_of(progress: Any, uid: str) -> SparkRow | None:
    """What an operator reports of one micro-batch, the same in a classic session and over Connect.

    Args:
        progress: `query.lastProgress`, one of `query.recentProgress`, what a
            `StreamingQueryListener` is given by `onQueryProgress`, or the dict of its JSON.
        uid: The operator's name: the `uid` given to `process`, or the name of the function's class.

    Returns:
        The metrics, by name: ints, and under `user` a dict of ints by the full name of the
        function's metrics.  An operator of two inputs with event time has `inputs` as well: how
        many `records` each brought, and the `latest` event time among them in ms, or None; the
        watermark waits for the input that brings none, or the older ones.  None where there are
        none: no batch has run yet, or the trigger had nothing to do.

    Raises:
        DeclarationTypeError: It is not the progress of a stream.
        DeclarationValueError: The stream has no operator of that name.
    """
    observed = {} if progress is None else _observed(progress)
    if not observed:
        return None
    if uid not in observed:
        msg = (
            f"metrics_of takes the uid of an operator of the stream, got {shown(uid)}; "
            f"choose from {sorted(each for each in observed if not each.endswith(OF_INPUTS))}"
        )
        raise DeclarationValueError(msg)
    names, values = _columns(observed[uid])
    if uid + OF_INPUTS in observed:
        names, values = [*names, "inputs"], [*values, _inputs(observed[uid + OF_INPUTS])]
    return SparkRow(*names)(*values)


def _inputs(observed: Any) -> list[SparkRow]:
    by_name = dict(zip(*_columns(observed)))
    of_input, numbers = SparkRow("records", "latest"), range(1, len(by_name) // 2 + 1)
    return [of_input(by_name[f"records_{at}"], by_name[f"latest_{at}"]) for at in numbers]


def _observed(progress: Any) -> Mapping[str, Any]:
    progress = getattr(progress, "progress", progress)  # of a listener's event
    if isinstance(progress, Mapping):
        # Where a stream observes nothing, Spark leaves it out.
        observed = progress.get("observedMetrics", {})
    else:
        observed = getattr(progress, "observedMetrics", None)
    if not isinstance(observed, Mapping):
        msg = (
            f"metrics_of takes the progress of a stream, got {shown(progress)}; "
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
