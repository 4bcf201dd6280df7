# SPDX-License-Identifier: Apache-2.0
"""One simulated run: a program in a world of faults, compared with what must come of it.

A run is a function of its seed.  Whatever is random or differs from process to process in the real
code is replaced while it runs, here and nowhere else (`seeded`).

The outcome is one of four, of which the last two are failures:

* equal: rows, state and leftovers are those of the oracle;
* an error of ours, which an injected fault explains: versions of two attempts were mixed in the
  very store that it is about, which Spark's format 1 allows; or a file of it was damaged; or a type
  has grown since the last records came, and the readers of state ask for more of them;
* a silent difference;
* another error.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import re
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from pyflinklike._changelog.log_storage import HEAD_AT, WATERMARK_AT, Head
from pyflinklike._changelog.operator_record import (
    RECORD_AT,
    REGISTRY_AT,
    KeyGroupRegistry,
    OperatorRecord,
)
from pyflinklike._changelog.segments import Declaration, Segment
from pyflinklike.backends.heap import heap_backend
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, PyflinklikeError
from pyflinklike.spark._host import collector_freeze
from pyflinklike.spark._host.blob_map import log_variable
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.key_groups import (
    REGISTRY_KEY,
    index_of,
    is_registry_key,
    operator_index_of,
    registry_key_of,
)
from pyflinklike.state_processor._logs.checkpoint_logs import (
    check_groups,
    check_log,
    record_and_registry,
)
from simulated.choices import Choices, Decision, shorten
from simulated.file_system import KINDS, FileSystem
from simulated.program import (
    Expected,
    Program,
    SimulatedOperator,
    read_changes,
    read_state,
)
from simulated.query import (
    DriverDiedError,
    Faults,
    Place,
    Query,
    QueryFailedError,
)
from simulated.state_store import Change, Contents, StateStores
from simulated.tasks import Cluster

__all__ = ["Conditions", "DifferenceError", "Outcome", "Run", "run", "run_shortest", "use_seed"]


@attrs.frozen
class Outcome:
    """How a run ended.

    Args:
        kind: "equal", "error of ours", "silent difference" or "raw error".
        what: In words.
        batches: Micro-batches that were run, with those that were run again.
        history: What happened, line by line.
        decisions: That were made on the way.
    """

    kind: str
    what: str
    batches: int
    history: tuple[str, ...]
    decisions: tuple[Decision, ...]

    @property
    def is_failure(self) -> bool:
        """Whether something is wrong with the code that ran."""
        return self.kind in ("silent difference", "raw error")


def run(
    seed: int,
    draw_program: Callable[[Choices], Program],
    batches: int = 20,
    cut: Iterable[str] = (),
) -> Outcome:
    """Run one program in one world.

    Args:
        seed: Decides about both.
        draw_program: Draws the program.
        batches: About how many micro-batches are committed.
        cut: Names of decisions at which nothing happens.
    """
    choices = Choices(seed, cut)
    with use_seed(seed) as folder:
        return Run(choices, draw_program, batches, folder).outcome()


def run_shortest(
    seed: int, draw_program: Callable[[Choices], Program], batches: int, first: Outcome
) -> Outcome:
    """Return the shortest run found that fails as another one does.

    Args:
        seed: The seed from which every decision of the run follows.
        draw_program: As `run` takes it.
        batches: As `run` takes it.
        first: The outcome of the whole run, a failure.
    """
    best = [first]

    def fails(cut: frozenset[str]) -> list[str] | None:
        outcome = run(seed, draw_program, batches, cut)
        if outcome.kind != first.kind or _words(outcome) != _words(first):
            return None
        best[0] = outcome
        return [each.name for each in outcome.decisions]

    shorten(fails, [each.name for each in first.decisions])
    return best[0]


def _words(outcome: Outcome) -> str:
    """Return the first words of what went wrong, without numbers."""
    return re.sub(r"\d+", "", outcome.what.partition(":")[0])


# What is random, or differs from process to process


@contextmanager
def use_seed(seed: int) -> Iterator[str]:
    """Replace what is random in the real code by numbers from a seed; yield a folder for disks."""
    numbers = random.Random(seed)  # a simulation guards nothing
    # Nonces of heads and segments, ids of plans and stores (`uuid.uuid4` asks it, too).
    former, os.urandom = os.urandom, numbers.randbytes
    reuse, dirs = os.environ.get("SPARK_REUSE_WORKER"), os.environ.get("SPARK_LOCAL_DIRS")
    # Spark's default: functions wait in their worker for the next task.
    os.environ["SPARK_REUSE_WORKER"] = "1"
    # The collections between tasks go by CPU time.
    frozen, collector_freeze._FROZEN = collector_freeze._FROZEN, _NothingFrozen()  # type: ignore[assignment]
    # What stays warm goes by the size of objects, which is each Python's own.
    heap: Any = heap_backend
    getsizeof, heap.getsizeof = heap.getsizeof, _size_of
    seeds = _columnar_seed(seed)
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a folder within it
    folder = tempfile.mkdtemp(prefix="simulated-", dir=base)
    logger = logging.getLogger("pyflinklike")
    level, was_on = logger.level, gc.isenabled()
    logger.setLevel(logging.CRITICAL)
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield folder
    finally:
        os.urandom = former
        _restore("SPARK_REUSE_WORKER", reuse)
        _restore("SPARK_LOCAL_DIRS", dirs)
        collector_freeze._FROZEN = frozen
        heap.getsizeof = getsizeof
        _columnar_seed(seeds)
        logger.setLevel(level)
        if was_on:
            gc.enable()
        shutil.rmtree(folder, ignore_errors=True)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _size_of(value: Any) -> int:
    # An `isinstance` of `Sized` took a hundredth of a run.
    return 64 * (1 + len(value)) if hasattr(value, "__len__") else 32


class _NothingFrozen:
    def begin_task(self) -> None:
        """Leave the collector alone."""


def _columnar_seed(seed: int) -> int:
    """Set the seed of the hashes of columnar keys, where NumPy is installed; return the former."""
    try:
        from pyflinklike.columns import vectors
    except ImportError:
        return 0
    former, vectors._SEED = vectors._SEED, seed & (2**63 - 1)
    return former


# The run


class DifferenceError(Exception):
    """The rows or the state are not those of the oracle."""


@attrs.frozen
class Conditions:
    """What a world is drawn from.

    Args:
        formats: Of the checkpoint.
        rates: How often something goes wrong: shares of the attempts.
        may_be_damaged: Whether a file of state may be damaged on its disk, or read with a bit that is
            another at the end.
        restarts: How often a query is stopped and started again in good order, as a share of the
            steps; None for one of 20, or of 4, in runs in which something goes wrong.
    """

    formats: tuple[int, ...] = (1, 2)
    rates: tuple[float, ...] = (0.2, 0.4, 0.05, 0.0)
    may_be_damaged: bool = True
    restarts: float | None = None


_READ_LATER = "read it after the next one with records"
_REFUSED_WITHIN = 3
_FLIPS = 4
"""Bits of each operator that are made others at the end, one at a time."""
_JUMPS = (1_000, 700, 1, 0, 300, 2_500, 10_000, 3_600_000)


class Run:
    """One run.

    Args:
        choices: Decide about everything.
        draw_program: Draws the program.
        batches: About how many micro-batches are committed.
        folder: For the local disks of executors.
        conditions: What the world is drawn from.
    """

    def __init__(
        self,
        choices: Choices,
        draw_program: Callable[[Choices], Program],
        batches: int,
        folder: str,
        conditions: Conditions = Conditions(),
    ) -> None:
        self._choices = choices
        self._batches = batches
        self._folder = folder
        world = choices.within("world")
        self._files = FileSystem(world.one_of("file system", KINDS))
        self._stores = StateStores(
            self._files,
            world.one_of("format", conditions.formats),
            world,
            may_be_damaged=conditions.may_be_damaged,
        )
        rate = world.one_of("faults", conditions.rates)
        # Where drivers seldom die workers live long: what they keep is believed, or must not be.
        drivers = rate / world.one_of("drivers live long", (100, 8))
        faults = Faults(rate, drivers, world.one_of("maintenance", (0.0, 0.2, 0.8)), rate / 8)
        self._program = draw_program(choices.within("program"))
        self._query = Query(self._program, world, Cluster(world, folder), self._stores, faults)
        self._query.note(
            f"format {self._stores.format_version} on {self._files.kind}, faults {rate}: "
            f"{self._program.name}"
        )
        self._rate = rate
        usual = world.one_of("restarts", (0.05, 0.05, 0.05, 0.25)) if rate else 0.0
        self._restarts = usual if conditions.restarts is None else conditions.restarts
        # Who restarts a query often does it to change it.
        self._changes = 0.6 if usual > 0.05 else 0.3
        self._flips = _FLIPS if conditions.may_be_damaged else 0
        self._places: set[Place] = set()
        """The stores of which an error of the readers of state may be about."""

    def outcome(self) -> Outcome:
        """Run to the end, and compare."""
        kind, what = self._end()
        return Outcome(
            kind,
            what,
            self._query.runs,
            tuple(self._query.history),
            tuple(self._choices.make()),
        )

    def _end(self) -> tuple[str, str]:
        query = self._query
        try:
            try:
                self._live()
            finally:
                query.end()
            self._check_late()
            self._compare()
        except QueryFailedError as failure:
            self._places = {failure.place}
            return self._judge(failure.error)
        except DifferenceError as difference:
            return "silent difference", str(difference)
        except Exception as error:  # the outcome says what it was
            return self._judge(error)
        return "equal", ""

    def _judge(self, error: BaseException) -> tuple[str, str]:
        what = f"{type(error).__name__}: {first_line(error)}"
        if self._is_explained(error, self._places):
            return "error of ours", what
        is_early = _READ_LATER in what and not self._is_noted
        if isinstance(error, IncompatibleStateError) and is_early:
            return "error of ours", what
        return "raw error", what

    @property
    def _is_noted(self) -> bool:
        """Whether the operators' records say what the last program declares.

        Only a micro-batch with records writes them anew: until then the readers of state go by the
        TTL, retention and types of the program before.
        """
        committed = self._query.committed
        last = committed[-1].program
        return any(each.program is last and any(each.records) for each in committed)

    def _is_explained(self, error: BaseException, places: set[Place]) -> bool:
        """Return whether what befell one of some stores explains an error.

        Two attempts may have written one version of it, of which neither knows: only format 1 allows
        that.  Or a file of it was damaged, which may make state look like another program's.
        """
        if isinstance(error, CorruptStateError) and places & self._stores.mixed:
            return True
        ours = isinstance(error, (CorruptStateError, IncompatibleStateError))
        return ours and bool(places & self._stores.damaged)

    def _check_late(self) -> None:
        """Look at the errors of attempts that nobody waited for."""
        for error, place in self._query.late_errors:
            if isinstance(error, CorruptStateError):
                is_explained = self._is_explained(error, {place})
            else:
                is_explained = isinstance(error, PyflinklikeError)
            if not is_explained:
                raise error

    # The lives of the query

    @property
    def _least_jump(self) -> int:
        """In ms: with timers of the clock no two micro-batches are at one time.

        Event timers wait there for Spark's next call, which is at a later time.
        """
        modes = [each.plan.time_mode for each in self._program.operators]
        return int(TimeMode.PROCESSING_TIME in modes)

    def _live(self) -> None:
        query, choices = self._query, self._choices
        query.start(self._program)
        steps = 0
        while len(query.committed) < self._batches and steps < 6 * self._batches:
            steps += 1
            step = choices.within(f"step {steps}")
            query.now += max(step.one_of("clock", _JUMPS), self._least_jump)
            query.grow(step)
            try:
                query.trigger()
                if query.is_over:
                    self._restart(step, keeps_executors=step.happens("same application", 0.5))
                    continue
            except DriverDiedError:
                self._restart(step, keeps_executors=False)
                continue
            if step.happens("restart", self._restarts):
                self._restart(step, keeps_executors=step.happens("same application", 0.5))
        # What was planned is brought to its end.
        for _ in range(50):
            query.now += self._least_jump
            try:
                if not query.trigger():
                    if not query.is_over or query.ends == query.committed_ends:
                        return
                    query.die(keeps_executors=True)
                    query.start(self._program)
                if query.ends == query.committed_ends:
                    return
            except DriverDiedError:
                self._restart(choices.within("last"), keeps_executors=False)
        msg = "the query does not come to an end"
        raise DifferenceError(msg)

    def _restart(self, step: Choices, *, keeps_executors: bool) -> None:
        query = self._query
        query.die(keeps_executors=keeps_executors)
        may_go_back = self._program.clock_may_go_back and not keeps_executors
        if may_go_back and step.happens("clock goes back", 0.3):
            query.now -= step.integer("back by", 1, 100_000)
        if self._rate and step.happens("refused", 0.1):
            self._refuse(step)
        # An attempt of the former program that still runs would write its state over that of the
        # changed one.  Only unique ids tell: in format 1 whoever changes a program sees to it that
        # nothing of the former one is left.
        is_safe = self._stores.format_version == 2 or not query.zombies
        if is_safe and step.happens("changed", self._changes):
            self._program = self._program.change(step.within("program"))
        # One with timers of the clock has always another micro-batch, and never ends.
        ends = all(
            each.plan.time_mode is not TimeMode.PROCESSING_TIME for each in self._program.operators
        )
        query.start(self._program, available_now=ends and step.happens("available now", 0.15))

    def _refuse(self, step: Choices) -> None:
        """Start a program that must not go on from the checkpoint, and see that it does not."""
        query = self._query
        refused = self._program.draw_refusal(step.within("refused program"))
        if refused is None or not any(query.committed_ends):
            return
        query.start(refused.program)
        query.note(f"which must be refused: {refused.why}")
        try:
            for at in range(_REFUSED_WITHIN):
                query.now += self._least_jump
                query.grow(step.within(f"refused {at}"))
                # A micro-batch without records, and without a timer that is due, calls nobody.
                if query.trigger() and any(query.committed[-1].records):
                    msg = f"a program that must be refused went on: {refused.why}"
                    raise DifferenceError(msg)
        except refused.error as error:
            query.note(f"refused: {first_line(error)}")
        except QueryFailedError as failure:
            if not isinstance(failure.error, refused.error):
                raise
            query.note(f"refused: {first_line(failure.error)}")
        except DriverDiedError:
            pass
        query.die(keeps_executors=False)
        if self._stores.format_version == 1:
            query.end()  # an attempt of the refused program would write over the state of the real one
        # What called nobody is the same under any program; the model cannot begin with this one.
        query.committed[:] = [
            attrs.evolve(each, program=self._program) if each.program is refused.program else each
            for each in query.committed
        ]

    # What came of it

    def _compare(self) -> None:
        query = self._query
        if not query.committed:
            return
        expected = self._program.expect(query.committed)
        for batch in query.committed:
            number = batch.number
            wanted: Mapping[Any, int] = expected.rows.get(number, {})
            got = query.sinks.by_batch[number]
            if got != wanted:
                self._differ(f"rows of batch {number}", got, wanted)
        self._compare_plain(expected.rows)
        self._compare_states(expected)

    def _compare_states(self, expected: Expected) -> None:
        states = self._states(expected.changes)
        for at, wanted_state in enumerate(expected.states):
            got_state = next(states)
            if not self._is_noted:
                continue
            for name in sorted({*got_state, *wanted_state}):
                nothing: Mapping[Any, int] = {}
                got_rows = got_state.get(name, nothing)
                wanted_rows = wanted_state.get(name, nothing)
                if got_rows != wanted_rows:
                    self._differ(f"operator {at} state {name!r}", got_rows, wanted_rows)

    def _compare_plain(self, expected: Mapping[int, Any]) -> None:
        """Check that the plain sink has each micro-batch, whole, at least once."""
        programs = {batch.number: batch.program for batch in self._query.committed}
        for number, rows, program in self._query.sinks.written:
            # What a former program gave, before the micro-batch was done again by another, may differ.
            if program is programs.get(number) and rows != expected.get(number, {}):
                self._differ(f"rows of batch {number} in the plain sink", rows, expected[number])

    def _differ(self, where: str, got: Any, wanted: Any) -> None:
        more = [(row, n - wanted.get(row, 0)) for row, n in got.items() if n > wanted.get(row, 0)]
        less = [(row, n - got.get(row, 0)) for row, n in wanted.items() if n > got.get(row, 0)]
        msg = f"{where}: too much {_some(more)}, missing {_some(less)}"
        raise DifferenceError(msg)

    # State as the readers of state see it

    def _states(self, changes: Sequence[Sequence[Segment]]) -> Iterator[Any]:
        may_change = iter(changes)
        # Of the program that wrote it: another may have been started since, without a micro-batch.
        for at, shared in enumerate(self._query.committed[-1].program.state_operators):
            for place, operator in enumerate(shared.members):
                yield self._state(at, place, operator, next(may_change, None))

    def _state(
        self, at: int, place: int, operator: SimulatedOperator, may_change: Any = None
    ) -> Any:
        query = self._query
        last = query.committed[-1]
        version = last.number + 1
        where = f"operator {operator.plan.task.name!r}"
        groups: dict[int, tuple[Head, dict[int, bytes]]] = {}
        own: dict[int, bytes] = {}
        count = operator.plan.task.max_parallelism
        home: Place = at, index_of(registry_key_of(place), query.partitions)
        places: dict[int, Place] = {}
        for partition in range(query.partitions):
            self._places = {(at, partition)}
            contents = self._stores.contents(
                at, partition, version, query.unique_id(at, partition, version)
            )
            self._check_leftovers(contents, where, operator)
            for (_, key), blobs in contents.blobs.items():
                if key < REGISTRY_KEY or operator_index_of(key) != place:
                    continue
                if is_registry_key(key):
                    own = blobs
                else:
                    index = index_of(key, count)
                    places[index] = at, partition
                    groups[index] = (Head.from_bytes(blobs[HEAD_AT], where), blobs)
        if not own:
            if groups:
                msg = f"{where}: key groups without a record"
                raise DifferenceError(msg)
            return {}
        self._places = {home}
        record, registry = record_and_registry(own, where)
        self._places = {(at, each) for each in range(query.partitions)}
        check_groups(registry, groups, where)
        logs = {}
        for index, (_, blobs) in groups.items():
            self._places = {home, places[index]}
            served_at, name = registry.served_at[index], f"{where}, key group {index}"
            logs[index] = check_log(record.identity, served_at, blobs, name)
        self._places = set()
        stored = _Stored(at, place, operator, where, record, registry, groups, places, logs)
        if may_change is not None and self._is_noted:
            self._check_changes(stored, may_change)
        self._check_damage(stored)
        return read_state(record, logs, last.now, last.watermark, operator)

    def _check_changes(self, stored: _Stored, may_change: Sequence[Segment]) -> None:
        """Check that the last micro-batch has logged nothing that it did not touch."""
        number = self._query.committed[-1].number
        stores = {(stored.at, each) for _, each in stored.places.values()}
        # What a savepoint brings is logged with the first one.
        if number == 0 or stores & (self._stores.mixed | self._stores.damaged):
            return
        changes: list[Change] = []
        for _, partition in stores:
            unique_id = self._query.unique_id(stored.at, partition, number + 1)
            changes += self._stores.changes(stored.at, partition, number + 1, unique_id)
        got = read_changes(stored.record, stored.find_appended(changes))
        if not any(got.values()):
            return
        # What was late is expired when it is written, and a cleanup of the model deletes it again.
        wanted = read_changes(stored.record, may_change, deleted=True)
        for name, entries in got.items():
            if entries - wanted[name]:
                nothing = dict.fromkeys(wanted[name], 1)
                self._differ(f"{stored.where} changes of {name!r}", Counter(entries), nothing)

    def _check_damage(self, stored: _Stored) -> None:
        """Check that a bit that is another is refused, or makes no difference."""
        choices = self._choices.within(f"damage of operator {stored.at} place {stored.place}")
        last = self._query.committed[-1]
        for at in range(self._flips if stored.groups else 0):
            index, blobs = stored.damage(choices.within(f"{at}"))
            try:
                served_at = stored.registry.served_at[index]
                log = check_log(stored.record.identity, served_at, blobs, stored.where)
                if log == stored.logs[index]:
                    continue
                got, wanted = (
                    read_state(
                        stored.record, {index: each}, last.now, last.watermark, stored.operator
                    )
                    for each in (log, stored.logs[index])
                )
            except (CorruptStateError, IncompatibleStateError):
                continue
            if got != wanted:
                msg = f"{stored.where}, key group {index}: a bit is another, and nobody tells"
                raise DifferenceError(msg)

    def _check_leftovers(self, contents: Contents, where: str, operator: SimulatedOperator) -> None:
        """Check that a store holds nothing that belongs to nobody."""
        timers: dict[int, list[int]] = {}
        for time, key in contents.timers:
            timers.setdefault(key, []).append(time)
        for (variable, key), blobs in contents.blobs.items():
            if variable != log_variable(max(operator_index_of(key), 0)):
                msg = f"{where}, grouping key {key}: blobs in variable {variable!r}"
                raise DifferenceError(msg)
            if is_registry_key(key):
                expected = {RECORD_AT, REGISTRY_AT}
            elif key < REGISTRY_KEY:
                expected = {WATERMARK_AT}
            else:
                head = Head.from_bytes(blobs[HEAD_AT], where)
                expected = {HEAD_AT, *range(head.first_sequence, head.next_sequence)}
                wake = [] if head.wake_at is None else [operator.wakes_at(head.wake_at)]
                if sorted(timers.pop(key, [])) != wake:
                    msg = f"{where}, grouping key {key}: Spark's timers are not {wake}"
                    raise DifferenceError(msg)
            # Of mixed versions one may have deleted what the other has still: its log tells of it.
            if set(blobs) != expected and not self._places & self._stores.mixed:
                msg = f"{where}, grouping key {key}: blobs {sorted(blobs)} for {sorted(expected)}"
                raise DifferenceError(msg)
        if timers:
            msg = f"{where}: timers of grouping keys without state {timers}"
            raise DifferenceError(msg)


@attrs.frozen
class _Stored:
    """The state of an operator as files have it.

    Args:
        at: The number of Spark's operator.
        place: Of the operator within that.
        operator: The operator.
        where: Its name for messages.
        record: Its record.
        registry: The key groups of the operator.
        groups: Head and blobs of each key group, by index.
        places: The store of each key group.
        logs: The segments of each key group.
    """

    at: int
    place: int
    operator: SimulatedOperator
    where: str
    record: OperatorRecord
    registry: KeyGroupRegistry
    groups: Mapping[int, tuple[Head, dict[int, bytes]]]
    places: Mapping[int, Place]
    logs: Mapping[int, Sequence[Segment]]

    def find_appended(self, changes: Iterable[Change]) -> list[Segment]:
        """Return the segments that were appended to logs, each with the tables that it names.

        Those of a log that was written anew are left out.

        Args:
            changes: What a version has written.
        """
        written: dict[int, list[int]] = {}
        anew = set()
        count = self.operator.plan.task.max_parallelism
        for kind, target, sequence, _ in changes:
            if kind not in ("put", "clear"):
                continue
            _, key = target
            if key < 0 or operator_index_of(key) != self.place:
                continue
            if kind == "clear":
                anew.add(index_of(key, count))
            elif sequence >= 0:
                written.setdefault(index_of(key, count), []).append(sequence)
        appended = []
        for index in sorted(written.keys() - anew):
            head, log = self.groups[index][0], self.logs[index]
            declared: dict[int, Declaration] = {}
            for sequence, segment in enumerate(log, head.first_sequence):
                declared = {**declared, **segment.declarations}
                if sequence in written[index]:
                    appended.append(attrs.evolve(segment, declarations=declared))
        return appended

    def damage(self, choices: Choices) -> tuple[int, dict[int, bytes]]:
        """Return a key group, and its blobs when a bit has become another."""
        index = choices.one_of("key group", sorted(self.groups))
        blobs = dict(self.groups[index][1])
        number = choices.one_of("blob", sorted(blobs))
        blob = bytearray(blobs[number])
        # The values of entries are at the end.
        least = max(len(blob) - 64, 0) if choices.happens("at the end", 0.7) else 0
        blob[choices.integer("byte", least, len(blob) - 1)] ^= 1 << choices.integer("bit", 0, 7)
        blobs[number] = bytes(blob)
        return index, blobs


def first_line(error: BaseException) -> str:
    """Return the sentence of an error: Python 3.10 has its notes in the same text."""
    return str(error).partition("\n")[0]


def _some(rows: list[Any]) -> str:
    return repr(sorted(rows, key=repr)[:5]) + (f" and {len(rows) - 5} more" if rows[5:] else "")
