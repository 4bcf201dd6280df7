# SPDX-License-Identifier: Apache-2.0
"""The records of a range of offsets as Arrow; lost records give an error or a warning."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pyflinklike.errors import BrokerError, DataLossError
from pyflinklike.kafka.messages import RecordColumns
from pyflinklike.kafka.offsets import OffsetRange, Offsets
from pyflinklike.kafka.options import Partition, ReaderOptions, hide_secrets, make_client

_AT_ONCE: Final = 500
_WAIT_SECONDS: Final = 0.1
_ALWAYS: Final = {
    "auto.offset.reset": "error",  # a reader must never jump to another offset silently
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # reports the end of a partition that has no more records
}
# After these errors librdkafka tries again by itself.
_PASSING: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
    }
)


def fetch(wanted: OffsetRange, options: ReaderOptions) -> Iterator[pa.RecordBatch]:
    """Read all records of a range.

    Offsets without a record (compacted, or the marker of a transaction) are skipped.

    Args:
        wanted: The offsets of one partition that must be read.
        options: The options of the reader, with the brokers' addresses.

    Yields:
        Record batches of up to 10,000 records or some 16 MiB, in the order of their offsets.

    Raises:
        DataLossError: Records of the range no longer exist, and `failOnDataLoss` is true; or the
            partition ends before the range does.
        BrokerError: No record comes within `kafkaConsumer.pollTimeoutMs`, or a broker refuses.
    """
    # A broker answers sooner than by default, because the last fetch of a range is seldom full.
    settings = {"fetch.wait.max.ms": 100, **options.settings, **_ALWAYS}
    consumer = make_client(Consumer, settings)
    try:
        yield from _Fetch(consumer, wanted, options).batches()
    finally:
        consumer.close()


class _Fetch:
    """One consumer's way through a range."""

    def __init__(self, consumer: Any, wanted: OffsetRange, options: ReaderOptions) -> None:
        self._consumer, self._wanted, self._options = consumer, wanted, options
        self._next = wanted.start
        self._ends_at: int | None = None
        self._trouble = "none of its records came"
        self._records = RecordColumns(
            wanted.topic, wanted.partition, headers=options.include_headers
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._assign()
        patience = self._options.poll_timeout_ms / 1_000
        deadline = time.monotonic() + patience
        while self._next < self._wanted.end:
            before = self._next
            count = min(_AT_ONCE, self._wanted.end - self._next)
            for message in self._consumer.consume(count, _WAIT_SECONDS):
                self._take(message)
            if self._next > before:
                deadline = time.monotonic() + patience
            elif time.monotonic() > deadline:
                self._give_up()
            if self._records.full():
                yield self._records.drain()
        if self._records:
            yield self._records.drain()

    def _assign(self) -> None:
        place = TopicPartition(self._wanted.topic, self._wanted.partition, self._next)
        self._consumer.assign([place])

    def _take(self, message: Any) -> None:
        error = message.error()
        offset = message.offset()
        if error is None:
            # After a jump of `_skip_expired`, records from before it may still come.
            if self._next <= offset < self._wanted.end:
                self._records.append(message)
            self._next = max(self._next, offset + 1)
        # The last offsets of a range may be markers of transactions, so its end is reached here, too.
        elif error.code() == KafkaError._PARTITION_EOF:
            self._ends_at = offset
            self._next = max(self._next, offset)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._skip_expired(error)
        elif error.code() in _PASSING:
            self._trouble = error.str()
        else:
            raise BrokerError(self._sentence("a broker refuses it", error.str()))

    def _skip_expired(self, error: KafkaError) -> None:
        """Go on at the first offset that exists, if the options allow that."""
        wanted = self._wanted
        place = TopicPartition(wanted.topic, wanted.partition)
        seconds = self._options.api_timeout_ms / 1_000
        try:
            first, last = self._consumer.get_watermark_offsets(place, timeout=seconds)
        except KafkaException as away:
            said = self._sentence("no broker says where it begins", away.args[0].str())
            raise BrokerError(said) from None
        if self._next >= first:
            raise DataLossError(
                self._sentence(f"it has offsets {first} to {last - 1}", error.str())
            )
        first = min(first, wanted.end)
        report_loss(
            f"offsets {self._next} to {first - 1} of partition {wanted.partition} of topic "
            f"{wanted.topic} are gone: they expired before they were read",
            fail=self._options.fail_on_data_loss,
        )
        self._next = first
        self._assign()

    def _give_up(self) -> None:
        waited = f"waited {self._options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs) from offset {self._next} on"
        if self._ends_at is not None:
            # The broker has said that there is nothing more to wait for.
            raise DataLossError(self._sentence(f"it ends at offset {self._ends_at}", waited))
        raise BrokerError(self._sentence(waited, self._trouble))

    def _sentence(self, got: str, said: str) -> str:
        wanted = self._wanted
        said = hide_secrets(said, self._options.settings)
        return (
            f"offsets {wanted.start} to {wanted.end - 1} of partition {wanted.partition} of topic "
            f"{wanted.topic} must be readable, but {got}: {said}; make sure that the brokers run, and "
            "that the topic was neither deleted and made anew nor cut off at its end"
        )


_LOG: Final = logging.getLogger("pyflinklike.kafka")


def report_loss(what: str, *, fail: bool) -> None:
    """Report that records cannot be read any more: raise, or log a warning.

    Args:
        what: The topic, partition and offsets, and the reason, as a main clause of a message.
        fail: The value of the option `failOnDataLoss`.

    Raises:
        DataLossError: `fail` is set.
    """
    if fail:
        msg = (
            f"no record may be lost, because failOnDataLoss is true (the default), but {what}; "
            "set failOnDataLoss to false to go on without the lost records"
        )
        raise DataLossError(msg)
    _LOG.warning("failOnDataLoss is false, so the query goes on although %s", what)


def refuse_new_topics(start: Offsets, topic_ids: Mapping[str, str]) -> None:
    """Check that a topic is still the one that the stream has read.

    Args:
        start: The offsets up to which the stream has read, with the ids that topics had.
        topic_ids: The ids of the topics that exist now.

    Raises:
        DataLossError: A topic was deleted and made anew.
    """
    for topic, known in start.topic_ids.items():
        found = topic_ids.get(topic, known)
        if found != known:
            _refuse(f"topic {topic} was deleted and made anew: its id was {known} and is {found}")


def refuse_step_back(start: Mapping[Partition, int], latest: Mapping[Partition, int]) -> None:
    """Check that no partition ends before the offset up to which it was read.

    Raises:
        DataLossError: A partition ends before that offset.
    """
    for (topic, partition), offset in start.items():
        end = latest.get((topic, partition), offset)
        if end < offset:
            _refuse(
                f"partition {partition} of topic {topic} was read up to offset {offset} and now "
                f"ends at {end}: it was made anew, or brokers lost its end"
            )


def report_gone(start: Iterable[Partition], present: Iterable[Partition], *, fail: bool) -> None:
    """Report partitions that were read before, and now do not exist or are not subscribed to.

    Raises:
        DataLossError: There are such partitions, and `fail` is true.
    """
    gone = sorted(set(start) - set(present))
    if gone:
        names = ", ".join(f"{topic}/{partition}" for topic, partition in gone)
        report_loss(
            f"partitions {names} were read and are no longer there, or no longer subscribed to",
            fail=fail,
        )


def _refuse(what: str) -> NoReturn:
    msg = (
        f"offsets of a topic must continue from the checkpoint's, but {what}; "
        "start with a new checkpoint, whatever failOnDataLoss is"
    )
    raise DataLossError(msg)
