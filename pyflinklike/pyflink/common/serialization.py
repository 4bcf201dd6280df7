# SPDX-License-Identifier: Apache-2.0
"""What makes bytes of elements, and elements of bytes, under the path that PyFlink has for it."""

from pyflinklike.pyflink._graph.files import BulkWriterFactory, Encoder
from pyflinklike.pyflink._graph.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from pyflinklike.pyflink._names import of_pyflink

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]

__getattr__ = of_pyflink(__name__)
