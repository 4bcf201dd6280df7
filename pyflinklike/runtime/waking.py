# SPDX-License-Identifier: Apache-2.0
"""When a host calls a key group that has no records."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pyflinklike.clock import TimeDomain
from pyflinklike.runtime.operator import KeyedProcessOperator

__all__ = ["NEVER", "Waking"]


def _never(operator: KeyedProcessOperator, sweep_at: int | None) -> None:
    """A host that calls a key group only when it has records."""


@attrs.frozen
class Waking:
    """How a host calls a key group that has no records.

    Args:
        domain: By which time it can, or None where it cannot.
        wake_at: When it must, in ms, or None: given the operator and when expired entries are
            looked for next.
    """

    domain: TimeDomain | None = None
    wake_at: Callable[[KeyedProcessOperator, int | None], int | None] = _never


NEVER = Waking()
"""It does not."""
