# SPDX-License-Identifier: Apache-2.0
"""The assembly of the operator of a `KeyedBatchFunction`: columns instead of tables, no stores.

Everything else is the code that other keyed functions run on: loading, commits, compaction,
cleanup, the nonce.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.columns.table import BatchRows
from pyflinklike.errors import DeclarationError, PyflinklikeError, UnknownStoreError
from pyflinklike.log.key_group_log import KeyGroupLog
from pyflinklike.runtime.batch_calls import BatchCalls, has_on_timers
from pyflinklike.runtime.batch_context import BatchContext, ColumnarRuntimeContext
from pyflinklike.runtime.batch_counters import ColumnMetrics
from pyflinklike.runtime.batch_keys import KeyColumns
from pyflinklike.runtime.batch_outputs import ColumnOutputs
from pyflinklike.runtime.batch_timer_service import KeyedColumnTimerService
from pyflinklike.runtime.batch_timers import ColumnTimerQueue
from pyflinklike.runtime.cleanup import StateCleanup
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.current_group import CurrentGroup
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.state.assembly import Assembled
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.types import TypeInformation
from pyflinklike.types.pickle_switch import check_pickled

__all__ = ["keyed_batch_operator"]


def keyed_batch_operator(
    function: Any,
    state_backend: StateBackend,
    key_type: TypeInformation,
    task: TaskInfo,
    owner: str,
    *,
    refused_timers: Mapping[TimeDomain, PyflinklikeError] | None = None,
    allow_pickle: bool = True,
) -> KeyedProcessOperator:
    """Make an operator whose function has its state in columns; it is not open yet.

    Args:
        function: A `KeyedBatchFunction`.
        state_backend: Makes the backend, which must have columns.
        key_type: The type of the keys; the key index has its Arrow type.
        task: The task that this instance serves; its name is the operator's.
        owner: A name of this operator in this query; operators do not share working state.
        refused_timers: Domains whose timers the host cannot fire, with the remedy.
        allow_pickle: Whether state may be unpickled.

    Raises:
        DeclarationValueError: The backend has no columns, or keys would have to be unpickled.
    """
    if not allow_pickle:
        check_pickled(f"operator {task.name!r}, keys", key_type)
    clock, current, metrics, outputs = Clock(), CurrentKey(), ColumnMetrics(), ColumnOutputs()
    backend = state_backend.create_columnar_state_backend(current, owner, key_type.arrow_type)
    batch = BatchRows()
    event_timers, processing_timers = (ColumnTimerQueue(domain, backend) for domain in TimeDomain)
    refused = _refused(function, refused_timers or {})
    timers = KeyedColumnTimerService(clock, event_timers, processing_timers, batch, refused)
    assembled: dict[str, Assembled[Any]] = {}
    cleanup = StateCleanup(assembled, clock)
    log = KeyGroupLog(backend, key_type, task.identity(key_type), cleanup, metrics)
    group = CurrentGroup(backend, log, assembled, timers.queues, allow_pickle=allow_pickle)
    stores = _NoStores()
    runtime = ColumnarRuntimeContext(task, backend, clock, assembled, group.declare, stores)
    runtime.batch = batch
    context: Any = BatchContext(clock, outputs.emit_side_columns, timers)
    before = runtime.before_every_call
    parts = (key_type, current, clock, context, before, metrics, outputs, backend, batch)
    key_columns = KeyColumns(key_type, [name for name, _ in task.key_columns])
    calls = BatchCalls(function, *parts, key_columns)
    return KeyedProcessOperator(clock, group, timers, calls, stores, cleanup, runtime, metrics)


def _refused(
    function: Any, refused: Mapping[TimeDomain, PyflinklikeError]
) -> Mapping[TimeDomain, PyflinklikeError]:
    """Return the domains whose timers cannot fire: all where the function has no `on_timers`."""
    if has_on_timers(function):
        return refused
    name = type(function).__qualname__
    msg = f"timers fire in on_timers, got {name} without it; add on_timers(self, batch, ctx)"
    return {domain: DeclarationError(msg) for domain in TimeDomain}


class _NoStores:
    """The `Extension` of an operator without stores: `open` and `get` raise, the others do nothing."""

    def __contains__(self, name: object) -> bool:
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def open(self, descriptor: Any) -> Any:
        """Raise always: `get_store` of the context refuses before it asks an extension."""
        raise NotImplementedError(descriptor)

    def get(self, name: str) -> Any:
        """Refuse every name.

        Raises:
            UnknownStoreError: Always.
        """
        msg = f"a KeyedBatchFunction has no stores, got {name!r}; use a KeyedProcessFunction"
        raise UnknownStoreError(msg)

    def declared(self) -> dict[str, dict[str, Any]]:
        """Return no declarations."""
        return {}

    def begin_call(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def drop_expired(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
