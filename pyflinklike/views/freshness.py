# SPDX-License-Identifier: Apache-2.0
"""How far a view has come."""

from __future__ import annotations

from typing import NamedTuple

from pyflinklike.views.file.tables import Batch

__all__ = ["Freshness", "freshness_of"]


class Freshness(NamedTuple):
    """How far a view has come.

    Args:
        batch_id: Of the last batch; None before the first.
        watermark: How far event time has come, in ms since the epoch; None if nothing tells.
        lag: How old what the view shows is, in ms: the time since the watermark or, where there
            is none, since the last batch was applied.  None before the first batch.
    """

    batch_id: int | None
    watermark: int | None
    lag: int | None


def freshness_of(latest: Batch | None, now: int) -> Freshness:
    """What the last batch tells.

    Args:
        latest: None before the first one.
        now: In ms since the epoch.
    """
    if latest is None:
        return Freshness(None, None, None)
    since = latest.applied_at if latest.watermark is None else latest.watermark
    return Freshness(latest.batch_id, latest.watermark, now - since)
