# SPDX-License-Identifier: Apache-2.0
"""Calls of a function that happen as a whole or not at all, for dead letters.

Between two calls everything is as the last call that succeeded left it.  `begin` marks that state,
`fail` goes back to it and puts out the dead letter, `end` ends the last call.  What a call changes
is in four places: tables (`StagedTables`), timers beside their tables, outputs, and the user's
metrics; the caches of stores join the stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyflinklike.engine.api.dead_letters import FEW, LETTER_FIELDS, DeadLetters
from pyflinklike.engine.api.metric_group import MetricGroup, MetricMarks
from pyflinklike.engine.clock import Clock
from pyflinklike.engine.log.log_storage import NO_LETTERS, LetterCounts
from pyflinklike.engine.runtime.capsule import Called, CapsuleMaker
from pyflinklike.engine.runtime.operator_metrics import OperatorMetrics
from pyflinklike.engine.runtime.outputs import Outputs
from pyflinklike.engine.runtime.timer_queue import UndoableTimerQueue
from pyflinklike.engine.runtime.user_errors import where_raised
from pyflinklike.engine.shown import as_utf8, shown, shown_traceback, whole_message
from pyflinklike.engine.state.current_key import NO_NAMESPACE
from pyflinklike.engine.state.staged_tables import Stage
from pyflinklike.engine.types.row import row_class
from pyflinklike.errors import (
    BrokerError,
    CorruptStateError,
    DeclarationError,
    HostError,
    IncompatibleStateError,
    UserFunctionError,
)

__all__ = ["CallGuard", "LetterOffice", "is_of_a_record"]

_NOT_OF_A_RECORD = (
    DeclarationError,
    CorruptStateError,
    IncompatibleStateError,
    HostError,
    BrokerError,
    MemoryError,
)
_MOST_TRACEBACK = 8_000
_NO_SIDES: Mapping[str, int] = {}


def is_of_a_record(error: BaseException) -> bool:
    """Return whether an error is a record's, and not one that fails the query whatever was processed."""
    return not isinstance(error, _NOT_OF_A_RECORD)


class LetterOffice:
    """Writes dead letters, and counts them against the bound that the user wants.

    Args:
        letters: What the user wants.
        clock: Tells the times of a letter.
        metrics: Count the letters.
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
        """The number of the micro-batch, if the host has told."""
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
        self._told = ""

    def watch(self, metrics: MetricGroup) -> None:
        """Undo what a call that fails has counted in the user's metrics, too."""
        self._user_metrics, self._registered = metrics, metrics.registered

    def _count(self, told: str) -> None:
        """Count a letter.

        Raises:
            UserFunctionError: There are more than the user wants.
        """
        self._letters += 1
        self._metrics.dead_letters += 1
        if self.letters.per == "batch" and self._letters > self.letters.at_most:
            raise self._too_many(f"{self._letters:,} in a task of a micro-batch", told)
        self._told = told

    def _facts(
        self, error: Exception, method: str, subject: str, timestamp: int | None
    ) -> tuple[Any, ...]:
        """Return the columns of a letter behind those of the key, but the capsule."""
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
            counts: What `end_group` returned for it in the micro-batch before.
        """
        self._at_group, self._of_group = LetterCounts(self._letters, self._calls), counts
        self._before.setdefault(index, counts)

    def end_group(self) -> LetterCounts:
        """Return the letters of the key group that the next micro-batch has to know.

        A micro-batch may have few records.  So they are added up until there are so many that ten
        letters are the share that the user wants.
        """
        at, of = self._at_group, self._of_group
        letters = of.letters + self._letters - at.letters
        calls = of.calls + self._calls - at.calls
        if not letters or calls * self.letters.at_most >= FEW or self.letters.per == "batch":
            return NO_LETTERS
        return LetterCounts(letters, calls)

    def check_share(self) -> None:
        """Check the share of letters at the end of a task: of this micro-batch, and of the last ones.

        Raises:
            UserFunctionError: There are more letters than the user wants.
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
                raise self._too_many(f"{found:,} of {among:,}{which}", self._told)

    def _too_many(self, got: str, told: str) -> UserFunctionError:
        letters = self.letters
        rule = (
            f"at most {letters.at_most:.2%} of the records and timers of a task"
            if letters.per == "record"
            else f"at most {letters.at_most:,} records and timers of a task in a micro-batch"
        )
        return UserFunctionError(
            f"operator {self._operator!r}: DeadLetters takes {rule}, got {got}; mend the function, or "
            f"raise at_most. The last one: {told}"
        )


class CallGuard(LetterOffice):
    """Makes dead letters of calls that fail.

    Args:
        letters: What the user wants.
        stage: The tables of the operator.
        queues: The timers of both domains.
        outputs: Gather what the function yields.
        clock: Tells the times of a letter.
        metrics: Count the letters.
        operator: The name of the operator.
        key_names: The names of the columns of the key.
        capsules: Makes the capsules of letters; None for letters without one.
    """

    def __init__(
        self,
        letters: DeadLetters,
        stage: Stage,
        queues: Iterable[UndoableTimerQueue],
        outputs: Outputs,
        clock: Clock,
        metrics: OperatorMetrics,
        operator: str,
        key_names: tuple[str, ...],
        capsules: CapsuleMaker | None = None,
    ) -> None:
        super().__init__(letters, clock, metrics, operator, key_names)
        self._stage = stage
        self._queues = tuple(queues)
        self._outputs = outputs
        self._capsules = capsules
        self._current = stage.current
        self.namespace: Any = NO_NAMESPACE
        """The namespace that was current when the call began."""
        self._row = row_class((*self._key_names, *(name for name, _ in LETTER_FIELDS)))
        self._event_changes, self._processing_changes = (each.changes for each in self._queues)
        self._main = 0
        self._side: Mapping[str, int] = _NO_SIDES
        self._has_begun = True

    # A call

    def begin(self) -> None:
        """Begin a call."""
        # Runs for every record.
        self._calls += 1
        stage = self._stage
        self.namespace = self._current.namespace
        if stage.has_changed:
            try:
                stage.commit()
            except BaseException:
                self._has_begun = False
                raise
        stage.is_open = True
        if self._event_changes:
            self._event_changes.clear()
        if self._processing_changes:
            self._processing_changes.clear()
        outputs = self._outputs
        self._main = len(outputs.main)
        self._side = outputs.count_sides() if outputs.side else _NO_SIDES
        if self._registered and self._user_metrics is not None:
            self._counted = self._user_metrics.mark()

    def count_calls(self, calls: int) -> None:
        """Count calls that cannot fail any more, and were made without `begin`."""
        self._calls += calls

    def end(self) -> None:
        """End the last call: what is written from now on is written at once."""
        self._stage.end()
        self._event_changes.clear()
        self._processing_changes.clear()

    def may_keep(self, error: BaseException) -> bool:
        """Return whether an error is that of a record, and no reason to fail."""
        # What the call before has written may fail to reach the backend: that is no record's error.
        return self._has_begun and is_of_a_record(error)

    def give_up(self) -> None:
        """Undo what waits of a call whose error fails the query."""
        self._stage.drop()
        self.end()
        self._has_begun = True

    def fail(
        self,
        error: Exception,
        told: str,
        called: Called,
        shown_key: Any,
        method: str,
        subject: Any,
    ) -> None:
        """Undo the call, and put out a dead letter.

        Args:
            error: What the function raised.
            told: The text of the error that would have failed the query.
            called: The call.
            shown_key: The key in the user's form; None where there is none.
            method: The name of the method.
            subject: The element, or the time of the timer.

        Raises:
            UserFunctionError: There are more than the user wants.
        """
        self._stage.drop()
        for queue in self._queues:
            queue.undo_changes()
        self._outputs.go_back(self._main, self._side)
        if self._user_metrics is not None:
            self._user_metrics.go_back(self._counted)
        self._count(told)
        keys = shown_key if len(self._key_names) > 1 else (shown_key,)
        facts = self._facts(error, method, shown(subject), called.timestamp)
        capsule = None if self._capsules is None else self._capsules.make(called)
        letter = self._row(*keys, *facts, capsule)
        self._outputs.emit_side((self.letters.tag, letter), called.key)
