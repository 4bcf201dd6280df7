# SPDX-License-Identifier: Apache-2.0
"""The options of the data source, with the names and meanings of Spark's own Kafka connector.

An unknown option is refused: if it were ignored, it could be a limit, or a place to start from.

Options that begin with `kafka.` are settings of librdkafka, the client that confluent-kafka wraps; Spark's
own connector gives them to Kafka's Java client.  Most have one name in both.  Names of Java's client that
librdkafka does not know, and settings that this data source makes itself, are refused with the name to use
instead.  The properties of a `KafkaSource` or `KafkaSink` become such options, so the same holds for them.

No message shows the value of a secret setting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
from confluent_kafka import KafkaException

from pyflinklike._messages import shown
from pyflinklike.errors import BrokerError, DeclarationTypeError, DeclarationValueError
from pyflinklike.kafka.offsets import Partition

__all__ = [
    "EARLIEST",
    "LATEST",
    "PREFIX",
    "SUBSCRIPTIONS",
    "ReaderOptions",
    "WriterOptions",
    "as_options",
    "check_property",
    "hide_secrets",
    "make_client",
    "reader_options",
    "without_consumer_settings",
    "writer_options",
]


EARLIEST: Final = -2
LATEST: Final = -1

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")

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
    "waitFor",
    "holdWhile",
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
        wait_for: The path of a file before which a stream has no records; None for none.
        hold_while: The path of a file while which a stream has no new records; None for none.
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
    wait_for: str | None = None
    hold_while: str | None = None


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
    given = _find_known(options, _READER, "a reader")
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
        wait_for=given.get("waitFor"),
        hold_while=given.get("holdWhile"),
    )


def writer_options(options: Mapping[str, str]) -> WriterOptions:
    """Check the options of a stream or a batch that writes.

    Raises:
        DeclarationValueError: An option is unknown, missing or out of its range.
    """
    given = _find_known(options, _WRITER, "a writer")
    settings, _ = client_settings(options)
    return WriterOptions(settings, given.get("topic"), _flag(given, "recordIds", "false"))


def _find_known(options: Mapping[str, str], names: Iterable[str], whose: str) -> dict[str, str]:
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


# Settings of the client

PREFIX: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
_API_TIMEOUT: Final = "default.api.timeout.ms"

_PEM = "kafka.ssl.ca.location, a file of PEM certificates"
_LOGIN = "kafka.sasl.username and kafka.sasl.password"
_INSTEAD: Final = {
    # Java's settings, for which librdkafka has another name
    "sasl.jaas.config": _LOGIN,
    "sasl.login.callback.handler.class": _LOGIN,
    "sasl.client.callback.handler.class": _LOGIN,
    "ssl.truststore.location": _PEM,
    "ssl.truststore.password": _PEM,
    "ssl.truststore.type": _PEM,
    "ssl.truststore.certificates": "kafka.ssl.ca.pem",
    "ssl.keystore.type": "kafka.ssl.keystore.location, a PKCS#12 file",
    "ssl.keystore.certificate.chain": "kafka.ssl.certificate.pem",
    "ssl.keystore.key": "kafka.ssl.key.pem",
    "ssl.protocol": "nothing: OpenSSL chooses the newest that both sides know",
    "fetch.max.wait.ms": "kafka.fetch.wait.max.ms",
    "receive.buffer.bytes": "kafka.socket.receive.buffer.bytes",
    "send.buffer.bytes": "kafka.socket.send.buffer.bytes",
    "buffer.memory": "kafka.queue.buffering.max.kbytes",
    "max.block.ms": "kafka.message.timeout.ms",
    "max.request.size": "kafka.message.max.bytes",
    "partitioner.class": "kafka.partitioner",
    "max.poll.records": "nothing: a task reads its whole range",
    # settings of this data source itself
    "auto.offset.reset": "the option startingOffsets",
    "enable.auto.commit": "nothing: offsets are kept in the checkpoint",
    "enable.auto.offset.store": "nothing: offsets are kept in the checkpoint",
    "enable.partition.eof": "nothing: the reader needs it and sets it",
    "enable.idempotence": "nothing: the writer is always idempotent",
    "transactional.id": "the option recordIds, and drop_repeats where the topic is read",
    "interceptor.classes": "nothing: there are none",
    "key.deserializer": "casts of the columns: key and value are binary",
    "value.deserializer": "casts of the columns: key and value are binary",
    "key.serializer": "casts of the columns: key and value are string or binary",
    "value.serializer": "casts of the columns: key and value are string or binary",
}
# A producer or an admin client warns of each of these, although nothing is wrong.
_OF_CONSUMERS: Final = (
    "fetch.",
    "queued.",
    "group.",
    "session.",
    "heartbeat.",
    "max.poll.",
    "max.partition.fetch.",
    "isolation.level",
    "check.crcs",
    "auto.offset.",
    "enable.auto.",
    "enable.partition.",
)


def client_settings(options: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return the settings that options beginning with `kafka.` give the client.

    Args:
        options: All options of the data source; their names count in lower case.

    Returns:
        The settings of librdkafka, and how many ms a request to the brokers may take:
        `kafka.default.api.timeout.ms`, by default a minute, as in Java.

    Raises:
        DeclarationValueError: `kafka.bootstrap.servers` is missing, or an option is one that
            librdkafka has under another name or that is not the user's to set.
    """
    given = {name.lower(): value for name, value in options.items()}
    settings = {
        name[len(PREFIX) :]: value for name, value in given.items() if name.startswith(PREFIX)
    }
    for name in settings:
        if name in _INSTEAD:
            msg = f"the option {PREFIX}{name} is not known to librdkafka, or not free to be set; use {_INSTEAD[name]}"
            raise DeclarationValueError(msg)
    if not settings.get(_SERVERS):
        msg = "a broker must be named; set the option kafka.bootstrap.servers to host:port,..."
        raise DeclarationValueError(msg)
    timeout = settings.pop(_API_TIMEOUT, "60000")
    if not (timeout.isascii() and timeout.isdigit() and int(timeout)):
        msg = f"the option {PREFIX}{_API_TIMEOUT} must be a positive number of ms, got {timeout!r}"
        raise DeclarationValueError(msg)
    return settings, int(timeout)


def without_consumer_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for a client that does not consume."""
    return {name: value for name, value in settings.items() if not name.startswith(_OF_CONSUMERS)}


def make_client(client: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any]) -> Any:
    """Make a client with these settings.

    Args:
        client: The class of the client.
        settings: Settings of librdkafka.

    Raises:
        DeclarationValueError: librdkafka refuses a setting; secrets are not shown.
    """
    try:
        return client(dict(settings))
    except (KafkaException, ValueError, TypeError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        msg = (
            f"librdkafka refuses a kafka.* option: {hide_secrets(said, settings)}; "
            "its names are in librdkafka's CONFIGURATION.md"
        )
    raise DeclarationValueError(msg)


# Secrets

_SECRET: Final = re.compile(r"password|secret|token|jaas|credential|\.pem$|oauthbearer\.config")
_HIDDEN: Final = "***"


def is_secret(setting: str) -> bool:
    """Return whether the value of a setting of that name must not be shown."""
    return _SECRET.search(setting.lower()) is not None


def hide_secrets(text: str, settings: Mapping[str, str]) -> str:
    """Return the text with `***` for every secret of these settings that it quotes.

    Args:
        text: A message of librdkafka, which quotes values that it refuses.
        settings: The settings that librdkafka was given.
    """
    for name, value in settings.items():
        if value and is_secret(name):
            text = text.replace(value, _HIDDEN)
    return text


# Subscriptions


@attrs.frozen
class Subscription:
    """One of the three ways to say what is read; the fields of the other two are empty.

    Args:
        topics: The names of topics; of `subscribe`.
        pattern: A regular expression that the whole name of a topic matches; of `subscribePattern`.
        partitions: Single partitions; of `assign`.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[Partition, ...] = ()

    def chosen(self, there: Mapping[str, Iterable[int]]) -> list[Partition]:
        """Return the partitions to read, sorted.

        Args:
            there: The partitions of every topic that exists.

        Raises:
            BrokerError: A topic or partition that is named does not exist.
        """
        every = {(topic, number) for topic, numbers in there.items() for number in numbers}
        if self.pattern is not None:
            fits = re.compile(self.pattern).fullmatch
            return sorted(each for each in every if fits(each[0]))
        if self.partitions:
            missing = [f"{topic}/{number}" for topic, number in {*self.partitions} - every]
            chosen = set(self.partitions)
        else:
            missing = sorted(set(self.topics) - set(there))
            chosen = {each for each in every if each[0] in self.topics}
        if missing:
            msg = (
                f"what is subscribed to must be there, got no {', '.join(sorted(missing))} from the brokers; "
                "create the topic, or see that this user may describe it"
            )
            raise BrokerError(msg)
        return sorted(chosen)


def subscription_of(given: Mapping[str, str]) -> Subscription:
    """Read the subscription from the options.

    Raises:
        DeclarationValueError: Not exactly one of the three options is given, or it cannot be read.
    """
    names = [name for name in SUBSCRIPTIONS if name in given]
    if len(names) != 1:
        msg = f"exactly one of the options subscribe, subscribePattern and assign is needed, got {names or 'none'}"
        raise DeclarationValueError(msg)
    (name,) = names
    value = given[name].strip()
    if name == "assign":
        return Subscription(partitions=_read_assignment(value))
    if name == "subscribePattern":
        return Subscription(pattern=_pattern(value))
    topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        msg = f"the option subscribe must name topics, separated by commas, got {shown(value)}"
        raise DeclarationValueError(msg)
    return Subscription(topics=topics)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        msg = f"the option subscribePattern must be a regular expression of Python, got {shown(value)}: {error}"
        raise DeclarationValueError(msg) from error
    return value


def _read_assignment(value: str) -> tuple[Partition, ...]:
    try:
        found = tuple(
            (topic, int(number))
            for topic, numbers in json.loads(value).items()
            for number in numbers
        )
    except (ValueError, AttributeError, TypeError) as error:
        found = ()
        cause: Exception | None = error
    else:
        cause = None
    if not found:
        msg = f'the option assign must be JSON such as {{"topic": [0, 1]}}, got {shown(value)}'
        raise DeclarationValueError(msg) from cause
    return found


# Properties of sources and sinks of jobs

OWN: Final = "pyflinklike."
"""The prefix of options of the data source itself, as in `pyflinklike.failOnDataLoss`."""
_OF_READERS: Final = ("failOnDataLoss", "maxOffsetsPerTrigger", "kafkaConsumer.pollTimeoutMs")
_OF_WRITERS: Final = ("recordIds",)
# Flink's connector sets these itself, or they have no meaning here.
_OVERRIDDEN: Final = frozenset(
    {
        "key.deserializer",
        "value.deserializer",
        "key.serializer",
        "value.serializer",
        "auto.offset.reset",
        "client.id.prefix",
        "partition.discovery.interval.ms",
        "commit.offsets.on.checkpoint",
        "register.consumer.metrics",
        "flink.disable-metrics",
    }
)


def check_property(key: Any, value: Any) -> tuple[str, str]:
    """Check a property, whose name and value must be text, and return both.

    Raises:
        DeclarationTypeError: The name or the value is no text.
    """
    if not isinstance(key, str) or not isinstance(value, str):
        msg = f"a property has a name and a value of text, got {shown(key)} and {shown(value)}; give for example 'group.id', 'counts'"
        raise DeclarationTypeError(msg)
    return key, value


def as_options(properties: Mapping[str, str], *, is_reader: bool) -> dict[str, str]:
    """Return properties as options of the data source.

    Args:
        properties: The values by name.
        is_reader: True for the properties of a source, False for those of a sink.

    Raises:
        DeclarationValueError: A property with our prefix is not known.
    """
    options = {}
    for name, value in properties.items():
        if name.startswith(OWN):
            options[_own(name, is_reader=is_reader)] = value
        elif name not in _OVERRIDDEN:
            options[f"{PREFIX}{name}"] = value
    return options


def _own(name: str, *, is_reader: bool) -> str:
    known = _OF_READERS if is_reader else _OF_WRITERS
    option = name[len(OWN) :]
    if option not in known:
        names = ", ".join(f"{OWN}{each}" for each in known)
        msg = f"properties of ours are {names}, got {name!r}; check its name"
        raise DeclarationValueError(msg)
    return option
