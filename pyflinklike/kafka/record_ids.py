# SPDX-License-Identifier: Apache-2.0
"""An id for each record of a micro-batch, the same when the micro-batch is written again.

The rows of a task come in another order when it is tried again, wherever they went through a
shuffle.  So the id of a record is made of its contents and, among equal records of its task, of a
number.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, Final

import attrs
from pyspark import TaskContext

from pyflinklike.errors import HostError
from pyflinklike.kafka.messages import Message

__all__ = ["HEADER", "RecordIds"]

HEADER: Final = "pyflinklike-record-id"
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class RecordIds:
    """Gives the records of one task their ids: query, micro-batch, task, digest and number.

    It holds 16 bytes and a count for each different record of the task until the task ends.

    Args:
        context: The context of Spark's task.

    Raises:
        HostError: The task does not belong to a stream.
        HostError: The task is of no stream.
    """

    def __init__(self, context: Any) -> None:
        told = (_QUERY, _BATCH) if context is not None else ()
        query, batch = [context.getLocalProperty(name) for name in told] or (None, None)
        if query is None or batch is None:
            msg = "recordIds is for streams, got a task of none; leave the option out"
            raise HostError(msg)
        self._prefix = f"{query}/{batch}/{context.partitionId()}"
        self._seen: Counter[bytes] = Counter()

    @classmethod
    def of_task(cls) -> RecordIds:
        """Make the ids for the task that runs here."""
        return cls(TaskContext.get())

    def named(self, message: Message) -> Message:
        """Return the message with a header that holds its id."""
        digest = _digest(message)
        number = self._seen[digest]
        self._seen[digest] = number + 1
        name = f"{self._prefix}/{digest.hex()}/{number}".encode()
        return attrs.evolve(message, headers=(*message.headers, (HEADER, name)))


def _digest(message: Message) -> bytes:
    """Return a digest of all that a message holds; lengths keep neighbours apart."""
    state = hashlib.blake2b(digest_size=16)
    parts = [message.topic, message.partition, message.key, message.value]
    for part in [*parts, *(each for header in message.headers for each in header)]:
        held = b"" if part is None else part if isinstance(part, bytes) else str(part).encode()
        state.update(b"-" if part is None else b"%d:" % len(held))
        state.update(held)
    return state.digest()
