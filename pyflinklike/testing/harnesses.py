# SPDX-License-Identifier: Apache-2.0
"""Run a function with a broadcast input element by element, with a watermark for each input.

As Flink's `BroadcastOperatorTestHarness`.  Batches, backends and snapshots are as in
`KeyedProcessHarness`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyflinklike.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import shown
from pyflinklike.state.broadcast import ReadOnlyBroadcastState
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.testing.arguments import check_key_selector, checked_time
from pyflinklike.testing.operator_harness import OperatorHarness
from pyflinklike.testing.watermarks import InputWatermarks
from pyflinklike.type_vars import K, V
from pyflinklike.types import TypeInformation

__all__ = ["BroadcastHarness"]

_MAIN, _BROADCAST = 1, 2


class BroadcastHarness(OperatorHarness):
    """A harness that drives one function with a broadcast input, synchronously.

    It starts at processing time 0, and both inputs at watermark `MIN_WATERMARK`, restored or not.
    The operator's watermark is the smaller one of both, and never goes back.

    Args:
        function: A `KeyedBroadcastProcessFunction` or a `BroadcastProcessFunction`; it is opened at
            once.
        broadcast_states: The descriptors that `broadcast` would be given.
        key_selector: Returns the key of an element; for a keyed function only.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot` or `pyflinklike.spark.read_savepoint` returned.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; by default any str, number, date or tuple of these.
        job_parameters: Values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled, as of `process`.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: A broadcast state would expire, or pickled state is declared, which
            `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]],
        key_selector: Callable[[Any], Any] | None = None,
        *,
        state_backend: StateBackend | None = None,
        restore: bytes | None = None,
        max_parallelism: int = 128,
        key_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        allow_pickle: bool = True,
    ) -> None:
        self._key_selector = _checked(key_selector, function)
        super().__init__(
            function,
            (KeyedBroadcastProcessFunction, BroadcastProcessFunction),
            state_backend,
            restore,
            max_parallelism,
            key_type,
            job_parameters,
            broadcast_states=broadcast_states,
            allow_pickle=allow_pickle,
        )
        self._watermarks = InputWatermarks()

    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the input that is not broadcast.

        Args:
            value: The element.
            timestamp: Its event time in ms, if it has one.

        Returns:
            The main outputs of this call.

        Raises:
            UserFunctionError: The function or the key selector raised.
            StateValueError: The key is None or of a type that cannot be a key.
        """
        self._running()
        timestamp = checked_time(timestamp, "the timestamp of an element")
        selector = self._key_selector
        key = GROUP_KEY if selector is None else self._key_of(value, selector)
        return self._processed(key, value, timestamp)

    def process_broadcast_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element of the broadcast input; return the main outputs of this call.

        Args:
            value: The element.
            timestamp: Its event time in ms, if it has one.

        Raises:
            UserFunctionError: The function raised.
        """
        operator = self._running()
        timestamp = checked_time(timestamp, "the timestamp of an element")
        try:
            return self._collected(operator.process_broadcast, [(value, timestamp)])
        finally:
            # Each element is a task of its own: there are no other key groups to repeat it in.
            operator.end_task()

    def process_watermark(self, watermark: int) -> list[Any]:
        """Set the watermark in ms of the other input; return the main outputs of due timers."""
        return self._advance(_MAIN, watermark)

    def process_broadcast_watermark(self, watermark: int) -> list[Any]:
        """Set the broadcast input's watermark in ms; return the main outputs of due timers."""
        return self._advance(_BROADCAST, watermark)

    def process_both_watermarks(self, watermark: int) -> list[Any]:
        """Set both watermarks in ms; return the main outputs."""
        return self._advance(_MAIN, watermark) + self._advance(_BROADCAST, watermark)

    def end_of_input(self) -> list[Any]:
        """End the input that is not broadcast; return the main outputs."""
        return self._advance(_MAIN, MAX_WATERMARK)

    def end_of_broadcast_input(self) -> list[Any]:
        """End the broadcast input, so that the other watermark counts; return the main outputs."""
        return self._advance(_BROADCAST, MAX_WATERMARK)

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """Return a broadcast state, to be looked into between calls.

        Raises:
            DeclarationError: The state is not among `broadcast_states`.
        """
        return self._running().broadcast_states.to_read(state_descriptor)

    def _advance(self, number: int, watermark: int) -> list[Any]:
        operator = self._running()
        watermark = checked_time(watermark, "a watermark", required=True)
        least = self._watermarks.least(number, watermark)
        if least <= operator.clock.watermark:
            return []
        return self._moved(operator.advance_watermark, least)


def _checked(
    key_selector: Callable[[Any], Any] | None, function: Any
) -> Callable[[Any], Any] | None:
    """Return the key selector, if the function needs one.

    Raises:
        DeclarationTypeError: A keyed function has none, or one without keys has one.
    """
    if isinstance(function, BroadcastProcessFunction):
        if key_selector is None:
            return None
        msg = (
            f"a BroadcastProcessFunction has no keys, got key_selector={shown(key_selector)}; "
            "leave it out, or subclass KeyedBroadcastProcessFunction"
        )
        raise DeclarationTypeError(msg)
    check_key_selector(key_selector, "key_selector")
    return key_selector
