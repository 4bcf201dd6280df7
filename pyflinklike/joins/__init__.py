# SPDX-License-Identifier: Apache-2.0
"""Joins of two keyed streams by time, as in Flink's Java API; PyFlink has no such joins.

a = key_by(clicks, "user").interval_join(key_by(orders, "user"))          # on Spark
pairs = a.between(timedelta(seconds=-5), timedelta(seconds=5)).process(Pairing(), "...")

IntervalJoin(Pairing(), JoinBounds(-5_000, 5_000))                        # in the harness
"""

from pyflinklike._exports import export_public
from pyflinklike.joins.interval_joiner import IntervalJoin, JoinBounds
from pyflinklike.joins.join_functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from pyflinklike.joins.window_joiner import CoGrouping, JoinedGroups, TaggedTypeInfo

__all__ = [
    "CoGroupFunction",
    "CoGrouping",
    "FlatJoinFunction",
    "IntervalJoin",
    "JoinBounds",
    "JoinFunction",
    "JoinedGroups",
    "ProcessJoinFunction",
    "TaggedTypeInfo",
]

export_public(globals())
