# SPDX-License-Identifier: Apache-2.0
"""Contexts of a `KeyedBatchFunction`: its states in `open`, and `ctx` with every batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pyflinklike.api.column_timers import ColumnTimerService
from pyflinklike.api.keyed_batch import KeyedBatchFunction
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.columns.map_state import ColumnMapState
from pyflinklike.columns.state import ColumnState
from pyflinklike.columns.table import BatchRows
from pyflinklike.columns.ttl import TtlColumns
from pyflinklike.columns.user_keys import user_key_column
from pyflinklike.columns.values import value_column
from pyflinklike.errors import DeclarationTypeError, StateAccessError
from pyflinklike.runtime.contexts import OperatorRuntimeContext
from pyflinklike.shown import shown
from pyflinklike.state.assembly import Assembled
from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor
from pyflinklike.state.table import Shape, TableSpec

__all__ = ["BatchContext", "ColumnarRuntimeContext"]


class ColumnarRuntimeContext(OperatorRuntimeContext, KeyedBatchFunction.OpenContext):
    """An `OperatorRuntimeContext` whose states are columns; its backend has column tables."""

    batch: BatchRows
    """The keys of the batch; assigned before `open`."""

    def get_column_state(self, state_descriptor: StateDescriptor[Any]) -> ColumnState:
        """Return the declared state as columns: the same object for the same declaration."""
        if not isinstance(state_descriptor, StateDescriptor):
            msg = (
                f"get_column_state takes a state descriptor, got {shown(state_descriptor)}; for "
                "example ValueStateDescriptor(name, Types.LONG())"
            )
            raise DeclarationTypeError(msg)
        if state_descriptor.shape is not Shape.SINGLE:
            msg = (
                f"state {state_descriptor.name!r}: a column state is a value, reducing or "
                f"aggregating state, got a {state_descriptor.kind} state; keep one value per key, "
                "use get_column_map_state for a map, or a KeyedProcessFunction"
            )
            raise DeclarationTypeError(msg)
        state: ColumnState = self._get(state_descriptor, StateDescriptor)
        return state

    def get_column_map_state(self, state_descriptor: MapStateDescriptor[Any, Any]) -> Any:
        """Return the declared map state as columns: the same object for the same declaration."""
        if not isinstance(state_descriptor, MapStateDescriptor):
            msg = (
                "get_column_map_state takes a MapStateDescriptor, got "
                f"{shown(state_descriptor)}; get_column_state takes descriptors of one value"
            )
            raise DeclarationTypeError(msg)
        return self._get(state_descriptor, MapStateDescriptor)

    def get_store(self, store_descriptor: Any) -> Any:
        """Refuse: stores are not columns."""
        self._refuse("a store", store_descriptor)

    def get_state(self, state_descriptor: Any) -> Any:
        """Refuse, as for every state that is read and written key by key."""
        self._refuse("get_state", state_descriptor)

    def get_list_state(self, state_descriptor: Any) -> Any:
        """Refuse: its entries are read and written key by key."""
        self._refuse("get_list_state", state_descriptor)

    def get_map_state(self, state_descriptor: Any) -> Any:
        """Refuse: its entries are read and written key by key."""
        self._refuse("get_map_state", state_descriptor)

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        """Refuse: its entries are read and written key by key."""
        self._refuse("get_reducing_state", state_descriptor)

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        """Refuse: its entries are read and written key by key."""
        self._refuse("get_aggregating_state", state_descriptor)

    def _refuse(self, what: str, descriptor: Any) -> NoReturn:
        msg = (
            f"a KeyedBatchFunction has its state in columns, got {what} of {shown(descriptor)}; "
            "use get_column_state, or a KeyedProcessFunction"
        )
        raise DeclarationTypeError(msg)

    def _made(self, descriptor: StateDescriptor[Any], spec: TableSpec) -> Any:
        assert spec.value_type is not None
        column = value_column(descriptor.name, spec.value_type)
        backend: Any = self._backend
        config, ttl = descriptor.ttl_config, None
        user_keys = None
        if spec.shape is Shape.MAP:
            assert spec.user_key_type is not None
            user_keys = user_key_column(descriptor.name, spec.user_key_type)
        table = backend.column_table(spec)
        if config is not None:
            ttl = TtlColumns(table, config, self._clock, self.batch)
            if ttl.sweeps_every_record:
                self.before_every_call.append(ttl.sweep_some)
        parts = (column, self.batch, ttl)
        state: Any = (
            ColumnState(descriptor.name, table, *parts)
            if user_keys is None
            else ColumnMapState(descriptor.name, table, user_keys, *parts)
        )
        made = Assembled(type(descriptor), descriptor._declaration(), state, ttl, table)
        self.assembled[spec.name] = made
        self._on_table(spec)
        return state


class BatchContext(KeyedBatchFunction.OnTimersContext):
    """The context of `process_batch` and `on_timers`; one object serves all calls.

    Args:
        emit: Takes the rows of a side output.
        timers: The service for the batch's keys.
    """

    def __init__(
        self, clock: Clock, emit: Callable[[OutputTag, Any], None], timers: ColumnTimerService
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._timers = timers
        self.domain: TimeDomain | None = None
        """The domain of the timers that fire; None while records are processed."""

    def timer_service(self) -> ColumnTimerService:
        """Return the service with the clock and the timers of the batch's keys."""
        return self._timers

    def time_domain(self) -> TimeDomain:
        """Return the domain of the timers that fire.

        Raises:
            StateAccessError: No timers fire.
        """
        if self.domain is None:
            msg = "a time domain belongs to timers, got a call outside on_timers"
            raise StateAccessError(msg)
        return self.domain

    def current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._clock.watermark

    def output(self, tag: OutputTag, columns: Any) -> None:
        """Emit rows to a side output.

        Raises:
            OutputError: The rows are not columns, or the tag is no `OutputTag`.
        """
        self._emit(tag, columns)
