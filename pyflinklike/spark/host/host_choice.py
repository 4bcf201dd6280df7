# SPDX-License-Identifier: Apache-2.0
"""Which of Spark's interfaces serves the key groups of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, GroupedData

from pyflinklike.spark.plan.operator_plan import Plan

__all__ = ["HAS_TRANSFORM_WITH_STATE", "StreamingHost", "streaming_host"]

HAS_TRANSFORM_WITH_STATE = hasattr(GroupedData, "transformWithStateInPandas")
"""Whether this is PySpark 4.0 or newer."""

StreamingHost = Callable[[DataFrame, Plan, Any], DataFrame]
"""Given a keyed stream, its plan and what its state begins with: the results of the state operator."""


def streaming_host() -> StreamingHost:
    """What serves the key groups of a stream on this PySpark.

    Its module is imported only here: each names what the other's PySpark does not have.
    """
    if HAS_TRANSFORM_WITH_STATE:
        from pyflinklike.spark.host.streaming_host import transformed

        return transformed
    from pyflinklike.spark.host.group_state_host import applied

    return applied
