# SPDX-License-Identifier: Apache-2.0
"""Elements as records of topics: PyFlink's `KafkaRecordSerializationSchema`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import attrs

from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    PyflinklikeError,
    UserFunctionError,
)
from pyflinklike.graph.serialization import SerializationSchema, check_schema
from pyflinklike.kafka.messages import Message
from pyflinklike.shown import shown, shown_error

__all__ = [
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaTopicSelector",
]


class KafkaTopicSelector(ABC):
    """Chooses the topic of an element, as PyFlink's."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of an element.

        Args:
            data: The element.
        """


@attrs.frozen
class KafkaRecordSerializationSchema:
    """Makes records of elements, as PyFlink's; `builder()` makes it.

    Args:
        topic: Returns the topic of an element.
        value: Makes values.
        key: Makes keys; None means records without keys.
    """

    topic: Callable[[Any], Any]
    value: SerializationSchema
    key: SerializationSchema | None = None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Make a builder of the schema."""
        return KafkaRecordSerializationSchemaBuilder()

    def message(self, element: Any, timestamp: int | None) -> Message:
        """Return the record of an element.

        Args:
            element: The element.
            timestamp: Its time in ms, which becomes the record's if it is above 0 and not the last
                of all times.

        Raises:
            UserFunctionError: A schema or the topic selector fails.
            OutputError: The topic is no text.
        """
        try:
            topic = self.topic(element)
            key = None if self.key is None else self.key.serialize(element)
            value = self.value.serialize(element)
        except PyflinklikeError:
            raise
        except Exception as error:
            msg = f"no record could be made of element {shown(element)}: {shown_error(error)}"
            raise UserFunctionError(msg) from error
        if not isinstance(topic, str) or not topic:
            msg = f"a topic selector gives the name of a topic, got {shown(topic)} for element {shown(element)}; give text"
            raise OutputError(msg)
        # An element that is yielded at the end of a batch has the last of all times, which no
        # record has.
        time = None if timestamp == MAX_WATERMARK else timestamp
        return Message(topic, key, value, timestamp=time)


@attrs.frozen
class _Always:
    """One topic for all elements."""

    topic: str

    def __call__(self, _: Any) -> str:
        return self.topic


class KafkaRecordSerializationSchemaBuilder:
    """Says how records are made of elements, as PyFlink's, and `build`s the schema."""

    def __init__(self) -> None:
        self._topic: Callable[[Any], Any] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records to one topic.

        Args:
            topic: The name of the topic.

        Raises:
            DeclarationTypeError: `topic` is no name.
        """
        if not isinstance(topic, str) or not topic:
            msg = f"a topic is the name of one, got {shown(topic)}; give for example 'clicks'"
            raise DeclarationTypeError(msg)
        self._topic = _Always(topic)
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic for each element.

        Args:
            topic_selector: A selector, or a callable that returns the topic of an element.

        Raises:
            DeclarationTypeError: It is neither a `KafkaTopicSelector` nor callable.
        """
        if isinstance(topic_selector, KafkaTopicSelector):
            self._topic = topic_selector.apply
        elif callable(topic_selector):
            self._topic = topic_selector
        else:
            msg = f"topic_selector must be KafkaTopicSelector or a callable, got {shown(topic_selector)}; give for example a lambda"
            raise DeclarationTypeError(msg)
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema that makes the keys of records; without it records have no keys.

        Args:
            key_serialization_schema: Makes a key of an element.

        Raises:
            DeclarationTypeError: It is no `SerializationSchema`.
        """
        check_schema(key_serialization_schema, SerializationSchema)
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema that makes the values of records.

        Args:
            value_serialization_schema: Makes a value of an element.

        Raises:
            DeclarationTypeError: It is no `SerializationSchema`.
        """
        check_schema(value_serialization_schema, SerializationSchema)
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Make the schema.

        Raises:
            DeclarationValueError: The topic or the schema of values is missing.
        """
        if self._topic is None or self._value is None:
            lacks = "topic" if self._topic is None else "value serialization schema"
            msg = f"records need a topic and a value, got no {lacks}; call set_topic and set_value_serialization_schema"
            raise DeclarationValueError(msg)
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key)
