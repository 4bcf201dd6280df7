# SPDX-License-Identifier: Apache-2.0
"""State: declared by descriptors, kept in tables, expired by a TTL.

This module names the states that a function gets.
"""

from __future__ import annotations

from pyflinklike.state.keyed_states import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)

__all__ = [
    "AggregatingState",
    "AppendingState",
    "ListState",
    "MapState",
    "MergingState",
    "ReducingState",
    "State",
    "ValueState",
]
