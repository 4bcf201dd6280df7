# SPDX-License-Identifier: Apache-2.0
"""What `open_state` is told besides where the state is, checked."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pyflinklike.checks import is_int
from pyflinklike.clock import DurationLike
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.replay.described import StateInfo, state_of
from pyflinklike.replica.bounds import to_length
from pyflinklike.shown import shown
from pyflinklike.types.pickle_switch import pickle_allowed

__all__ = ["CACHE_BYTES", "Settings"]

CACHE_BYTES = 256 * 1024 * 1024
_CLOCKS = ("batch", "wall")


@attrs.frozen
class Settings:
    """How a replica is to be.

    Args:
        states: Names of the states and stores that may be asked for; None for all.
        refresh: How often it looks for newer batches by itself, in ms; None for never.
        max_age: How old an answer may be, in ms; None for any age.
        timeout: How long to wait for a batch that is asked for, in ms.
        clock: By what processing-time TTL is judged: "batch" or "wall".
        allow_scan: Whether all key groups may be decoded for an answer.
        allow_pickle: Whether values may be unpickled.
        cache_bytes: How much may stay decoded.
    """

    states: frozenset[str] | None
    refresh: int | None
    max_age: int | None
    timeout: int
    clock: str
    allow_scan: bool
    allow_pickle: bool
    cache_bytes: int

    @classmethod
    def of(
        cls,
        states: Iterable[str] | None,
        refresh: DurationLike | None,
        max_age: DurationLike | None,
        timeout: DurationLike,
        clock: str,
        allow_scan: bool,
        allow_pickle: bool,
        cache_bytes: int,
    ) -> Settings:
        """The settings of arguments as a user gives them.

        Raises:
            DeclarationTypeError, DeclarationValueError: One does not do.
        """
        if isinstance(states, str):
            msg = f"states takes a list of names, got {shown(states)}; write states=[...]"
            raise DeclarationTypeError(msg)
        if clock not in _CLOCKS:
            msg = f"clock must be one of {list(_CLOCKS)}, got {shown(clock)}; choose one"
            raise DeclarationValueError(msg)
        if not is_int(cache_bytes) or cache_bytes < 0:
            msg = f"cache_bytes takes an int of bytes from 0 on, got {shown(cache_bytes)}"
            raise DeclarationValueError(f"{msg}; for example 256 * 1024**2")
        interval = None if refresh is None else to_length(refresh, "refresh")
        if interval == 0:
            msg = f"refresh must be at least 1 ms, got {shown(refresh)}; None never looks by itself"
            raise DeclarationValueError(msg)
        return cls(
            None if states is None else frozenset(states),
            interval,
            None if max_age is None else to_length(max_age, "max_age"),
            to_length(timeout, "timeout"),
            clock,
            bool(allow_scan),
            pickle_allowed(allow_pickle),
            cache_bytes,
        )

    def check_states(self, infos: Iterable[StateInfo], where: str) -> None:
        """See that there are the states that were asked for.

        Raises:
            UnknownStateError: There is no such state.
        """
        known = list(infos)
        for name in sorted(self.states or ()):
            state_of(known, name, where)
