# SPDX-License-Identifier: Apache-2.0
"""Offsets: how far a stream has read, as Spark's checkpoint and progress have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pyflinklike.checks import is_int64
from pyflinklike.errors import CorruptStateError

__all__ = ["Offsets", "Partition"]

Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""


@attrs.frozen
class Offsets:
    """The next offset to read of each partition, and the ids of the topics.

    Args:
        at: The offsets by partition.
        topic_ids: The ids by topic; empty where the brokers have no ids (Kafka before 2.8).
    """

    at: Mapping[Partition, int]
    topic_ids: Mapping[str, str] = {}

    def to_json(self) -> dict[str, Any]:
        """Return what Spark stores: `{"offsets": {topic: {partition: 1}}, "topic_ids": {...}}`.

        Equal offsets have equal JSON, including the order of its keys: Spark compares the text.
        """
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.at.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        return {"offsets": topics, "topic_ids": dict(sorted(self.topic_ids.items()))}

    @classmethod
    def from_json(cls, json: Any) -> Offsets:
        """Return the offsets that `to_json` wrote.

        Raises:
            CorruptStateError: `json` is something else.
        """
        try:
            at = {
                (topic, int(partition)): offset
                for topic, partitions in json["offsets"].items()
                for partition, offset in partitions.items()
            }
            ids = dict(json["topic_ids"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _foreign(json) from None
        if not all(is_int64(offset) and offset >= 0 for offset in at.values()):
            raise _foreign(json)
        return cls(at, ids)


def _foreign(json: Any) -> CorruptStateError:
    msg = (
        f"offsets of pyflinklike.kafka are expected in the checkpoint, got {json!r:.500}; "
        "another source wrote it, or it is damaged: start with a new checkpoint"
    )
    return CorruptStateError(msg)
