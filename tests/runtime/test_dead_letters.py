# SPDX-License-Identifier: Apache-2.0
"""A record or timer on which a function raises becomes a dead letter, and leaves nothing behind."""

from __future__ import annotations

import traceback
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyflinklike import (
    DeadLetters,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    UserFunctionError,
)
from pyflinklike.state.table import TableChanges
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

DEAD, SIDE = OutputTag("dead"), OutputTag("side")
MANY = DeadLetters(DEAD, at_most=10_000, per="batch")


class PoisonedError(Exception):
    """What a step of a record raises that is told to."""


@attrs.frozen
class Record:
    """A record: the steps that the function takes for it, and before which it raises.

    Args:
        key: Its key.
        steps: Verbs with a number.
        poison: The number of the step before which it raises; None if it does not.
        timer_poison: The same for each timer that it registers.
    """

    key: str
    steps: tuple[tuple[str, int], ...]
    poison: int | None = None
    timer_poison: int | None = None


class EverythingFunction(KeyedProcessFunction):
    """Takes steps with every kind of state, two stores, timers, metrics and outputs."""

    def __init__(self, *, ttl: bool, sees: bool = False) -> None:
        self.ttl = ttl
        self.sees = sees

    def open(self, runtime_context: Any) -> None:
        builder = StateTtlConfig.new_builder(Time.milliseconds(30)).use_event_time()
        builder.update_ttl_on_read_and_write()
        if self.sees:
            builder.cleanup_incrementally(2, False)
        else:
            # Cleanup on the way of a call that fails is not undone: what has expired is gone.
            builder.disable_cleanup_in_background()
        config = builder.build()

        def declared(descriptor: Any) -> Any:
            if self.ttl:
                descriptor.enable_time_to_live(config)
            return descriptor

        get = runtime_context
        self.value = get.get_state(declared(ValueStateDescriptor("value", Types.LONG())))
        self.list = get.get_list_state(declared(ListStateDescriptor("list", Types.LONG())))
        self.map = get.get_map_state(
            declared(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        )
        self.sum = get.get_reducing_state(
            declared(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        )
        self.plan = get.get_map_state(MapStateDescriptor("plan", Types.LONG(), Types.LONG()))
        self.table = get.get_store(
            KeyValueStoreDescriptor("table", Types.LONG(), Types.LONG(), changelog=True)
        )
        self.lru = get.get_store(
            LruStoreDescriptor(
                "lru", Types.LONG(), Types.LONG(), max_entries=2, scope="partition", changelog=True
            )
        )
        self.windows = get.get_store(
            WindowStoreDescriptor(
                "windows", Types.LONG(), Types.LONG(), retention=50, window_size=5
            )
        )
        self.counter = get.get_metrics_group().counter("steps")
        self.sizes = get.get_metrics_group().distribution("numbers")

    def process_element(self, value: Record, ctx: Any) -> Any:
        for at, (verb, number) in enumerate(value.steps):
            if at == value.poison:
                raise PoisonedError(verb, self._see(number))
            self.counter.inc()
            self.sizes.update(number)
            found = self._step(verb, number, ctx, value)
            if found is not None:
                yield verb, found
        if value.poison is not None:
            raise PoisonedError("at the end", self._see(len(value.steps)))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        poison = self.plan.get(timestamp)
        self.plan.remove(timestamp)
        self.value.update((self.value.value() or 0) + timestamp)
        self.counter.inc()
        yield "timer", timestamp, self.value.value()
        if poison:
            self.list.clear()
            self.table.put(timestamp, 1)
            ctx.timer_service().register_event_time_timer(timestamp + 7)
            raise PoisonedError("timer", self._see(timestamp // 10))

    def _see(self, much: int) -> Any:
        """Read nothing, a little or everything, to be told in an error."""
        if not self.sees:
            return None
        if much % 4 == 1:
            few = [self.map.get(each) for each in range(2)], self.table.get(1)
            return self.value.value(), *few, len(self.lru)
        if much % 4 == 2:
            return repr([list(self.table.range(0, 2)), list(self.windows.fetch(1, 0, 30))])
        if much % 4 == 3:
            return (
                self.value.value(),
                list(self.list),
                sorted(self.map.items()),
                self.sum.get(),
                repr(list(self.table.all())),
                repr(list(self.lru.all())),
                repr(list(self.windows.all())),
            )
        return None

    def _step(self, verb: str, number: int, ctx: Any, record: Record) -> Any:
        timers = ctx.timer_service()
        if verb == "update":
            self.value.update(number)
        elif verb == "clear":
            for each in (self.value, self.list, self.map, self.sum)[number % 4 :]:
                each.clear()
        elif verb == "add":
            self.list.add(number)
            self.sum.add(number)
        elif verb == "replace":
            self.list.update([number, number + 1])
        elif verb == "put":
            self.map.put(number, record.poison or 0)
            self.table.put(number, len(record.steps))
        elif verb == "remove":
            self.map.remove(number)
            self.table.delete(number)
        elif verb == "use":
            self.lru.put(number, number) if number % 2 else self.lru.get(number)
        elif verb == "window":
            self.windows.put(number, number, 10 * number)
        elif verb == "register":
            at = 10 * number + 5
            self.plan.put(at, 1 if record.timer_poison else 0)
            timers.register_event_time_timer(at)
        elif verb == "delete":
            timers.delete_event_time_timer(10 * number + 5)
        else:
            return (
                self.value.value(),
                list(self.list),
                sorted(self.map.items()),
                self.sum.get(),
                [(each.key, each.value) for each in self.table.all()],
                self.table.approximate_num_entries(),
            )
        return None


VERBS = ["update", "clear", "add", "replace", "put", "remove", "use", "use", "window"]


@st.composite
def records(draw: Any) -> Record:
    """Draw a record."""
    steps = draw(
        st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 3)), min_size=1, max_size=5)
    )
    return Record(
        draw(st.sampled_from("ab")),
        tuple(steps),
        draw(st.one_of(st.none(), st.none(), st.integers(0, 5))),
        draw(st.sampled_from([None, None, 1])),
    )


def state_of(harness: KeyedProcessHarness) -> Any:
    """Return all state, timers and what waits to be logged."""
    harness.end_batch()
    contents = harness._operator.backend.contents()
    return {
        each.spec.name: sorted(map(_without_use, _rows_of(each)), key=repr)
        for each in contents
        if len(each)
    }


def _rows_of(table: TableChanges) -> Any:
    """Return the rows of a table; of the uses of an LRU store their order, and not their numbers."""
    rows = zip(table.keys, table.user_keys, table.entries)
    if table.spec.kind != "use of lru":
        return [(*row, table.spec.kind) for row in rows]
    ordered = sorted(rows, key=lambda row: row[1])
    return [(key, at, entry, "") for at, (key, _, entry) in enumerate(ordered)]


def _without_use(row: Any) -> Any:
    """Return a row without the number of a use: with dead letters each use is numbered at once."""
    key, user_key, entry, kind = row
    if kind.startswith("lru store") or kind == "count of lru":
        return key, user_key, entry[1]
    return key, user_key, entry


def sides_of(harness: KeyedProcessHarness) -> Any:
    """Return the side outputs but the dead letters."""
    return {tag: rows for tag, rows in harness._side_output.items() if tag != "dead" and rows}


def run(function: Any, backend: Any, history: list[Any], on_error: Any, *, bulk: bool) -> Any:
    """Drive a harness through records and watermarks, and return all that came of it."""
    with KeyedProcessHarness(
        function, lambda record: record.key, state_backend=backend, on_error=on_error
    ) as harness:
        now = 0
        for each in history:
            if isinstance(each, int):
                now += each
                harness.process_watermark(now)
            elif bulk:
                harness.process_elements([(record, now + 3) for record in each])
            else:
                for record in each:
                    harness.process_element(record, now + 3)
        letters = [(row.call, row.error_class) for row in harness.side_output(DEAD)]
        return harness.output, sides_of(harness), state_of(harness), harness.metrics(), letters


histories = st.lists(
    st.one_of(st.lists(records(), max_size=4), st.integers(1, 20)), min_size=1, max_size=8
)


@pytest.mark.parametrize(
    "backend", [HashMapStateBackend(), EmbeddedRocksDBStateBackend()], ids=["heap", "rocksdb"]
)
@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(history=histories, ttl=st.booleans(), bulk=st.booleans())
def test_records_that_fail_are_as_if_they_had_not_come(backend, history, ttl, bulk):
    """State, timers, outputs, changelogs and metrics are those of the other records alone."""
    without_timers = [
        each if isinstance(each, int) else [attrs.evolve(one, timer_poison=None) for one in each]
        for each in history
    ]
    clean = [
        each if isinstance(each, int) else [one for one in each if one.poison is None]
        for each in without_timers
    ]
    *got, letters = run(EverythingFunction(ttl=ttl), backend, without_timers, MANY, bulk=bulk)
    *wanted, _ = run(EverythingFunction(ttl=ttl), backend, clean, None, bulk=bulk)
    poisoned = sum(
        one.poison is not None for each in history if not isinstance(each, int) for one in each
    )
    assert [*wanted, [("process_element", "PoisonedError")] * poisoned] == [*got, letters]


@pytest.mark.parametrize(
    "backend", [HashMapStateBackend(), EmbeddedRocksDBStateBackend()], ids=["heap", "rocksdb"]
)
@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(history=histories, ttl=st.booleans())
@example(  # an entry of the store was used, which it writes down later
    history=[[Record("a", (("use", 3),)), Record("a", (("use", 1),), poison=1)]],
    ttl=False,
)
def test_a_letter_s_failure_snapshot_fails_again_in_the_same_way(backend, history, ttl):
    """The error tells what the function saw, so the harness of each failure snapshot is in the same state."""
    with KeyedProcessHarness(
        EverythingFunction(ttl=ttl, sees=True), lambda record: record.key, on_error=MANY
    ) as harness:
        now = 0
        for each in history:
            if isinstance(each, int):
                now += each
                harness.process_watermark(now)
            else:
                harness.process_elements([(record, now + 3) for record in each])
        for letter in harness.side_output(DEAD):
            again = failed_again(letter, EverythingFunction(ttl=ttl, sees=True), backend)
            assert (letter.message, frames_of(letter.traceback)) == again


def failed_again(letter: Any, function: Any, backend: Any = None) -> tuple[str, list[str]]:
    """Replay a letter, and return message and frames of what was raised."""
    with KeyedProcessHarness.of_failure(
        letter.failure_snapshot, function, state_backend=backend, allow_pickle=True
    ) as harness:
        try:
            harness.replay()
        except Exception as error:
            return str(error), frames_of("".join(traceback.format_exception(error)))
    raise AssertionError


def frames_of(text: str) -> list[str]:
    """Return the lines of a traceback that name a frame of the user's, which is this file's."""
    return [line for line in text.splitlines() if "in process_element" in line or "in on_t" in line]


def test_a_timer_that_fails_is_gone_and_has_done_nothing():
    """It is consumed; the list that it cleared, its store and the timer that it registered are undone."""
    record = Record("a", (("add", 1), ("register", 0)), timer_poison=1)
    with KeyedProcessHarness(
        EverythingFunction(ttl=False), lambda each: each.key, on_error=MANY
    ) as harness:
        harness.process_element(record, 1)
        harness.process_watermark(100)
        letter = harness.side_output(DEAD)[0]
        assert (
            ("a", "on_timer", "5", 5, 100, "PoisonedError", "('timer', None)"),
            [],
            ("list", "plan", "sum"),
            0,
        ) == (
            (letter.key, *letter[2:6], *letter[8:10]),
            harness.output,
            tuple(sorted(state_of(harness))),
            harness.num_event_time_timers(),
        )


class Raising(KeyedProcessFunction):
    """Raises what it is given."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] is not None:
            raise value[1]
        yield value[0]


def test_errors_that_are_not_the_records_always_fail():
    """No number of dead letters hides a lack of memory or a state that is damaged."""
    with KeyedProcessHarness(Raising(), lambda each: each[0], on_error=MANY) as harness:
        for error in (MemoryError(), CorruptStateError("x"), DeclarationValueError("x")):
            with pytest.raises((UserFunctionError, PyflinklikeError)):
                harness.process_element(("a", error))
        with pytest.raises(KeyboardInterrupt):
            harness.process_element(("a", KeyboardInterrupt()))
        assert ([], ["a"]) == (harness.side_output(DEAD), harness.process_element(("a", None)))


@pytest.mark.parametrize(
    ("at_most", "per", "error"),
    [
        (1.5, "record", DeclarationValueError),
        (-0.1, "record", DeclarationValueError),
        (True, "batch", DeclarationTypeError),
        (0.5, "batch", DeclarationTypeError),
        (-1, "batch", DeclarationValueError),
        (1, "minute", DeclarationValueError),
    ],
)
def test_bounds_that_make_no_sense_are_refused(at_most, per, error):
    """When they are declared, with an example of one that does."""
    with pytest.raises(error, match=r"DeadLetters: .*, got "):
        DeadLetters("dead", at_most, per)


class MuteError(TypeError):
    """Fails to tell what it is about."""

    def __str__(self) -> str:
        raise LookupError

    __repr__ = __str__


@attrs.frozen
class FrozenError(Exception):
    """Takes no attribute."""

    number: int


class FailingFold(KeyedProcessFunction):
    """Raises the element in the function of a state, where others would note the state in it."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ReducingStateDescriptor("folded", self._fold, Types.LONG())
        self.folded = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.error = value
        self.folded.add(1)
        self.folded.add(2)
        yield

    def _fold(self, first: int, second: int) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MuteError(), "<its message failed with LookupError>"),
        (FrozenError(3), "3"),
        (ValueError("\udcff"), "\\udcff"),
        (FileNotFoundError(2, "gone", "\udcff"), r"[Errno 2] gone: '\udcff'"),
    ],
    ids=["mute", "frozen", "surrogate", "file"],
)
def test_an_error_that_is_hard_to_tell_is_one_as_any_other(error, message):
    """As a letter and as what fails the query: its class fails, and UTF-8 has no such character."""
    with KeyedProcessHarness(FailingFold(), lambda _: "a", on_error=MANY) as harness:
        harness.process_element(error, 1)
        (letter,) = harness.side_output(DEAD)
    assert (message, type(error).__name__) == (letter.message, letter.error_class)
    assert [] == [each for each in letter if isinstance(each, str) and "\udcff" in each]
    with (
        KeyedProcessHarness(FailingFold(), lambda _: "a") as harness,
        pytest.raises(UserFunctionError) as raised,
    ):
        harness.process_element(error, 1)
    assert (True, True) == (message in str(raised.value), str(raised.value).isprintable())


class Counts(KeyedProcessFunction):
    """Counts the elements of a key; runs out of memory for None, behind a write."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        if value[1] is None:
            raise MemoryError
        yield self.count.value()


def test_what_a_backend_fails_to_take_is_no_letter_of_the_next_record():
    """The write of the first record is lost then, so the query must fail, and the second is innocent."""
    with KeyedProcessHarness(Counts(), lambda each: each[0], on_error=MANY) as harness:
        harness._operator.runtime_context.assembled["count"].table._put = _break
        with pytest.raises(UserFunctionError, match="OSError: disk"):
            harness.process_elements([(("a", 1), 1), (("b", 1), 2)])
        assert [] == harness.side_output(DEAD)


def _break(user_key: Any, entry: Any) -> None:
    """Fail as a backend does whose disk is gone."""
    raise OSError("disk")


def test_a_call_whose_error_fails_leaves_nothing_waiting():
    """A harness goes on, and counts as if the record had not come."""
    with KeyedProcessHarness(Counts(), lambda each: each[0], on_error=MANY) as harness:
        with pytest.raises(UserFunctionError, match="MemoryError"):
            harness.process_elements([(("a", 1), 1), (("a", None), 2)])
        assert [2] == harness.process_element(("a", 1))
