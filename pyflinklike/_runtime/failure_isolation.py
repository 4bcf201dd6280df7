# SPDX-License-Identifier: Apache-2.0
"""Calls of a function that happen as a whole or not at all, for dead letters.

If a call fails, the operator must look as if the call had never been made; then the query can go on
with the next record.  A call changes four things: tables (`BufferedTables`), the heaps of timers
beside their tables, outputs, and the user's metrics.  `begin` notes how all four are, `undo` goes
back to it, `fail` puts out the dead letter, and `end` ends the last call.  Stores change what they
keep beside their tables only after the call has succeeded.

A call of a program of ours, such as the windows, may call the user's function several times.  Each
of these calls can fail alone: `mark` notes the beginning of such a *part*, `undo` goes back to it,
and the program goes on.  A failure snapshot holds the state before the whole call, because that is
the call which a harness can repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any, NamedTuple

from pyflinklike._changelog.log_storage import NO_LETTERS, LetterCounts
from pyflinklike._clock import Clock
from pyflinklike._messages import as_utf8, shown_traceback, whole_message
from pyflinklike._runtime.failure_snapshot import Called, FailureSnapshotMaker
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike._runtime.outputs import Outputs
from pyflinklike._runtime.timer_queue import UndoableTimerQueue
from pyflinklike._runtime.user_errors import where_raised
from pyflinklike.errors import (
    BrokerError,
    CorruptStateError,
    DeclarationError,
    IncompatibleStateError,
    OutputError,
    SparkSetupError,
    UserFunctionError,
)
from pyflinklike.functions.dead_letters import FEW, LETTER_FIELDS, DeadLetters
from pyflinklike.functions.metric_group import MetricGroup, MetricMarks
from pyflinklike.state.current_key import NO_NAMESPACE
from pyflinklike.state.write_buffer import BufferMark, WriteBuffer
from pyflinklike.types.row import row_class

# A program that is declared wrongly, damaged state or a lack of memory would make a dead letter of
# every record, so these errors fail the query.
_NOT_OF_A_RECORD = (
    DeclarationError,
    CorruptStateError,
    IncompatibleStateError,
    SparkSetupError,
    BrokerError,
    OutputError,
    MemoryError,
)
# A deep recursion has a traceback of megabytes; its end, which is kept, names the line that raised.
_MOST_TRACEBACK = 8_000
_NO_SIDES: Mapping[str, int] = {}
_NONE_LEFT: Iterator[Any] = iter(())


def is_of_a_record(error: BaseException) -> bool:
    """Return whether an error may depend on the record; the others fail the query in any case."""
    return not isinstance(error, _NOT_OF_A_RECORD)


class DeadLetterWriter:
    """Writes dead letters, and counts them against the bound that the user chose.

    Args:
        letters: The side output and the bound that the user chose.
        clock: Has the watermark and the processing time of a letter.
        metrics: Counts the letters for the host.
        operator: The name of the operator.
        key_names: The names of the columns of the key.
    """

    def __init__(
        self,
        letters: DeadLetters,
        clock: Clock,
        metrics: OperatorMetrics,
        operator: str,
        key_names: tuple[str, ...],
    ) -> None:
        self.letters = letters
        self.batch: int | None = None
        """The number of the micro-batch; None for a host without micro-batches."""
        self._clock = clock
        self._metrics = metrics
        self._operator = operator
        self._key_names = key_names or ("key",)
        self._user_metrics: MetricGroup | None = None
        self._registered: Mapping[Any, Any] = {}
        self._counted: MetricMarks = ()
        self._letters = self._calls = 0
        self._at_group = self._of_group = NO_LETTERS
        self._before: dict[int, LetterCounts] = {}
        self._last_message = ""

    def watch(self, metrics: MetricGroup) -> None:
        """Also undo what a failed call counted in the user's metrics."""
        self._user_metrics, self._registered = metrics, metrics.registered

    def _count(self, message: str) -> None:
        """Count a letter.

        Raises:
            UserFunctionError: There are more letters than the user allows.
        """
        self._letters += 1
        self._metrics.dead_letters += 1
        if self.letters.per == "batch" and self._letters > self.letters.at_most:
            raise self._too_many(f"{self._letters:,} in a task of a micro-batch", message)
        self._last_message = message

    def _facts(
        self, error: Exception, method: str, subject: str, timestamp: int | None
    ) -> tuple[Any, ...]:
        """Return the columns of a letter between its key and the failure snapshot."""
        clock = self._clock
        return (
            self._operator,
            method,
            subject,
            timestamp,
            clock.watermark,
            clock.processing_time,
            self.batch,
            as_utf8(type(error).__name__),
            whole_message(error),
            where_raised(error).strip(" ()"),
            shown_traceback(error)[-_MOST_TRACEBACK:],
        )

    # Too many

    def begin_task(self, batch: int | None) -> None:
        """Begin a task of a micro-batch, in which letters are counted anew."""
        self.batch = batch
        self._letters = self._calls = 0
        self._at_group = self._of_group = NO_LETTERS
        self._before.clear()

    def begin_group(self, index: int, counts: LetterCounts) -> None:
        """Begin a key group.

        Args:
            index: The number of the key group.
            counts: The counts that `end_group` returned for it in the micro-batch before.
        """
        # A task may load a key group twice; the second time `counts` has letters of this task.
        self._at_group, self._of_group = LetterCounts(self._letters, self._calls), counts
        self._before.setdefault(index, counts)

    def end_group(self) -> LetterCounts:
        """Return the counts of the key group that the next micro-batch goes on with.

        One micro-batch may have too few records to judge a share.  So calls are added up until ten
        letters would be the share that the user allows.
        """
        at, of = self._at_group, self._of_group
        letters = of.letters + self._letters - at.letters
        calls = of.calls + self._calls - at.calls
        if not letters or calls * self.letters.at_most >= FEW or self.letters.per == "batch":
            return NO_LETTERS
        return LetterCounts(letters, calls)

    def check_share(self) -> None:
        """Check the share of letters at the end of a task, alone and with the last micro-batches.

        Raises:
            UserFunctionError: There are more letters than the user allows.
        """
        if self.letters.per != "record" or not self._letters:
            return
        before = self._before.values()
        letters, calls = self._letters, self._calls
        with_before = (
            letters + sum(each.letters for each in before),
            calls + sum(each.calls for each in before),
            " with those of the last micro-batches",
        )
        for found, among, which in ((letters, calls, ""), with_before):
            if found > max(FEW, self.letters.at_most * among):
                raise self._too_many(f"{found:,} of {among:,}{which}", self._last_message)

    def _too_many(self, got: str, message: str) -> UserFunctionError:
        letters = self.letters
        rule = (
            f"at most {letters.at_most:.2%} of the records and timers of a task"
            if letters.per == "record"
            else f"at most {letters.at_most:,} records and timers of a task in a micro-batch"
        )
        return UserFunctionError(
            f"operator {self._operator!r}: DeadLetters takes {rule}, got {got}; mend the function, or "
            f"raise at_most. The last one: {message}"
        )


class CallMark(NamedTuple):
    """The beginning of a part of a call.

    Args:
        write_buffer: The point in the write buffer to go back to.
        timers: How many changes of timers of each domain the call had made.
        main: How many main outputs there were.
        side: How many side outputs there were, by tag id.
        counted: The values of the user's metrics.
        letters: How many parts of the call had become dead letters.
        key: The key that was current, frozen.
        namespace: The namespace that was current.
    """

    write_buffer: BufferMark
    timers: tuple[int, ...]
    main: int
    side: Mapping[str, int]
    counted: MetricMarks
    letters: int
    key: Any
    namespace: Any


class FailureIsolation(DeadLetterWriter):
    """Turns failed calls into dead letters.

    Args:
        letters: The side output and the bound that the user chose.
        write_buffer: Holds the writes of a call until it succeeds.
        queues: The timers of both domains.
        outputs: Gathers the outputs of the function.
        clock: Has the watermark and the processing time of a letter.
        metrics: Counts the letters for the host.
        operator: The name of the operator.
        key_names: The names of the columns of the key.
        failure_snapshots: Makes the failure snapshots of letters; None for letters without one.
    """

    def __init__(
        self,
        letters: DeadLetters,
        write_buffer: WriteBuffer,
        queues: Iterable[UndoableTimerQueue],
        outputs: Outputs,
        clock: Clock,
        metrics: OperatorMetrics,
        operator: str,
        key_names: tuple[str, ...],
        failure_snapshots: FailureSnapshotMaker | None = None,
    ) -> None:
        super().__init__(letters, clock, metrics, operator, key_names)
        self._write_buffer = write_buffer
        self._queues = tuple(queues)
        self._outputs = outputs
        self._failure_snapshots = failure_snapshots
        self._current = write_buffer.current
        self.namespace: Any = NO_NAMESPACE
        """The namespace that was current when the call began."""
        self._row = row_class((*self._key_names, *(name for name, _ in LETTER_FIELDS)))
        self._event_changes, self._processing_changes = (each.changes for each in self._queues)
        self._main = 0
        self._side: Mapping[str, int] = _NO_SIDES
        self._has_begun = True
        self._letters_of_parts = 0
        self._values: Sequence[Any] = ()
        self._next_value: Iterator[Any] = _NONE_LEFT

    # A call

    def begin(self) -> None:
        """Begin a call."""
        # This runs for every record, so it touches only what the call before has changed.
        self._calls += 1
        write_buffer = self._write_buffer
        self.namespace = self._current.namespace
        if write_buffer.has_changed:
            try:
                write_buffer.commit()
            except BaseException:
                # The backend failed, not this record: `may_keep` must not make a letter of it.
                self._has_begun = False
                raise
        write_buffer.is_open = True
        if self._event_changes:
            self._event_changes.clear()
        if self._processing_changes:
            self._processing_changes.clear()
        outputs = self._outputs
        self._main = len(outputs.main)
        self._side = outputs.count_sides() if outputs.side else _NO_SIDES
        if self._letters_of_parts:
            self._letters_of_parts = 0
        if self._registered and self._user_metrics is not None:
            self._counted = self._user_metrics.mark()

    def count_calls(self, calls: int) -> None:
        """Count calls that were made without `begin`, because they cannot fail any more."""
        self._calls += calls

    def end(self) -> None:
        """End the last call; from now on writes go to the tables at once."""
        write_buffer = self._write_buffer
        if write_buffer.has_changed:
            write_buffer.commit()
        write_buffer.is_open = False
        if self._event_changes:
            self._event_changes.clear()
        if self._processing_changes:
            self._processing_changes.clear()

    def may_keep(self, error: BaseException) -> bool:
        """Return whether an error may become a dead letter, because it belongs to a record."""
        return self._has_begun and is_of_a_record(error)

    def give_up(self) -> None:
        """Drop the buffered writes of a call whose error fails the query."""
        self._write_buffer.drop()
        self.end()
        self._has_begun = True

    # Parts of a call

    def follow(self, values: Sequence[Any]) -> Iterator[Any]:
        """Return an iterator over the values of records; `value` finds the current one by it."""
        self._values, self._next_value = values, iter(values)
        return self._next_value

    def follow_one(self, value: Any) -> None:
        """Note the value of a single record, whose call is under way."""
        self._values, self._next_value = (value,), _NONE_LEFT

    def value(self) -> Any:
        """Return the value of the record whose call is under way."""
        # An iterator of a list knows how many values are left, so no call has to count.
        return self._values[-1 - length_hint(self._next_value)]

    def settle(self) -> None:
        """Keep all that the call has done so far, even if a later part of it fails.

        The failure snapshot of a later part holds the state at this point.
        """
        namespace = self.namespace
        self.begin()
        # `begin` counts a call, but the same call goes on.
        self._calls -= 1
        self.namespace = namespace

    def mark(self) -> CallMark:
        """Begin a part of the call."""
        self._calls += 1
        current, metrics = self._current, self._user_metrics
        return CallMark(
            self._write_buffer.mark(),
            tuple(len(queue.changes) for queue in self._queues),
            len(self._outputs.main),
            self._outputs.count_sides() if self._outputs.side else _NO_SIDES,
            () if metrics is None else metrics.mark(),
            self._letters_of_parts,
            current.key,
            current.namespace,
        )

    def refuse(self) -> None:
        """Let the error that is on its way fail the query, whatever it is."""
        self._has_begun = False

    def fail(
        self,
        error: Exception,
        message: str,
        called: Called,
        shown_key: Any,
        method: str,
        subject: str,
        *,
        is_part: bool,
    ) -> None:
        """Put out the dead letter of a call that was undone.

        Args:
            error: The error that the function raised.
            message: The text of the error that would have failed the query.
            called: The call that failed.
            shown_key: The key in the user's form; None for a call without a key.
            method: The name of the method that was called.
            subject: The argument of that call, as the letter shows it.
            is_part: Whether only a part of the call failed.

        Raises:
            UserFunctionError: There are more letters than the user allows.
        """
        self._count(message)
        self._letters_of_parts += is_part
        keys = shown_key if len(self._key_names) > 1 else (shown_key,)
        facts = self._facts(error, method, subject, called.timestamp)
        letter = self._row(*keys, *facts, self._failure_snapshot(called))
        self._outputs.emit_side((self.letters.tag, letter), called.key)

    def undo(self, mark: CallMark | None) -> None:
        """Undo a call, or all since a mark of it, including the letters of its parts."""
        if mark is None:
            self._write_buffer.drop()
            timers: tuple[int, ...] = (0, 0)
            main, side, counted, letters = self._main, self._side, self._counted, 0
        else:
            self._write_buffer.go_back(mark.write_buffer)
            _, timers, main, side, counted, letters, key, namespace = mark
            self._current.key, self._current.namespace = key, namespace
        for queue, left in zip(self._queues, timers):
            queue.undo_changes(left)
        self._outputs.go_back(main, side)
        if self._user_metrics is not None:
            self._user_metrics.go_back(counted)
        undone = self._letters_of_parts - letters
        self._letters -= undone
        self._metrics.dead_letters -= undone
        self._letters_of_parts = letters

    def _failure_snapshot(self, called: Called) -> bytes | None:
        """Return the failure snapshot of a call, with the state before the call."""
        if self._failure_snapshots is None:
            return None
        changes = [list(queue.changes) for queue in self._queues]
        # If only a part failed, the changes of the call itself stand; they are away for a moment.
        for queue in self._queues:
            queue.undo_changes()
        try:
            return self._failure_snapshots.make(called)
        finally:
            for queue, mine in zip(self._queues, changes):
                queue.make_changes(mine)
