# SPDX-License-Identifier: Apache-2.0
"""The choice of the streaming host, by the version of PySpark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, GroupedData

from pyflinklike.spark._plan.operator_plan import Plan

__all__ = ["HAS_TRANSFORM_WITH_STATE", "choose_host"]

HAS_TRANSFORM_WITH_STATE = hasattr(GroupedData, "transformWithStateInPandas")
"""Whether this is PySpark 4.0 or newer."""

StreamingHost = Callable[[DataFrame, Plan, Any], DataFrame]
"""Makes the rows of the state operator, from a keyed stream, its plan and its initial state."""


def choose_host() -> StreamingHost:
    """Return the host that serves the key groups of a stream on this PySpark."""
    # Imported late: each module names classes that the PySpark of the other does not have.
    if HAS_TRANSFORM_WITH_STATE:
        from pyflinklike.spark._host import streaming_host

        return streaming_host.apply_plan
    from pyflinklike.spark._host import group_state_host

    return group_state_host.apply_plan
