# SPDX-License-Identifier: Apache-2.0
"""Keepers of a simulated executor: processes that keep state, and die, hang or talk nonsense.

A keeper is process-wide state of its own, as a worker is (`tasks.Worker`).  Its code runs in a
greenlet of its own, and each message of the connection is a switch.  Whatever runs at the moment,
the process-wide state of its process is in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import greenlet

from pyflinklike.spark._host import task as host_task
from pyflinklike.spark._host.keeper import KeptTask, RelayLine

if TYPE_CHECKING:
    from simulated.tasks import Attempt, Worker

__all__ = ["KEEPER_KINDS", "Connection", "KeeperFate"]

KEEPER_KINDS = ("serves", "serves", "is silent", "dies before", "dies after", "talks nonsense")
"""What may become of a keeper in a task; the first is what most do."""


@attrs.frozen
class KeeperFate:
    """What becomes of the keeper of an attempt.

    Args:
        kind: One of `KEEPER_KINDS`.
        call: At which of its calls, from 1.
    """

    kind: str = "serves"
    call: int = 0


class Connection:
    """The relay's end of a connection, and behind it the keeper.

    Args:
        attempt: The attempt of the relay.
        process: The process-wide state of the keeper.
        make: Makes the processor of the task.
        fate: What becomes of the keeper.
        lose: Called when the keeper is dead.
    """

    def __init__(
        self,
        attempt: Attempt,
        process: Worker,
        make: Callable[[], Any],
        fate: KeeperFate,
        lose: Callable[[], object],
    ) -> None:
        self._attempt, self._process, self._make = attempt, process, make
        self._fate, self._lose = fate, lose
        self._calls = 0
        self._message = b""
        self._end = _KeeperEnd()
        self._keeper = greenlet.greenlet(self._run)
        self._switch()  # to where it waits for the first call

    def _run(self, _begin: bytes) -> Any:
        with contextlib.suppress(EOFError):
            KeptTask(self._make(), RelayLine(self._end)).run()  # type: ignore[arg-type]
        return self._end.last

    def _switch(self, message: bytes = b"") -> Any:
        with self._attempt.inside(self._process):
            return self._keeper.switch(message)

    # What the relay calls

    def send_bytes(self, message: bytes) -> None:
        """Keep a message until the relay waits for the answer."""
        self._message = message

    def recv_bytes(self) -> Any:
        """Return the answer of the keeper, or of what is left of it."""
        if self._keeper.dead:
            raise EOFError
        self._calls += 1
        kind = self._fate.kind if self._calls == self._fate.call else "serves"
        if kind == "dies before":
            self._die()
        answer = self._switch(self._message)
        if self.is_dead or kind == "dies after":
            self._die()
        return b"nonsense" if kind == "talks nonsense" else answer

    @property
    def is_dead(self) -> bool:
        """Whether the keeper has died; set in the middle of its code, it can say nothing more."""
        return self._end.is_dead

    @is_dead.setter
    def is_dead(self, is_dead: bool) -> None:
        self._end.is_dead = is_dead

    def _die(self) -> None:
        self.is_dead = True
        with self._attempt.inside(self._process):
            self._attempt.keep_disk()
        self.close()
        with self._attempt.inside(self._process):
            host_task.OPEN_FUNCTIONS.close_all()
        self._attempt.lose_memory()
        self._lose()
        self._attempt.raise_if_killed()
        raise EOFError

    def close(self) -> None:
        """End the connection; the keeper drops what the task has begun."""
        if not self._keeper.dead:
            with self._attempt.inside(self._process):
                self._keeper.throw(EOFError)


class _KeeperEnd:
    """The keeper's end of the connection."""

    def __init__(self) -> None:
        self.is_dead = False
        self.last = b""

    def send_bytes(self, message: bytes) -> None:
        """Let the relay have a message at the next wait."""
        if self.is_dead:
            raise EOFError
        self.last = message

    def recv_bytes(self) -> Any:
        """Hand the last message to the relay, and wait for the next one of it."""
        if self.is_dead:
            raise EOFError
        parent: Any = greenlet.getcurrent().parent
        return parent.switch(self.last)
