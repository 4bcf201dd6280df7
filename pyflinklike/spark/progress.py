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

__all__ = ["metrics_of"]


def metrics_of(progress: Any, uid: str) -> SparkRow | None:
    """What an operator reports of one micro-batch, the same in a classic session and over Connect.

    Args:
        progress: `query.lastProgress`, one of `query.recentProgress`, what a
            `StreamingQueryListener` is given by `onQueryProgress`, or the dict of its JSON.
        uid: The operator's name: the `uid` given to `process`, or the name of the function's class.

    Returns:
        The metrics, by name: ints, and under `user` a dict of ints by the full name of the
        function's metrics.  None where there are none: no batch has run yet, or the trigger had
        nothing to do.

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
            f"choose from {sorted(observed)}"
        )
        raise DeclarationValueError(msg)
    names, values = _columns(observed[uid])
    return SparkRow(*names)(*values)


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
