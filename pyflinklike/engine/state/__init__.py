# SPDX-License-Identifier: Apache-2.0
"""The five keyed states, each written once over a `Table`.

A state turns what the user hands over into the immutable form of its type (`freeze`), and what it
reads into the user's own copy (`thaw`).  It knows neither whether its table expires entries nor
where they are stored.

Names and signatures are PyFlink's (`pyflink.datastream.state`); where PyFlink's process mode
differs from Flink's heap backend, the behaviour is that of the heap backend.
"""

from __future__ import annotations

from pyflinklike.engine.state.keyed_states import (
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
