# SPDX-License-Identifier: Apache-2.0
"""What says in which windows an element is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Generic

from pyflinklike.api.context import RuntimeContext
from pyflinklike.errors import DeclarationValueError
from pyflinklike.shown import shown
from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.state.table import Setting
from pyflinklike.type_vars import T, V, W
from pyflinklike.windows.kinds import MergeCallback, WindowSerializer
from pyflinklike.windows.trigger import Trigger

__all__ = ["MergingWindowAssigner", "WindowAssigner", "fixed_windows", "kind_of", "timed"]


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each element to no, one or several windows."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time in ms."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Where the operator runs; its states belong to the key of the element."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of an element.

        Args:
            element: The element.
            timestamp: Its event time in ms; None if it has none.
            context: For an assigner that needs more.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger[T, W]:
        """The trigger where none is given.

        Args:
            env: The environment of a job, None elsewhere; ours do not use it.  An assigner that
                takes none, or takes it without a default as in PyFlink, is asked accordingly.
        """

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer[W]:
        """How its windows are namespaces of state."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows follow event time, so that an element can be late for one."""

    def fixed(self) -> str | None:
        """What a restart may not change of its windows, in words: "count windows of 5".

        None where others can go on with what it leaves, as with windows of time of another size:
        each ends when it was to end.
        """
        return None

    def descriptors(self) -> Sequence[ValueStateDescriptor[Any]]:
        """Of the states that it keeps of a key, whose names are no others' then."""
        return ()


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can become one, such as sessions."""

    class MergeCallback(MergeCallback[V]):
        """What `merge_windows` tells its findings to, by PyFlink's name."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback[W]) -> None:
        """Tell which windows are to be merged.

        Args:
            windows: All of a key; at most one of them is new.
            callback: Is called for each group that becomes one window.
        """


def timed(timestamp: int | None, assigner: WindowAssigner[Any, Any]) -> int:
    """A timestamp that is there.

    Raises:
        DeclarationValueError: The element has none.
    """
    if timestamp is None:
        msg = (
            f"{type(assigner).__name__} needs elements with a timestamp, got {shown(timestamp)} "
            "(what PyFlink calls a record with Java's Long.MIN_VALUE timestamp); in a job call "
            "assign_timestamps_and_watermarks before it, over DataFrames give event_time, or use "
            "windows of processing time"
        )
        raise DeclarationValueError(msg)
    return timestamp


def fixed_windows(words: str) -> Setting:
    """What a restart may not change of windows, as a setting of the states that depend on it.

    Args:
        words: What `fixed` of their assigner says.
    """
    remedy = "keep the former, or begin a new checkpoint"
    return Setting("the windows", words, remedy=remedy)


def kind_of(assigner: WindowAssigner[Any, Any]) -> str:
    """What windows are called where their contents are kept: those of one kind end in one way."""
    time = "event time" if assigner.is_event_time() else "processing time"
    kind = "merging windows" if isinstance(assigner, MergingWindowAssigner) else "windows"
    return f"{kind} of {time}"
