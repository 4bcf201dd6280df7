# SPDX-License-Identifier: Apache-2.0
"""Instances of `AsyncWait`: they hold elements back, and wait for many of them at a time.

Elements are waited for when as many have come as may wait, before a watermark passes, and when the
clock has moved on a little, so that none stays behind where a source is slow.  A host that gives many elements at
a time says itself when they are waited for: then the next one takes the place of each that is done.
"""

from __future__ import annotations

import math
from typing import Any

from pyflinklike.api.async_function import AsyncRetryStrategy
from pyflinklike.backends.base import StateBackend
from pyflinklike.graph.nodes import AsyncWait
from pyflinklike.local.operators import OperatorStation
from pyflinklike.local.stations import Exit, Send
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.waiting import Waiting
from pyflinklike.types import TypeInformation
from pyflinklike.types.copies import as_given

__all__ = ["WaitingStation"]

_HELD_MS = 20
"""How long elements are held back while others come: few of them would wait at a time with less."""


class WaitingStation(OperatorStation):
    """One with an `AsyncFunction`.

    Args:
        out: Where what it gives goes.
        node: Says how it waits.
        function: The user's, a copy of its own.
        task: Which instance it is.
        key_type: For the operator, which has no keys.
        state_backend: Likewise.
    """

    def __init__(
        self,
        out: Exit,
        node: AsyncWait,
        function: Any,
        task: TaskInfo,
        key_type: TypeInformation,
        state_backend: StateBackend,
    ) -> None:
        super().__init__(out, function, task, key_type, state_backend, has_keys=False)
        retry = node.retry or AsyncRetryStrategy.no_restart()
        options = (node.timeout, node.capacity, node.is_ordered, retry)
        self._waiting = Waiting(function, *options)
        self._held: list[tuple[Any, int | None]] = []
        self._most_held: float = node.capacity
        self._now = self._since = 0

    def _element(self, position: int) -> Send:  # noqa: ARG002
        def element(value: Any, timestamp: int | None) -> None:
            if not self._held:
                self._since = self._now
            self._held.append((as_given(value), timestamp))
            if len(self._held) >= self._most_held:
                self.wait()

        return element

    def _on_watermark(self, watermark: int) -> None:
        self.wait()
        super()._on_watermark(watermark)

    def tick(self, now: int) -> None:
        """The clock moves on: nothing is held back for long."""
        super().tick(now)
        self._now = now
        if self._held and now - self._since >= _HELD_MS:
            self.wait()

    def close(self) -> None:
        """Close the function, and the event loop."""
        try:
            super().close()
        finally:
            self._waiting.close()

    def abandon(self) -> None:
        """Close after a failure."""
        super().abandon()
        self._waiting.close()

    def hold(self) -> None:
        """Hold back all elements until a watermark, or a call of `wait`."""
        self._most_held = math.inf

    def wait(self) -> None:
        """Wait for the elements that are held back, and pass on what comes of them."""
        if not self._held:
            return
        held, self._held = self._held, []
        for value, timestamp in self._waiting.results(held):
            self._out.main(value, timestamp)
