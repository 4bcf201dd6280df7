# SPDX-License-Identifier: Apache-2.0
"""`Fold`: one element per key, into which all elements of the key are folded.

In Flink `KeyedStream.reduce` gives out the fold so far for every element on a stream, and in
batch mode only the last one of each key, at the end of the input.  Both are here, by `running`.
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

# PyFlink's name for it has a random end, so that no job can be restored (its ends in a uuid).
_STATE = "_reduce_state"


class Fold(KeyedProcessFunction):
    """Folds the elements of each key, as `KeyedStream.reduce` of PyFlink.

    The first element of a key is its fold, as it is.  The function's `open` and `close` are
    called, and it may have keyed state of its own.

    Args:
        function: A `ReduceFunction`, such as `Sum("amount")`, or a callable of two elements.
        type_info: Of the elements; by default anything that pickles.
        running: Whether each element gives out the fold so far.  Otherwise each key gives out
            its fold once, when the watermark comes to `MAX_WATERMARK`: at the end of the input.

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
        """The input is over: give out the fold, which is not needed any more."""
        yield self._fold.value()
        self._fold.clear()


class _FoldDescriptor(ValueStateDescriptor[Any]):
    """A value that says what it is the fold of: the state of a sum is refused to a maximum.

    Args:
        name: Of the state.
        type_info: Of the elements.
        function: That folds; one of the user's own cannot be told from another.
        running: Whether each element gives out the fold.  A key that was known before has no timer
            for the end, or has one though it gave out all of its folds.
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
        self._gives_out = Setting(
            "when a key gives out its fold",
            "with each element" if running else "at the end of the input",
            remedy=f"pass running={not running}, or begin a new checkpoint",
        )

    def spec(self) -> TableSpec:
        """What the backend and the log need to know."""
        own = super().spec()
        return attrs.evolve(own, settings=(*own.settings, self._gives_out, *self._field))
