# SPDX-License-Identifier: Apache-2.0
"""Messages to the brokers: the brokers acknowledge every message, or the task gets an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from pyflinklike.errors import DeliveryError
from pyflinklike.kafka.messages import Message
from pyflinklike.kafka.options import hide_secrets, make_client, without_consumer_settings

_DEFAULTS: Final = {
    "partitioner": "murmur2_random",  # Java's default: a key goes to the same partition as with Java
    "linger.ms": 5,
    # Like Java's delivery.timeout.ms; librdkafka's own default would be five minutes.
    "message.timeout.ms": 120_000,
}
_POLL_EVERY: Final = 1_000  # messages; the reports of deliveries wait in memory until then


def deliver(messages: Iterable[Message], settings: Mapping[str, str]) -> int:
    """Write messages, and wait until the brokers have all of them.

    The producer is idempotent: a message that the producer itself sends again arrives once, and the
    messages of a partition arrive in the order in which they were given.

    Args:
        messages: The messages, in the order in which they must arrive.
        settings: Settings of librdkafka, which override the defaults; these are Java's.

    Returns:
        The number of messages.

    Raises:
        DeliveryError: A message was not acknowledged by all in-sync replicas, or cannot be sent.
            Others may have arrived.
        DeclarationValueError: librdkafka refuses a setting.
    """
    delivery = Delivery(settings)
    try:
        for message in messages:
            delivery.send(message)
        return delivery.finish()
    except BaseException:
        delivery.give_up()
        raise


class Delivery:
    """The messages of one task on their way, as `deliver` describes.

    Args:
        settings: Settings of librdkafka, which override the defaults; these are Java's.

    Raises:
        DeclarationValueError: librdkafka refuses a setting.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        if "delivery.timeout.ms" in settings:  # another name of message.timeout.ms
            defaults = {key: at for key, at in _DEFAULTS.items() if key != "message.timeout.ms"}
        else:
            defaults = _DEFAULTS
        # Idempotence comes last: without it, a message that is sent again could overtake others.
        chosen = {**defaults, **without_consumer_settings(settings), "enable.idempotence": True}
        self._producer, self._settings = make_client(Producer, chosen), settings
        self._sent = self._arrived = 0
        self._failed: tuple[Any, Any] | None = None

    def send(self, message: Message) -> None:
        """Put a message on its way.

        Args:
            message: The message; it arrives after the earlier messages of its partition.

        Raises:
            DeliveryError: The message cannot be sent, or an earlier one did not arrive.
        """
        self._send(message)
        self._sent += 1
        if self._sent % _POLL_EVERY == 0:
            self._producer.poll(0)
            self._check()

    def finish(self) -> int:
        """Wait until all messages have arrived, and return how many there were.

        Raises:
            DeliveryError: A message did not arrive.
        """
        self._producer.flush()
        self._check()
        if self._arrived != self._sent:
            raise self._error(f"{self._sent - self._arrived} of {self._sent} have not arrived")
        return self._sent

    def _send(self, message: Message) -> None:
        if message.topic is None:
            raise self._error(f"record {self._sent} of the task has no topic")
        where = {} if message.partition is None else {"partition": message.partition}
        if message.timestamp is not None and message.timestamp > 0:  # librdkafka reads 0 as "now"
            where["timestamp"] = message.timestamp
        while True:
            try:
                self._producer.produce(
                    message.topic,
                    message.value,
                    message.key,
                    headers=list(message.headers),
                    on_delivery=self._done,
                    **where,
                )
                return
            except BufferError:  # the queue is full, until some messages have arrived
                self._producer.poll(0.1)
                self._check()
            except KafkaException as error:
                said = error.args[0].str()
                raise self._error(f"one for topic {message.topic} cannot be sent: {said}") from None

    def _done(self, error: Any, message: Any) -> None:
        if error is None:
            self._arrived += 1
        elif self._failed is None:
            self._failed = error, message.topic()

    def _check(self) -> None:
        if self._failed is not None:
            error, topic = self._failed
            raise self._error(f"one for topic {topic} failed: {error.str()}")

    def give_up(self) -> None:
        """Drop the messages that are not sent yet."""
        # The task has failed, so messages that still arrived would only be repeats.
        self._producer.purge()
        self._producer.flush(5)

    def _error(self, got: str) -> DeliveryError:
        servers = self._settings["bootstrap.servers"]
        return DeliveryError(
            "every record must be acknowledged by all in-sync replicas, but "
            f"{hide_secrets(got, self._settings)} (brokers {servers}); the task fails and is tried "
            "again, and those that arrived will come twice"
        )
