# SPDX-License-Identifier: Apache-2.0
"""The fold of all elements of a key into one.

In Flink `KeyedStream.reduce` emits the fold so far for every element on a stream.  In batch mode it
emits only the last fold of each key, at the end of the input.  `running` chooses between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from pyflinklike.api.context import RuntimeContext
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.functions import ReduceFunction, as_reduce_function
from pyflinklike.shown import shown
from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.state.folding import field_of_fold
from pyflinklike.state.table import Setting, TableSpec
from pyflinklike.types import TypeInformation, Types

__all__ = ["Fold"]

# PyFlink's name of this state ends in a random uuid, so no job could find its state at a restart.
_STATE = "_reduce_state"


class Fold(KeyedProcessFunction):
    """Folds the elements of each key, as `KeyedStream.reduce` of PyFlink does.

    The first element of a key is the key's first fold, unchanged.  The function's `open` and
    `close` are called, and it may have keyed state of its own.

    Args:
        function: A `ReduceFunction`, such as `Sum("amount")`, or a callable of two elements.
        type_info: The type of the elements; by default anything that pickles.
        running: Whether each element emits the fold so far.  Otherwise each key emits its fold
            once, when the watermark comes to `MAX_WATERMARK`: at the end of the input.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
    """

    def __init__(
        self,
        function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: TypeInformation | None = None,
        *,
        running: bool = True,
    ) -> None:
        self._function = as_reduce_function(function)
        if not isinstance(running, bool):
            msg = f"running must be True or False, got {shown(running)}"
            raise DeclarationTypeError(msg)
        self._running = running
        type_info = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info
        self._descriptor = _FoldDescriptor(_STATE, type_info, self._function, running=running)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function, and obtain the state."""
        self._function.open(runtime_context)
        self._fold = runtime_context.get_state(self._descriptor)

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Fold one element in."""
        known = self._fold.value()
        if known is not None:
            value = self._function.reduce(known, value)
        elif not self._running:
            ctx.timer_service().register_event_time_timer(MAX_WATERMARK)
        if value is None:
            msg = (
                "an element and the fold of two are never None, got None for key "
                f"{shown(ctx.get_current_key())}; filter such elements out, and see that the "
                "function returns what it made"
            )
            raise StateValueError(msg)
        self._fold.update(value)
        return (value,) if self._running else None

    def on_timer(
        self,
        timestamp: int,  # noqa: ARG002
        ctx: KeyedProcessFunction.OnTimerContext,  # noqa: ARG002
    ) -> Iterator[Any]:
        """Emit the fold at the end of the input, and clear it."""
        yield self._fold.value()
        self._fold.clear()


class _FoldDescriptor(ValueStateDescriptor[Any]):
    """Declares the value of a fold and its function, so that a maximum is refused a sum's state.

    Args:
        name: The name of the state.
        type_info: The type of the elements.
        function: The function that folds; functions of users cannot be told from each other.
        running: Whether each element emits the fold.
    """

    def __init__(
        self,
        name: str,
        type_info: TypeInformation,
        function: ReduceFunction[Any],
        *,
        running: bool,
    ) -> None:
        super().__init__(name, type_info)
        # Instances differ here, which the class variable of other descriptors does not allow for.
        vars(self)["kind"] = function.fixed() or "reduce"
        self._field = field_of_fold(function, type_info)
        # A restart must not change this: known keys would lack the timer for the end of the input,
        # or have one although they have emitted all their folds.
        self._gives_out = Setting(
            "when a key gives out its fold",
            "with each element" if running else "at the end of the input",
            remedy=f"pass running={not running}, or begin a new checkpoint",
        )

    def spec(self) -> TableSpec:
        """Return what the backend and the log need to know."""
        own = super().spec()
        return attrs.evolve(own, settings=(*own.settings, self._gives_out, *self._field))
