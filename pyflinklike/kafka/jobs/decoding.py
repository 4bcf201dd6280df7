# SPDX-License-Identifier: Apache-2.0
"""Records of a topic as elements of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.errors import PyflinklikeError, UserFunctionError
from pyflinklike.graph.serialization import DeserializationSchema
from pyflinklike.shown import shown, shown_error

__all__ = ["elements_of"]


def elements_of(
    batch: pa.RecordBatch, deserializer: DeserializationSchema
) -> Iterator[tuple[Any, int | None]]:
    """Yield the elements of some records, with their times in ms; None is no element.

    Args:
        batch: Records, with the columns of the data source.
        deserializer: Makes elements of values.

    Raises:
        UserFunctionError: The deserializer fails; the message names the record.
    """
    deserialize = deserializer.deserialize
    times = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000).to_pylist()
    for index, value in enumerate(batch.column("value").to_pylist()):
        try:
            element = deserialize(value)
        except PyflinklikeError:
            raise
        except Exception as error:
            raise _failure(batch.slice(index, 1), deserializer, error) from error
        if element is not None:
            yield element, times[index]


def _failure(
    batch: pa.RecordBatch, deserializer: DeserializationSchema, error: Exception
) -> UserFunctionError:
    (record,) = batch.to_pylist()
    return UserFunctionError(
        f"{type(deserializer).__name__}.deserialize failed for offset {record['offset']} of partition "
        f"{record['partition']} of topic {record['topic']}, value {shown(record['value'])}: "
        f"{shown_error(error)}"
    )
