# SPDX-License-Identifier: Apache-2.0
"""Calls of a key group without records: by whose time a host makes them, and when it must."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pyflinklike.clock import TimeDomain
from pyflinklike.runtime.operator import KeyedProcessOperator

__all__ = ["NEVER", "Waking"]


def _never(operator: KeyedProcessOperator, sweep_at: int | None) -> None:
    """Return no time, for a host that calls a key group only when it has records."""


@attrs.frozen
class Waking:
    """The way in which a host calls a key group without records.

    Args:
        domain: The domain whose time makes the host call; None if it cannot.
        wake_at: Returns when the host must call, in ms, or None; its arguments are the operator
            and the time of the next sweep for expired entries.
    """

    domain: TimeDomain | None = None
    wake_at: Callable[[KeyedProcessOperator, int | None], int | None] = _never


NEVER = Waking()
"""The host never calls a key group without records."""
