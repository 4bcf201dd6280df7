# SPDX-License-Identifier: Apache-2.0
"""Places: each operator that shares a state operator of Spark has grouping keys of its own.

Operators of a job that are equally far behind its sources share one state operator of Spark and
one shuffle before it.  Each operator has a place in the state operator, from 0, and a range of
grouping keys for its key groups.  The number just below the first of them is its roll call.  A
range is larger than any number of key groups.

An operator that is alone has place 0.  All places share the homes, whose grouping keys are below
all ranges.
"""

from __future__ import annotations

__all__ = ["PLACES", "first_of", "is_roll_call", "place_of", "roll_call_of"]

PLACES = 100
"""The greatest number of operators that share a state operator."""
_RANGE = 1 << 24


def first_of(place: int) -> int:
    """Return the lower bound of the grouping keys of a place's key groups."""
    return place * _RANGE


def roll_call_of(place: int) -> int:
    """Return the grouping key of a place's roll call."""
    return first_of(place) - 1


def is_roll_call(grouping_key: int) -> bool:
    """Return whether a grouping key is that of a roll call."""
    return grouping_key >= roll_call_of(0) and (grouping_key + 1) % _RANGE == 0


def place_of(grouping_key: int) -> int:
    """Return the place to which the grouping key of a key group or roll call belongs."""
    return (grouping_key + 1) // _RANGE
