# SPDX-License-Identifier: Apache-2.0
"""How far a replica has come."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pyflinklike.clock import wall_clock

__all__ = ["Position"]


@attrs.frozen(order=True)
class Position:
    """After which micro-batch an answer is; of two the one of the later batch is greater.

    Args:
        batch_id: Of the micro-batch; -1 of a savepoint that was made without one.
        watermark: The operator's in that batch, in ms; None if there was none yet.
        committed_at: When the batch was committed, or the savepoint taken, in ms.
        now: Tells the time, in ms.
    """

    batch_id: int
    watermark: int | None = attrs.field(order=False)
    committed_at: int = attrs.field(order=False)
    now: Callable[[], int] = attrs.field(default=wall_clock, eq=False, order=False, repr=False)

    @property
    def age(self) -> int:
        """How long ago it was committed, in ms."""
        return self.now() - self.committed_at
