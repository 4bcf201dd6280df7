# SPDX-License-Identifier: Apache-2.0
"""The properties of a `KafkaSource` or `KafkaSink` as options of the data source.

Properties are those of Kafka's client in Java.  Most have the same names in librdkafka, and the
data source refuses the others with the name to use instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.kafka.client_settings import PREFIX
from pyflinklike.shown import shown

__all__ = ["OWN", "as_options", "checked_property"]

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


def checked_property(key: Any, value: Any) -> tuple[str, str]:
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
