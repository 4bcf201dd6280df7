# SPDX-License-Identifier: Apache-2.0
"""The settings of `open_state`, checked."""

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
    """The checked settings of a replica.

    Args:
        states: Names of the states and stores that may be asked for; None for all.
        refresh: The interval in ms at which the replica looks for newer batches; None for never.
        max_age: The greatest age of an answer in ms; None for any age.
        timeout: The longest wait for a batch that a read asks for, in ms.
        clock: The time by which processing-time TTL expires: "batch" or "wall".
        allow_scan: Whether all key groups may be decoded for an answer.
        allow_pickle: Whether values may be unpickled.
        cache_bytes: The most bytes that may stay decoded.
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
        """Check the arguments of a user, and make settings of them.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument has a wrong type or value.
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
        """Check that the operator has all states that were asked for.

        Raises:
            UnknownStateError: A state is missing.
        """
        known = list(infos)
        for name in sorted(self.states or ()):
            state_of(known, name, where)
