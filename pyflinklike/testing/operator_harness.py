# SPDX-License-Identifier: Apache-2.0
"""The common part of the harnesses of all kinds of functions.

A harness makes one operator over one key group, opens it, gathers its outputs, and lets tests look
into its state.  A subclass gives it elements and moves its watermark.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.errors import StateAccessError, UserFunctionError
from pyflinklike.log.backend import LocalStateBackend
from pyflinklike.log.entries import encode_entries
from pyflinklike.log.segments import read_segment
from pyflinklike.runtime.assembly import keyed_process_operator
from pyflinklike.runtime.batches import Batches
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.runtime.raised import where_raised
from pyflinklike.shown import shown, shown_error
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.table import TableChanges
from pyflinklike.testing.arguments import check_arguments, checked_time, restored_state
from pyflinklike.testing.saving import write_savepoint
from pyflinklike.testing.summary import summary
from pyflinklike.types import TypeInformation
from pyflinklike.types.keys import AnyKeyTypeInfo
from pyflinklike.types.pickle_switch import pickle_allowed

__all__ = ["OperatorHarness"]

T = TypeVar("T")
H = TypeVar("H", bound="OperatorHarness")


class OperatorHarness:
    """A harness that drives one function, synchronously; a subclass gives it elements.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, restored or not.

    Args:
        function: The function under test; it is opened at once.
        kinds: The classes of functions that this harness drives.
        state_backend: Where state is kept; `HashMapStateBackend()` by default.
        restore: What `snapshot` returned, or the directory of a savepoint; None for no state.
        max_parallelism: The number that the runtime context reports.
        key_type: Type of the keys; None for keys of any type.
        job_parameters: Values for `get_job_parameter`, by name.
        broadcast_states: Descriptors of the broadcast input, if there is one.
        key_columns: Names of the columns that make the key, for elements that come as columns.
        allow_pickle: Whether state may be unpickled.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: Pickled state is declared, which `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: Any,
        kinds: tuple[type, ...],
        state_backend: StateBackend | None,
        restore: bytes | str | os.PathLike[str] | None,
        max_parallelism: int,
        key_type: TypeInformation | None,
        job_parameters: Mapping[str, str] | None,
        *,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]] = (),
        key_columns: Sequence[str] = (),
        allow_pickle: bool,
    ) -> None:
        check_arguments(function, kinds, state_backend, restore, key_type, max_parallelism)
        key_type = key_type or AnyKeyTypeInfo()
        self._freeze_key = key_type.freeze_key
        state_backend = state_backend or HashMapStateBackend()
        name, parameters = type(function).__name__, dict(job_parameters or {})
        self._name = f"{name} on {state_backend}"
        self._function, self._key_type = name, key_type
        self._operator = keyed_process_operator(
            function,
            state_backend,
            key_type,
            TaskInfo(
                name,
                max_parallelism=max_parallelism,
                job_parameters=parameters,
                key_columns=tuple((name, "any") for name in key_columns),
            ),
            # An owner of its own, so that no harness finds another's warm state or files.
            f"harness-{uuid.uuid4()}",
            broadcast_states=tuple(broadcast_states),
            allow_pickle=pickle_allowed(allow_pickle),
        )
        restored = restored_state(restore, key_type)
        self._former, self._key_columns = restored.record, tuple(key_columns)
        self._operator.enter(restored.state)
        self._operator.open()
        self._closed = False
        self._batches = Batches(self._operator)
        self._process_one = self._batches.process_one
        self._before = self._operator.runtime_context.before_every_call
        self._outputs = self._operator.outputs
        self.output: list[Any] = []
        """Every main output so far, in order."""
        self._side_output: dict[str, list[Any]] = {}

    def __repr__(self) -> str:
        """Show the function, the backend, the clock, and how much there is, but no values."""
        what = "closed" if self._closed else summary(self._operator)
        return f"<{type(self).__name__} of {self._name}: {what}, outputs={len(self.output)}>"

    def __enter__(self: H) -> H:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the function; calling it again does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._operator.close()
            finally:
                # Nobody can ask for this harness's files on the disk.
                if isinstance(self._operator.backend, LocalStateBackend):
                    self._operator.backend.discard()

    # Driving

    def end_batch(self) -> None:
        """End a batch of elements that were processed one by one.

        Calls that process many elements end a batch by themselves, and so does every thousandth
        element or
        timer.  A call that moves a clock ends none: a backend on the disk would write to it at
            every move.

        Raises:
            HostError: The backend cannot keep its state on the local disk.
        """
        self._collected(self._running().stores.flush)

    def set_processing_time(self, processing_time: int) -> list[Any]:
        """Set the processing time in ms and fire its due timers; return their main outputs."""
        operator = self._running()
        processing_time = checked_time(processing_time, "a processing time", required=True)
        return self._moved(operator.advance_processing_time, processing_time)

    def compact(self) -> None:
        """Drop expired entries in background cleanup, as a compaction of the changelog does."""
        self._collected(self._running().cleanup.drop_expired)

    # Observing

    def side_output(self, tag: OutputTag[T]) -> list[T]:
        """Return every value that went to a side output so far, in order."""
        return self._side_output.setdefault(tag.tag_id, [])

    @property
    def processing_time(self) -> int:
        """The processing time in ms."""
        return self._operator.clock.processing_time

    @property
    def watermark(self) -> int:
        """The watermark in ms."""
        return self._operator.clock.watermark

    def num_keyed_state_entries(self, name: str) -> int:
        """Count the entries of a state over all keys, expired ones not yet cleaned included.

        That is one per key for value, reducing and aggregating state, one per element of a list and
        one per entry of a map.

        Raises:
            StateAccessError: The function has not declared such a state.
        """
        return sum(map(len, self._contents(name)))

    def num_keyed_state_bytes(self, name: str) -> int:
        """Count the bytes that these entries take in a snapshot, before it is compressed.

        Raises:
            StateAccessError: The function has not declared such a state.
        """
        contents, key_type = self._contents(name), self._operator.key_type
        return sum(sum(map(len, encode_entries(each, key_type))) for each in contents)

    def _contents(self, name: str) -> list[TableChanges]:
        operator = self._running()
        assembled = operator.runtime_context.assembled
        if name not in assembled and name not in operator.stores:
            msg = f"no state {name!r} is declared, got only {sorted(assembled)}; check the name"
            raise StateAccessError(msg)
        contents = operator.backend.contents()
        return [each for each in contents if each.spec.name == name and len(each)]

    def store(self, name: str, key: Any = None) -> Any:
        """Return a store, to be looked into or written between calls.

        Until the next call of the harness, `key` is the current key.  Whatever is written stays,
        and that call logs it.

        Args:
            name: The name it was declared with.
            key: Key of the store; not needed where all keys share it (scope "partition").

        Raises:
            UnknownStoreError: The function has not declared such a store.
            StateValueError: The key is of a type that cannot be a key.
        """
        operator = self._running()
        store = operator.stores.get(name)
        shared = key is None and store.scope == "partition"
        operator.current.key = GROUP_KEY if shared else operator.frozen_key(key)
        return store

    def num_event_time_timers(self) -> int:
        """Count the event timers that are registered, over all keys."""
        return self._running().event_timers.count()

    def num_processing_time_timers(self) -> int:
        """Count the processing timers that are registered, over all keys."""
        return self._running().processing_timers.count()

    def metrics(self) -> dict[str, Any]:
        """Return the function's metrics by name."""
        return self._operator.runtime_context.get_metrics_group().snapshot()

    def snapshot(self) -> bytes:
        """Return all state and timers, for `restore`; nothing changes here."""
        self.end_batch()
        return self._operator.snapshot()

    def savepoint(self, path: str | os.PathLike[str], *, mode: str = "error") -> None:
        """Write all state and timers as a directory of Parquet files; nothing changes here.

        The savepoint also has restored states that the function does not declare.

        Args:
            path: The directory to write, for `restore`, `process(..., from_savepoint=...)` or any
                tool that reads Parquet.
            mode: "error", or "overwrite" to replace a savepoint that is there.

        Raises:
            DeclarationTypeError, DeclarationValueError: The path or the mode cannot be used.
            IncompatibleStateError: A snapshot was restored with states that the function does not
                declare: only a savepoint tells what these are.
        """
        write_savepoint(
            path,
            mode,
            self._running(),
            read_segment(self.snapshot(), "snapshot"),
            function=self._function,
            key_type=self._key_type,
            former=self._former,
            key_columns=self._key_columns,
        )

    def _running(self) -> KeyedProcessOperator:
        if self._closed:
            msg = "a harness can be used until it is closed, got a call after close()"
            raise StateAccessError(msg)
        return self._operator

    def _key_of(self, value: Any, key_selector: Callable[[Any], Any]) -> Any:
        try:
            key = key_selector(value)
        except Exception as error:
            raised = f"{shown_error(error)}{where_raised(error)}"
            msg = f"key_selector failed for element {shown(value)}: {raised}"
            raise UserFunctionError(msg) from error
        return self._operator.frozen_key(None) if key is None else self._freeze_key(key)

    def _processed(self, key: Any, value: Any, timestamp: int | None) -> list[Any]:
        try:
            self._process_one(key, value, timestamp)
            # Looked at first, for this runs for every element: without stores there is nothing to
            # flush.
            if self._before:
                self._operator.stores.flush()
        finally:
            main = self._outputs.move_to(self.output, self._side_output)
        return main

    def _collected(self, drive: Callable[..., None], *arguments: Any) -> list[Any]:
        try:
            drive(*arguments)
            self._batches.end()
        finally:
            # Also of a call that fails, so that the next one returns its own outputs only.
            main = self._operator.outputs.move_to(self.output, self._side_output)
        return main

    def _moved(self, advance: Callable[[int], None], time: int) -> list[Any]:
        metrics = self._operator.metrics
        before = metrics.timers_fired
        try:
            advance(time)
            self._batches.moved(metrics.timers_fired - before)
        finally:
            main = self._operator.outputs.move_to(self.output, self._side_output)
        return main
