# SPDX-License-Identifier: Apache-2.0
"""Topics as the sink of a job: PyFlink's `KafkaSink`, written by the tasks of the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, HostError
from pyflinklike.graph.captured import captured
from pyflinklike.graph.sinks import DeliveryGuarantee, Renaming, Sink, SinkWriter
from pyflinklike.kafka.delivery import Delivery
from pyflinklike.kafka.jobs.properties import as_options, checked_property
from pyflinklike.kafka.jobs.serializer import KafkaRecordSerializationSchema
from pyflinklike.kafka.messages import Message
from pyflinklike.kafka.options import writer_options
from pyflinklike.kafka.record_ids import RecordIds
from pyflinklike.shown import instance_of, shown
from pyflinklike.types import TypeInformation

__all__ = ["KafkaSink", "KafkaSinkBuilder"]


@attrs.frozen(eq=False)
class KafkaSink(Sink):
    """Writes a record for each element, as PyFlink's; `builder()` makes it.

    Every record is acknowledged by all in-sync replicas before its micro-batch or job ends.  The
    records of a micro-batch that is run again come twice; with the property `pyflinklike.recordIds`
    each has an id that shows repeats.

    Args:
        options: Options of the data source; they may hold secrets and are never shown.
        serializer: Makes records of elements.
    """

    options: Mapping[str, str] = attrs.field(repr=False)
    serializer: KafkaRecordSerializationSchema

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Make a builder of the sink."""
        return KafkaSinkBuilder()

    @property
    def is_written_by_tasks(self) -> bool:
        """True: tasks write the records."""
        return True

    def writer(
        self,
        index: int,  # noqa: ARG002  all instances write alike
        parallelism: int,  # noqa: ARG002
        type_info: TypeInformation,  # noqa: ARG002
        name: str | None = None,  # noqa: ARG002
    ) -> SinkWriter:
        """Make the writer of the elements of one instance."""
        return _Writer(self)


class _Writer:
    def __init__(self, sink: KafkaSink) -> None:
        options = writer_options(sink.options)
        self._serialize = sink.serializer.message
        self._named = RecordIds.of_task().named if options.record_ids else None
        self._delivery = Delivery(options.settings)

    def write(self, value: Any, timestamp: int | None) -> None:
        message: Message = self._serialize(value, timestamp)
        self._delivery.send(message if self._named is None else self._named(message))

    def prepare(self) -> list[Renaming]:
        self._delivery.finish()
        return []

    def finish(self) -> None:
        self._delivery.finish()

    def abandon(self) -> None:
        self._delivery.give_up()


class KafkaSinkBuilder:
    """Sets the options of a `KafkaSink`, as PyFlink's, and `build`s it."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the brokers.

        Args:
            bootstrap_servers: Addresses, as `host:port,...`.
        """
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_record_serializer(
        self, record_serializer: KafkaRecordSerializationSchema
    ) -> KafkaSinkBuilder:
        """Set the serializer that makes records of elements.

        Args:
            record_serializer: A schema made by `KafkaRecordSerializationSchema.builder()`.

        Raises:
            DeclarationTypeError: It is no `KafkaRecordSerializationSchema`.
        """
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            remedy = instance_of(
                KafkaRecordSerializationSchema,
                record_serializer,
                "make it by KafkaRecordSerializationSchema.builder()",
            )
            msg = f"it takes a KafkaRecordSerializationSchema, got {shown(record_serializer)}; {remedy}"
            raise DeclarationTypeError(msg)
        self._serializer = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the guarantee: `NONE` and `AT_LEAST_ONCE` are both at least once.

        Args:
            delivery_guarantee: Any guarantee but `EXACTLY_ONCE`.

        Raises:
            DeclarationTypeError: It is no `DeliveryGuarantee`.
            HostError: It is `EXACTLY_ONCE`.
        """
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            msg = f"it takes a DeliveryGuarantee, got {shown(delivery_guarantee)}; give for example DeliveryGuarantee.AT_LEAST_ONCE"
            raise DeclarationTypeError(msg)
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            msg = (
                "a KafkaSink writes at least once, got DeliveryGuarantee.EXACTLY_ONCE; give "
                "AT_LEAST_ONCE, set the property pyflinklike.recordIds to true, and read the topic "
                "with pyflinklike.kafka.drop_repeats"
            )
            raise HostError(msg)
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:  # noqa: ARG002
        """Do nothing: there are no transactions."""
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a setting of the client, in Kafka's words: see the reference of `pyflinklike.kafka`.

        `pyflinklike.recordIds` set to `true` gives each record a header by which repeats can be
        recognised.

        Args:
            key: The name of the setting.
            value: Its value, as text.

        Raises:
            DeclarationTypeError: The name or the value is no text.
        """
        name, text = checked_property(key, value)
        self._properties[name] = text
        return self

    def build(self) -> KafkaSink:
        """Make the sink.

        Raises:
            DeclarationValueError: Brokers or serializer are missing, or a property is wrong.
        """
        if self._serializer is None:
            msg = "a KafkaSink needs what makes records of elements, got none; call set_record_serializer"
            raise DeclarationValueError(msg)
        options = as_options(self._properties, is_reader=False)
        # A wrong option is refused here, not when the job runs.
        writer_options(options)
        return KafkaSink(options, captured(self._serializer))
