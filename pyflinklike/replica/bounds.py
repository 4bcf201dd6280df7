# SPDX-License-Identifier: Apache-2.0
"""Which version answers: the one there is, or a newer one that is waited for."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pyflinklike.checks import is_int
from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    StaleStateError,
)
from pyflinklike.replica.version import Version
from pyflinklike.shown import shown, shown_message

__all__ = ["Bounds", "to_length"]

_POLL_MS = 50


def to_length(length: DurationLike, what: str) -> int:
    """A length of time in ms.

    Raises:
        DeclarationTypeError: It is none.
        DeclarationValueError: It is negative.
    """
    found = to_milliseconds(length, what)
    if found < 0:
        msg = f"{what} must not be negative, got {shown(length)}; give 0 or more"
        raise DeclarationValueError(msg)
    return found


@attrs.frozen
class Bounds:
    """Waits for a version that is as new as is asked for.

    Args:
        version: Gives the one there is.
        refresh: Looks for a newer one.
        wait: Passes so many ms, or fewer if the replica is closed.
        now: Tells the time, in ms.
        max_age: How old an answer may be where a call does not say, in ms; None for any age.
        timeout: How long to wait where a call does not say, in ms.
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
        """The version that answers.

        Raises:
            StaleStateError: There is none that is as new in that time.
            DeclarationTypeError, DeclarationValueError: A bound is none.
        """
        age = self.max_age if max_age is None else to_length(max_age, "max_age")
        found = self.version()
        if age is not None and self.now() - found.checked_at > age:
            found = self._checked(age)
        if at_least_batch is None:
            return found
        if not is_int(at_least_batch):
            msg = f"at_least_batch takes the number of a batch, got {shown(at_least_batch)}"
            raise DeclarationTypeError(f"{msg}; give an int")
        if found.image.position.batch_id >= at_least_batch:
            return found
        patience = self.timeout if timeout is None else to_length(timeout, "timeout")
        return self._at_least(at_least_batch, patience)

    def _checked(self, age: int) -> Version:
        try:
            self.refresh()
        except PyflinklikeError as error:
            found = self.version()
            if self.now() - found.checked_at <= age:
                return found
            msg = (
                f"an answer must be no older than {age} ms, got {found.image.position}, of which "
                f"it is not known whether it is the last ({shown_message(error)})"
            )
            raise StaleStateError(f"{msg}; allow more, or mend that") from error
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
