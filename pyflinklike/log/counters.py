# SPDX-License-Identifier: Apache-2.0
"""The counters that a log raises."""

from __future__ import annotations

from typing import Protocol

__all__ = ["LogCounters"]


class LogCounters(Protocol):
    """Counts of loads and commits."""

    key_groups: int
    """Key groups loaded."""
    warm_loads: int
    """Key groups whose working state could be used as it was."""
    caught_up_loads: int
    """Key groups whose working state was brought up to date."""
    cold_loads: int
    """Key groups rebuilt from their log."""
    compactions: int
    """Logs replaced by a snapshot, or by nothing where nothing was left."""
    segment_bytes: int
    """Bytes written to the log."""
