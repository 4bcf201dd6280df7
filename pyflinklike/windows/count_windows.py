# SPDX-License-Identifier: Apache-2.0
"""Windows by the number of elements, and the one window of all of them.

Count windows are PyFlink's, not Java's: each is a window of its own of exactly `n` elements, so a
sliding one gives nothing before `n` have come, and what is left at the end never fires.  Unlike
PyFlink's they drop their contents when they have fired, which nobody sees but the disk.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import attrs

from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.state.table import Setting, TableSpec
from pyflinklike.type_vars import T
from pyflinklike.types import Types
from pyflinklike.windows.assigner import WindowAssigner, fixed_windows
from pyflinklike.windows.checks import counted
from pyflinklike.windows.kinds import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    WindowSerializer,
)
from pyflinklike.windows.trigger import Trigger
from pyflinklike.windows.triggers import CountTrigger, NeverTrigger, PurgingTrigger

__all__ = ["CountSlidingWindowAssigner", "CountTumblingWindowAssigner", "GlobalWindows"]


class _CountDescriptor(ValueStateDescriptor[int]):
    """The number of elements of a key, which says in which windows the next one is.

    Args:
        name: Of the state.
        windows: Size and slide.
    """

    def __init__(self, name: str, windows: Setting) -> None:
        super().__init__(name, Types.LONG())
        self._windows = windows

    def spec(self) -> TableSpec:
        """What the backend and the log need to know."""
        return attrs.evolve(super().spec(), settings=(self._windows,))


class _CountWindows(WindowAssigner[T, CountWindow]):
    """Windows of a number of elements of a key.

    Args:
        name: Of the state that numbers the elements.
        size: How many elements a window has.
        slide: How many lie between the first of one window and that of the next.
    """

    def __init__(self, name: str, size: int, slide: int) -> None:
        self._size, self._slide = size, slide
        self._count = _CountDescriptor(name, fixed_windows(self.fixed()))

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        """The windows of the number that the element has under its key, from 0; newest first."""
        state = context.get_runtime_context().get_state(self._count)
        number = state.value() or 0
        state.update(number + 1)
        newest = number // self._slide
        oldest = max(0, (number - self._size) // self._slide + 1)
        return [CountWindow(each) for each in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: Any = None) -> Trigger[T, CountWindow]:
        """Fires when the window is full, and drops what is in it."""
        return PurgingTrigger(CountTrigger(self._size))

    def get_window_serializer(self) -> WindowSerializer[CountWindow]:
        """That of count windows."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """False."""
        return False

    def fixed(self) -> str:
        """Its size and slide: the number of an element says in which windows it is."""
        words = f"count windows of {self._size}"
        return words if self._size == self._slide else f"{words}, one at every {self._slide}"

    def descriptors(self) -> Sequence[ValueStateDescriptor[Any]]:
        """Of the count."""
        return (self._count,)


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Windows of so many elements of a key, one after another.

    Args:
        window_size: How many.

    Raises:
        DeclarationValueError: It is less than 1.
    """

    def __init__(self, window_size: int) -> None:
        size = counted(window_size, "CountTumblingWindowAssigner: the size")
        super().__init__("tumble-count-assigner", size, size)

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """Windows of so many elements."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows of so many elements of a key, one of which begins at every so-many-th element.

    Args:
        window_size: How many elements one has.
        window_slide: At every which element one begins.

    Raises:
        DeclarationValueError: One of them is less than 1.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        size = counted(window_size, "CountSlidingWindowAssigner: the size")
        slide = counted(window_slide, "CountSlidingWindowAssigner: the slide")
        super().__init__("slide-count-assigner", size, slide)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """Windows of so many elements at every so-many-th."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._size}, {self._slide})"


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """All elements of a key in one window, which never ends; a trigger makes it useful."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        """The one window."""
        return (_THE_WINDOW,)

    def get_default_trigger(self, env: Any = None) -> Trigger[T, GlobalWindow]:
        """A `NeverTrigger`."""
        return NeverTrigger()

    def get_window_serializer(self) -> WindowSerializer[GlobalWindow]:
        """That of the global window."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """False."""
        return False

    def fixed(self) -> str:
        """That there is one."""
        return "the global window"

    def __repr__(self) -> str:
        return "GlobalWindows()"


_THE_WINDOW = GlobalWindow.get()
