# SPDX-License-Identifier: Apache-2.0
"""State and timers that belong to a pair: the key, and a namespace of it, such as a window.

This is for programs of this library, such as the window operator.  Their users see what the
program makes of it: `window_state()`, or `get_partitioned_state` of a trigger.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from pyflinklike.api.context import RuntimeContext, TimerService
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.state.table import Setting
from pyflinklike.types import TypeInformation

__all__ = ["NamespacedFunction", "NamespacedRuntimeContext", "NamespacedTimerService"]

S = TypeVar("S")


class NamespacedFunction(KeyedProcessFunction):
    """A function whose timers, and some of whose states, belong to a key and a namespace.

    Before it uses one of them it says which namespace: `runtime_context.current.namespace = ...`,
    in the form that `namespace_type.freeze_key` gives.  When a timer fires, the namespace it was
    registered in is the current one.  `open` is given a `NamespacedRuntimeContext`.
    """

    namespace_type: TypeInformation
    """Of the namespaces; what is written down is read with the same one only."""

    def uses_processing_timers(self, registers: Callable[[object], bool]) -> bool:
        """Whether it registers processing-time timers.

        A host that has to know cannot tell it from the code of a program, which can do both.

        Args:
            registers: Tells it of an object by the code of its class.
        """
        raise NotImplementedError

    def called(self) -> str:
        """What messages call the function: by the user's own one, where there is one."""
        return type(self).__qualname__

    def failed_call(self, error: BaseException, method: str) -> tuple[str, str]:
        """Which call of the user's code raised, and where, for a message.

        Args:
            error: What was raised.
            method: Of this function, in which it was.

        Returns:
            For example "Ratio.process", and a text such as "window TimeWindow(...)", or "".
        """
        del error
        return f"{self.called()}.{method}", ""

    hidden_state: str = ""
    """Name of a state that the user did not declare, and of which messages do not speak."""


class NamespacedTimerService(TimerService):
    """The clock, and the timers of the current key and namespace."""

    @abstractmethod
    def has_event_time_timer(self, timestamp: int) -> bool:
        """Whether that timer, in ms, is registered."""


class NamespacedRuntimeContext(RuntimeContext):
    """What such a function is opened with.

    Its other states (`get_state` and so on) belong to the key alone, as those of any function.
    """

    current: CurrentKey
    """Has the current key, and takes the current namespace."""
    timers: NamespacedTimerService
    """The clock, and the timers of the current key and namespace."""

    @abstractmethod
    def get_partitioned_state(
        self,
        name: str,
        state_descriptor: StateDescriptor[S],
        kind: str | None = None,
        settings: Sequence[Setting] = (),
    ) -> S:
        """The state of the current key and the current namespace.

        Args:
            name: Of its table, unique among all states of the function.
            state_descriptor: The rest of its declaration; its own name is for messages.
            kind: What it is called where it is written down; what was written as another kind is
                refused.  By default that of the descriptor.
            settings: What else must stay as it was.

        Raises:
            DeclarationError: The name is taken by a state that is declared otherwise.
            IncompatibleStateError: What was restored under the name does not fit.
        """

    @abstractmethod
    def reserve(self, state_descriptor: StateDescriptor) -> None:
        """Keep a state of the key to the program: a user who declares one of that name is refused.

        Args:
            state_descriptor: The very object that the program itself obtains the state with.
        """

    @abstractmethod
    def merge_namespaces(self, name: str, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move what the current key has in some namespaces of a state into another one.

        Args:
            name: Of the state's table, which was obtained before.
            target: Gets the contents, frozen.
            sources: Lose them.

        Raises:
            DeclarationTypeError: It is not a list, reducing or aggregating state.
        """
