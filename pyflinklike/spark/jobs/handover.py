# SPDX-License-Identifier: Apache-2.0
"""From the thread in which Spark gives micro-batches to the one that the job is driven by."""

from __future__ import annotations

import queue
from threading import Event
from typing import NamedTuple

from pyflinklike.errors import HostError

__all__ = ["Batch", "Handover", "Rows"]

Rows = list[tuple[int, bytes]]
"""Numbers of sinks with pickles of records."""


class Batch(NamedTuple):
    """What came of a micro-batch.

    Args:
        number: Of the micro-batch; one that is run again has the same.
        rows: What came of it.
    """

    number: int
    rows: Rows


class Handover:
    """Hands over one micro-batch after the other, and has the giver wait until it is done with.

    Spark takes note of a micro-batch when its giver comes back, so one that the job has not done
    with is run again after a restart.
    """

    def __init__(self) -> None:
        self._offered: queue.Queue[Batch] = queue.Queue()
        self._is_done, self._is_closed = Event(), False

    def give(self, batch: Batch) -> None:
        """Give a micro-batch, and wait until it is done with.

        Raises:
            HostError: The job has ended before that.
        """
        self._is_done.clear()
        if not self._is_closed:
            self._offered.put(batch)
            self._is_done.wait()
        if self._is_closed:
            msg = f"the job takes micro-batches until it ends, got number {batch.number} then; start it again"
            raise HostError(msg)

    def take(self, seconds: float) -> Batch | None:
        """The micro-batch that is given; None where there is none.

        Args:
            seconds: How long to wait for one.
        """
        try:
            return self._offered.get(timeout=seconds)
        except queue.Empty:
            return None

    @property
    def is_waited_for(self) -> bool:
        """Whether a micro-batch was given that nobody has taken."""
        return not self._offered.empty()

    def done(self) -> None:
        """The micro-batch that was taken is done with."""
        self._is_done.set()

    def close(self) -> None:
        """The job has ended: whoever gives is turned away."""
        self._is_closed = True
        self._is_done.set()
