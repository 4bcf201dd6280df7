# SPDX-License-Identifier: Apache-2.0
"""Checks the settings of a replica, and picks an answer that is new enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from pyflinklike._checks import is_int
from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import short_repr, shown_message
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    StaleStateError,
)
from pyflinklike.queryable_state.version import Version
from pyflinklike.state_processor._logs.state_infos import StateInfo, state_of
from pyflinklike.types.pickled_type import pickle_allowed

__all__ = ["CACHE_BYTES", "Bounds", "Settings", "to_length"]


CACHE_BYTES = 256 * 1024 * 1024


_CLOCKS = ("batch", "wall")


# A refresh that finds no newer batch lists one folder, so waiting reads may look this often.
_POLL_MS = 50


@attrs.frozen
class Settings:
    """The checked settings of a replica.

    Args:
        states: Names of the states and stores that may be asked for; None allows all.
        refresh: How often the replica looks for newer batches, in ms; None means never.
        max_age: The greatest age of an answer in ms; None allows any age.
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
            msg = f"states takes a list of names, got {short_repr(states)}; write states=[...]"
            raise DeclarationTypeError(msg)
        if clock not in _CLOCKS:
            msg = f"clock must be one of {list(_CLOCKS)}, got {short_repr(clock)}; choose one"
            raise DeclarationValueError(msg)
        if not is_int(cache_bytes) or cache_bytes < 0:
            msg = f"cache_bytes takes an int of bytes from 0 on, got {short_repr(cache_bytes)}"
            raise DeclarationValueError(f"{msg}; for example 256 * 1024**2")
        interval = None if refresh is None else to_length(refresh, "refresh")
        if interval == 0:
            msg = f"refresh must be at least 1 ms, got {short_repr(refresh)}; None never looks by itself"
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


@attrs.frozen
class Bounds:
    """Picks a version that is as new as a call asks for.

    Args:
        version: Returns the present version.
        refresh: Looks for a newer version.
        wait: Waits for a number of ms, or less if the replica is closed.
        now: Returns the time in ms.
        max_age: The default of `pick`, in ms; None allows any age.
        timeout: The default of `pick`, in ms.
    """

    version: Callable[[], Version]
    refresh: Callable[[], object]
    wait: Callable[[int], object]
    now: Callable[[], int]
    max_age: int | None
    timeout: int

    def pick(
        self,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> Version:
        """Return the version that answers.

        Raises:
            StaleStateError: No version is new enough within the timeout.
            DeclarationTypeError, DeclarationValueError: A bound has a wrong type or value.
        """
        age = self.max_age if max_age is None else to_length(max_age, "max_age")
        found = self.version()
        if age is not None and self.now() - found.checked_at > age:
            found = self._check(age)
        if at_least_batch is None:
            return found
        if not is_int(at_least_batch):
            msg = f"at_least_batch takes the number of a batch, got {short_repr(at_least_batch)}"
            raise DeclarationTypeError(f"{msg}; give an int")
        if found.image.position.batch_id >= at_least_batch:
            return found
        patience = self.timeout if timeout is None else to_length(timeout, "timeout")
        return self._at_least(at_least_batch, patience)

    def _check(self, age: int) -> Version:
        try:
            self.refresh()
        except PyflinklikeError as error:
            found = self.version()
            if self.now() - found.checked_at <= age:
                return found
            msg = (
                f"cannot tell whether {found.image.position} is the newest state, as max_age={age} "
                f"ms asks, since a refresh failed ({shown_message(error)})"
            )
            raise StaleStateError(f"{msg}; raise max_age, or retry") from error
        return self.version()

    def _at_least(self, batch_id: int, patience: int) -> Version:
        end = self.now() + patience
        while True:
            cause = None
            try:
                self.refresh()
            except PyflinklikeError as error:
                cause = error
            found = self.version()
            if found.image.position.batch_id >= batch_id:
                return found
            left = end - self.now()
            if left <= 0:
                msg = f"an answer must be of batch {batch_id} or later, got {found.image.position}"
                raise StaleStateError(
                    f"{msg} after {patience} ms; wait longer, or see whether the query runs"
                ) from cause
            self.wait(min(left, _POLL_MS))


def to_length(length: DurationLike, what: str) -> int:
    """Return a length of time in ms.

    Raises:
        DeclarationTypeError: The argument is not a length of time.
        DeclarationValueError: The length is negative.
    """
    found = to_milliseconds(length, what)
    if found < 0:
        msg = f"{what} must not be negative, got {short_repr(length)}; give 0 or more"
        raise DeclarationValueError(msg)
    return found
