# SPDX-License-Identifier: Apache-2.0
"""Keyed state: declared by descriptors, stored in tables, expired by a TTL.

A function declares a state with a descriptor (`descriptors`), and gets a state object
(`keyed_states`).  The object reads and writes entries of a `Table` (`table`), which a backend
provides.  If the state has a TTL, a `TtlTable` stands between the two (`ttl_config` declares it,
`ttl_table` applies it).  If failed calls become dead letters, a `WriteBuffer` holds
back the writes of the current call (`write_buffer`).  `state_assembly` puts these parts together.

This module exports the states that a function gets.
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
