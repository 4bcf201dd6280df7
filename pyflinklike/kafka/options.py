# SPDX-License-Identifier: Apache-2.0
"""The options of the data source, with the names and meanings of Spark's own Kafka connector.

An option that is not known is refused: if it were ignored, it could be a limit, or a place to start
from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.client_settings import PREFIX, client_settings
from pyflinklike.kafka.offsets import Partition
from pyflinklike.kafka.subscription import SUBSCRIPTIONS, Subscription, subscription_of
from pyflinklike.shown import shown

__all__ = [
    "EARLIEST",
    "LATEST",
    "ReaderOptions",
    "WriterOptions",
    "reader_options",
    "writer_options",
]

EARLIEST: Final = -2
LATEST: Final = -1

_READER: Final = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "endingOffsets",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
)
_WRITER: Final = ("topic", "recordIds")
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})  # Spark hands its own on as well
_POLL_TIMEOUT: Final = "120000"

Bounds = str | Mapping[Partition, int]
"""Where to start or end: "earliest", "latest", or an offset for each partition."""


@attrs.frozen
class ReaderOptions:
    """The options of a reader.

    Args:
        settings: Settings of librdkafka; they may hold secrets and are never shown.
        api_timeout_ms: How long a request to the brokers may take.
        poll_timeout_ms: How long a task waits for records that exist.
        subscription: The topics that are read.
        starting: Where a new query starts.
        ending: Where a batch ends.
        fail_on_data_loss: True stops the query where records are gone.
        max_offsets: The greatest number of offsets per micro-batch; None for all.
        min_partitions: The least number of Spark's partitions.
        include_headers: True adds a column of headers.
    """

    settings: Mapping[str, str] = attrs.field(repr=False)
    api_timeout_ms: int
    poll_timeout_ms: int
    subscription: Subscription
    starting: Bounds
    ending: Bounds
    fail_on_data_loss: bool
    max_offsets: int | None
    min_partitions: int
    include_headers: bool


@attrs.frozen
class WriterOptions:
    """The options of a writer.

    Args:
        settings: Settings of librdkafka; they may hold secrets and are never shown.
        topic: The topic of all records; None where a column names it.
        record_ids: True gives each record a header by which repeats can be recognised.
    """

    settings: Mapping[str, str] = attrs.field(repr=False)
    topic: str | None
    record_ids: bool


def reader_options(options: Mapping[str, str], *, streaming: bool) -> ReaderOptions:
    """Check the options of a stream or a batch that reads.

    Raises:
        DeclarationValueError: An option is unknown, missing or out of its range; the message says
            which, and what is allowed.
    """
    given = _known(options, _READER, "a reader")
    settings, timeout = client_settings(options)
    prefix = given.get("groupIdPrefix", "spark-kafka-source")
    # A consumer of librdkafka must have one, although no group is joined.
    settings.setdefault("group.id", f"{prefix}-pyflinklike")
    for name in ("endingOffsets",) if streaming else ("maxOffsetsPerTrigger",):
        if name in given:
            other = "batch" if streaming else "stream"
            msg = f"the option {name} is for a {other} only; leave it out"
            raise DeclarationValueError(msg)
    limit = _count(given, "maxOffsetsPerTrigger", "0")
    return ReaderOptions(
        settings=settings,
        api_timeout_ms=timeout,
        poll_timeout_ms=_count(given, "kafkaConsumer.pollTimeoutMs", _POLL_TIMEOUT),
        subscription=subscription_of(given),
        starting=_bounds(given, "startingOffsets", "latest" if streaming else "earliest", LATEST),
        ending=_bounds(given, "endingOffsets", "latest", EARLIEST),
        fail_on_data_loss=_flag(given, "failOnDataLoss", "true"),
        max_offsets=limit or None,
        min_partitions=_count(given, "minPartitions", "0"),
        include_headers=_flag(given, "includeHeaders", "false"),
    )


def writer_options(options: Mapping[str, str]) -> WriterOptions:
    """Check the options of a stream or a batch that writes.

    Raises:
        DeclarationValueError: An option is unknown, missing or out of its range.
    """
    given = _known(options, _WRITER, "a writer")
    settings, _ = client_settings(options)
    return WriterOptions(settings, given.get("topic"), _flag(given, "recordIds", "false"))


def _known(options: Mapping[str, str], names: Iterable[str], whose: str) -> dict[str, str]:
    """Return the options of these names, whatever the case in which they were given."""
    canonical = {name.lower(): name for name in names}
    given = {}
    for name, value in options.items():
        if name.lower() in canonical:
            given[canonical[name.lower()]] = value
        elif not name.lower().startswith(PREFIX) and name.lower() not in _OF_SPARK:
            known = ", ".join(sorted(canonical.values()))
            msg = f"{whose} of pyflinklike.kafka has no option {name}; it has kafka.*, {known}"
            raise DeclarationValueError(msg)
    return given


def _flag(given: Mapping[str, str], name: str, default: str) -> bool:
    value = given.get(name, default).lower()
    if value not in ("true", "false"):
        msg = f"the option {name} must be true or false, got {shown(value)}"
        raise DeclarationValueError(msg)
    return value == "true"


def _count(given: Mapping[str, str], name: str, default: str) -> int:
    value = given.get(name, default)
    if not (value.isascii() and value.isdigit()) or (name in given and not int(value)):
        msg = f"the option {name} must be a positive whole number, got {shown(value)}"
        raise DeclarationValueError(msg)
    return int(value)


def _bounds(given: Mapping[str, str], name: str, default: str, forbidden: int) -> Bounds:
    """Read where to start or end; a stream may start at the latest, a batch ends at no earliest."""
    value = given.get(name, default).strip()
    word = value.lower()
    if word in ("earliest", "latest"):
        if name == "endingOffsets" and word == "earliest":
            msg = "a batch cannot end at the earliest offset; set endingOffsets to latest or to offsets"
            raise DeclarationValueError(msg)
        return word
    try:
        found = {
            (topic, int(partition)): _offset(offset)
            for topic, partitions in json.loads(value).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError) as error:
        msg = (
            f'the option {name} must be earliest, latest or JSON such as {{"topic": {{"0": 23, "1": -2}}}}, '
            f"with -2 for earliest and -1 for latest; got {shown(value)}"
        )
        raise DeclarationValueError(msg) from error
    if name == "endingOffsets" and forbidden in found.values():
        msg = "a batch cannot end at the earliest offset (-2); set endingOffsets to latest or to offsets"
        raise DeclarationValueError(msg)
    return found


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return value
