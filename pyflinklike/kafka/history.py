# SPDX-License-Identifier: Apache-2.0
"""Kafka for `history_of`: a batch ends at pinned offsets, and a stream begins there.

Before the batch reads, the client of this package asks the brokers for the ends of the topics, also if
the connector is Spark's own; or the user gives the ends as `endingOffsets`.  The batch reads exactly the
partitions of the pinned offsets, and the stream reads later partitions from their beginnings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from pyflinklike._messages import short_repr
from pyflinklike.errors import DataLossError, DeclarationValueError
from pyflinklike.kafka.offsets import Cluster, Offsets, resolve_offsets
from pyflinklike.kafka.options import (
    EARLIEST,
    LATEST,
    PREFIX,
    SUBSCRIPTIONS,
    Partition,
    find_options,
    reader_options,
)
from pyflinklike.state_processor._savepoints.manifest import Position
from pyflinklike.state_processor._spark.history import add_kind

# Options that only streams have, so the batch must not get them.
_OF_STREAMS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "waitFor",
    "holdWhile",
)
_BOUNDS = tuple(
    f"{which}{how}"
    for which in ("starting", "ending")
    for how in ("Offsets", "OffsetsByTimestamp", "Timestamp")
)


def add_kafka() -> None:
    """Register both connectors with `history_of`."""
    add_kind("pyflinklike_kafka", lambda: KafkaHistory(is_own=True))
    add_kind("kafka", lambda: KafkaHistory(is_own=False))


@attrs.frozen
class KafkaHistory:
    """Pins the ends of topics, and says how a stream goes on from there.

    Args:
        is_own: Whether the connector is this package's; otherwise it is Spark's.
    """

    is_own: bool

    def pin(self, options: Mapping[str, str]) -> tuple[str, dict[str, str], Position]:
        """Ask the brokers for the present ends of the topics.

        Returns:
            The name of the topics, the options of a batch up to their ends, and the ends.

        Raises:
            DeclarationValueError: An option is wrong.
            BrokerError: A broker does not answer.
        """
        given = find_options(options, (*SUBSCRIPTIONS, "endingOffsets"))
        what = " ".join(f"{name} {value}" for name, value in given.items() if name in SUBSCRIPTIONS)
        ends = _read_offsets(given.get("endingOffsets", "latest"))
        ids: Mapping[str, str] = {}
        if ends is None:
            cluster = self._cluster(options)
            topics = cluster.topics()
            ending = reader_options(self._choose(options), streaming=False).ending
            found = resolve_offsets(ending, topics.partitions, cluster, "endingOffsets")
            ends, ids = found, topics.ids
        if not ends:
            msg = (
                f"history_of needs topics with partitions, got none for {what!r}; check their names"
            )
            raise DeclarationValueError(msg)
        text = _text_of(ends)
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(ends):
            numbers.setdefault(topic, []).append(number)
        # `assign` replaces the subscription, or the batch would also read topics that come meanwhile.
        without = (*_OF_STREAMS, *SUBSCRIPTIONS, *(each for each in _BOUNDS if "ending" in each))
        batch = {**_leave_out(options, without), "assign": json.dumps(numbers)}
        position: dict[str, Any] = {"offset": text}
        if ids:
            position["topic_ids"] = dict(sorted(ids.items()))
        return what, {**batch, "endingOffsets": text}, position

    def go_on(self, options: Mapping[str, str], position: Position) -> dict[str, str]:
        """Return the options of a stream that begins at a position.

        Raises:
            DataLossError: A topic was deleted since then, and made anew.
            BrokerError: A broker does not answer.
        """
        ends = dict(_read_offsets(position["offset"]) or {})
        if self.is_own or "topic_ids" in position:
            topics = self._cluster(options).topics()
            known = position.get("topic_ids", {})
            anew = [topic for topic, each in topics.ids.items() if known.get(topic, each) != each]
            if anew:
                msg = (
                    f"a stream goes on with the topics of its history, got {anew}, which were deleted "
                    "and made anew since; read their history again"
                )
                raise DataLossError(msg)
            ends = {**dict.fromkeys(topics.partitions, EARLIEST), **ends}
        return {**_leave_out(options, _BOUNDS), "startingOffsets": _text_of(ends)}

    def _cluster(self, options: Mapping[str, str]) -> Cluster:
        return Cluster(reader_options(self._choose(options), streaming=False))

    def _choose(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options that a request to the brokers needs."""
        known = find_options(options, (*SUBSCRIPTIONS, "endingOffsets"))
        settings = {
            name: value for name, value in options.items() if name.lower().startswith(PREFIX)
        }
        return {**known, **settings}


def _leave_out(options: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    lower = {name.lower() for name in names}
    return {name: value for name, value in options.items() if name.lower() not in lower}


def _read_offsets(text: str) -> dict[Partition, int] | None:
    """Read `{"topic": {"0": 7}}`; None if the brokers have to say what the offsets are."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        given = json.loads(text)
        offsets = [offset for each in given.values() for offset in each.values()]
    except (ValueError, AttributeError):
        msg = f'endingOffsets must be like {{"topic": {{"0": 7}}}}, got {short_repr(text)}'
        raise DeclarationValueError(msg) from None
    if any(offset == LATEST for offset in offsets):
        return None
    return dict(Offsets.from_json({"offsets": given, "topic_ids": {}}).at)


def _text_of(at: Mapping[Partition, int]) -> str:
    return json.dumps(Offsets(at).to_json()["offsets"])
