# SPDX-License-Identifier: Apache-2.0
"""Windows: finite pieces of the stream of a key, with PyFlink's names.

A window is a namespace of the key's state.  Its serializer converts it to the form in tables, and
knows the type of that form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, Generic

import attrs
import pyarrow.compute as pc

from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._deprecation import WithoutJava
from pyflinklike._type_vars import V, W
from pyflinklike.types import TupleTypeInfo, TypeInformation, Types


class Window(ABC):
    """A finite piece of a stream, to whose elements a function is applied."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp in ms that still belongs to the window."""


class MergeCallback(ABC, Generic[V]):
    """The receiver of the groups that `merge_windows` finds."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[V], merge_result: V) -> None:
        """Note that some windows become one.

        Args:
            to_be_merged: Two or more windows of one key.
            merge_result: The window that they become.
        """


class TimeWindow(Window):
    """A window of the times from `start` (included) to `end` (excluded).

    Args:
        start: The first time, in ms since the epoch.
        end: The time after the last one, in ms since the epoch.
    """

    __slots__ = ("end", "namespace", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.namespace = (start, end)
        """The form that tables keep."""

    def max_timestamp(self) -> int:
        """Return `end - 1`."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether both share a time, or one begins at the end of the other."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window of a size that holds a timestamp, all in ms."""
        # Flink's formula: it adds the size, since a remainder of Java may be negative.
        return timestamp - (timestamp - offset + window_size) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        """Merge the windows that intersect, one after another.

        Args:
            windows: The windows, in any order.
            callback: Gets one call for each group of two or more.
        """
        # Sorted by start, so a window can only meet the last group.
        groups: list[tuple[TimeWindow, set[TimeWindow]]] = []
        for window in sorted(windows):
            if groups and groups[-1][0].intersects(window):
                cover, group = groups[-1]
                groups[-1] = cover.cover(window), group | {window}
            else:
                groups.append((window, {window}))
        for cover, group in groups:
            if len(group) > 1:
                callback.merge(group, cover)

    def __eq__(self, other: object) -> bool:
        return other.__class__ is TimeWindow and self.namespace == other.namespace

    def __hash__(self) -> int:
        return hash(self.namespace)

    def __lt__(self, other: TimeWindow) -> bool:
        return self.namespace < other.namespace

    def __le__(self, other: TimeWindow) -> bool:
        return self.namespace <= other.namespace

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


@attrs.define(unsafe_hash=True)
class CountWindow(Window):
    """A window of a number of elements.

    Args:
        id: The number of the window among the windows of its key, from 0.
    """

    id: int

    def max_timestamp(self) -> int:
        """Return the end of time: the window ends by its elements."""
        return MAX_WATERMARK


class GlobalWindow(Window):
    """The one window of all elements of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the one window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """Return the end of time."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return other.__class__ is GlobalWindow

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


class WindowSerializer(WithoutJava, ABC, Generic[W]):
    """The form in which the state keeps windows of one class."""

    _refused = dict.fromkeys(
        ("serialize", "deserialize"),
        "state does not keep windows as a stream of bytes: use to_namespace and to_window",
    )

    type_info: TypeInformation
    """The type in which windows are written."""

    @abstractmethod
    def to_namespace(self, window: W) -> Hashable:
        """Return the form of a window that tables store."""

    @abstractmethod
    def to_window(self, namespace: Any) -> W:
        """Return the window of a stored form."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class _Bounds(TupleTypeInfo[tuple[int, int]]):
    """Pairs of a start and an end, which are never null; they are stored like other tuples."""

    def from_arrow(self, column: Any) -> list[Any]:
        """Return the pairs of a column.

        Raises:
            ValueError: A start or an end is null.
        """
        for number in range(len(self.field_types)):
            if pc.any(pc.and_(column.field(number).is_null(), column.is_valid())).as_py():
                msg = "a window without a start or an end"
                raise ValueError(msg)
        return super().from_arrow(column)


class TimeWindowSerializer(WindowSerializer[TimeWindow]):
    """The serializer of time windows, as pairs of start and end."""

    type_info = _Bounds([Types.LONG(), Types.LONG()])

    def to_namespace(self, window: TimeWindow) -> Hashable:
        """Return start and end."""
        return window.namespace

    def to_window(self, namespace: tuple[int, int]) -> TimeWindow:
        """Return the window from start to end."""
        return TimeWindow(*namespace)


class CountWindowSerializer(WindowSerializer[CountWindow]):
    """The serializer of count windows, as their numbers."""

    type_info = Types.LONG()

    def to_namespace(self, window: CountWindow) -> Hashable:
        """Return the number of the window."""
        return window.id

    def to_window(self, namespace: int) -> CountWindow:
        """Return the window of that number."""
        return CountWindow(namespace)


class GlobalWindowSerializer(WindowSerializer[GlobalWindow]):
    """The serializer of the one global window."""

    type_info = Types.LONG()

    def to_namespace(self, window: GlobalWindow) -> Hashable:
        """Return 0, since there is only one window."""
        return 0

    def to_window(self, namespace: int) -> GlobalWindow:
        """Return the one window."""
        return GlobalWindow()
