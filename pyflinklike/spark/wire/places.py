# SPDX-License-Identifier: Apache-2.0
"""Operators that share a state operator of Spark: each has grouping keys of its own.

The operators of a job that are equally far behind its sources are one state operator of Spark, with
one shuffle before it.  Each has a place in it, from 0, and with it a range of grouping keys: those
of its key groups, which are never as many as the range, and the last number before them for its
roll call.  An operator that is alone has place 0.  Homes are of all of them, and below all ranges.
"""

from __future__ import annotations

__all__ = ["PLACES", "first_of", "is_roll_call", "place_of", "roll_call_of"]

PLACES = 100
"""How many operators share a state operator at most."""
_RANGE = 1 << 24


def first_of(place: int) -> int:
    """The first grouping key of a place's key groups."""
    return place * _RANGE


def roll_call_of(place: int) -> int:
    """The grouping key of a place's roll call."""
    return first_of(place) - 1


def is_roll_call(grouping_key: int) -> bool:
    """Whether a grouping key is a roll call's."""
    return grouping_key >= roll_call_of(0) and (grouping_key + 1) % _RANGE == 0


def place_of(grouping_key: int) -> int:
    """The place whose key group or roll call a grouping key is."""
    return (grouping_key + 1) // _RANGE
