# SPDX-License-Identifier: Apache-2.0
"""Schemas and encoders, which turn elements into bytes and back, at PyFlink's path."""

from pyflinklike.pyflink._graph.files import BulkWriterFactory, Encoder
from pyflinklike.pyflink._graph.serialization import *
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
