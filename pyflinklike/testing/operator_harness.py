# SPDX-License-Identifier: Apache-2.0
"""The common part of the harnesses of all kinds of functions.

A harness makes one operator over one key group, opens it, gathers its outputs, and lets tests look
into its state.  A subclass gives it elements and moves its watermark.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict, TypeVar, runtime_checkable

import attrs

from pyflinklike._changelog.entry_codec import encode_entries
from pyflinklike._changelog.key_group_state import KeyGroupState, LocalStateBackend
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike._changelog.snapshot_division import with_keys_of
from pyflinklike._checks import collect, is_int, is_int64, options_shown
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._messages import instance_of, short_repr, shown_error
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.failure_snapshot import FailedCall, read_failure_snapshot
from pyflinklike._runtime.function_kinds import (
    classes_of,
    harness_for,
    kind_of,
    make_keyed_operator,
)
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import ElementBundles
from pyflinklike._runtime.user_errors import where_raised
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateAccessError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.functions.code_search import warn_of_slips
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import refuse_checkpointed_function
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import check_call, check_methods
from pyflinklike.state.table import TableChanges
from pyflinklike.types import TypeInformation
from pyflinklike.types.key_codec import AnyKeyTypeInfo
from pyflinklike.types.pickled_type import pickle_allowed

T = TypeVar("T")
H = TypeVar("H", bound="OperatorHarness")


class HarnessOptions(TypedDict, total=False):
    """The options that all harnesses take by keyword."""

    state_backend: StateBackend | None
    restore: bytes | SavedState | None
    max_parallelism: int
    key_type: TypeInformation | None
    job_parameters: Mapping[str, str] | None
    allow_pickle: bool
    on_error: DeadLetters | None


@runtime_checkable
class SavedState(Protocol):
    """The state and timers of one operator; `open_savepoint` finds them in a directory."""

    def segment(self) -> Segment:
        """Return all entries as one snapshot."""

    def record(self) -> OperatorRecord:
        """Return the declarations of the operator and its states."""


@attrs.frozen
class HarnessState:
    """The contents of a harness, for a savepoint.

    Args:
        snapshot: All entries and timers, as one segment.
        states: The declarations of the states of the function, and of further states that a
            restored savepoint has.
        function: The name of the function's class.
        key_type: The type of the keys.
        key_columns: The names of the columns that make the key, for elements that come as columns.
        former: The operator record of the restored savepoint; None without one.
    """

    snapshot: Segment
    states: Mapping[str, Mapping[str, Any]]
    function: str
    key_type: TypeInformation
    key_columns: Sequence[str]
    former: OperatorRecord | None


@attrs.frozen(kw_only=True)
class HarnessSettings:
    """The options of one harness, in the order in which signatures show them.

    Args:
        state_backend: The backend that keeps state; None for `HashMapStateBackend()`.
        restore: The result of `snapshot` or `open_savepoint`; None for no state.
        max_parallelism: The number that the runtime context reports.
        key_type: The type of the keys; None for keys of any type.
        job_parameters: The values for `get_job_parameter`, by name.
        allow_pickle: Whether state may be unpickled.
        on_error: Turns elements and timers on which the function raises into dead letters.  If
            None, the harness raises.
        failed: The failed call to repeat, whose task and key type the harness takes; None for a
            harness of the user.

    Raises:
        DeclarationTypeError: An option is of the wrong kind.
        DeclarationValueError: `max_parallelism` is below 1.
    """

    state_backend: StateBackend | None = None
    restore: bytes | SavedState | None = None
    max_parallelism: int = 128
    key_type: TypeInformation | None = None
    job_parameters: Mapping[str, str] | None = None
    allow_pickle: bool = True
    on_error: DeadLetters | None = None
    failed: FailedCall | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> HarnessSettings:
        """Collect the options of a harness.

        Raises:
            DeclarationTypeError, DeclarationValueError: An option is wrong, or unknown.
        """
        return collect(cls, options, HarnessOptions)

    def __attrs_post_init__(self) -> None:
        optional = type(None)
        _check_kind(self.state_backend, (StateBackend, optional), "state_backend is a StateBackend")
        rule = "restore takes the bytes that snapshot() returned, or open_savepoint(path)"
        _check_kind(self.restore, (bytes, SavedState, optional), rule)
        _check_kind(self.key_type, (TypeInformation, optional), "key_type is a TypeInformation")
        _check_kind(self.on_error, (DeadLetters, optional), "on_error is DeadLetters")
        _check_kind(self.max_parallelism, int, "max_parallelism is an int")
        if self.max_parallelism < 1:
            msg = f"max_parallelism must be at least 1, got {short_repr(self.max_parallelism)}"
            raise DeclarationValueError(f"{msg}; for example 128")


# `help` and editors show the options in the signature of a harness, and not only `**options`.
with_options = options_shown(HarnessOptions, HarnessSettings)


class OperatorHarness:
    """A harness that drives one function, synchronously; a subclass gives it elements.

    It starts at processing time 0 and watermark `MIN_WATERMARK`, also if it is restored.

    Args:
        function: The function under test; it is opened at once.
        options: The options of the user.
        broadcast_states: Descriptors of the broadcast input, if there is one.
        key_columns: Names of the columns that make the key, for elements that come as columns.

    Raises:
        DeclarationTypeError: The function is of the wrong kind.
        DeclarationValueError: Pickled state is declared, which `allow_pickle` refuses.
        CorruptStateError, IncompatibleStateError: The snapshot cannot be restored.
    """

    def __init__(
        self,
        function: Any,
        options: HarnessSettings,
        *,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]] = (),
        key_columns: Sequence[str] = (),
    ) -> None:
        own = {each.__name__ for each in type(self).__mro__}
        kinds = classes_of(lambda kind: kind.harness in own)
        names = " or ".join(each.__name__ for each in kinds)
        _check_kind(function, kinds, f"{names} is required")
        refuse_checkpointed_function(check_methods(function))
        warn_of_slips(function)
        key_type = options.key_type or AnyKeyTypeInfo()
        self._freeze_key = key_type.freeze_key
        state_backend = options.state_backend or HashMapStateBackend()
        name, failed = type(function).__name__, options.failed
        task = TaskInfo(
            name,
            max_parallelism=options.max_parallelism,
            job_parameters=dict(options.job_parameters or {}),
            key_columns=tuple((name, "any") for name in key_columns),
        )
        if failed is not None:
            task = _task_of(failed, function, task)
        self._failed = failed
        self._name = f"{name} on {state_backend}"
        self._function, self._key_type = name, key_type
        self._operator = make_keyed_operator(
            OperatorDeclaration(
                function,
                state_backend,
                key_type,
                task,
                # A new owner, so that no harness finds the cached state or files of another one.
                f"harness-{uuid.uuid4()}",
                broadcast_states=tuple(broadcast_states),
                allow_pickle=pickle_allowed(options.allow_pickle),
                on_error=options.on_error,
            )
        )
        restored = _restore(options.restore, key_type)
        if failed is not None:
            restored.state.read(failed.state, "the failure snapshot of a dead letter")
            clock = self._operator.clock
            clock.watermark = failed.facts.watermark
            clock.processing_time = failed.facts.processing_time
        self._former, self._key_columns = restored.record, tuple(key_columns)
        # Entered before `open`, so that states which the function declares find their entries.
        self._operator.group.enter(restored.state)
        self._operator.open()
        self._closed = False
        if failed is not None:
            self._check_fit(failed, function)
        self._batches = ElementBundles(self._operator)
        self._process_one = self._batches.process_one
        self._extensions = self._operator.extensions
        self._outputs = self._operator.outputs
        # On Spark the declared columns check side outputs; here only the types of the tags can.
        self._outputs.checks_tags = True
        self.output: list[Any] = []
        """Every main output so far, in order."""
        self._side_output: dict[str, list[Any]] = {}

    def __repr__(self) -> str:
        """Show the function, the backend, the clock, and the numbers of keys, timers and outputs."""
        what = "closed" if self._closed else _summary(self._operator)
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
                # The owner is unique to this harness, so its files on the disk are of no more use.
                if isinstance(self._operator.backend, LocalStateBackend):
                    self._operator.backend.discard()

    # Driving

    def end_batch(self) -> None:
        """End a batch of elements that were processed one by one.

        Calls that process many elements end a batch by themselves, and so does every thousandth
        element or timer.  A call that moves a clock does not: a backend on the disk would write to
        it at every move.

        Raises:
            SparkSetupError: The backend cannot keep its state on the local disk.
        """
        self._collect(self._open_operator().flush)

    def set_processing_time(self, processing_time: int) -> list[Any]:
        """Set the processing time in ms and fire its due timers; return their main outputs."""
        operator = self._open_operator()
        processing_time = check_time(processing_time, "a processing time", required=True)
        return self._move(operator.advance_processing_time, processing_time)

    def compact(self) -> None:
        """Drop expired entries in background cleanup, as a compaction of the changelog does."""
        self._collect(self._open_operator().cleanup.drop_expired)

    def replay(self) -> list[Any]:
        """Repeat the call that failed, in a harness that `of_failure` made.

        If the function raises again, its writes before that stay, so that you can look at them.

        Returns:
            The main outputs, if the function does not raise any more.

        Raises:
            Exception: The error that the function raises, unchanged.
            StateAccessError: `of_failure` did not make the harness; or the function reads the states
                of keys for a broadcast element, and the call that failed did not.
        """
        operator, failed = self._open_operator(), self._failed
        if failed is None:
            msg = f"replay() is for a harness of {type(self).__name__}.of_failure, got another one"
            raise StateAccessError(f"{msg}; make one from the failure snapshot of a dead letter")
        try:
            operator.repeat(failed)
        finally:
            main = self._outputs.move_to(self.output, self._side_output)
        return main

    def _check_fit(self, failed: FailedCall, function: Any) -> None:
        """Refuse a function whose declarations do not fit the failure snapshot."""
        try:
            failed.check(self._operator.group.specs, function)
        except IncompatibleStateError:
            self.close()
            raise

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

        Value, reducing and aggregating states have one entry per key, lists one per element, and
        maps one per entry.

        Raises:
            StateAccessError: The function has not declared such a state.
        """
        return sum(map(len, self._contents(name)))

    def num_keyed_state_bytes(self, name: str) -> int:
        """Count the bytes of the entries of a state in a snapshot, before it is compressed.

        Raises:
            StateAccessError: The function has not declared such a state.
        """
        contents, key_type = self._contents(name), self._operator.key_type
        return sum(sum(map(len, encode_entries(each, key_type))) for each in contents)

    def _contents(self, name: str) -> list[TableChanges]:
        operator = self._open_operator()
        assembled = operator.runtime_context.assembled
        if name not in assembled and not any(name in each for each in operator.extensions):
            msg = f"no state {name!r} is declared, got only {sorted(assembled)}; check the name"
            raise StateAccessError(msg)
        contents = operator.backend.contents()
        return [each for each in contents if each.spec.name == name and len(each)]

    def store(self, name: str, key: Any = None) -> Any:
        """Return a store, for reading and writing between calls.

        Until the next call of the harness, `key` is the current key.  Your writes stay, and the
        next call logs them.

        Args:
            name: The name of the store in its descriptor.
            key: Key of the store; not needed if all keys share it (scope "partition").

        Raises:
            UnknownStoreError: The function has not declared such a store.
            StateValueError: The key is of a type that cannot be a key.
        """
        operator = self._open_operator()
        store = operator.store(name)
        shared = key is None and store.scope == "partition"
        operator.current.key = GROUP_KEY if shared else operator.frozen_key(key)
        return store

    def num_event_time_timers(self) -> int:
        """Count the event timers that are registered, over all keys."""
        return self._open_operator().event_timers.count()

    def num_processing_time_timers(self) -> int:
        """Count the processing timers that are registered, over all keys."""
        return self._open_operator().processing_timers.count()

    def metrics(self) -> dict[str, Any]:
        """Return the function's metrics by name."""
        return self._operator.runtime_context.get_metrics_group().snapshot()

    def snapshot(self) -> bytes:
        """Return all state and timers, for `restore`; nothing changes here."""
        self.end_batch()
        return self._operator.snapshot()

    def state_to_save(self) -> HarnessState:
        """Return all state and timers with their declarations, for `write_savepoint`."""
        operator = self._open_operator()
        # As in `OperatorRecord.after`: states that the program leaves out are still stored.
        former = {} if self._former is None else self._former.states
        return HarnessState(
            read_segment(self.snapshot(), "snapshot"),
            {**former, **operator.describe_states()},
            self._function,
            self._key_type,
            self._key_columns,
            self._former,
        )

    def _open_operator(self) -> KeyedProcessOperator:
        if self._closed:
            msg = "a harness can be used until it is closed, got a call after close()"
            raise StateAccessError(msg)
        return self._operator

    def _key_of(self, value: Any, key_selector: Callable[[Any], Any]) -> Any:
        try:
            key = key_selector(value)
        except Exception as error:
            raised = f"{shown_error(error)}{where_raised(error)}"
            msg = f"key_selector failed for element {short_repr(value)}: {raised}"
            raise UserFunctionError(msg) from error
        return self._operator.frozen_key(None) if key is None else self._freeze_key(key)

    def _process_and_collect(self, key: Any, value: Any, timestamp: int | None) -> list[Any]:
        try:
            self._process_one(key, value, timestamp)
            # Not by `flush` of the operator: this runs for every element, most often without
            # stores.
            for each in self._extensions:
                each.flush()
        finally:
            main = self._outputs.move_to(self.output, self._side_output)
        return main

    def _collect(self, drive: Callable[..., None], *arguments: Any) -> list[Any]:
        try:
            drive(*arguments)
            self._batches.end()
        finally:
            # Also if the call fails, so that the next call returns its own outputs only.
            main = self._operator.outputs.move_to(self.output, self._side_output)
        return main

    def _move(self, advance: Callable[[int], None], time: int) -> list[Any]:
        metrics = self._operator.metrics
        before = metrics.timers_fired
        try:
            advance(time)
            self._batches.flush_after_move(metrics.timers_fired - before)
        finally:
            main = self._operator.outputs.move_to(self.output, self._side_output)
        return main


def settings_of_failure(
    failure_snapshot: Any,
    state_backend: StateBackend | None,
    job_parameters: Mapping[str, str] | None,
    allow_pickle: bool,
) -> HarnessSettings:
    """Return the settings of a harness with the state before a call that became a dead letter."""
    failed = read_failure_snapshot(failure_snapshot, allow_pickle=pickle_allowed(allow_pickle))
    return HarnessSettings(
        state_backend=state_backend,
        max_parallelism=failed.facts.max_parallelism,
        key_type=failed.key_type,
        job_parameters=job_parameters,
        allow_pickle=allow_pickle,
        failed=failed,
    )


def key_of_failure(options: HarnessSettings) -> Callable[[Any], Any]:
    """Return a key selector that gives every element the key of the failed call."""
    assert options.failed is not None
    called = options.failed.called
    key = options.failed.key_type.thaw_key(called.key) if called.has_key else None
    return lambda _: key


def _task_of(failed: FailedCall, function: Any, task: TaskInfo) -> TaskInfo:
    """Return the task of a call that failed.

    Raises:
        IncompatibleStateError: The function has other inputs than the function that failed.
    """
    facts, inputs = failed.facts, kind_of(function).inputs
    if facts.inputs != inputs:
        msg = (
            f"the failure snapshot of a call of {facts.function} takes a function of {facts.inputs}, got "
            f"{type(function).__name__} of {inputs}; give the function that failed, to "
            f"{harness_for(facts.inputs)}.of_failure"
        )
        raise IncompatibleStateError(msg)
    return attrs.evolve(
        task,
        name=facts.operator,
        index=facts.index,
        parallelism=facts.parallelism,
        max_parallelism=facts.max_parallelism,
        attempt=facts.attempt,
        key_columns=tuple(facts.key_columns),
        batch=facts.batch,
    )


@attrs.frozen
class _Restored:
    """The state and declarations that a harness begins with.

    Args:
        state: The working state of its only key group.
        record: The operator record of a savepoint; None for a snapshot, which lacks a record.
    """

    state: KeyGroupState
    record: OperatorRecord | None = None


def check_key_selector(key_selector: Any, name: str) -> None:
    """Refuse a key selector that cannot be called.

    Args:
        key_selector: The argument of the harness.
        name: The name of that argument, for messages.

    Raises:
        DeclarationTypeError: It cannot be called with an element.
    """
    _check_kind(key_selector, Callable, f"{name} should be a callable function")
    check_call(key_selector, name, ["value"])


def _check_kind(given: Any, kind: Any, rule: str) -> None:
    # A bool is an int to Python, but max_parallelism=True is a mistake.
    if not isinstance(given, kind) or isinstance(given, bool):
        msg = f"{rule}, got {short_repr(given)}; {instance_of(kind, given, 'give an instance')}"
        raise DeclarationTypeError(msg)


def check_time(time: Any, what: str, *, required: bool = False) -> Any:
    """Return a time in ms as it was given.

    Args:
        time: An int in ms, or None if that is allowed.
        what: The owner of the time, for messages, such as "a watermark".
        required: Whether None is refused.

    Raises:
        StateValueError: The time is not an int of 64 bits.
    """
    if time is None and not required:
        return None
    if not is_int(time):
        msg = f"{what} must be an int of ms, got {short_repr(time)}; convert it"
        raise StateValueError(msg)
    if not is_int64(time):
        msg = f"{what} must fit in 64 bits, got {short_repr(time)}; it is in ms"
        raise StateValueError(msg)
    return time


def _restore(restored: bytes | SavedState | None, key_type: TypeInformation) -> _Restored:
    """Return the state and declarations that a harness begins with.

    Args:
        restored: A snapshot, or the savepoint of one operator; None for no state.
        key_type: The type that the keys of the harness have.

    Raises:
        CorruptStateError: The snapshot is damaged.
        IncompatibleStateError: A key in it does not fit the type.
        StateValueError: A value in a savepoint does not fit its type.
        UnknownStateError: A savepoint has several operators.
    """
    state, record = KeyGroupState(0), None
    if restored is None:
        return _Restored(state)
    if isinstance(restored, bytes):
        segment = read_segment(restored, "snapshot")
    else:
        segment, record = restored.segment(), restored.record()
    state.read(with_keys_of(segment, key_type, "snapshot"), "snapshot")
    return _Restored(state, record)


_NAMED = {MIN_WATERMARK: "MIN_WATERMARK", MAX_WATERMARK: "MAX_WATERMARK"}


def _summary(operator: KeyedProcessOperator) -> str:
    """Return the clock and the numbers of keys and timers.

    A key counts while it has state or a timer, or an entry that expired and is not yet cleaned up.
    """
    # No keys and values: the `__repr__` of a user's class may raise, or show secrets.
    clock = operator.clock
    keys = {key for each in operator.backend.contents() for key in each.keys}
    return (
        f"processing_time={clock.processing_time}, "
        f"watermark={_NAMED.get(clock.watermark, clock.watermark)}, "
        f"keys={len(keys - {GROUP_KEY})}, "
        f"event_time_timers={operator.event_timers.count()}, "
        f"processing_time_timers={operator.processing_timers.count()}"
    )
