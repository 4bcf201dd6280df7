# SPDX-License-Identifier: Apache-2.0
"""Evictors: they remove elements from a window that fires, before its function or after it.

PyFlink has no evictors; these are Flink's in Java.  With an evictor a window stores every element
with its timestamp.  `reduce` and `aggregate` then fold the elements when the window fires.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic

import attrs

from pyflinklike._checks import check_count
from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import T, W
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.metric_group import MetricGroup


@attrs.frozen
class TimestampedValue(Generic[T]):
    """An element of a window with its event time.

    Args:
        value: The element, as it was put into the window.
        timestamp: The event time in ms; None for an element without event time.
    """

    value: T
    timestamp: int | None = None

    def get_value(self) -> T:
        """Return the element."""
        return self.value

    def get_timestamp(self) -> int | None:
        """Return the event time in ms, or None."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Return whether the element has an event time."""
        return self.timestamp is not None


class Evictor(ABC, Generic[T, W]):
    """The rule that removes elements from a window that fires; they do not come back."""

    class EvictorContext(ABC):
        """The time and the metrics of the operator, for an evictor."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in ms."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the group in which the operator registers metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the watermark in ms."""

    @abstractmethod
    def evict_before(
        self,
        elements: list[TimestampedValue[T]],
        size: int,
        window: W,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        """Remove elements from the list before the function is applied to the rest.

        Args:
            elements: The elements in order of arrival; remove from this list in place.
            size: The number of elements.
            window: The window that fires.
            evictor_context: The time and the metrics of the operator.
        """

    @abstractmethod
    def evict_after(
        self,
        elements: list[TimestampedValue[T]],
        size: int,
        window: W,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        """Remove elements after the function was applied; the arguments are as in `evict_before`."""


class _OneSidedEvictor(Evictor[T, W]):
    """An evictor that evicts either before the function or after it.

    Args:
        do_evict_after: True to evict after the function.
    """

    def __init__(self, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        raise NotImplementedError

    def evict_before(
        self,
        elements: list[TimestampedValue[T]],
        size: int,
        window: W,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        """Evict, unless `do_evict_after` is set."""
        if not self._do_evict_after:
            self._evict(elements)

    def evict_after(
        self,
        elements: list[TimestampedValue[T]],
        size: int,
        window: W,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        """Evict, if `do_evict_after` is set."""
        if self._do_evict_after:
            self._evict(elements)


class CountEvictor(_OneSidedEvictor[T, W]):
    """An evictor that keeps the last elements.

    Args:
        max_count: The number of elements that stay.
        do_evict_after: True to evict after the function.

    Raises:
        DeclarationValueError: The number is less than 1.
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._max_count = check_count(max_count, "CountEvictor: the count")

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[Any, Any]:
        """Make an evictor that keeps the last `max_count` elements."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        del elements[: max(0, len(elements) - self._max_count)]


class TimeEvictor(_OneSidedEvictor[T, W]):
    """An evictor that keeps elements that are older than the newest one by less than a time.

    It keeps all elements if the first one has no timestamp.

    Args:
        window_size: The time in ms; an element that is older by so much is removed.
        do_evict_after: True to evict after the function.

    Raises:
        DeclarationValueError: The time is not positive.
    """

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = check_count(window_size, "TimeEvictor: the time")

    @staticmethod
    def of(window_size: DurationLike, do_evict_after: bool = False) -> TimeEvictor[Any, Any]:
        """Make one from a time: `Time`, `Duration`, `timedelta` or an int of ms."""
        return TimeEvictor(to_milliseconds(window_size, "TimeEvictor: the time"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        # As Flink's, which looks at the first element only.
        if not elements or not elements[0].has_timestamp():
            return
        times = [each.timestamp for each in elements if each.timestamp is not None]
        oldest = max(times) - self._window_size
        elements[:] = [
            each for each in elements if each.timestamp is None or each.timestamp > oldest
        ]


class DeltaEvictor(_OneSidedEvictor[T, W]):
    """An evictor that keeps elements that differ from the last one by less than a threshold.

    Args:
        threshold: Elements with this difference or a greater one are removed.
        delta_function: Returns the difference between an element and the last one.
        do_evict_after: True to evict after the function.

    Raises:
        DeclarationTypeError: `delta_function` is not callable.
        DeclarationValueError: The threshold is not a number.
    """

    def __init__(
        self,
        threshold: float,
        delta_function: Callable[[T, T], float],
        do_evict_after: bool = False,
    ) -> None:
        super().__init__(do_evict_after)
        if not callable(delta_function):
            msg = (
                f"DeltaEvictor takes a function of two elements, got {short_repr(delta_function)}; "
                "for example lambda one, last: abs(one - last)"
            )
            raise DeclarationTypeError(msg)
        # With NaN every comparison is false, and the evictor would remove all elements.
        if threshold != threshold:
            msg = f"the threshold of a DeltaEvictor must be a number, got {threshold!r}; mend it"
            raise DeclarationValueError(msg)
        self._threshold, self._delta_function = threshold, delta_function

    @staticmethod
    def of(
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor[Any, Any]:
        """Make an evictor from a threshold and a function that returns differences."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [
                each
                for each in elements
                if self._delta_function(each.value, last) < self._threshold
            ]
