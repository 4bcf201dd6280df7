# SPDX-License-Identifier: Apache-2.0
"""How far a view has come."""

from __future__ import annotations

from typing import NamedTuple

from pyflinklike.views.core.storage import AppliedBatch

__all__ = ["Freshness", "freshness_of"]


class Freshness(NamedTuple):
    """How far a view has come.

    Args:
        batch_id: Of the last batch; None before the first.
        watermark: How far event time has come, in ms since the epoch; None if it is unknown.
        lag: The age of what the view shows, in ms: the time since the watermark or, without
            one, since the last batch was applied.  None before the first batch.
    """

    batch_id: int | None
    watermark: int | None
    lag: int | None


def freshness_of(latest: AppliedBatch | None, now: int) -> Freshness:
    """The freshness of a view whose last batch is this one.

    Args:
        latest: None before the first one.
        now: In ms since the epoch.
    """
    if latest is None:
        return Freshness(None, None, None)
    since = latest.applied_at if latest.watermark is None else latest.watermark
    return Freshness(latest.batch_id, latest.watermark, now - since)
