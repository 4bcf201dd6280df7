# SPDX-License-Identifier: Apache-2.0
"""The entry for two inputs: `connect(a, b).key_by("user").process(function, ...)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from pyspark.sql import DataFrame

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.spark.broadcast_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    unkeyed,
)
from pyflinklike.spark.keyed_connected_streams import KeyedConnectedStreams
from pyflinklike.spark.keyed_stream import KeyedStream
from pyflinklike.spark.setup.checks import check_columns
from pyflinklike.spark.setup.two_inputs import check_both_stream

__all__ = ["ConnectedStreams", "connect"]


@overload
def connect(first: DataFrame, second: DataFrame) -> ConnectedStreams: ...


@overload
def connect(first: DataFrame, second: BroadcastStream) -> BroadcastConnectedStream: ...


def connect(
    first: DataFrame, second: DataFrame | BroadcastStream
) -> ConnectedStreams | BroadcastConnectedStream:
    """Have one function process the records of two DataFrames.

    Args:
        first: Streaming or batch.
        second: As the first one, streaming or batch, with columns of its own; or what
            `broadcast` gives, for a `BroadcastProcessFunction`, which has no keys.

    Raises:
        DeclarationTypeError: One is no DataFrame.
        DeclarationValueError: One is a stream and the other a batch.
    """
    if not isinstance(second, BroadcastStream):
        return ConnectedStreams(first, second)
    _check_frame(first)
    check_columns(first)
    return BroadcastConnectedStream(
        lambda event_time, **options: unkeyed(first, event_time, **options), second
    )


class ConnectedStreams:
    """Two DataFrames that one function shall process; made by `connect`."""

    def __init__(self, first: DataFrame, second: DataFrame) -> None:
        for each in (first, second):
            _check_frame(each)
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


def _check_frame(df: object) -> None:
    if not isinstance(df, DataFrame):
        msg = f"connect takes two Spark DataFrames, got {df!r}; read it into one"
        raise DeclarationTypeError(msg)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
