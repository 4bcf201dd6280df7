# SPDX-License-Identifier: Apache-2.0
"""The position of a view: how far batches and event time have come."""

from __future__ import annotations

from typing import NamedTuple

from pyflinklike.views.core.storage import AppliedBatch

__all__ = ["Freshness", "freshness_of"]


class Freshness(NamedTuple):
    """The position of a view.

    Args:
        batch_id: The id of the last batch; None before the first.
        watermark: How far event time has come, in ms since the epoch; None if it is unknown.
        lag: The age of the rows that the view shows, in ms: the time since the watermark or,
            without one, since the last batch was applied.  None before the first batch.
    """

    batch_id: int | None
    watermark: int | None
    lag: int | None


def freshness_of(latest: AppliedBatch | None, now: int) -> Freshness:
    """Return the freshness of a view.

    Args:
        latest: The last batch; None before the first one.
        now: The time in ms since the epoch.
    """
    if latest is None:
        return Freshness(None, None, None)
    since = latest.applied_at if latest.watermark is None else latest.watermark
    return Freshness(latest.batch_id, latest.watermark, now - since)
