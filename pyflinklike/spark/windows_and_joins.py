# SPDX-License-Identifier: Apache-2.0
"""The windows and joins of a keyed DataFrame: `KeyedStream.window`, `.interval_join` and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import shown
from pyflinklike.spark.inputs import OneInput
from pyflinklike.spark.interval_join import IntervalJoined
from pyflinklike.spark.keyed_connected_streams import InputOf
from pyflinklike.spark.window_join import CoGroupedStreams, JoinedStreams
from pyflinklike.spark.windowed_stream import WindowedStream
from pyflinklike.windows.assigner import WindowAssigner
from pyflinklike.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)

__all__ = ["WindowsAndJoins"]

K = TypeVar("K", bound="WindowsAndJoins")


class WindowsAndJoins:
    """What a `KeyedStream` can do within windows, and together with another one."""

    _input: Callable[..., OneInput]

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Windows over the records of each key.

        Args:
            assigner: Of `pyflinklike.windows`, such as `TumblingEventTimeWindows.of(...)`.

        Raises:
            DeclarationTypeError: It is no assigner.
        """
        return WindowedStream(self._input, assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of so many records of a key.

        Args:
            size: How many records a window has.
            slide: At every which record a window begins; 0 is one after another.

        Raises:
            DeclarationTypeError, DeclarationValueError: A number is no positive int.
        """
        if slide == 0:
            return WindowedStream(self._input, CountTumblingWindowAssigner(size))
        return WindowedStream(self._input, CountSlidingWindowAssigner(size, slide))

    def interval_join(self: K, other: K, how: str = "inner") -> IntervalJoined:
        """Join records of one key whose times are within an interval of each other.

        Args:
            other: Keyed by columns of the same types.
            how: "inner", "left_outer", "right_outer" or "full_outer", or Spark's other names of
                these.  An outer join gives out a record without a partner once none can come.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch, or there is no such join.
        """
        return IntervalJoined(self._input, _input_of(other, "interval_join"), how)

    def join(self: K, other: K, how: str = "inner") -> JoinedStreams:
        """Join records of one key that lie in one window.

        Args:
            other: Keyed by columns of the same types.
            how: As of `interval_join`.  An outer join gives out a record with None where the
                window has none of the other input.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch, or there is no such join.
        """
        return JoinedStreams(self._input, _input_of(other, "join"), how)

    def co_group(self: K, other: K) -> CoGroupedStreams:
        """Group the records of both inputs of one key that lie in one window.

        Args:
            other: Keyed by columns of the same types.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch.
        """
        return CoGroupedStreams(self._input, _input_of(other, "co_group"))


def _input_of(other: Any, what: str) -> InputOf:
    if not isinstance(other, WindowsAndJoins):
        msg = f"{what} takes a keyed DataFrame, got {shown(other)}; call key_by on it first"
        raise DeclarationTypeError(msg)
    return other._input
