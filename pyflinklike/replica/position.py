# SPDX-License-Identifier: Apache-2.0
"""The micro-batch that a replica has come to."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pyflinklike.clock import wall_clock

__all__ = ["Position"]


@attrs.frozen(order=True)
class Position:
    """The micro-batch after which an answer holds; a later batch is greater.

    Args:
        batch_id: The number of the micro-batch; -1 for a savepoint that was made without one.
        watermark: The operator's watermark in that batch, in ms; None before the first.
        committed_at: The time in ms of the batch's commit, or of the savepoint.
        now: Returns the time in ms.
    """

    batch_id: int
    watermark: int | None = attrs.field(order=False)
    committed_at: int = attrs.field(order=False)
    now: Callable[[], int] = attrs.field(default=wall_clock, eq=False, order=False, repr=False)

    @property
    def age(self) -> int:
        """The time since the commit, in ms."""
        return self.now() - self.committed_at
