# SPDX-License-Identifier: Apache-2.0
"""The options of the data source, with the names and meanings of Spark's own Kafka connector.

An unknown option is refused: it could be a limit, or a place to start from, so it must not be ignored.

Options that begin with `kafka.` are settings of librdkafka, the client that confluent-kafka wraps; Spark's
own connector passes them to Kafka's Java client.  Most settings have the same name in both.  If librdkafka
does not know a name of Java's client, or if this data source makes a setting itself, the option is
refused, and the message has the name to use instead.  The properties of a `KafkaSource` or `KafkaSink`
become such options, so the same rules hold for them.

No message shows the value of a secret setting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import attrs
from confluent_kafka import KafkaException

from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import BrokerError, DeclarationTypeError, DeclarationValueError

EARLIEST: Final = -2
LATEST: Final = -1

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")

# Spark passes its own options to the source, too.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})

Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""

Bounds = str | Mapping[Partition, int]
"""The start or the end: "earliest", "latest", or an offset for each partition."""


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        msg = f"the option {name} must be true or false, got {short_repr(text.lower())}"
        raise DeclarationValueError(msg)
    return text.lower() == "true"


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        msg = f"the option {name} must be a positive whole number, got {short_repr(text)}"
        raise DeclarationValueError(msg)
    return int(text)


def _text(_: str, text: str) -> str:
    return text


def _bounds(name: str, text: str) -> Bounds:
    """Read the start or the end; a batch must not end at the earliest offset."""
    word = text.strip().lower()
    found: Bounds = word
    if word not in ("earliest", "latest"):
        try:
            found = {each: _offset(at) for each, at in by_partition(json.loads(text)).items()}
        except (ValueError, AttributeError) as error:
            msg = (
                f'the option {name} must be earliest, latest or JSON such as {{"topic": {{"0": 23, "1": -2}}}}, '
                f"with -2 for earliest and -1 for latest; got {short_repr(text.strip())}"
            )
            raise DeclarationValueError(msg) from error
    ends = [found] if isinstance(found, str) else found.values()
    if name == "endingOffsets" and not {"earliest", EARLIEST}.isdisjoint(ends):
        msg = "a batch cannot end at the earliest offset (-2); set endingOffsets to latest or to offsets"
        raise DeclarationValueError(msg)
    return found


def by_partition(topics: Any) -> dict[Partition, Any]:
    """Return the values in JSON such as `{"topic": {"0": 23}}` by topic and partition.

    Raises:
        AttributeError, ValueError: It is other JSON.
    """
    return {
        (topic, int(partition)): value
        for topic, partitions in topics.items()
        for partition, value in partitions.items()
    }


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return value


def _option(name: str, read: Callable[[str, str], Any], default: Any = None) -> Any:
    """Return the field of an option.

    Args:
        name: The name of the option.
        read: Takes the name and the text of the option, and returns its value.
        default: The value if the option is missing.
    """
    return attrs.field(default=default, metadata={"name": name, "read": read})


@attrs.frozen
class ReaderOptions:
    """The options of a reader, checked and in their types.

    Args:
        settings: Settings of librdkafka; they may hold secrets, so they are never shown.
        api_timeout_ms: The most ms that a request to the brokers may take.
        subscription: The topics that the reader reads.
        starting: The offsets at which a new query starts.
        ending: The offsets at which a batch ends.
        poll_timeout_ms: The most ms that a task waits for records that exist.
        fail_on_data_loss: Whether the query stops if records are gone.
        max_offsets: The most offsets in a micro-batch; None for no limit.
        min_partitions: The least number of Spark's partitions.
        include_headers: Whether to add a column of headers.
        wait_for: The path of a file; a stream has no records before it exists.  None for no file.
        hold_while: The path of a file; a stream has no new records while it exists.  None for no
            file.
    """

    settings: Mapping[str, str] = attrs.field(repr=False)
    api_timeout_ms: int
    subscription: Subscription
    starting: str | Mapping[Partition, int] = _option("startingOffsets", _bounds)
    ending: str | Mapping[Partition, int] = _option("endingOffsets", _bounds, "latest")
    poll_timeout_ms: int = _option("kafkaConsumer.pollTimeoutMs", _count, 120_000)
    fail_on_data_loss: bool = _option("failOnDataLoss", _flag, True)
    max_offsets: int | None = _option("maxOffsetsPerTrigger", _count)
    min_partitions: int = _option("minPartitions", _count, 0)
    include_headers: bool = _option("includeHeaders", _flag, False)
    wait_for: str | None = _option("waitFor", _text)
    hold_while: str | None = _option("holdWhile", _text)


@attrs.frozen
class WriterOptions:
    """The options of a writer, checked and in their types.

    Args:
        settings: Settings of librdkafka; they may hold secrets, so they are never shown.
        topic: The topic of all records; None if a column names it.
        record_ids: Whether each record gets a header by which a reader recognises repeats.
    """

    settings: Mapping[str, str] = attrs.field(repr=False)
    topic: str | None = _option("topic", _text)
    record_ids: bool = _option("recordIds", _flag, False)


def reader_options(options: Mapping[str, str], *, streaming: bool) -> ReaderOptions:
    """Check the options of a stream or a batch that reads.

    Raises:
        DeclarationValueError: An option is unknown, missing or out of its range; the message names
            it, and says what is allowed.
    """
    given = _find_known(options, ReaderOptions, (*SUBSCRIPTIONS, "groupIdPrefix"))
    settings, timeout = client_settings(options)
    prefix = given.get("groupIdPrefix", "spark-kafka-source")
    # A consumer of librdkafka must have a group id, although it joins no group.
    settings.setdefault("group.id", f"{prefix}-pyflinklike")
    only, other = ("endingOffsets", "batch") if streaming else ("maxOffsetsPerTrigger", "stream")
    if only in given:
        msg = f"the option {only} is for a {other} only; leave it out"
        raise DeclarationValueError(msg)
    given.setdefault("startingOffsets", "latest" if streaming else "earliest")
    read = _read(ReaderOptions, given)
    return ReaderOptions(settings, timeout, subscription_of(given), **read)


def writer_options(options: Mapping[str, str]) -> WriterOptions:
    """Check the options of a stream or a batch that writes.

    Raises:
        DeclarationValueError: An option is unknown, missing or out of its range.
    """
    given = _find_known(options, WriterOptions)
    settings, _ = client_settings(options)
    return WriterOptions(settings, **_read(WriterOptions, given))


def _read(kind: Any, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a class for the options that are given."""
    return {
        field.name: field.metadata["read"](name, given[name])
        for field in attrs.fields(kind)
        if (name := field.metadata.get("name")) in given
    }


def _find_known(options: Mapping[str, str], kind: Any, more: Iterable[str] = ()) -> dict[str, str]:
    """Return the options that a reader or writer has, and refuse others."""
    known = [*more, *(each.metadata["name"] for each in attrs.fields(kind) if each.metadata)]
    lower = {each.lower() for each in known} | _OF_SPARK
    for name in options:
        if name.lower() not in lower and not name.lower().startswith(PREFIX):
            whose = "a reader" if kind is ReaderOptions else "a writer"
            msg = f"{whose} of pyflinklike.kafka has no option {name}; it has kafka.*, {', '.join(sorted(known))}"
            raise DeclarationValueError(msg)
    return find_options(options, known)


def find_options(options: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the options of these names; the case of the given names does not matter."""
    canonical = {name.lower(): name for name in names}
    return {
        canonical[name.lower()]: value
        for name, value in options.items()
        if name.lower() in canonical
    }


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
    # Settings of this data source itself
    "auto.offset.reset": "the option startingOffsets",
    "enable.auto.commit": "nothing: offsets are kept in the checkpoint",
    "enable.auto.offset.store": "nothing: offsets are kept in the checkpoint",
    "enable.partition.eof": "nothing: the reader needs it and sets it",
    "enable.idempotence": "nothing: the writer is always idempotent",
    "transactional.id": "the option recordIds, and drop_repeats in the query that reads the topic",
    "interceptor.classes": "nothing: librdkafka has no interceptors",
    "key.deserializer": "casts of the columns: key and value are binary",
    "value.deserializer": "casts of the columns: key and value are binary",
    "key.serializer": "casts of the columns: key and value are string or binary",
    "value.serializer": "casts of the columns: key and value are string or binary",
}
# A producer or an admin client would warn of each of these, although nothing is wrong.
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
        options: All options of the data source; the case of their names does not matter.

    Returns:
        The settings of librdkafka, and the most ms that a request to the brokers may take:
        `kafka.default.api.timeout.ms`, by default a minute, as in Java.

    Raises:
        DeclarationValueError: `kafka.bootstrap.servers` is missing, or an option has another name in
            librdkafka, or users must not set it.
    """
    given = {name.lower(): value for name, value in options.items()}
    settings = {
        name[len(PREFIX) :]: value for name, value in given.items() if name.startswith(PREFIX)
    }
    for name in settings:
        if name in _INSTEAD:
            msg = f"librdkafka does not know {PREFIX}{name}, or this data source sets it itself; use {_INSTEAD[name]}"
            raise DeclarationValueError(msg)
    if not settings.get(_SERVERS):
        msg = "a broker must be named; set the option kafka.bootstrap.servers to host:port,..."
        raise DeclarationValueError(msg)
    timeout = settings.pop(_API_TIMEOUT, "60000")
    return settings, _count(f"{PREFIX}{_API_TIMEOUT}", timeout)


def without_consumer_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for a client that is no consumer."""
    return {name: value for name, value in settings.items() if not name.startswith(_OF_CONSUMERS)}


def make_client(client: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any]) -> Any:
    """Make a client with these settings.

    Args:
        client: The class of the client, from confluent-kafka.
        settings: Settings of librdkafka, which may hold secrets.

    Raises:
        DeclarationValueError: librdkafka refuses a setting; the message shows no secret.
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
    """Return whether a setting of that name has a value that must not be shown."""
    return _SECRET.search(setting.lower()) is not None


def hide_secrets(text: str, settings: Mapping[str, str]) -> str:
    """Return the text with `***` in the place of every secret that it quotes.

    Args:
        text: A message of librdkafka, which may quote a value that it refuses.
        settings: The settings that librdkafka got.
    """
    for name, value in settings.items():
        if value and is_secret(name):
            text = text.replace(value, _HIDDEN)
    return text


# Subscriptions


@attrs.frozen
class Subscription:
    """The topics to read, in one of three forms; the fields of the other two are empty.

    Args:
        topics: The names of topics, from the option `subscribe`.
        pattern: A regular expression for the whole names of topics, from `subscribePattern`.
        partitions: Single partitions, from the option `assign`.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[Partition, ...] = ()

    def chosen(self, there: Mapping[str, Iterable[int]]) -> list[Partition]:
        """Return the partitions to read, sorted.

        Args:
            there: The partitions of every topic that exists.

        Raises:
            BrokerError: A topic or partition of the subscription does not exist.
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
                f"the brokers must have all topics of the subscription, got no {', '.join(sorted(missing))}; "
                "create the topic, or make sure that this user may describe it"
            )
            raise BrokerError(msg)
        return sorted(chosen)


def subscription_of(given: Mapping[str, str]) -> Subscription:
    """Read the subscription from the options.

    Raises:
        DeclarationValueError: None or several of the three options are given, or the one cannot be
            read.
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
        try:
            re.compile(value)
        except re.error as error:
            msg = f"the option subscribePattern must be a regular expression of Python, got {short_repr(value)}: {error}"
            raise DeclarationValueError(msg) from error
        return Subscription(pattern=value)
    topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        msg = f"the option subscribe must name topics, separated by commas, got {short_repr(value)}"
        raise DeclarationValueError(msg)
    return Subscription(topics=topics)


def _read_assignment(value: str) -> tuple[Partition, ...]:
    found: tuple[Partition, ...] = ()
    with suppress(ValueError, AttributeError, TypeError):
        topics = json.loads(value).items()
        found = tuple((topic, int(number)) for topic, numbers in topics for number in numbers)
    if not found:
        msg = f'the option assign must be JSON such as {{"topic": [0, 1]}}, got {short_repr(value)}'
        raise DeclarationValueError(msg)
    return found


# Properties of sources and sinks of jobs

B = TypeVar("B", bound="ClientBuilder")

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


T = TypeVar("T")


def check_instance(given: Any, kind: type[T], example: str) -> T:
    """Return the argument of a setter, which must be of this class.

    Args:
        given: The user's argument, of any type.
        kind: The class that it must have.
        example: The text of an argument that is right.

    Raises:
        DeclarationTypeError: The argument is of another class.
    """
    if not isinstance(given, kind):
        remedy = instance_of(kind, given, f"give for example {example}")
        msg = f"it takes a {kind.__name__}, got {short_repr(given)}; {remedy}"
        raise DeclarationTypeError(msg)
    return given


class ClientBuilder:
    """The settings of the client that the builders of sources and sinks have."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self: B, bootstrap_servers: str) -> B:
        """Set the addresses of the brokers.

        Args:
            bootstrap_servers: One or more addresses, as `host:port,...`.
        """
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_property(self: B, key: str, value: str) -> B:
        """Set a setting of the client by Kafka's name; the reference of `pyflinklike.kafka` has more.

        `pyflinklike.failOnDataLoss`, `.maxOffsetsPerTrigger` and `.kafkaConsumer.pollTimeoutMs` are
        options of a source.  If `pyflinklike.recordIds` of a sink is `true`, each record gets a header
        by which a reader recognises repeats.

        Args:
            key: The name of the setting, as Kafka has it.
            value: The value of the setting, as text.

        Raises:
            DeclarationTypeError: The name or the value is no text.
        """
        if not isinstance(key, str) or not isinstance(value, str):
            msg = f"a property has a name and a value of text, got {short_repr(key)} and {short_repr(value)}"
            raise DeclarationTypeError(f"{msg}; give for example 'group.id', 'counts'")
        self._properties[key] = value
        return self


def as_options(properties: Mapping[str, str], *, is_reader: bool) -> dict[str, str]:
    """Return properties as options of the data source.

    Args:
        properties: The values by name, as Flink's connector has them.
        is_reader: True for the properties of a source, False for a sink's.

    Raises:
        DeclarationValueError: A property has the prefix `pyflinklike.`, but there is none of its name.
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
        msg = f"the properties with our prefix are {names}, got {name!r}; check its name"
        raise DeclarationValueError(msg)
    return option
