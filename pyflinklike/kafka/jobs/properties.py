# SPDX-License-Identifier: Apache-2.0
"""The properties of a `KafkaSource` or `KafkaSink` as options of the data source.

Those are Kafka's, for its client in Java.  Most have the same names in librdkafka, and the data source
refuses the others with what to use instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.kafka.client_settings import PREFIX
from pyflinklike.shown import shown

__all__ = ["OWN", "as_options", "checked_property"]

OWN: Final = "pyflinklike."
"""What is behind it is an option of the data source itself: `pyflinklike.failOnDataLoss`."""
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


def checked_property(key: Any, value: Any) -> tuple[str, str]:
    """A property, which is text.

    Raises:
        DeclarationTypeError: It is not.
    """
    if not isinstance(key, str) or not isinstance(value, str):
        msg = f"a property has a name and a value of text, got {shown(key)} and {shown(value)}; give for example 'group.id', 'counts'"
        raise DeclarationTypeError(msg)
    return key, value


def as_options(properties: Mapping[str, str], *, is_reader: bool) -> dict[str, str]:
    """Options of the data source.

    Args:
        properties: By name.
        is_reader: Whether they are of a source.

    Raises:
        DeclarationValueError: One of ours is not known.
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
