# SPDX-License-Identifier: Apache-2.0
"""What a function's methods are given as `ctx`."""

from __future__ import annotations

from typing import Any

from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import StateAccessError
from pyflinklike.functions import KeyedProcessFunction, TimerService
from pyflinklike.table import NO_KEY, Scope
from pyflinklike.types import TypeInformation

__all__ = ["CallContext"]


class CallContext(KeyedProcessFunction.OnTimerContext):
    """What the function sees of the current call; one object serves all calls.

    Args:
        clock: Of the operator.
        scope: Has the current key, frozen.
        key_type: Thaws it.
        timers: Of the current key.
    """

    def __init__(
        self, clock: Clock, scope: Scope, key_type: TypeInformation, timers: TimerService
    ) -> None:
        self._clock = clock
        self._scope = scope
        self._key_type = key_type
        self._timers = timers
        self.domain: TimeDomain | None = None
        """Of the timer that fires; None while an element is processed."""
        self.fired_at: int | None = None
        """Its time in ms."""

    def get_current_key(self) -> Any:
        """The key of the element or timer."""
        key = self._scope.key
        if key is NO_KEY:
            msg = "there is a current key only while process_element or on_timer runs, got none"
            raise StateAccessError(msg)
        return self._key_type.thaw_key(key)

    def timestamp(self) -> int | None:
        """The time of the element or timer in ms, or None."""
        return self._clock.timestamp if self.domain is None else self.fired_at

    def timer_service(self) -> TimerService:
        """The clock and the timers of the current key."""
        return self._timers

    def time_domain(self) -> TimeDomain:
        """Which clock the timer that fires followed."""
        if self.domain is None:
            msg = "a time domain belongs to a timer, got a call outside on_timer"
            raise StateAccessError(msg)
        return self.domain
