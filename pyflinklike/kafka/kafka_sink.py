# SPDX-License-Identifier: Apache-2.0
"""Topics as the sink of a job: PyFlink's `KafkaSink`, written by the tasks of the job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    PyflinklikeError,
    SparkSetupError,
    UserFunctionError,
)
from pyflinklike.kafka.delivery import Delivery
from pyflinklike.kafka.messages import Message, RecordIds
from pyflinklike.kafka.options import (
    ClientBuilder,
    as_options,
    check_instance,
    writer_options,
)
from pyflinklike.pyflink._graph.functions import copy_function
from pyflinklike.pyflink._graph.serialization import SerializationSchema, check_schema
from pyflinklike.pyflink._graph.sinks import DeliveryGuarantee, Renaming, Sink, SinkWriter
from pyflinklike.types import TypeInformation

__all__ = [
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaTopicSelector",
]

GUARANTEE: Final = "pyflinklike.kafka.delivery-guarantee"
"""The setting that lets a sink that asks for exactly once write at least once."""


@attrs.frozen(eq=False)
class KafkaSink(Sink):
    """Writes a record for each element, as PyFlink's; make it with `builder()`.

    All in-sync replicas acknowledge every record before its micro-batch or job ends.  If a micro-batch
    runs again, its records are written twice; with the property `pyflinklike.recordIds` each record has
    an id, by which a reader recognises repeats.

    A sink that asks for `EXACTLY_ONCE` runs only if the setting `pyflinklike.kafka.delivery-guarantee`
    is `at-least-once`.  On streams its records have ids, so that `drop_repeats` gives a reader each
    record once.

    Args:
        options: Options of the data source; they may hold secrets, so they are never shown.
        serializer: Makes records of elements.
        guarantee: The guarantee that the program asks for.
    """

    options: Mapping[str, str] = attrs.field(repr=False)
    serializer: KafkaRecordSerializationSchema
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Make a builder of the sink."""
        return KafkaSinkBuilder()

    @property
    def is_written_by_tasks(self) -> bool:
        """True: tasks write the records."""
        return True

    def check_settings(self, configuration: Mapping[str, str]) -> None:
        """Check that the settings allow at least once, if the program asks for more.

        Raises:
            DeclarationValueError: The setting has another value.
            SparkSetupError: The program asks for exactly once, and the setting is missing.
        """
        given = configuration.get(GUARANTEE, "")
        text = given.strip().upper().replace("-", "_")
        if text not in ("", DeliveryGuarantee.AT_LEAST_ONCE.name):
            msg = f"{GUARANTEE} is 'at-least-once', got {short_repr(given)}; set it to that, or leave it out"
            raise DeclarationValueError(msg)
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE and not text:
            msg = (
                "a KafkaSink writes at least once, because no transaction of Kafka ends with a checkpoint of "
                f"Spark, got DeliveryGuarantee.EXACTLY_ONCE; set {GUARANTEE} to at-least-once for all "
                "such sinks (-D on the command line): on streams each record then has an id, and "
                "pyflinklike.kafka.drop_repeats gives a reader each record once; or give AT_LEAST_ONCE"
            )
            raise SparkSetupError(msg)

    def writer(
        self,
        index: int,  # noqa: ARG002  all instances write in the same way
        parallelism: int,  # noqa: ARG002
        type_info: TypeInformation,  # noqa: ARG002
        name: str | None = None,  # noqa: ARG002
    ) -> SinkWriter:
        """Make the writer of the elements of one instance."""
        return _TopicWriter(self)


class _TopicWriter(SinkWriter):
    def __init__(self, sink: KafkaSink) -> None:
        options = writer_options(sink.options)
        self._serialize = sink.serializer.message
        self._named = self._find_ids(sink, is_asked=options.record_ids)
        self._delivery = Delivery(options.settings)

    def _find_ids(self, sink: KafkaSink, *, is_asked: bool) -> Callable[[Message], Message] | None:
        """Return the function that adds ids to records; None if records have no ids."""
        if is_asked:
            return RecordIds.of_task().add_to
        is_promised = sink.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if is_promised and "recordIds" not in sink.options and RecordIds.is_of_stream():
            return RecordIds.of_task().add_to
        return None

    def write(self, value: Any, timestamp: int | None) -> None:
        message: Message = self._serialize(value, timestamp)
        self._delivery.send(message if self._named is None else self._named(message))

    def prepare(self) -> list[Renaming]:
        self._delivery.finish()
        return []

    def abandon(self) -> None:
        self._delivery.give_up()


class KafkaSinkBuilder(ClientBuilder):
    """Sets the options of a `KafkaSink` and `build`s it, as PyFlink's."""

    def __init__(self) -> None:
        super().__init__()
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def set_record_serializer(
        self, record_serializer: KafkaRecordSerializationSchema
    ) -> KafkaSinkBuilder:
        """Set the serializer that makes records of elements.

        Args:
            record_serializer: A schema made by `KafkaRecordSerializationSchema.builder()`.

        Raises:
            DeclarationTypeError: The argument is no `KafkaRecordSerializationSchema`.
        """
        example = "the result of KafkaRecordSerializationSchema.builder()"
        kind = KafkaRecordSerializationSchema
        self._serializer = check_instance(record_serializer, kind, example)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the guarantee; `NONE` and `AT_LEAST_ONCE` both mean at least once.

        Args:
            delivery_guarantee: With `EXACTLY_ONCE` a job runs only if the setting
                `pyflinklike.kafka.delivery-guarantee` is `at-least-once`.

        Raises:
            DeclarationTypeError: The argument is no `DeliveryGuarantee`.
        """
        example = "DeliveryGuarantee.AT_LEAST_ONCE"
        self._guarantee = check_instance(delivery_guarantee, DeliveryGuarantee, example)
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:  # noqa: ARG002
        """Do nothing, because this sink uses no transactions."""
        return self

    def build(self) -> KafkaSink:
        """Make the sink.

        Raises:
            DeclarationValueError: The brokers or the serializer are missing, or a property is wrong.
        """
        if self._serializer is None:
            msg = "a KafkaSink needs a serializer that makes records of elements, got none; call set_record_serializer"
            raise DeclarationValueError(msg)
        options = as_options(self._properties, is_reader=False)
        # This refuses a wrong option now, and not only when the job runs.
        writer_options(options)
        return KafkaSink(options, copy_function(self._serializer), self._guarantee)


class KafkaTopicSelector(ABC):
    """Chooses the topic of an element, as PyFlink's."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of an element.

        Args:
            data: The element, as the stream has it.
        """


@attrs.frozen
class KafkaRecordSerializationSchema(WithoutJava):
    """Makes records of elements, as PyFlink's; make it with `builder()`.

    Args:
        topic: Returns the topic of an element.
        value: Makes the value of a record.
        key: Makes the key of a record; None makes records without keys.
        is_timed: Whether records get the times of their elements.
    """

    topic: Callable[[Any], Any]
    value: SerializationSchema
    key: SerializationSchema | None = None
    is_timed: bool = True

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Make a builder of the schema."""
        return KafkaRecordSerializationSchemaBuilder()

    def message(self, element: Any, timestamp: int | None) -> Message:
        """Return the record of an element.

        Args:
            element: The element, as the stream has it.
            timestamp: The time of the element in ms.  It becomes the record's time if it is above 0
                and is not the last of all times.

        Raises:
            UserFunctionError: A schema or the topic selector fails.
            OutputError: The topic selector returned no text.
        """
        try:
            topic = self.topic(element)
            key = None if self.key is None else self.key.serialize(element)
            value = self.value.serialize(element)
        except PyflinklikeError:
            raise
        except Exception as error:
            msg = f"no record could be made of element {short_repr(element)}: {shown_error(error)}"
            raise UserFunctionError(msg) from error
        if not isinstance(topic, str) or not topic:
            msg = f"a topic selector must return the name of a topic, got {short_repr(topic)} for element {short_repr(element)}; return text"
            raise OutputError(msg)
        # An element that is yielded at the end of a batch has the last of all times, which a record
        # cannot have.
        time = timestamp if self.is_timed and timestamp != MAX_WATERMARK else None
        return Message(topic, key, value, timestamp=time)


@attrs.frozen
class _Always:
    """One topic for all elements."""

    topic: str

    def __call__(self, _: Any) -> str:
        return self.topic


class KafkaRecordSerializationSchemaBuilder:
    """Sets how records are made of elements, and `build`s the schema, as PyFlink's."""

    def __init__(self) -> None:
        self._topic: Callable[[Any], Any] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records to one topic.

        Args:
            topic: The name of the topic.

        Raises:
            DeclarationTypeError: `topic` is empty, or no text.
        """
        if not isinstance(topic, str) or not topic:
            msg = f"a topic must be a text that is not empty, got {short_repr(topic)}; give for example 'clicks'"
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
            DeclarationTypeError: The argument is neither a `KafkaTopicSelector` nor callable.
        """
        if isinstance(topic_selector, KafkaTopicSelector):
            self._topic = topic_selector.apply
        elif callable(topic_selector):
            self._topic = topic_selector
        else:
            msg = f"topic_selector must be KafkaTopicSelector or a callable, got {short_repr(topic_selector)}; give for example a lambda"
            raise DeclarationTypeError(msg)
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema that makes the keys of records; without it records have no keys.

        Args:
            key_serialization_schema: Makes a key of each element.

        Raises:
            DeclarationTypeError: The argument is no `SerializationSchema`.
        """
        check_schema(key_serialization_schema, SerializationSchema)
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema that makes the values of records.

        Args:
            value_serialization_schema: Makes a value of each element.

        Raises:
            DeclarationTypeError: The argument is no `SerializationSchema`.
        """
        check_schema(value_serialization_schema, SerializationSchema)
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Make the schema.

        Raises:
            DeclarationValueError: The topic or the schema for values is missing.
        """
        if self._topic is None or self._value is None:
            lacks = "topic" if self._topic is None else "value serialization schema"
            msg = f"records need a topic and a value, got no {lacks}; call set_topic and set_value_serialization_schema"
            raise DeclarationValueError(msg)
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key)
