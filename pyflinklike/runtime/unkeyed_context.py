# SPDX-License-Identifier: Apache-2.0
"""Contexts of a function whose elements have no keys: in `open`, and with each element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from pyflinklike.api.context import TimerService
from pyflinklike.api.process import ProcessFunction
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import DeclarationError, PyflinklikeError, StateAccessError
from pyflinklike.runtime.contexts import OperatorRuntimeContext
from pyflinklike.shown import shown
from pyflinklike.state.descriptors import StateDescriptor

__all__ = ["NO_TIMERS", "UnkeyedCallContext", "UnkeyedOperatorContext"]

S = TypeVar("S")

NO_TIMERS: Mapping[TimeDomain, PyflinklikeError] = {
    domain: StateAccessError(
        "Register timers is only supported on a keyed stream, got one without keys; call key_by "
        "before process, and subclass KeyedProcessFunction"
    )
    for domain in TimeDomain
}
"""The error that a registration of a timer raises."""


class UnkeyedCallContext(ProcessFunction.Context):
    """The `ctx` of a `ProcessFunction` or `CoProcessFunction`; one object serves all calls.

    Args:
        clock: The operator's clock, set by its host.
        timers: Shows the clock, and refuses every registration.
    """

    domain: TimeDomain | None = None
    """None: no timer ever fires."""
    fired_at: int | None = None

    def __init__(self, clock: Clock, timers: TimerService) -> None:
        self._clock = clock
        self._timers = timers

    def timestamp(self) -> int | None:
        """Return the event time of the element in ms, or None."""
        return self._clock.timestamp

    def timer_service(self) -> TimerService:
        """Return the service that shows the clock."""
        return self._timers


class UnkeyedOperatorContext(OperatorRuntimeContext):
    """An `OperatorRuntimeContext` without states and stores, all of which belong to keys."""

    def get_store(self, store_descriptor: Any) -> NoReturn:
        """Refuse every store.

        Raises:
            DeclarationError: Always: the function's elements have no keys.
        """
        raise _no_keys("store", store_descriptor)

    def _get(self, descriptor: StateDescriptor[S], wanted: type[StateDescriptor]) -> S:  # noqa: ARG002
        raise _no_keys("state", descriptor)


def _no_keys(noun: str, descriptor: Any) -> DeclarationError:
    return DeclarationError(
        f"a {noun} belongs to keys, got {shown(descriptor)} in a function whose elements have none; "
        "call key_by before, and give a function for keyed streams"
    )
