# SPDX-License-Identifier: Apache-2.0
"""State and timers that belong to a pair: the key, and a namespace of it, such as a window.

They are for programs of this library, such as the window operator.  Users of such a program see its
own names: `window_state()`, or `get_partitioned_state` of a trigger.
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

    Before it uses one of them it sets the namespace, `runtime_context.current.namespace = ...`, in
    the form that `namespace_type.freeze_key` returns.  When a timer fires, the namespace in which
    it was registered is the current one.  `open` receives a `NamespacedRuntimeContext`.
    """

    namespace_type: TypeInformation
    """The type of the namespaces; stored state is read with the same type only."""

    def uses_processing_timers(self, registers: Callable[[object], bool]) -> bool:
        """Return whether the function registers processing-time timers.

        A program can do both, so its own code does not say which; the host has to know.

        Args:
            registers: Says of an object whether the code of its class registers them.
        """
        raise NotImplementedError

    def called(self) -> str:
        """Return the function's name in messages: that of the user's own function, if any."""
        return type(self).__qualname__

    def failed_call(self, error: BaseException, method: str) -> tuple[str, str]:
        """Return which call of the user's code raised, and where, for a message.

        Args:
            error: What was raised.
            method: The method of this function that was running.

        Returns:
            For example "Ratio.process", and a text such as "window TimeWindow(...)", or "".
        """
        del error
        return f"{self.called()}.{method}", ""

    hidden_state: str = ""
    """The name of a state that the user did not declare; messages do not mention it."""


class NamespacedTimerService(TimerService):
    """The clock, and the timers of the current key and namespace."""

    @abstractmethod
    def has_event_time_timer(self, timestamp: int) -> bool:
        """Return whether a timer for that time, in ms, is registered."""


class NamespacedRuntimeContext(RuntimeContext):
    """The context with which a `NamespacedFunction` is opened.

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
        """Return the state of the current key and the current namespace.

        Args:
            name: The name of its table, unique among all states of the function.
            state_descriptor: The rest of its declaration; its own name is for messages.
            kind: The kind of state under which it is stored; state of another kind is refused.
                None takes that of the descriptor.
            settings: Other parts of the declaration that must not change between runs.

        Raises:
            DeclarationError: The name is taken by a state that is declared otherwise.
            IncompatibleStateError: The state restored under the name does not fit.
        """

    @abstractmethod
    def reserve(self, state_descriptor: StateDescriptor) -> None:
        """Reserve a state of the key for the program: a user's declaration of that name is refused.

        Args:
            state_descriptor: The very object with which the program itself obtains the state.
        """

    @abstractmethod
    def merge_namespaces(self, name: str, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move the current key's contents of some namespaces of a state into another one.

        Args:
            name: The name of the state's table, which was obtained before.
            target: The namespace that receives the contents, frozen.
            sources: The namespaces that lose them, frozen.

        Raises:
            DeclarationTypeError: It is not a list, reducing or aggregating state.
        """
