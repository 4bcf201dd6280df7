# SPDX-License-Identifier: Apache-2.0
"""Topics as the source of a job: PyFlink's `KafkaSource`, read by the data source of this package.

A source that ends is read in splits, one for each partition of a topic, and their offsets are fixed when
the job begins.  A source that does not end is a stream of Spark, and Spark's checkpoint has its offsets.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from pyflinklike._checks import is_int64
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    SparkSetupError,
    UserFunctionError,
)
from pyflinklike.kafka.data_source import FORMAT, HAS_LIMITS, register
from pyflinklike.kafka.fetch import fetch
from pyflinklike.kafka.offsets import Cluster, OffsetRange, Offsets
from pyflinklike.kafka.options import (
    EARLIEST,
    ClientBuilder,
    Partition,
    ReaderOptions,
    as_options,
    check_instance,
    reader_options,
)
from pyflinklike.pyflink._graph.functions import copy_function
from pyflinklike.pyflink._graph.serialization import DeserializationSchema, check_schema
from pyflinklike.pyflink._spark.data_frame_source import Elements, FrameSource
from pyflinklike.types import TypeInformation

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "elements_of",
]


@attrs.frozen(eq=False)
class KafkaSource(FrameSource):
    """The values of the records of topics, with the records' times, as PyFlink's `KafkaSource`.

    Make it with `builder()`.

    Args:
        options: Options of the data source; they may hold secrets, so they are never shown.
        what: The topics in words, for messages.
        group: The id of the consumer group, or None.
        starting: Finds the offsets at which the source starts.
        stopping: Finds the offsets at which it stops; None for a source that does not end.
        deserializer: Makes elements of the values of records.
    """

    options: Mapping[str, str] = attrs.field(repr=False)
    what: str
    group: str | None
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    deserializer: DeserializationSchema

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Make a builder of the source."""
        return KafkaSourceBuilder()

    @property
    def is_bounded(self) -> bool:
        """True if the source ends."""
        return self.stopping is not None

    @property
    def type_info(self) -> TypeInformation:
        """The type of the elements that the deserializer makes."""
        return self.deserializer.get_produced_type()

    @property
    def identity(self) -> str:
        """The topics, without the brokers' addresses, because these change from time to time."""
        return f"the {self.what} of Kafka"

    def is_frame(self, *, is_streaming: bool) -> bool:
        """Return whether Spark reads the source as a stream, which is so only if it does not end."""
        return is_streaming and not self.is_bounded

    @property
    def has_splits(self) -> bool:
        """True: a task of its own reads each partition."""
        return True

    def split_of(self, batch: pa.RecordBatch) -> str:
        """Return the topic and the partition of the records."""
        return f"{batch.column('topic')[0]}/{batch.column('partition')[0]}"

    def beginning(self) -> str:
        """Return the start of the source, as the option `startingOffsets` of the data source.

        Raises:
            DeclarationValueError: The topics do not have such an offset.
            BrokerError: A broker does not answer, or a topic does not exist.
        """
        cluster = Cluster(self._reader_options())
        partitions = cluster.topics().partitions
        # Offsets are numbers from now on, so that a restart before the first checkpoint reads the same.
        found = self.starting.found(partitions, cluster, self.group)
        at = offsets_within(found, cluster, "starting offsets")
        return json.dumps(Offsets(at).to_json()["offsets"])

    def find_beginning_at(self, offset: str) -> str:
        """Return the offsets up to which another job has read; later partitions start at their first.

        Raises:
            CorruptStateError: The text does not hold offsets of topics.
            BrokerError: A broker does not answer, or a topic does not exist.
        """
        at = dict(Offsets.from_json(json.loads(offset)).at)
        for each in Cluster(self._reader_options()).topics().partitions:
            # No record of a partition that came since then may be missed.
            at.setdefault(each, EARLIEST)
        return json.dumps(Offsets(at).to_json()["offsets"])

    def frame(self, spark: SparkSession, beginning: str | None, limit: int | None) -> DataFrame:
        """Return the records as a stream of Spark, with at most `limit` records in a micro-batch."""
        register(spark)
        options = {**self.options, "startingOffsets": str(beginning)}
        if limit is not None:
            options.setdefault("maxOffsetsPerTrigger", str(limit))
        return spark.readStream.format(FORMAT).options(**options).load()

    def wait_for_file(self, path: Path) -> KafkaSource | None:
        """Return a source that gives nothing before a file is there; None before PySpark 4.2."""
        if not HAS_LIMITS:
            return None
        return attrs.evolve(self, options={**self.options, "waitFor": str(path)})

    def hold_by_file(self, path: Path) -> KafkaSource:
        """Return a source that gives nothing while a file is there; itself before PySpark 4.2."""
        if not HAS_LIMITS:
            return self
        return attrs.evolve(self, options={**self.options, "holdWhile": str(path)})

    def elements(self, batch: pa.RecordBatch) -> Elements:
        """Yield the elements of some records, each with its time in ms."""
        return elements_of(batch, self.deserializer)

    # In splits

    @property
    def has_named_splits(self) -> bool:
        """True: each split is a range of a partition, written as text."""
        return True

    def splits(self) -> list[str]:
        """Return the ranges of offsets that must be read, as they are now.

        Raises:
            DeclarationValueError: The topics do not have such offsets.
            BrokerError: A broker does not answer, or a topic does not exist.
        """
        assert self.stopping is not None
        cluster = Cluster(self._reader_options())
        partitions = cluster.topics().partitions
        first = self.starting.found(partitions, cluster, self.group)
        first = offsets_within(first, cluster, "starting offsets")
        last = self.stopping.found(partitions, cluster, self.group)
        last = offsets_within(last, cluster, "stopping offsets")
        ranges = [(*each, first[each], last[each]) for each in partitions]
        return [json.dumps(each) for each in ranges if each[2] < each[3]]

    def read_split(self, split: str) -> Elements:
        """Yield the elements of a range, in order."""
        wanted = OffsetRange(*json.loads(split))
        return chain.from_iterable(map(self.elements, fetch(wanted, self._reader_options())))

    def read(self, index: int, parallelism: int) -> Elements:
        """Yield the elements of one instance: it reads its partitions one after another.

        Raises:
            SparkSetupError: The source does not end.
        """
        if not self.is_bounded:
            msg = "a KafkaSource that never ends is read by Spark, got execution.target: local; set it to spark, or call set_bounded"
            raise SparkSetupError(msg)
        return self._read_splits(index, parallelism)

    def _read_splits(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        for split in self.splits():
            topic, number, *_ = json.loads(split)
            # By name and not by number, because two instances may see different topics.
            if zlib.crc32(f"{topic}/{number}".encode()) % parallelism == index:
                yield from self.read_split(split)

    def _reader_options(self) -> ReaderOptions:
        return reader_options(self.options, streaming=not self.is_bounded)


class KafkaSourceBuilder(ClientBuilder):
    """Sets the options of a `KafkaSource` and `build`s it, as PyFlink's."""

    def __init__(self) -> None:
        super().__init__()
        self._subscription: tuple[str, str, str] | None = None
        self._starting = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._deserializer: DeserializationSchema | None = None

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group, whose committed offsets may be used; the source does not join it.

        Args:
            group_id: The id of the consumer group.
        """
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set the name under which brokers log this client.

        Args:
            prefix: The name, which is used as it is.
        """
        return self.set_property("client.id", prefix)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read all partitions of topics, also partitions that come later.

        Args:
            *topics: The names of one or more topics.
        """
        return self._subscribe("subscribe", ",".join(topics), f"topics {', '.join(topics)}")

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches a pattern, also topics that come later.

        Args:
            topic_pattern: A regular expression, as Python's `re` has it.
        """
        return self._subscribe("subscribePattern", topic_pattern, f"topics {topic_pattern!r}")

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read only these partitions.

        Args:
            partitions: The partitions, which may be of several topics.

        Raises:
            DeclarationTypeError: An element is no `KafkaTopicPartition`.
        """
        assigned: dict[str, list[int]] = {}
        for each in partitions:
            check_instance(each, KafkaTopicPartition, "{KafkaTopicPartition('clicks', 0)}")
            assigned.setdefault(each.topic, []).append(each.partition)
        text = json.dumps({topic: sorted(assigned[topic]) for topic in sorted(assigned)})
        return self._subscribe("assign", text, f"partitions {text}")

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Set where a job starts if it has no checkpoint; the default is the earliest offsets.

        Args:
            starting_offsets_initializer: Finds the offsets when the job begins.
        """
        self._starting = _check_initializer(starting_offsets_initializer)
        return self

    def set_bounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Let the source end at these offsets.

        Args:
            stopping_offsets_initializer: Finds the offsets when the job begins.
        """
        self._stopping = _check_initializer(stopping_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> NoReturn:  # noqa: ARG002
        """Refuse to stop at offsets, because a source that never ends cannot stop.

        Args:
            stopping_offsets_initializer: Not used, because this always raises.

        Raises:
            SparkSetupError: Always.
        """
        msg = (
            "a KafkaSource that never ends cannot stop at offsets, got set_unbounded; leave it out, or "
            "call set_bounded to end there"
        )
        raise SparkSetupError(msg)

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema
    ) -> KafkaSourceBuilder:
        """Set the schema that makes elements of values.

        Args:
            deserialization_schema: Makes an element of each record's value.

        Raises:
            DeclarationTypeError: The argument is no `DeserializationSchema`.
        """
        check_schema(deserialization_schema, DeserializationSchema)
        self._deserializer = deserialization_schema
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several settings.

        Args:
            props: The values by name, each as for `set_property`.
        """
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Make the source.

        Raises:
            DeclarationValueError: The brokers, topics or deserializer are missing, or a property is
                wrong.
        """
        if self._subscription is None or self._deserializer is None:
            lacks = "topics" if self._subscription is None else "deserializer"
            msg = f"a KafkaSource needs topics and a deserializer, got no {lacks}; call set_topics and set_value_only_deserializer"
            raise DeclarationValueError(msg)
        option, text, what = self._subscription
        options = {**as_options(self._properties, is_reader=True), option: text}
        # This refuses a wrong option now, and not only when the job runs.
        reader_options(options, streaming=self._stopping is None)
        group = self._properties.get("group.id")
        deserializer = copy_function(self._deserializer)
        return KafkaSource(options, what, group, self._starting, self._stopping, deserializer)

    def _subscribe(self, option: str, text: str, what: str) -> KafkaSourceBuilder:
        if self._subscription is not None:
            msg = f"a KafkaSource reads topics, a pattern or partitions, got {what} after {self._subscription[2]}; leave one out"
            raise DeclarationValueError(msg)
        self._subscription = option, text, what
        return self


@attrs.frozen
class KafkaTopicPartition:
    """A partition of a topic, as PyFlink's.

    Args:
        topic: The name of the topic.
        partition: The number of the partition, from 0.

    Raises:
        DeclarationTypeError: The name is no text, or the number is no int from 0 on.
    """

    topic: str
    partition: int = attrs.field()

    @partition.validator
    def _check(self, _: attrs.Attribute[int], partition: Any) -> None:
        is_number = is_int64(partition) and partition >= 0
        if not isinstance(self.topic, str) or not is_number:
            msg = (
                f"a partition is the name of a topic and a number from 0 on, got {short_repr(self.topic)} "
                f"and {short_repr(partition)}; give for example ('clicks', 0)"
            )
            raise DeclarationTypeError(msg)


class KafkaOffsetResetStrategy(Enum):
    """The place where a partition without an offset starts, as PyFlink's."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@attrs.frozen
class KafkaOffsetsInitializer(WithoutJava):
    """Offsets of all partitions, found when a job begins; a job with a checkpoint has its own.

    Make it with one of its static methods, as PyFlink's.
    """

    # Offsets are looked up in this order: by name or by time, then the group's, then the strategy's.
    _otherwise: KafkaOffsetResetStrategy
    _asks_group: bool = False
    _time: int | None = None
    _offsets: Mapping[KafkaTopicPartition, int] = attrs.field(factory=dict)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Start at the first offset that each partition still has."""
        return KafkaOffsetsInitializer(KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Start at the end of each partition."""
        return KafkaOffsetsInitializer(KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start at the offsets that the consumer group has committed, as a job of Flink does.

        Args:
            offset_reset_strategy: The start of partitions that have no committed offset; with `NONE`
                such a partition is an error.

        Raises:
            DeclarationTypeError: The argument is no `KafkaOffsetResetStrategy`.
        """
        return KafkaOffsetsInitializer(_strategy(offset_reset_strategy), asks_group=True)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Start at each partition's first record at this time or later, or else at its end.

        Args:
            timestamp: The time in ms since 1970, as records have it.

        Raises:
            DeclarationValueError: The time is no int from 0 on.
        """
        if not is_int64(timestamp) or timestamp < 0:
            msg = f"a timestamp is an int of ms from 0 on, got {short_repr(timestamp)}; give for example 1700000000000"
            raise DeclarationValueError(msg)
        return KafkaOffsetsInitializer(KafkaOffsetResetStrategy.LATEST, time=timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Start at an offset for each partition.

        Args:
            offsets: The offsets by partition, each from 0 on.
            offset_reset_strategy: The start of partitions that are not named, and for which the
                consumer group has committed no offset.

        Raises:
            DeclarationTypeError: `offsets` is no mapping of `KafkaTopicPartition`s to offsets from
                0 on.
        """
        for partition, offset in _items(offsets):
            if not isinstance(partition, KafkaTopicPartition) or not is_int64(offset) or offset < 0:
                msg = (
                    f"offsets are ints from 0 on by KafkaTopicPartition, got {short_repr(offset)} for "
                    f"{short_repr(partition)}; give for example {{KafkaTopicPartition('clicks', 0): 23}}"
                )
                raise DeclarationTypeError(msg)
        strategy = _strategy(offset_reset_strategy)
        return KafkaOffsetsInitializer(strategy, asks_group=True, offsets=dict(offsets))

    def found(
        self, partitions: list[Partition], cluster: Cluster, group: str | None
    ) -> dict[Partition, int]:
        """Return the offsets of partitions at this moment.

        Args:
            partitions: The partitions to look at.
            cluster: The brokers that know the offsets.
            group: The id of the consumer group, or None.

        Raises:
            DeclarationValueError: A partition has no offset.
            BrokerError: A broker does not answer.
        """
        if self._time is None:
            named = {(each.topic, each.partition): offset for each, offset in self._offsets.items()}
            found = {each: named[each] for each in partitions if each in named}
        else:
            found = cluster.at_time(partitions, self._time)
        left = [each for each in partitions if each not in found]
        if self._asks_group and group is not None and left:
            found |= cluster.read_committed(left, group)
            left = [each for each in left if each not in found]
        if self._otherwise is KafkaOffsetResetStrategy.NONE:
            _refuse_none(left, group)
            return found
        is_first = self._otherwise is KafkaOffsetResetStrategy.EARLIEST
        return found | (cluster.earliest(left) if is_first else cluster.latest(left))


def offsets_within(
    found: Mapping[Partition, int], cluster: Cluster, what: str
) -> dict[Partition, int]:
    """Return the offsets, if the topics have all of them.

    Args:
        found: The offsets by partition.
        cluster: The brokers that know the topics' offsets.
        what: The name of the offsets in messages.

    Raises:
        DeclarationValueError: An offset lies before the first record that is left, or after the end.
        BrokerError: A broker does not answer.
    """
    first, last = cluster.earliest(found), cluster.latest(found)
    for each, offset in found.items():
        if not first[each] <= offset <= last[each]:
            topic, number = each
            msg = (
                f"{what} must lie within the topic, got {offset} for partition {number} of {topic}, "
                f"which has {first[each]} to {last[each]}; give an offset in that range, or earliest() "
                "to start at the first record that is left"
            )
            raise DeclarationValueError(msg)
    return dict(found)


def _refuse_none(left: list[Partition], group: str | None) -> None:
    if left:
        names = ", ".join(f"{topic}/{number}" for topic, number in left)
        whose = "without a group.id" if group is None else f"of the consumer group {group!r}"
        msg = (
            f"committed_offsets needs an offset of every partition, got none {whose} for {names}; set "
            "the group's id, or give a KafkaOffsetResetStrategy for the others"
        )
        raise DeclarationValueError(msg)


def _strategy(given: Any) -> KafkaOffsetResetStrategy:
    return check_instance(given, KafkaOffsetResetStrategy, "KafkaOffsetResetStrategy.EARLIEST")


def _check_initializer(given: Any) -> KafkaOffsetsInitializer:
    return check_instance(given, KafkaOffsetsInitializer, "KafkaOffsetsInitializer.earliest()")


def _items(offsets: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(offsets, Mapping):
        msg = f"offsets are a mapping, got {short_repr(offsets)}; give for example {{KafkaTopicPartition('clicks', 0): 23}}"
        raise DeclarationTypeError(msg)
    return offsets.items()


def elements_of(
    batch: pa.RecordBatch, deserializer: DeserializationSchema
) -> Iterator[tuple[Any, int | None]]:
    """Yield the elements of some records, each with its time in ms; a None makes no element.

    Args:
        batch: Records, with the columns of the data source.
        deserializer: Makes elements of the values of records.

    Raises:
        UserFunctionError: The deserializer fails; the message names the record.
    """
    deserialize = deserializer.deserialize
    # Spark's column has microseconds, and a job's elements have ms.
    times = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000).to_pylist()
    for index, value in enumerate(batch.column("value").to_pylist()):
        try:
            element = deserialize(value)
        except PyflinklikeError:
            raise
        except Exception as error:
            raise _failure(batch.slice(index, 1), deserializer, error) from error
        if element is not None:
            yield element, times[index]


def _failure(
    batch: pa.RecordBatch, deserializer: DeserializationSchema, error: Exception
) -> UserFunctionError:
    (record,) = batch.to_pylist()
    return UserFunctionError(
        f"{type(deserializer).__name__}.deserialize failed for offset {record['offset']} of partition "
        f"{record['partition']} of topic {record['topic']}, value {short_repr(record['value'])}: "
        f"{shown_error(error)}"
    )
