# SPDX-License-Identifier: Apache-2.0
"""Elements as bytes and back, for connectors: the schemas of `pyflink.common.serialization`.

PyFlink's schemas are wrapped classes of Java, so a program cannot write one in Python.  Here it can: a subclass
of `SerializationSchema` with `serialize`, or of `DeserializationSchema` with `deserialize`.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Any

from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, OutputError
from pyflinklike.types import TypeInformation, Types

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
    "check_schema",
    "value_of",
]


class SerializationSchema(WithoutJava, ABC):
    """Makes bytes from elements.

    Example:
        ```python
        class Cents(SerializationSchema):
            def serialize(self, element):
                return b"%d" % round(element * 100)
        ```
    """

    @abstractmethod
    def serialize(self, element: Any) -> bytes | None:
        """Return the bytes of an element.

        Returns:
            The bytes.  None makes a record without a value, which Kafka calls a tombstone.
        """


class DeserializationSchema(WithoutJava, ABC):
    """Makes elements from bytes."""

    @abstractmethod
    def deserialize(self, message: bytes | None) -> Any:
        """Return the element of some bytes.

        Args:
            message: The bytes; None if the record has no value.

        Returns:
            The element.  None drops the record.
        """

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the elements; by default any object that pickles."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Elements that are text.

    Bytes that cannot be decoded become U+FFFD, and characters that cannot be encoded become `?`,
    as in Java.

    Args:
        charset: The encoding of the bytes, by a name that Python knows.

    Raises:
        DeclarationValueError: There is no such encoding.
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            self._charset = codecs.lookup(charset).name
        except (LookupError, TypeError) as error:
            msg = f"a charset is one that Python knows, got {short_repr(charset)}; give for example 'UTF-8'"
            raise DeclarationValueError(msg) from error

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a text.

        Raises:
            OutputError: The element is no text.
        """
        if not isinstance(element, str):
            msg = f"SimpleStringSchema writes text, got {short_repr(element)}; map elements to str before"
            raise OutputError(msg)
        return element.encode(self._charset, "replace")

    def deserialize(self, message: bytes | None) -> str:
        """Return the text of bytes.

        Raises:
            ValueError: The record has no value.
        """
        return value_of(message).decode(self._charset, "replace")

    def get_produced_type(self) -> TypeInformation:
        """Return STRING."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Elements that are bytes, written as they are."""

    def serialize(self, element: Any) -> bytes:
        """Return the element.

        Raises:
            OutputError: The element is not bytes.
        """
        return _bytes(element, "ByteArraySchema writes bytes")

    def deserialize(self, message: bytes | None) -> bytes:
        """Return the bytes.

        Raises:
            ValueError: The record has no value.
        """
        return value_of(message)

    def get_produced_type(self) -> TypeInformation:
        """Return PRIMITIVE_ARRAY of BYTE, whose values are bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of rows, which holds bytes.

    Args:
        field_index: The position of the field, from 0.

    Raises:
        DeclarationValueError: The position is negative.
    """

    def __init__(self, field_index: int) -> None:
        if not isinstance(field_index, int) or field_index < 0:
            msg = (
                f"Field index must be non-negative, got: {short_repr(field_index)}; give 0 or more"
            )
            raise DeclarationValueError(msg)
        self._index = field_index

    def serialize(self, element: Any) -> bytes | None:
        """Return the bytes in the field; None if the field is None.

        Raises:
            OutputError: There is no such field, or it does not hold bytes.
        """
        try:
            field = element[self._index]
        except (TypeError, LookupError) as error:
            msg = f"RowFieldExtractorSchema({self._index}) needs rows with that field, got {short_repr(element)}"
            raise OutputError(msg) from error
        rule = f"RowFieldExtractorSchema({self._index}) writes a field of bytes"
        return None if field is None else _bytes(field, rule)


def _bytes(value: Any, rule: str) -> bytes:
    if not isinstance(value, (bytes, bytearray)):
        msg = f"{rule}, got {short_repr(value)}; encode it in a map function before"
        raise OutputError(msg)
    return bytes(value)


def value_of(message: bytes | None) -> bytes:
    """Return the bytes of a record.

    Args:
        message: The value of the record, or None.

    Raises:
        ValueError: The record has no value.
    """
    if message is None:
        msg = "the record has no value: it is a tombstone; read it with a DeserializationSchema of your own"
        raise ValueError(msg)
    return message


def check_schema(schema: Any, kind: type) -> None:
    """Check that an argument is a schema of the given class.

    Raises:
        DeclarationTypeError: It is not an instance of the class.
    """
    if not isinstance(schema, kind):
        remedy = instance_of(kind, schema, "give for example SimpleStringSchema()")
        msg = f"it takes a {kind.__name__}, got {short_repr(schema)}; {remedy}"
        raise DeclarationTypeError(msg)
