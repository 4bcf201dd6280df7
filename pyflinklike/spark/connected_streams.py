# SPDX-License-Identifier: Apache-2.0
"""The entry for two inputs: `connect(a, b).key_by("user").process(function, ...)`."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.spark.keyed_connected_streams import KeyedConnectedStreams
from pyflinklike.spark.keyed_stream import KeyedStream
from pyflinklike.spark.setup.two_inputs import check_both_stream

__all__ = ["ConnectedStreams", "connect"]


def connect(first: DataFrame, second: DataFrame) -> ConnectedStreams:
    """Have one function process the records of two DataFrames.

    Args:
        first: Streaming or batch.
        second: As the first one, streaming or batch.  Its columns may be other ones.

    Raises:
        DeclarationTypeError: One is no DataFrame.
        DeclarationValueError: One is a stream and the other a batch.
    """
    return ConnectedStreams(first, second)


class ConnectedStreams:
    """Two DataFrames that one function shall process; made by `connect`."""

    def __init__(self, first: DataFrame, second: DataFrame) -> None:
        for each in (first, second):
            if not isinstance(each, DataFrame):
                msg = f"connect takes two Spark DataFrames, got {each!r}; read it into one"
                raise DeclarationTypeError(msg)
        check_both_stream(first, second)
        self._first, self._second = first, second

    def key_by(
        self, columns1: str | Sequence[str], columns2: str | Sequence[str] | None = None
    ) -> KeyedConnectedStreams:
        """Partition the records of both by key.

        Args:
            columns1: Name of the key column of the first input, or names of several.
            columns2: Those of the second input, of the same types; by default they have the same
                names.

        Raises:
            DeclarationTypeError: A column cannot be a key, or the keys have other types.
            DeclarationValueError: There is no such column.
        """
        first = KeyedStream(self._first, _names(columns1))
        second = KeyedStream(self._second, _names(columns1 if columns2 is None else columns2))
        return first.connect(second)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
