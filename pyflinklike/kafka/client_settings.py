# SPDX-License-Identifier: Apache-2.0
"""`kafka.*` options as the settings of librdkafka, the client that confluent-kafka wraps.

Spark's own connector hands them to Kafka's Java client.  librdkafka knows most of Java's names.
Names that it does not know, and settings that this data source sets itself, are refused with the
name to use instead.  The names are those of librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.secrets import hide_secrets

__all__ = ["PREFIX", "client_settings", "made", "without_consumer_settings"]

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


def made(client: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any]) -> Any:
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
