# SPDX-License-Identifier: Apache-2.0
"""The operator of a keyed function.  It knows neither its host nor the methods of the function.

Rule 1: everything that decides *what happens* (the current key, when timers fire) lives in the
operator and its invokers; hosts only translate.
Rule 2: no code here reads a clock, opens a socket or imports Spark.

A host makes one operator for a task by `make_keyed_operator`, and opens it.  Then for each key
group come these steps (`serve` takes them all):

    load      point the operator at the group's working state
    process   records, in order
    advance   the watermark or the processing time, which fires timers
    commit    log what changed

The operator gathers outputs until the host takes them.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from pyflinklike._changelog.key_group_log import KeyGroupLog
from pyflinklike._changelog.key_group_state import (
    KeyedStateBackend,
    KeyGroupState,
    LocalStateBackend,
)
from pyflinklike._changelog.log_storage import NO_LETTERS, NO_TIMES, Head, HeadTimes, LogStorage
from pyflinklike._changelog.segment_chain import join, sections_of
from pyflinklike._changelog.segments import Segment
from pyflinklike._clock import MAX_WATERMARK, Clock, TimeDomain
from pyflinklike._messages import shown_state
from pyflinklike._runtime.broadcast_invoker import BroadcastInvoker, BroadcastStates
from pyflinklike._runtime.call_contexts import (
    Extension,
    OperatorParts,
    OperatorRuntimeContext,
    TaskInfo,
)
from pyflinklike._runtime.failure_snapshot import FailedCall
from pyflinklike._runtime.invokers import FunctionInvoker
from pyflinklike._runtime.outputs import TimedOutputs
from pyflinklike._runtime.timer_queue import TimerQueues, Timers
from pyflinklike.errors import (
    DeclarationError,
    LocalStateError,
    PyflinklikeError,
    StateValueError,
    UnknownStoreError,
)
from pyflinklike.functions.metric_group import Increment, MetricIncrements
from pyflinklike.state.current_key import NO_KEY
from pyflinklike.state.state_assembly import Assembled
from pyflinklike.state.table import TableChanges, TableSpec
from pyflinklike.state.ttl_config import CLOCK_OF_TTL, StateTtlConfig
from pyflinklike.state.ttl_table import TtlRules
from pyflinklike.types.pickled_type import check_pickled


class KeyedProcessOperator:
    """Runs one function over the key groups of one task; `make_keyed_operator` makes it.

    Args:
        parts: The parts that the calls work with: the clock, which the host moves, the numbers for
            the host, and the failure isolation.
        group: Makes key groups current.
        timers: Holds the timer queues of both domains.
        calls: The invoker, which makes all calls of the function.
        cleanup: Deletes expired entries when a log is compacted or a sweep is due.
        runtime_context: The context that the function is opened with.
    """

    def __init__(
        self,
        parts: OperatorParts,
        group: KeyGroupContext,
        timers: TimerQueues,
        calls: FunctionInvoker,
        cleanup: StateCleanup,
        runtime_context: OperatorRuntimeContext,
    ) -> None:
        self.clock, self.metrics = parts.clock, parts.metrics
        self.group = group
        self.timers = timers
        self.event_timers, self.processing_timers = timers.queues
        self.extensions = runtime_context.extensions
        """The extensions of the operator, such as the stores of its function; the list may grow."""
        self.cleanup = cleanup
        self.runtime_context = runtime_context
        self.guard = parts.guard
        """The failure isolation; None if a failed call fails the query."""
        self._user_metrics = MetricIncrements(runtime_context.get_metrics_group())
        self.backend = group.backend
        self.current = group.backend.current
        self._calls = calls
        self._broadcast = calls if isinstance(calls, BroadcastInvoker) else None
        self.function = calls.function
        self.key_type = parts.key_type
        self.outputs = parts.outputs
        """The outputs that the host has not taken yet."""
        is_timed = isinstance(parts.outputs, TimedOutputs)
        self.process = self._process_each if is_timed else calls.process
        """Process records of the current group: `FunctionInvoker.process`."""
        self.process_one = calls.one_by_one()
        """Process one record: `FunctionInvoker.one_by_one`."""

    def _process_each(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records one by one, since each output needs the time of its record."""
        process_one = self.process_one
        for key, value, timestamp in zip(keys, values, timestamps):
            process_one(key, value, timestamp)

    def process_broadcast(self, elements: Iterable[tuple[Any, int | None]]) -> None:
        """Process elements of the broadcast input; every key group of a task gets the same.

        Args:
            elements: The values with their event times in ms, in order.

        Raises:
            UserFunctionError: The function raised.
        """
        assert self._broadcast is not None, "a function that has a broadcast input"
        self._broadcast.process_broadcast(self.group.state.index, elements)

    def repeat(self, failed: FailedCall) -> None:
        """Repeat a call that failed elsewhere; the host has entered its state before.

        An error of the function passes unchanged.
        """
        for each in self.extensions:
            self.current.key, self.clock.timestamp = failed.called.key, failed.called.timestamp
            each.begin_call()
        self._calls.repeat(failed.called)
        self.flush()

    @property
    def broadcast_states(self) -> BroadcastStates:
        """The broadcast states of the operator."""
        assert self._broadcast is not None, "a function that has a broadcast input"
        return self._broadcast.states

    # The function

    def open(self) -> None:
        """Open the function, which declares its states.

        Raises:
            DeclarationError: The function gave a descriptor another TTL than its state has.
            UserFunctionError: The function raised.
        """
        try:
            self._calls.open(self.runtime_context)
            self.runtime_context.end_open()
        except PyflinklikeError:
            self.backend.close()
            raise

    def close(self) -> None:
        """Close the function, and release the state.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self._calls.close()
        finally:
            for each in self.extensions:
                each.close()
            self.backend.close()

    def abandon(self) -> None:
        """Close after a failure, and ignore errors of that: the caller raises the failure itself.

        As in Flink, a function is closed whether its task succeeds or not.
        """
        with contextlib.suppress(PyflinklikeError):
            self.close()

    def rest(self, *, keeps_files: bool = False) -> None:
        """Release what belongs to the task; the function stays open for the next one.

        Args:
            keeps_files: Whether local files may stay open, because no other process needs them.

        Raises:
            SparkSetupError: The backend could not keep the working state on its local disk.
        """
        self.group.leave()
        self.end_task()
        if not keeps_files:
            self.backend.release()

    def end_task(self) -> None:
        """Forget the broadcast elements of this task: the next task gets other ones."""
        if self._broadcast is not None:
            self._broadcast.rest()

    def resume(self, task: TaskInfo, owner: str) -> None:
        """Begin another task with the function that is open.

        Args:
            task: The task to serve now.
            owner: The name under which the backend keeps working state, as at assembly.
        """
        self.runtime_context.resume(task)
        if self.guard is not None:
            self.guard.begin_task(task.batch)
        self.backend.owner = owner
        self._user_metrics.begin()

    def serves(self, task: TaskInfo) -> bool:
        """Return whether the open function can serve a task: what it asked for must be the same."""
        return self.runtime_context.fits(task)

    def task_answers(self) -> tuple[tuple[str, int], ...]:
        """Return the fields of the task that the open function has asked for, with their values."""
        return tuple(sorted(self.runtime_context.task_answers.items()))

    def describe_states(self) -> dict[str, dict[str, Any]]:
        """Describe the declared states and stores by name, as plain data."""
        described = describe_states(self.group.specs, self.runtime_context.assembled)
        for each in self.extensions:
            described.update(each.describe())
        return described

    # Stores

    def store(self, name: str) -> Any:
        """Return the store of a name.

        Raises:
            UnknownStoreError: The function has not declared a store of that name.
        """
        owners = {opened: each for each in self.extensions for opened in each.describe()}
        if name not in owners:
            msg = f"no store {name!r} is declared, got only {sorted(owners)}; check the name"
            raise UnknownStoreError(msg)
        return owners[name].get(name)

    def flush(self) -> None:
        """Let stores write their cached entries, at the end of a bundle; this may add outputs."""
        for each in self.extensions:
            each.flush()

    # Key groups

    def load(
        self, storage: LogStorage, head: Head | None, state: KeyGroupState | int
    ) -> KeyGroupState:
        """Make a key group current, brought up to its head: `KeyGroupContext.load`."""
        loaded = self.group.load(storage, head, state)
        if self.guard is not None:
            self.guard.begin_group(loaded.index, NO_LETTERS if head is None else head.letters)
        return loaded

    def commit(
        self,
        storage: LogStorage,
        head: Head | None,
        times: HeadTimes = NO_TIMES,
    ) -> Head | None:
        """End the micro-batch of the current group: log the changes, and return the new head.

        Args:
            storage: The host's storage of that group.
            head: The head that the storage has; None without one.
            times: The times to note in the head.

        Returns:
            None if the group has no entries, so that its storage is empty.
        """
        # Before the log is written: stores may still hold entries in their caches.
        self.flush()
        if self.guard is not None:
            times = attrs.evolve(times, letters=self.guard.end_group())
        head = self.group.commit(storage, head, times)
        timers = self.event_timers.count() + self.processing_timers.count()
        self.metrics.timers += timers
        self.metrics.live_entries += self.backend.count() - timers
        self.metrics.state_bytes += head.log_bytes if head is not None else 0
        return head

    def check_letters(self) -> None:
        """Check at the end of a task that not too many of its records became dead letters.

        Raises:
            UserFunctionError: There are more dead letters than the user allows.
        """
        if self.guard is not None:
            self.guard.check_share()

    def snapshot(self) -> bytes:
        """Return the current group as one segment, without a change of the working state."""
        return self.group.snapshot(map(self.cleanup.without_expired, self.backend.contents()))

    def take_metrics(self) -> tuple[list[int], list[Increment]]:
        """Return the numbers since the last call: the operator's own, and the user's metrics.

        Raises:
            UserFunctionError: A gauge of the user raised.
        """
        self.metrics.expired_entries = self.cleanup.take_expired()
        return self.metrics.take(), self._user_metrics.take()

    # Time

    def advance_watermark(self, watermark: int) -> None:
        """Set the watermark in ms, and fire due event timers."""
        self.clock.watermark = watermark
        self._calls.fire(self.event_timers, watermark)

    def advance_processing_time(self, processing_time: int) -> None:
        """Set the processing time in ms, and fire due processing timers."""
        self.clock.processing_time = processing_time
        self._calls.fire(self.processing_timers, processing_time)

    def fire_due_timers(self) -> None:
        """Fire the timers that are due at the current times, event timers first."""
        self._calls.fire(self.event_timers, self.clock.watermark)
        self._calls.fire(self.processing_timers, self.clock.processing_time)

    def end_batch(self) -> None:
        """End the current group's input in batch mode: every timer fires, whatever its time.

        As in Flink's `BatchExecutionInternalTimeService`, the watermark goes to `MAX_WATERMARK`,
        which fires event timers; then processing timers fire, while the processing time stands
        still.  Processing timers that `on_timer` registers are ignored with a warning.  Event
        timers that it registers fire, as at the end of a stream (Flink's batches ignore these as
        well).

        Raises:
            UserFunctionError: The function raised.
        """
        queue = self.processing_timers
        queue.is_quiesced, queue.has_ignored = True, False
        try:
            self.advance_watermark(MAX_WATERMARK)
            self._calls.fire(queue, MAX_WATERMARK)
            self._calls.fire(self.event_timers, MAX_WATERMARK)  # registered by processing timers
        finally:
            queue.is_quiesced = False
        if queue.has_ignored:
            # No number in the text: Python shows a warning of the same text only once.
            warnings.warn(
                f"{self._calls.name()}: a processing-time timer that is registered while timers fire "
                "at the end of a batch is ignored, as in Flink, got such timers; if "
                "ctx.timer_service().current_watermark() is MAX_WATERMARK, yield at once what the "
                "timer would have given",
                stacklevel=2,
            )

    def end_stream(self) -> None:
        """Warn if the current group has processing timers left when a stream has ended.

        As in Flink's streaming mode, they never fire.
        """
        if self.processing_timers.count():
            warnings.warn(
                f"{self._calls.name()}: processing-time timers do not fire when the input of a job "
                f"in streaming mode ends before their time, as in Flink, got "
                f"{self.processing_timers.count():,} of them; set execution.runtime-mode to BATCH, "
                "where every timer fires at the end, or register event-time timers",
                stacklevel=2,
            )

    def earliest_timer(self, queue: Timers) -> int | None:
        """Return the time of the earliest timer of the current group in ms, or None."""
        try:
            return queue.earliest()
        finally:
            self.current.key = NO_KEY

    def frozen_key(self, key: Any) -> Any:
        """Freeze a key to the form that tables keep.

        Raises:
            StateValueError: The value is None or cannot be a key.
        """
        if key is None:
            msg = (
                f"{self._calls.name()}: every element needs a key, got None; "
                "filter such elements out, or give them a key of their own"
            )
            raise StateValueError(msg)
        return self.key_type.freeze_key(key)


# The current key group


class KeyGroupContext:
    """Points the tables and timers of an operator at one key group at a time.

    `load` makes a key group current and brings its working state up to the head of its log.
    `enter` makes a key group current and takes its working state as it is.

    Args:
        backend: Holds the entries of tables.
        log: Reads and writes the logs of key groups.
        assembled: The states by name; the mapping may grow.
        queues: The timer queue of each domain.
        allow_pickle: Whether a table of pickles may be declared.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        log: KeyGroupLog,
        assembled: Mapping[str, Assembled],
        queues: Iterable[Timers],
        *,
        allow_pickle: bool = True,
    ) -> None:
        self.backend = backend
        # Asked once, since `isinstance` with a protocol is slow: it looks at every method.
        self._local = backend if isinstance(backend, LocalStateBackend) else None
        self._log = log
        self._assembled = assembled
        self._queues = tuple(queues)
        self._allow_pickle = allow_pickle
        self._state: KeyGroupState | None = None
        self.specs = [queue.table.spec for queue in self._queues]
        """The specs of all tables; the tables of timers are first."""

    @property
    def state(self) -> KeyGroupState:
        """The working state of the current key group, which must exist."""
        assert self._state is not None
        return self._state

    def where(self, index: int) -> str:
        """Name a key group for messages."""
        return self._log.where(index)

    def position(self) -> dict[int, int]:
        """Return the first segment that the working state lacks, by the current key group, if any."""
        state = self._state
        return {} if state is None else {state.index: state.next_sequence}

    # The tables

    def declare(self, spec: TableSpec) -> None:
        """Fill a new table with its restored entries, now and whenever a key group is entered.

        Args:
            spec: The spec of a table that the backend has made.

        Raises:
            DeclarationError: A broadcast state has the table's name, or `drop_states` names it.
            DeclarationValueError: The table holds pickles, which `allow_pickle` refuses.
            IncompatibleStateError: The restored entries were written under another declaration.
        """
        if any(each.is_replicated and each.name == spec.name for each in self.specs):
            msg = f"{spec.name!r} is already declared as broadcast state, got another state"
            raise DeclarationError(f"{msg} of that name; rename one")
        if self._log.is_dropped(spec.name):
            msg = f"drop_states takes states that are no longer declared, got {spec.name!r}"
            raise DeclarationError(f"{msg}, which the function declares; remove one of the two")
        if not self._allow_pickle:
            check_pickled(shown_state(spec.name), spec.value_type, spec.user_key_type)
        self.specs.append(spec)
        if self._state is not None:
            self._fill(self._state, spec)

    def _fill(self, state: KeyGroupState, spec: TableSpec) -> None:
        for changes in self._log.restorer.restore(state, spec, self._stamp_of(spec)):
            self.backend.apply(changes)

    def _stamp_of(self, spec: TableSpec) -> int:
        """Return the time in ms that entries get which were written before the state had a TTL."""
        assembled = self._assembled.get(spec.name)
        return 0 if assembled is None or assembled.ttl is None else assembled.ttl.stamp()

    # How a key group becomes current

    def load(
        self, storage: LogStorage, head: Head | None, state: KeyGroupState | int
    ) -> KeyGroupState:
        """Make a key group current, brought up to its head.

        Args:
            storage: The host's storage of that group.
            head: The head that the storage has; None without one.
            state: Working state that the caller has kept of the group, or the index of the
                group, to use the working state that the backend has cached.

        Returns:
            The working state in use now, which may differ from `state`.

        Raises:
            CorruptStateError: The log is damaged.
            IncompatibleStateError: The log belongs to another operator, or a table was written
                under another declaration.
        """
        index = state if isinstance(state, int) else state.index
        try:
            if isinstance(state, int):
                # Out of the cache during the batch: if the batch fails, its half-done state is
                # gone.
                state = self.backend.pop_cached(index) or KeyGroupState(index)
            state = self._log.load(storage, head, state)
            self.enter(state)
        except LocalStateError:
            if head is None:
                raise
            # Local files are damaged, but the log holds the same state.
            state = self._log.rebuilt(storage, head, index)
            self.enter(state)
        self._rebuild_from(storage, head, index)
        return state

    def enter(self, state: KeyGroupState) -> None:
        """Make a key group current, with its working state as it is."""
        # Until `load` says otherwise: the log of the former group cannot rebuild this one.
        self._rebuild_no_more()
        self._state = state
        self.backend.enter(state.index, state.tables)
        for spec in self.specs:
            self._fill(state, spec)
        for queue in self._queues:
            queue.enter(state.timers)
        for assembled in self._assembled.values():
            if assembled.ttl is not None:
                assembled.ttl.enter()

    def add(self, snapshot: Segment, where: str) -> None:
        """Add the entries of a savepoint to the current key group.

        Args:
            snapshot: Entries of a savepoint; the group must not have any of them already.
            where: The name of the savepoint for messages.

        Raises:
            CorruptStateError: The savepoint is damaged.
            IncompatibleStateError: A state was written under another declaration.
        """
        state, specs = self.state, {each.name: each for each in self.specs}
        for section in sections_of([snapshot], where):
            spec = specs.get(section.declaration.name)
            stamp = 0 if spec is None else self._stamp_of(spec)
            changes = self._log.restorer.add(state, section, spec, stamp)
            if changes is not None:
                self.backend.apply(changes)
        # The heaps of timers are derived from the timers' tables, which may have changed.
        state.timers.clear()
        self.enter(state)

    def leave(self) -> None:
        """Leave the current key group, so that its working state can be freed."""
        self.enter(KeyGroupState(0))
        self._state = None

    def _rebuild_from(self, storage: LogStorage, head: Head | None, index: int) -> None:
        """Let the backend rebuild the current key group while it is worked on."""
        if head is None or self._local is None:
            return

        def logged() -> Iterator[TableChanges]:
            former = self._log.rebuilt(storage, head, index)
            for spec in self.specs:
                yield from self._log.restorer.restore(former, spec, self._stamp_of(spec))

        self._local.rebuild_from(logged)

    def _rebuild_no_more(self) -> None:
        if self._local is not None:
            self._local.rebuild_from(None)

    # Steps for the current key group

    def commit(self, storage: LogStorage, head: Head | None, times: HeadTimes) -> Head | None:
        """Log the changes as `KeyGroupLog.commit` does, and return the new head, if any."""
        head = self._log.commit(storage, head, self.state, times)
        self._rebuild_no_more()  # the log has changed, so the former head no longer describes it
        return head

    def rewrite(self) -> None:
        """Make the next commit write the whole key group, in place of its former log."""
        self.state.rewrite = True

    def cache(self) -> None:
        """Let the backend keep the working state, once nothing of the batch can fail here."""
        # If local files are damaged, the batch need not fail: the next one reads the log instead.
        with contextlib.suppress(LocalStateError):
            self.backend.cache(self.state)

    def settle(self) -> None:
        """End a batch for a host without a log, and go on with the state that the backend cached.

        Raises:
            SparkSetupError: The backend could not keep the state on its local disk.
        """
        state = self.state
        changed = any(map(len, self.backend.drain()))
        self.backend.cache(state)
        if changed and self._local is not None:
            # As at the end of a task on Spark, so that tests meet what a backend does there.
            self._local.release()
        self.enter(self.backend.pop_cached(state.index) or state)

    def snapshot(self, contents: Iterable[TableChanges]) -> bytes:
        """Return the key group as one segment, without a change of the working state.

        Args:
            contents: The entries of the declared tables.
        """
        copy = KeyGroupState(self.state.index, pending=self.state.pending)
        segments = self._log.snapshot(copy, [each for each in contents if len(each)])
        return join(segments).to_bytes()


# Cleanup


class StateCleanup:
    """Background cleanup of the states of one operator, in its current key group.

    The TTL of each state decides which entries are expired.  Reads and incremental cleanup delete
    some of them.  Three cases remain for this class:

    * a compaction of the log deletes expired entries first; if `cleanup_in_rocksdb_compact_filter`
      names a period, a compaction is also due by age alone;
    * a key group may get no more records: a host that can call it without records learns when
      all entries that are stored now will have expired;
    * a full snapshot may leave out expired entries that the working state still has.

    Args:
        assembled: The states by name; the mapping may grow.
        clock: Has the watermark and the processing time.
        extensions: They delete their expired entries, by their own rules, when states do; the list
            may grow.
    """

    def __init__(
        self,
        assembled: Mapping[str, Assembled],
        clock: Clock,
        extensions: Iterable[Extension] = (),
    ) -> None:
        self._assembled = assembled
        self._clock = clock
        self._extensions = extensions

    def now(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def _in_background(self) -> Iterator[TtlRules]:
        for assembled in self._assembled.values():
            if assembled.ttl is not None and assembled.ttl.in_background:
                yield assembled.ttl

    def drop_expired(self) -> None:
        """Delete expired entries of all states with background cleanup, and of extensions."""
        for ttl in self._in_background():
            ttl.drop_expired()
        for extension in self._extensions:
            extension.drop_expired()

    def sweep(self, domain: TimeDomain, due: int | None) -> int | None:
        """Delete expired entries if it is time to, and return the time of the next sweep.

        Args:
            domain: The domain by whose time the host can call the key group without records.
            due: The time that the last call returned for the key group, in ms.

        Returns:
            A time in ms, or None if nothing can expire in this domain.
        """
        swept = [ttl for ttl in self._in_background() if ttl.time_domain is domain]
        if due is not None and due <= self._time_in(domain):
            for ttl in swept:
                ttl.drop_expired()
            due = None
        again = [ttl.sweep_again_at() for ttl in swept if ttl.count()]
        if not again:
            return None
        # A time that was set is kept, although new entries expire later.  So a key group in use is
        # swept once per length of the TTL, and an idle one is clean one TTL after its last expiry.
        return min(again) if due is None else due

    def _time_in(self, domain: TimeDomain) -> int:
        clock = self._clock
        return clock.watermark if domain is TimeDomain.EVENT_TIME else clock.processing_time

    def is_compaction_due(self, compacted_at: int) -> bool:
        """Return whether a log may hold expired entries for longer than a state's TTL allows.

        Args:
            compacted_at: The processing time of the log's last snapshot, in ms.
        """
        age = self.now() - compacted_at
        return any(0 < ttl.compaction_period <= age for ttl in self._in_background())

    def without_expired(self, contents: TableChanges) -> TableChanges:
        """Return the entries for a full snapshot, without expired ones if `cleanup_full_snapshot`."""
        assembled = self._assembled.get(contents.spec.name)
        ttl = assembled.ttl if assembled is not None else None
        if ttl is None or not ttl.in_full_snapshot:
            return contents
        kept: TableChanges = ttl.without_expired(contents)
        return kept

    def take_expired(self) -> int:
        """Return how many entries expired and were deleted since the last call."""
        expired = 0
        for assembled in self._assembled.values():
            if assembled.ttl is not None:
                expired += assembled.ttl.expired
                assembled.ttl.expired = 0
        return expired


# Declarations, as plain data that JSON can hold


def describe_states(
    specs: Iterable[TableSpec],
    assembled: Mapping[str, Assembled],
) -> dict[str, dict[str, Any]]:
    """Describe each state by name, broadcast states too: kind, signatures of types, TTL.

    Args:
        specs: The specs of all tables; tables of stores and of the runtime are left out.
        assembled: The states by name.
    """
    return {
        spec.name: describe_state(
            spec, assembled[spec.name].ttl_config if spec.name in assembled else None
        )
        for spec in specs
        if spec.name in assembled or spec.is_replicated
    }


def describe_state(spec: TableSpec, ttl: StateTtlConfig | None) -> dict[str, Any]:
    """Describe one state for the operator record, by its table's spec and its TTL, if any."""
    said: dict[str, Any] = {"kind": spec.kind}
    if spec.namespace_type is not None:
        said["namespace"] = spec.namespace_type.signature
    if spec.user_key_type is not None:
        said["user_key"] = spec.user_key_type.signature
    if spec.value_type is not None:
        said["value"] = spec.value_type.signature
    settings = {each.name: each.value for each in spec.settings if each.name != CLOCK_OF_TTL}
    if settings:
        said["settings"] = settings
    if ttl is not None:
        said["ttl"] = describe_ttl(ttl)
    return said


def describe_ttl(ttl: StateTtlConfig) -> dict[str, Any]:
    """Describe a TTL for the operator record."""
    return {
        "ms": ttl.ttl_ms,
        "update_type": ttl.get_update_type().name,
        "visibility": ttl.get_state_visibility().name,
        "time": ttl.get_ttl_time_characteristic().name,
    }
