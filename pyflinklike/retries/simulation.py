# SPDX-License-Identifier: Apache-2.0
"""`simulate` checks that a function gives the same when it is retried, restarted or moved.

    simulate(Visits(), records, key_columns="user")

Spark may run a micro-batch twice, because a task failed or was slow, or go on in another process.
Results may then differ if the function keeps values outside of state, reads the clock, draws random
numbers, or depends on the order of a set.  Each run draws from a seed how the records are divided
into micro-batches.  Then it plays these three times on a harness:

* undisturbed: one instance of the function sees each record once;
* disturbed: attempts at a micro-batch fail after some records.  The state returns to the beginning
  of the batch, and the same instance or a new one repeats it.  A new instance begins with a
  snapshot.  Each attempt reads another time from the wall clock;
* cut: the records of a micro-batch come in smaller batches.

The outputs and the final state must be the same.  Afterwards, another Python process plays the same
micro-batches, because sets have another order there.  And each value that the function reads is
compared before and after the call (`ValueWatch`).

If the results differ, the history is shortened as long as a difference remains, and experiments
that change one thing each look for the cause (`_Check._find_causes`).
"""

from __future__ import annotations

import atexit
import copy
import datetime as dt
import itertools
import os
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cache, partial
from typing import Any, Final

import attrs
import cloudpickle
import pyarrow as pa

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.segments import read_segment
from pyflinklike._checks import check_count, is_int
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._messages import short_repr, shown_error
from pyflinklike._runtime.function_kinds import kind_of
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.retries.user_code import (
    CLOCK,
    UserCode,
    ValueWatch,
    move_clocks,
    use_random_seed,
)
from pyflinklike.state.fold_functions import Function
from pyflinklike.state.table import RESERVED_PREFIX, TableChanges
from pyflinklike.testing.harness_chain import HarnessChain
from pyflinklike.testing.harnesses import (
    BroadcastHarness,
    KeyedProcessHarness,
    KeyedTwoInputHarness,
)
from pyflinklike.testing.operator_harness import OperatorHarness
from pyflinklike.types.pickled_type import Pickled
from pyflinklike.types.row import Row

_START: Final = 1_000_000
_STEPS: Final = (1_000, 5_000, 60_000)
"""How far the processing time may move from one micro-batch to the next, in ms."""
_YEAR: Final = 365 * 24 * 3600
_NOON: Final = 1_700_000_000.0
_MOST_RUNS_TO_SHORTEN: Final = 100
_SHOWN: Final = 30
_TWO_INPUTS: Final = (KeyedTwoInputHarness, BroadcastHarness)
_RETRIED: Final = "when it is retried, restarted or moved"
_CUT: Final = "when its records come in other micro-batches"
_MOVED: Final = "in another Python process"


def simulate(
    function: Function | Callable[[], Any],
    *records: Any,
    key_columns: str | Sequence[str] | None = None,
    event_time: str | None = None,
    seed: int = 0,
    runs: int = 10,
    batches: int = 6,
    changed_values: bool = True,
    other_cuts: bool = True,
    other_process: bool = True,
    **options: Any,
) -> None:
    """Check that a function gives the same results if Spark retries, restarts or moves it.

    Example:
        ```python
        simulate(RunningTotal(), [{"user": "ann", "amount": 3}], key_columns="user")
        ```

    Args:
        function: A function that a harness drives; or a callable that makes a harness, or a
            `HarnessChain`, with new functions at every call.
        records: The records of each input: an iterable of dicts, `Row`s or other elements, a pandas
            DataFrame, an Arrow table or record batch, or a mapping of columns.  They come in this
            order.  Dicts become `Row`s.
        key_columns: Name of the field that is the key, or names of several; for a function only.
        event_time: Name of the field with the event time: a datetime, in UTC if it is naive, or an
            int of ms.
        seed: The seed of the first run; the others have the seeds after it.
        runs: How many runs are drawn.
        batches: About how many micro-batches each run has.
        changed_values: Whether it is also an error to change a record, or to change a value that
            was read from state without writing it back.
        other_cuts: Whether other micro-batches under the same watermarks must give the same.
        other_process: Whether another Python process, in which sets have another order, must give
            the same.
        **options: The options of the harness, such as `state_backend`; for a function only.

    Raises:
        AssertionError: The results differ.  The message has the first row that differs, the likely
            cause, and the shortest history that was found.
        UserFunctionError: The function fails even if it is not disturbed.
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """
    if not is_int(seed):
        msg = f"simulate: seed must be an int, got {short_repr(seed)}; for example 0"
        raise DeclarationTypeError(msg)
    check_count(runs, "simulate: runs")
    check_count(batches, "simulate: batches")
    subject = _Subject(function, key_columns, event_time, options)
    inputs = [_read(each, at, event_time) for at, each in enumerate(records)]
    with closing(subject.make()) as made:
        wanted = 2 if isinstance(made, _TWO_INPUTS) else 1
        if len(inputs) != wanted:
            msg = f"simulate takes the records of each input, got {len(inputs)} for {wanted} inputs"
            raise DeclarationTypeError(f"{msg}; pass a list of dicts for each")
        check = _Check(
            subject, " > ".join(each._function for each in _harnesses(made)), _code(made)
        )
    plans = {each: _draw(inputs, batches, each) for each in range(seed, seed + runs)}
    sent = b""
    if other_process:
        _start()
        sent = pickle.dumps(check.dumps(plans))  # while the clocks are the real ones
    with move_clocks(check.code.namespaces()):
        expected = {
            each: check.run(each, plan, other_cuts=other_cuts) for each, plan in plans.items()
        }
        if changed_values:
            check.values(plans[seed])
    if other_process:
        check.in_other_process(plans, expected, sent)


# The function


@attrs.frozen
class _Subject:
    """The function to check, and the options to make a harness of it."""

    function: Any
    key_columns: Any
    event_time: str | None
    options: Mapping[str, Any]

    def make(self, watch: ValueWatch | None = None) -> Any:
        """Make a harness, or a chain of harnesses, with fresh copies of the functions.

        Args:
            watch: Compares the values that a call has read before the next call begins; None
                compares nothing.

        Raises:
            DeclarationTypeError: The arguments do not fit together.
        """
        made = self._of_function() if isinstance(self.function, Function) else self._of_callable()
        if watch is not None:
            for each in _harnesses(made):
                each._operator.runtime_context.before_every_call.append(watch.end_call)
        return made

    def _of_function(self) -> Any:
        try:
            return self._harness(copy.deepcopy(self.function))
        except DeclarationTypeError:
            raise
        # A lock or a file cannot be copied, and an unknown option is a TypeError, too.
        except TypeError as error:
            msg = (
                f"simulate makes harnesses of copies of {short_repr(self.function)}, got {error}; make "
                "locks and files in open(), and pass the options that its harness takes"
            )
            raise DeclarationTypeError(msg) from error

    def _of_callable(self) -> Any:
        given = {"key_columns": self.key_columns, **self.options}
        wrong = sorted(name for name, value in given.items() if value is not None)
        if wrong:
            msg = f"a callable makes a harness with its options, got {wrong}; give them to the harness"
            raise DeclarationTypeError(msg)
        made = self.function() if callable(self.function) else None
        if not isinstance(made, (OperatorHarness, HarnessChain)):
            msg = (
                "simulate takes a function such as a KeyedProcessFunction, or a callable that makes a "
                f"harness or a HarnessChain, got {short_repr(self.function)}"
            )
            raise DeclarationTypeError(msg)
        return made

    def _harness(self, function: Any) -> Any:
        kind, options = kind_of(function), self.options
        key = self._key_selector() if kind.has_keys else None
        if kind.make_harness is not None:
            return kind.make_harness(function, self.key_columns, self.event_time, **options)
        if kind.harness == BroadcastHarness.__name__:
            return BroadcastHarness(function, key_selector=key, **options)
        two_inputs = kind.harness == KeyedTwoInputHarness.__name__
        harness: Any = KeyedTwoInputHarness if two_inputs else KeyedProcessHarness
        return harness(function, key, **options)

    def _key_selector(self) -> Callable[[Any], Any]:
        names = self.key_columns
        if isinstance(names, str):
            return partial(_field, name=names)
        if not isinstance(names, Sequence) or not all(isinstance(each, str) for each in names):
            msg = (
                f"key_columns must be the name of a column, or names of several, got {short_repr(names)}; "
                'for example "user"'
            )
            raise DeclarationTypeError(msg)
        return lambda value: tuple(_field(value, each) for each in names)


def _harnesses(made: Any) -> list[Any]:
    return made.harnesses if isinstance(made, HarnessChain) else [made]


def _code(made: Any) -> UserCode:
    """Return the user's code that the functions of the harnesses reach."""
    return UserCode(*(each._operator.function for each in _harnesses(made)))


# Records


def _read(records: Any, at: int, event_time: str | None) -> list[_Record]:
    """Return the records of an input."""
    if isinstance(records, Mapping):
        records = pa.table(dict(records))
    elif hasattr(records, "iloc"):  # pandas
        records = pa.Table.from_pandas(records, preserve_index=False)
    if isinstance(records, (pa.Table, pa.RecordBatch)):
        records = records.to_pylist()
    if not isinstance(records, Iterable) or isinstance(records, (str, bytes)):
        msg = (
            "records are a pandas DataFrame, an Arrow table, a mapping of columns or a list of dicts "
            f"or Rows, got {short_repr(records)}"
        )
        raise DeclarationTypeError(msg)
    values = [Row(**each) if isinstance(each, Mapping) else each for each in records]
    return [_Record(at, each, _time_of(each, event_time)) for each in values]


def _time_of(value: Any, event_time: str | None) -> int | None:
    time = None if event_time is None else _field(value, event_time)
    if isinstance(time, dt.datetime):
        utc = dt.timezone.utc
        aware = time if time.tzinfo else time.replace(tzinfo=utc)
        return (aware - dt.datetime(1970, 1, 1, tzinfo=utc)) // dt.timedelta(milliseconds=1)
    if time is not None and not is_int(time):
        msg = f"an event time is a datetime or an int of ms, got {short_repr(time)}; convert it"
        raise DeclarationValueError(msg)
    return time


def _field(value: Any, name: str) -> Any:
    try:
        return value[name] if isinstance(value, Row) else getattr(value, name)
    except (AttributeError, KeyError, ValueError) as error:
        msg = f"a record needs the field {name!r}, got {short_repr(value)}; add it"
        raise DeclarationValueError(msg) from error


# Plans


@attrs.frozen
class _Fault:
    """One attempt at a micro-batch: it may fail after some calls, or be made by a new instance.

    Args:
        is_new: Whether a new instance makes the attempt.
        calls: The number of records after which the attempt fails; None if it does not fail.
    """

    is_new: bool = False
    calls: int | None = None

    def describe(self, records: int) -> str:
        """Describe the attempt in words, for a batch of so many records."""
        who = "a new instance" if self.is_new else "the instance"
        if self.calls is None:
            return f"{who} does it"
        return f"{who} fails after {min(self.calls, records)} of {records} records"


@attrs.frozen
class _Record:
    """A record of an input, with its event time in ms."""

    at: int
    value: Any
    time: int | None

    def __str__(self) -> str:
        value = self.value
        if not isinstance(value, Row):
            return f"input {self.at + 1}: {short_repr(value)}"
        fields = (
            f"{name}={each.isoformat() if isinstance(each, dt.datetime) else short_repr(each)}"
            for name, each in value.as_dict().items()
        )
        return f"input {self.at + 1}: {', '.join(fields)}"


@attrs.define
class _Batch:
    """A micro-batch at a processing time and under a watermark in ms.

    In a plan it is the step that begins a batch; the steps after it are its faults and records.
    """

    number: int
    now: int
    watermark: int = MIN_WATERMARK
    faults: list[_Fault] = attrs.field(factory=list)
    records: list[_Record] = attrs.field(factory=list)

    def attempts(self) -> list[_Fault]:
        """Return the attempts in order; the last one succeeds."""
        is_done = bool(self.faults) and self.faults[-1].calls is None
        return self.faults if is_done else [*self.faults, _Fault()]


_Plan = Sequence[Any]
"""The steps of a run in order; any of them can be left out."""


def _batches_of(plan: _Plan) -> list[_Batch]:
    """Return the micro-batches; the slowest input before a batch makes its watermark."""
    batches: list[_Batch] = []
    latest: dict[int, int] = {}
    for step in plan:
        if isinstance(step, _Batch):
            watermark = min(latest.values(), default=MIN_WATERMARK)
            batches.append(_Batch(step.number, step.now, watermark))
        elif isinstance(step, _Fault):
            batches[-1].faults.append(step)
        else:
            batches[-1].records.append(step)
            if step.time is not None:
                latest[step.at] = max(step.time, latest.get(step.at, step.time))
    return batches


def _draw(inputs: Sequence[Sequence[_Record]], batches: int, seed: int) -> _Plan:
    """Draw a plan; its last micro-batch has no records, so that timers can still fire."""
    numbers, now, plan = random.Random(seed), _START, list[Any]()
    left = [list(each) for each in inputs]
    for number in itertools.count():
        now += numbers.choice(_STEPS)
        plan.append(_Batch(number, now))
        sizes = [numbers.randint(1, max(1, -(-3 * len(each) // batches))) for each in inputs]
        taken = [record for each, size in zip(left, sizes) for record in each[:size]]
        left = [each[size:] for each, size in zip(left, sizes)]
        for _ in range(numbers.choice((0, 1, 1, 2))):
            plan.append(_Fault(numbers.random() < 0.4, numbers.randint(0, len(taken))))
        if numbers.random() < 0.4:
            plan.append(_Fault(is_new=True))
        plan += taken
        if not taken:
            break
    return plan


def _describe_plan(plan: _Plan, *, is_disturbed: bool) -> list[str]:
    """Describe a plan in words, line by line."""
    lines = []
    for batch in _batches_of(plan):
        has_none = batch.watermark == MIN_WATERMARK
        under = "no watermark" if has_none else f"the watermark {batch.watermark}"
        lines.append(f"batch {batch.number} runs at {batch.now} ms, under {under}")
        if is_disturbed and batch.faults:
            lines += [f"    {each.describe(len(batch.records))}" for each in batch.attempts()]
        lines += [f"    {each}" for each in batch.records]
    return lines


# Playing


@attrs.frozen
class _Result:
    """The result of playing a plan.

    Args:
        found: Counters of the rows of each micro-batch and of the entries of each state.  The key
            of a counter is its name in messages, and the number of the harness.
        kept: The values outside of state that the functions have changed, in words.
    """

    found: dict[tuple[str, int], Counter[_Shown]]
    kept: list[str]


def _play(
    subject: _Subject,
    plan: _Plan,
    seed: int = 0,
    *,
    is_disturbed: bool = False,
    cuts: random.Random | None = None,
    watch: ValueWatch | None = None,
    finds_kept: bool = False,
) -> _Result:
    """Play a plan to its end.

    Args:
        subject: The function to check, with its options.
        plan: The micro-batches, and the attempts at each.
        seed: The seed of the random numbers that the function draws.
        is_disturbed: Whether attempts fail and instances change, as the plan says.
        cuts: The generator that draws smaller batches; None keeps the batches of the plan.
        watch: Finds changes of the values that functions get; None looks for none.
        finds_kept: Whether to find the values outside of state that change.
    """
    found: dict[tuple[str, int], Counter[_Shown]] = {}
    with use_random_seed(seed), ExitStack() as opened:
        opened.callback(CLOCK.reset)
        made = opened.enter_context(closing(subject.make(watch)))
        before = _code(made).digest_kept() if finds_kept else {}
        for batch in _batches_of(plan):
            saved = [each.snapshot() for each in _harnesses(made)] if is_disturbed else []
            for attempt in batch.attempts() if is_disturbed else [_Fault()]:
                if attempt.is_new:
                    made.close()
                    made = opened.enter_context(closing(subject.make(watch)))
                if is_disturbed:
                    _restore(made, saved)
                marks = [_emitted(each) for each in _harnesses(made)]
                _run(made, batch, attempt.calls, cuts, watch)
            for at, (each, mark) in enumerate(zip(_harnesses(made), marks)):
                found[f"rows of batch {batch.number}", at] = _emitted(each) - mark
        after = _code(made).digest_kept() if finds_kept else {}
        for at, each in enumerate(_harnesses(made)):
            found |= {(f"state {name!r}", at): some for name, some in _states_of(each)}
    return _Result(found, sorted(each for each in after if before.get(each) != after[each]))


def _restore(made: Any, saved: Sequence[bytes]) -> None:
    """Go back to the beginning of a micro-batch, at another time of the wall clock."""
    # At least an hour, so that a function that rounds the time is found, too.
    CLOCK.offset = random.uniform(3600, _YEAR)
    for harness, snapshot in zip(_harnesses(made), saved):
        state = KeyGroupState(0)
        state.read(read_segment(snapshot, "snapshot"), "snapshot")
        harness._operator.group.enter(state)


def _run(
    made: Any,
    batch: _Batch,
    calls: int | None,
    cuts: random.Random | None,
    watch: ValueWatch | None,
) -> None:
    """Make an attempt at a micro-batch: timers fire first, as on Spark."""
    made.set_processing_time(batch.now)
    if isinstance(made, HarnessChain):
        made.process_watermark(batch.watermark)
    else:
        # Move both inputs at once, and back if this is another attempt at the batch.
        made._move(made._operator.advance_watermark, batch.watermark)
    records = copy.deepcopy(batch.records[:calls])
    if watch is not None:
        watch.begin(_harnesses(made)[0]._function, [each.value for each in records])
    for _, group in itertools.groupby(records, lambda each: each.at):
        part = list(group)
        while part:
            size = cuts.randint(1, 3) if cuts else len(part)
            _process(made, part[:size])
            part = part[size:]
    if watch is not None:
        watch.end()


def _process(made: Any, records: Sequence[_Record]) -> None:
    """Pass records of one input to a harness as a batch."""
    if hasattr(made, "process_batch"):
        made.process_batch(pa.Table.from_pylist([each.value.as_dict() for each in records]))
    elif isinstance(made, _TWO_INPUTS):
        names = ("process_element1", "process_element2")
        if isinstance(made, BroadcastHarness):
            names = ("process_element", "process_broadcast_element")
        for each in records:
            getattr(made, names[each.at])(each.value, each.time)
        made.end_batch()
    else:
        made.process_elements([(each.value, each.time) for each in records])


# Comparing results


@attrs.frozen
class _Shown:
    """A value as a message shows it; it is equal to values of the same content."""

    content: Any
    text: str = attrs.field(eq=False)

    @classmethod
    def of(cls, value: Any, text: str | None = None) -> _Shown:
        return cls(_frozen(value), short_repr(value) if text is None else text)


def _frozen(value: Any) -> Any:
    """Return a hashable form of a value, which is equal for equal content in any process."""
    if isinstance(value, Pickled):
        # Equal values may have different pickles, such as sets.  This function pickled it itself.
        value = pickle.loads(value)
    if isinstance(value, Mapping):
        return ("map", frozenset((_frozen(k), _frozen(v)) for k, v in value.items()))
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(map(_frozen, value)))
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, float) and value != value:
        return "NaN"  # which is not equal to itself
    if hasattr(value, "tolist"):  # NumPy
        return _frozen(value.tolist())
    if isinstance(value, (str, bytes, int, float, type(None), dt.date, dt.time, dt.timedelta)):
        return value
    fields = getattr(value, "__dict__", None)
    return (type(value).__qualname__, _frozen(fields) if fields else repr(value))


def _emitted(harness: Any) -> Counter[_Shown]:
    """Count all outputs of a harness so far, side outputs with their tags."""
    rows = harness.output
    if hasattr(harness, "process_batch"):  # its outputs are record batches
        rows = [tuple(row.values()) for batch in rows for row in batch.to_pylist()]
    found = Counter(map(_Shown.of, rows))
    for tag, values in harness._side_output.items():
        found.update(_Shown.of((tag, each), f"{short_repr(each)} in {tag!r}") for each in values)
    return found


def _states_of(harness: Any) -> list[tuple[str, Counter[_Shown]]]:
    """Count the entries of each state, by name; timers have a state, too."""
    # Attempts differ in which expired entries they have met; a compaction deletes them.
    harness.compact()
    found: dict[str, Counter[_Shown]] = {}
    for changes in harness._operator.backend.contents():
        name = changes.spec.name.removeprefix(RESERVED_PREFIX)
        entries = map(_Shown.of, _entries(changes, harness._key_type))
        found.setdefault(name, Counter()).update(entries)
    return sorted(found.items())


def _entries(changes: Any, key_type: Any) -> Iterable[tuple[Any, ...]]:
    if isinstance(changes, TableChanges):
        return zip(changes.keys, changes.user_keys, changes.entries)
    others = [changes.values, changes.user_keys, changes.stamps]
    lists = [each.tolist() for each in others if each is not None]
    return zip(key_type.from_arrow(changes.keys), *lists)


def _difference(expected: _Result, got: _Result, otherwise: str) -> str | None:
    """Return the first difference of two results in words, or None."""
    for at in {**expected.found, **got.found}:
        wanted, rows = (each.found.get(at, Counter()) for each in (expected, got))
        if wanted != rows:
            row, instead = (
                next((each.text for each in one), "nothing")
                for one in (rows - wanted, wanted - rows)
            )
            return f"{at[0]}: got {row}, {otherwise} {instead}"
    return None


# Checks


@attrs.frozen
class _Check:
    """The checks of one call.

    Args:
        subject: The function to check, with its options.
        name: The names of the functions, joined in the order of a chain.
        code: The user's code that the functions reach.
    """

    subject: _Subject
    name: str
    code: UserCode

    def run(self, seed: int, plan: _Plan, *, other_cuts: bool) -> _Result:
        """Play a plan undisturbed, disturbed and cut; return the result of the first.

        Raises:
            AssertionError: The results differ.
        """
        expected = _play(self.subject, plan)
        for is_cut in (False, True) if other_cuts else (False,):
            what = self._compare(seed, plan, expected, is_cut=is_cut)
            if what is not None:
                raise AssertionError(self._explain(seed, plan, what, is_cut=is_cut))
        return expected

    def _compare(self, seed: int, plan: _Plan, expected: _Result, *, is_cut: bool) -> str | None:
        """Play a plan disturbed or cut, and return the first difference from the expected."""
        cuts = random.Random(seed) if is_cut else None
        try:
            got = _play(self.subject, plan, seed + 1, is_disturbed=not is_cut, cuts=cuts)
        except Exception as error:
            return f"an error: {shown_error(error)}"
        return _difference(expected, got, "where nothing fails it is")

    def _explain(self, seed: int, plan: _Plan, what: str, *, is_cut: bool) -> str:
        """Return the message about a difference, with the shortest plan that is found."""
        # Leave out ever smaller parts of the plan, as long as a difference of the same kind
        # remains.
        runs, size = 0, len(plan) // 2
        while size:
            at = 0
            while at < len(plan) and runs < _MOST_RUNS_TO_SHORTEN:
                fewer, runs, found = [*plan[:at], *plan[at + size :]], runs + 1, None
                with suppress(Exception):  # with fewer records the function may fail by itself
                    expected = _play(self.subject, fewer)
                    found = self._compare(seed, fewer, expected, is_cut=is_cut)
                if found is not None and found.split()[0] == what.split(maxsplit=1)[0]:
                    plan, what = fewer, found
                else:
                    at += size
            size //= 2
        causes = self._find_causes(plan) or [_CUTS if is_cut else _NONE]
        history = [
            "Shortest history that was found:",
            *_describe_plan(plan, is_disturbed=not is_cut),
        ]
        return self._message(seed, _CUT if is_cut else _RETRIED, what, causes, history)

    def _message(
        self, seed: int, when: str, what: str, causes: Iterable[str], history: list[str]
    ) -> str:
        title, *lines = history
        more = len(lines) - _SHOWN
        return "\n".join(
            [
                f"{self.name} does not give the same {when}.",
                f"First difference: {what}",
                *(f"Likely cause: {each}" for each in causes),
                title,
                *(f"    {each}" for each in lines[:_SHOWN]),
                *([f"    ... and {more} more lines"] if more > 0 else []),
                f"To run it alone: simulate(..., seed={seed}, runs=1)",
            ]
        )

    def _find_causes(self, plan: _Plan) -> list[str]:
        """Return the likely causes in words, by experiments that change one thing each."""
        found: list[str] = []
        with suppress(Exception):  # if the function fails by itself, the history says enough
            first = self._experiment(plan)
            found += [f"{name} {_KEPT}" for name in first.kept]
            # Only if two equal runs agree can a third that differs show the cause.
            if first.found == self._experiment(plan).found:
                if first.found != self._experiment(plan, seed=2).found:
                    found.append(_RANDOM)
                if first.found != self._experiment(plan, later=40_000_000.0).found:
                    found.append(_CLOCK)
            elif not found:
                found.append(_UNKNOWN_SOURCE)
        if not found and self.code.names & _EXPIRED_NAMES:
            found.append(_EXPIRED)
        return found

    def _experiment(self, plan: _Plan, seed: int = 1, later: float = 0.0) -> _Result:
        """Play a plan with these random numbers, and by a clock that stands still."""
        CLOCK.stands_at = _NOON + later
        return _play(self.subject, plan, seed, finds_kept=True)

    def values(self, plan: _Plan) -> None:
        """Check that the function does not change records or values that it reads.

        Raises:
            AssertionError: The function changes one without writing it back.
        """
        watch = ValueWatch()
        with watch.over_states():
            _play(self.subject, plan, watch=watch)
        if watch.found:
            msg = (
                f"{self.name} changes values that are its own copies, so that the change is lost: "
                f"{watch.found[0]}.\nWrite it back with update() or put().  If the change need not "
                "stay, pass changed_values=False."
            )
            raise AssertionError(msg)

    def in_other_process(
        self, plans: Mapping[int, _Plan], expected: Mapping[int, _Result], sent: bytes
    ) -> None:
        """Check that a process in which strings have other hashes gives the same.

        Python draws the hashes of strings anew in each process, and so do Spark's workers.  Within
        one process a set has one order, so only another process finds a function that depends on
        it.

        Raises:
            AssertionError: The results differ.
            DeclarationError: The function cannot run in another process.
        """
        results = _ask(sent)
        if isinstance(results, str):
            msg = (
                "a function must run in another Python process, as it does on Spark, got an error "
                f"there: {results}; or pass other_process=False"
            )
            raise DeclarationError(msg)
        for seed, other in results.items():
            what = _difference(other, expected[seed], "there it is")
            if what is not None:
                history = ["Records:", *_describe_plan(plans[seed], is_disturbed=False)]
                raise AssertionError(self._message(seed, _MOVED, what, [_ANOTHER_ORDER], history))

    def dumps(self, plans: Mapping[int, _Plan]) -> bytes:
        """Pickle the plans for the other process, with the user's modules if they pickle."""
        names = {str(each.get("__name__")) for each in self.code.namespaces()}
        names -= {"__main__", *cloudpickle.list_registry_pickle_by_value()}
        taken = [sys.modules[name] for name in names if name in sys.modules]
        for each in taken:
            cloudpickle.register_pickle_by_value(each)
        dumps: Callable[[Any], bytes] = cloudpickle.dumps
        try:
            return dumps((self.subject, plans))
        except Exception:  # if a module has an object that does not pickle, the process imports it
            pass
        finally:
            for each in taken:
                cloudpickle.unregister_pickle_by_value(each)
        return dumps((self.subject, plans))


# Causes

_KEPT: Final = (
    "changes while records are processed, and is not state: it is lost when its worker ends, an "
    "attempt that is repeated finds what a failed one has left, and all keys of a worker share it; "
    "keep it in state"
)
_RANDOM: Final = (
    "it draws random numbers, and an attempt that is repeated draws others: make them of the record, "
    "as `random.Random(f'{key} {value}')` does"
)
_CLOCK: Final = (
    "it reads the wall clock, and an attempt that is repeated reads another time: take "
    "`ctx.timer_service().current_processing_time()`, which is the micro-batch's time, or "
    "`ctx.timestamp()`"
)
_UNKNOWN_SOURCE: Final = (
    "two runs over the same records in one process differ: it depends on something that is neither "
    "in the records nor in state, such as a global, a generator of random numbers that the system "
    "seeds, a clock of pandas, a file or a service"
)
_EXPIRED_NAMES: Final = {"return_expired_if_not_cleaned_up", "ReturnExpiredIfNotCleanedUp"}
_EXPIRED: Final = (
    "a state returns expired values until they are cleaned up, and the time of the cleanup differs: "
    "use a TTL that never returns expired values"
)
_CUTS: Final = (
    "it depends on which records come in one batch, and Spark chooses that: keep in state what goes "
    "from one batch to the next, or pass other_cuts=False if you want a row for each batch"
)
_NONE: Final = (
    "not found in self, globals, random numbers or the clock: look for what differs between attempts "
    "and workers (a cache, a file, a service, a number of calls)"
)
_ANOTHER_ORDER: Final = (
    "the order of a set, hash() or id(), which differ between Python processes: sort the elements of "
    "a set, as `sorted(names)` does"
)


# Another Python process


@cache
def _start() -> subprocess.Popen[bytes]:
    """Start the other process; it stays for the next call, since its imports take a second."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    started = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(started.kill)
    return started


def _ask(sent: bytes) -> Any:
    """Return the results of the other process, or its error in words."""
    process: Any = _start()
    try:
        process.stdin.write(sent)
        process.stdin.flush()
        return pickle.load(process.stdout)  # safe, because `serve` wrote it
    except BaseException as error:
        # Also after Ctrl-C: the late answer must not be read as the answer to the next question.
        _start.cache_clear()
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()
        if isinstance(error, (OSError, EOFError)):
            return "the end of the process, see its output"
        raise


def serve() -> None:
    """Play plans from standard input until it ends; the other process runs this."""
    # Answers go to the original standard output, and prints of the function to standard error.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        answer: Any
        try:
            sent = pickle.load(sys.stdin.buffer)  # from the process that started this one
        except EOFError:
            return
        try:
            subject, plans = pickle.loads(sent)
            answer = {seed: _play(subject, plan) for seed, plan in plans.items()}
        except Exception as error:
            answer = shown_error(error)
        answers.write(pickle.dumps(answer))
        answers.flush()
