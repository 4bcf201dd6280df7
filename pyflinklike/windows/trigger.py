# SPDX-License-Identifier: Apache-2.0
"""What says when a window fires, and when its contents are dropped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

from pyflinklike.api.metrics import MetricGroup
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.type_vars import T, W

__all__ = ["Trigger", "TriggerResult"]

S = TypeVar("S")


class TriggerResult(Enum):
    """What happens to a window."""

    CONTINUE = (False, False)
    """Nothing."""
    FIRE_AND_PURGE = (True, True)
    """The function is applied to the contents, and they are dropped."""
    FIRE = (True, False)
    """The function is applied to the contents, which stay."""
    PURGE = (False, True)
    """The contents are dropped; the trigger's state and the window stay."""

    def is_fire(self) -> bool:
        """Whether the function is applied; to nothing it never is."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the contents are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides for each key and window when it fires, as `pyflink.datastream.Trigger`.

    One object serves all windows of all keys: what it has to remember of one goes into
    `ctx.get_partitioned_state`.
    """

    class TriggerContext(ABC):
        """What a trigger may ask and do, for the window that it is called with."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time in ms."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where the operator registers its metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The watermark in ms."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called for this window when the clock reaches it, in ms."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called for this window when the watermark reaches it, in ms."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Forget a timer of this window; nothing happens where there is none."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Forget a timer of this window; nothing happens where there is none."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
            """The trigger's state of this key and window.

            Raises:
                DeclarationError: The name is declared otherwise already.
            """

    class OnMergeContext(TriggerContext):
        """What `on_merge` may do besides."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Make the state of the merged windows that of the new one.

            Raises:
                DeclarationTypeError: It is not a list, reducing or aggregating state.
            """

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """An element came into the window.

        Args:
            element: The element.
            timestamp: Its event time in ms; None if it has none.
            window: Which window.
            ctx: Its state and timers.
        """

    @abstractmethod
    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """A processing-time timer of the window fires; also the one that ends the window."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """An event-time timer of the window fires; also the one that ends the window."""

    def can_merge(self) -> bool:
        """Whether `on_merge` is there, as windows that merge need it."""
        return False

    # The names of what is not used are those that a subclass overrides.
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Windows have become one; afterwards `clear` is called for each of them.

        Args:
            window: The new window.
            ctx: Its state and timers.
        """

    def descriptors(self) -> Sequence[StateDescriptor[Any]]:
        """Of states of a window that are compared with a checkpoint when the operator opens.

        What a trigger asks for besides is compared when it asks.
        """
        return ()

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """The window ends: delete the timers and clear the state that the trigger has of it."""
