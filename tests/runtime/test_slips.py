# SPDX-License-Identifier: Apache-2.0
"""Slips that everyone makes: each message says the rule, what was got, and the remedy."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import operator
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CoMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
    _deprecation,
)
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    PyflinklikeError,
    StateValueError,
)
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.functions import MapFunction, ProcessWindowFunction
from pyflinklike.state.fold_functions import check_methods
from pyflinklike.testing import KeyedProcessHarness, KeyedTwoInputHarness
from pyflinklike.windows import CountTrigger, TumblingEventTimeWindows, window

# What is told of the functions below is looked at in tests of its own.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LONG = Types.LONG()


class Slip(KeyedProcessFunction):
    """A function with three states, to be spoilt."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", LONG))
        self.parts = runtime_context.get_list_state(ListStateDescriptor("parts", LONG))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", LONG, LONG))

    def process_element(self, value: Any, ctx: Any) -> Any:
        return None


def harness(function: Any) -> KeyedProcessHarness:
    """A harness of a function whose elements have one key."""
    return KeyedProcessHarness(function, key_selector=lambda _: "k")


def stream() -> Any:
    """A stream of a job."""
    return StreamExecutionEnvironment.get_execution_environment().from_collection([1])


def keyed() -> Any:
    """A keyed stream of a job."""
    return stream().key_by(lambda value: value)


def made(base: Any, **methods: Any) -> Any:
    """An instance of a subclass with these methods."""
    return type("Made", (base,), methods)()


# The arguments of a method


def collects(self: Any, value: Any, ctx: Any, out: Any) -> Any:
    """Java's."""


def alone(self: Any) -> Any:
    """Takes nothing."""


def of_one(self: Any, value: Any) -> Any:
    """Takes an element."""


def of_two(self: Any, one: Any, two: Any) -> Any:
    """Takes two elements."""


def of_three(self: Any, one: Any, two: Any, three: Any) -> Any:
    """Takes three arguments."""


WITH_TWO = {"process_element1": of_two, "process_element2": of_two}
FOLDS = {"create_accumulator": alone, "add": of_two, "get_result": of_one, "merge": of_two}
ARITIES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "process_element": (
        lambda: harness(made(Slip, process_element=collects)),
        "Made.process_element is called with (value, ctx), got collects(value: 'Any', ctx: 'Any', out: 'Any')",
        "write for example def process_element(self, value, ctx), and yield outputs",
    ),
    "on_timer": (
        lambda: harness(made(Slip, on_timer=of_one)),
        "Made.on_timer is called with (timestamp, ctx), got of_one(",
        "write for example def on_timer(self, timestamp, ctx)",
    ),
    "open": (
        lambda: harness(made(Slip, open=alone)),
        "Made.open is called with (runtime_context), got alone()",
        "write for example def open(self, runtime_context)",
    ),
    "close": (
        lambda: harness(made(Slip, close=of_one)),
        "Made.close is called with (), got of_one(",
        "write for example def close(self)",
    ),
    "process_element2": (
        lambda: KeyedTwoInputHarness(
            made(KeyedCoProcessFunction, **{**WITH_TWO, "process_element2": of_three}),
            key_selector1=str,
            key_selector2=str,
        ),
        "Made.process_element2 is called with (value, ctx), got of_three(",
        "def process_element2(self, value, ctx)",
    ),
    "key_selector": (
        lambda: KeyedProcessHarness(Slip(), key_selector=lambda a, b: a),
        "key_selector is called with (value), got <lambda>(a, b)",
        "write for example lambda value: ...",
    ),
    "map": (
        lambda: stream().map(lambda a, b: a),
        "map is called with (value), got <lambda>(a, b)",
        "write for example lambda value: ...",
    ),
    "MapFunction": (
        lambda: stream().map(made(MapFunction, map=of_two)),
        "Made.map is called with (value), got of_two(",
        "def map(self, value)",
    ),
    "flat_map": (
        lambda: stream().flat_map(lambda a, b: []),
        "flat_map is called with (value), got <lambda>(a, b)",
        "lambda value: ...",
    ),
    "filter": (
        lambda: stream().filter(lambda a, b: a),
        "filter is called with (value), got <lambda>(a, b)",
        "lambda value: ...",
    ),
    "key_by": (
        lambda: stream().key_by(lambda a, b: a),
        "get_key is called with (value), got <lambda>(a, b)",
        "lambda value: ...",
    ),
    "reduce": (
        lambda: keyed().reduce(lambda a: a),
        "reduce is called with (value1, value2), got <lambda>(a)",
        "lambda value1, value2: ...",
    ),
    "reduce of a state": (
        lambda: ReducingStateDescriptor("s", lambda a: a, LONG),
        "reduce is called with (value1, value2), got <lambda>(a)",
        "lambda value1, value2: ...",
    ),
    "add": (
        lambda: AggregatingStateDescriptor(
            "s", made(AggregateFunction, **{**FOLDS, "add": of_one}), LONG
        ),
        "Made.add is called with (value, accumulator), got of_one(",
        "def add(self, value, accumulator)",
    ),
    "co_map": (
        lambda: stream().connect(stream()).map(made(CoMapFunction, map1=of_one, map2=of_two)),
        "Made.map2 is called with (value), got of_two(",
        "def map2(self, value)",
    ),
    "process of a window": (
        lambda: window(TumblingEventTimeWindows.of(10)).process(
            made(ProcessWindowFunction, process=of_two)
        ),
        "Made.process is called with (key, context, elements), got of_two(",
        "def process(self, key, context, elements)",
    ),
    "trigger": (
        lambda: window(TumblingEventTimeWindows.of(10)).trigger(
            type("Made", (CountTrigger,), {"on_element": of_three})(1)
        ),
        "Made.on_element is called with (element, timestamp, window, ctx), got of_three(",
        "def on_element(self, element, timestamp, window, ctx)",
    ),
}


@pytest.mark.parametrize(("declare", "got", "remedy"), ARITIES.values(), ids=ARITIES)
def test_a_method_of_other_arguments_is_refused(
    declare: Callable[[], Any], got: str, remedy: str
) -> None:
    """Before anything runs: with the call, what was written, and what to write."""
    with pytest.raises(DeclarationTypeError) as raised:
        declare()
    assert (True, True) == (got in str(raised.value), remedy in str(raised.value))


async def awaited(self: Any, value: Any, ctx: Any) -> Any:
    """A coroutine."""


async def yields_async(self: Any, value: Any, ctx: Any) -> Any:
    """An asynchronous generator."""
    yield value


@pytest.mark.parametrize("method", [awaited, yields_async])
def test_async_def_is_refused_with_its_own_remedy(method: Any) -> None:
    """To yield a coroutine would not help."""
    with pytest.raises(
        DeclarationTypeError,
        match=r"process_element is called without await, got async def .*; write def without async",
    ):
        harness(made(Slip, process_element=method))


def test_a_coroutine_that_is_returned_is_refused_with_its_own_remedy() -> None:
    """A decorator hides that the method is one."""

    async def later() -> None:
        """Nothing."""

    with pytest.raises(PyflinklikeError, match="nothing awaits it: write def without async"):
        harness(made(Slip, process_element=lambda *_: later())).process_element(1)


def wrap(call: Any) -> Any:
    """A decorator that takes another number of arguments than what it wraps."""

    @functools.wraps(call)
    def inner(self: Any, value: Any, ctx: Any) -> Any:
        return call(self, value, ctx, None)

    return inner


class Claims:
    """A callable that claims another signature."""

    __signature__ = "any"

    def __call__(self, value: Any, other: Any = None) -> Any:
        return value


@pytest.mark.parametrize(
    "declare",
    [
        lambda: harness(made(Slip, process_element=lambda *_: None)),
        lambda: harness(made(Slip, process_element=lambda self, value, ctx, out=None: None)),
        lambda: harness(made(Slip, process_element=wrap(collects))),
        lambda: harness(made(Slip, process_element=staticmethod(lambda value, ctx: None))),
        lambda: harness(made(Slip, process_element=functools.partialmethod(collects, out=1))),
        lambda: stream().map(str),
        lambda: stream().map(int),
        lambda: stream().map(operator.itemgetter(0)),
        lambda: stream().map(functools.partial(operator.add, 1)),
        lambda: stream().map(Claims()),
        lambda: keyed().reduce(max),
        lambda: keyed().reduce(operator.add),
    ],
)
def test_what_can_be_called_is_taken(declare: Callable[[], Any]) -> None:
    """Whatever it looks like: the call decides, and what tells no signature passes."""
    declare()


def test_an_object_of_another_class_passes() -> None:
    """There is no method of ours that it could override."""
    given = object()
    assert given is check_methods(given)


# Errors that the code of a function raises


def no_collector(function: Any, value: Any, ctx: Any) -> Any:
    """Java's way to emit, without the argument."""
    out.collect(value)  # type: ignore[name-defined]  # noqa: F821


class Replaces(Slip):
    """Puts a number in place of its state."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total = (self.total.value() or 0) + value


HINTS: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "out": (
        no_collector,
        "; outputs are yielded: yield value, or yield tag, value for a side output",
    ),
    "None.collect": (lambda f, v, ctx: None.collect(v), "; outputs are yielded: yield value"),  # type: ignore[attr-defined]
    "ttl of a state": (
        lambda f, v, ctx: f.total.enable_time_to_live(None),
        "; a TTL is declared: descriptor.enable_time_to_live(config), before get_state(descriptor)",
    ),
    "value": (lambda f, v, ctx: (f.total.value or 0) + v, "; a method needs its brackets: value()"),
    "timestamp": (
        lambda f, v, ctx: ctx.timestamp + v,
        "; a method needs its brackets: timestamp()",
    ),
    "timer_service": (
        lambda f, v, ctx: ctx.timer_service.register_event_time_timer(v),
        "; a method needs its brackets: timer_service()",
    ),
    "timer of ctx": (
        lambda f, v, ctx: ctx.register_event_time_timer(v),
        "; write ctx.timer_service().register_event_time_timer(...)",
    ),
    "zones": (
        lambda f, v, ctx: dt.datetime(2020, 1, 1) < dt.datetime.now(dt.timezone.utc),
        "give it that with replace(tzinfo=ZoneInfo(...)), or compare ctx.timestamp(), ms since 1970 in UTC",
    ),
    "difference of zones": (
        lambda f, v, ctx: dt.datetime.now(dt.timezone.utc) - dt.datetime(2020, 1, 1),
        "; one of the two times has a time zone: a timestamp column comes without one",
    ),
    "timedelta": (
        lambda f, v, ctx: ctx.timestamp() + dt.timedelta(seconds=1),
        "; times here are ints of ms: write for example ctx.timestamp() + 60_000",
    ),
    "datetime": (
        lambda f, v, ctx: dt.datetime(2020, 1, 1) - ctx.timestamp(),
        "int(time.timestamp() * 1000) of a datetime",
    ),
    "index": (lambda f, v, ctx: f.parts.get()[0], "make a list of them, list(state.get())[0]"),
    "length": (lambda f, v, ctx: len(f.map.items()), "make a list of them"),
    "attribute": (lambda f, v, ctx: f.map.keys().sort(), "make a list of them"),
    "operand": (lambda f, v, ctx: f.total + v, "; a ValueState has clear(), update(), value()"),
    "other state": (
        lambda f, v, ctx: f.total.get(),
        "; a ValueState has clear(), update(), value()",
    ),
    "length of a map": (
        lambda f, v, ctx: len(f.map),
        "; a MapState has clear(), contains(), get()",
    ),
    "timers": (
        lambda f, v, ctx: ctx.timer_service().register_timer(v),
        "; a TimerService has current_processing_time()",
    ),
    "descriptor for its state": (
        lambda f, v, ctx: ValueStateDescriptor("s", LONG).value(),
        "; a descriptor only declares: open() gets its state from the runtime_context",
    ),
    "state of ctx": (
        lambda f, v, ctx: ctx.get_state("total"),
        "; states are made in open(), by the runtime_context",
    ),
    "ctx.output": (
        lambda f, v, ctx: ctx.output("late", v),
        "; write yield value, or yield tag, value for a side output",
    ),
    "append": (lambda f, v, ctx: f.parts.append(v), "; add(value) and add_all(values) append"),
    "module": (
        lambda f, v, ctx: __import__("no_such_module"),
        "--py-files of spark-submit (docs/how-to/run-on-a-cluster.md)",
    ),
}


@pytest.mark.parametrize(("call", "hint"), HINTS.values(), ids=HINTS)
def test_an_error_of_a_slip_has_a_hint(call: Callable[[Any, Any, Any], Any], hint: str) -> None:
    """Behind the line of the user's code that raised."""
    with pytest.raises(PyflinklikeError) as raised:
        harness(made(Slip, process_element=call)).process_element(1, timestamp=5)
    _, _, behind = str(raised.value).partition(f"({__file__}:")
    assert hint in behind


def test_an_unknown_getter_in_open_is_told_with_those_that_are() -> None:
    """Spark and Beam have other names."""

    def opens(self: Any, runtime_context: Any) -> None:
        runtime_context.get_key_value_state(ValueStateDescriptor("s", LONG))

    with pytest.raises(PyflinklikeError, match=r"; states are obtained by get_state \(one value\)"):
        harness(made(Slip, open=opens))


def test_a_state_that_was_replaced_is_told_with_the_line() -> None:
    """The second element fails, at the line of the read; the mistake is the write."""
    replaced = harness(Replaces())
    replaced.process_element(1)
    line = Replaces.process_element.__code__.co_firstlineno + 1
    with pytest.raises(PyflinklikeError) as raised:
        replaced.process_element(1)
    assert str(raised.value).endswith(
        f"; self.total was a state until {__file__}:{line}: write self.total.update(...) there"
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda f, v, ctx: v.collect + "x",
        lambda f, v, ctx: (f.total.value(), f.process_element + 1),
        lambda f, v, ctx: f.nothing,
        lambda f, v, ctx: v + dt.timedelta(1),
    ],
    ids=["another object", "another method", "another attribute", "another time"],
)
def test_nothing_is_hinted_at_that_is_not_ours(call: Any) -> None:
    """The message ends with the line of the user's code."""
    with pytest.raises(PyflinklikeError, match=r", in <lambda>\)$"):
        harness(made(Slip, process_element=call)).process_element(1)


@pytest.mark.parametrize(
    ("time", "remedy"),
    [
        (dt.datetime(2020, 1, 1), "convert it, for example int(time.timestamp() * 1000)"),
        (dt.timedelta(1), "ctx.timestamp() + length // timedelta(milliseconds=1)"),
        (1.5, "convert it, for example int(seconds * 1000)"),
    ],
)
def test_a_timer_of_another_time_is_told_how_to_convert_it(time: Any, remedy: str) -> None:
    """Each kind in its own way."""

    def registers(self: Any, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(time)

    with pytest.raises(StateValueError) as raised:
        harness(made(Slip, process_element=registers)).process_element(1)
    assert str(raised.value).endswith(remedy)


# Rows


@dataclasses.dataclass
class Pair:
    """A dataclass."""

    a: int
    b: int


@attrs.define
class Couple:
    """A class of attrs."""

    a: int
    b: int


class Model:
    """The part of a model of pydantic that is looked at."""

    def model_dump(self) -> dict[str, int]:
        """Its fields."""
        return {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (Pair(1, 2), "dataclasses.astuple(value)"),
        (Couple(1, 2), "attrs.astuple(value)"),
        (Model(), "value.model_dump()"),
    ],
)
def test_an_object_with_fields_is_told_how_to_make_a_row(value: Any, remedy: str) -> None:
    """A state of rows takes tuples and dicts."""

    class Keeps(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            kind = Types.ROW_NAMED(["a", "b"], [LONG, LONG])
            self.row = runtime_context.get_state(ValueStateDescriptor("row", kind))

        def process_element(self, value: Any, ctx: Any) -> None:
            self.row.update(value)

    with pytest.raises(StateValueError) as raised:
        harness(Keeps()).process_element(value)
    assert str(raised.value).endswith(f"give {remedy}")


# TTL


def ttl(length: Any) -> StateTtlConfig:
    """A TTL."""
    return StateTtlConfig.new_builder(length).build()


class Late(Slip):
    """Declares a TTL when its state is there already."""

    descriptor = ValueStateDescriptor("late", LONG)

    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(self.descriptor)
        self.descriptor.enable_time_to_live(ttl(10))


def test_a_ttl_after_get_state_is_refused() -> None:
    """The state would have none, for ever."""
    with pytest.raises(
        DeclarationError,
        match=r"state 'late' was made from its descriptor with ttl=None, got enable_time_to_live\("
        r".*ttl=10 ms>\) afterwards; call it before open\(\) obtains the state",
    ):
        harness(Late())


class Shared(Slip):
    """Declares a TTL on a descriptor of the module, anew in each `open`."""

    descriptor = ValueStateDescriptor("shared", LONG)

    def __init__(self, length: int) -> None:
        self.length = length

    def open(self, runtime_context: Any) -> None:
        self.descriptor.enable_time_to_live(ttl(self.length))
        self.total = runtime_context.get_state(self.descriptor)
        self.descriptor.enable_time_to_live(ttl(self.length))

    def process_element(self, value: Any, ctx: Any) -> Any:
        former = self.total.value()
        self.total.update(value)
        return [former]


def test_a_descriptor_is_shared_by_functions_that_are_open() -> None:
    """Each state has the TTL that was declared when it was obtained; the same one again is no change."""
    first, second = harness(Shared(10)), harness(Shared(20))
    for each in (first, second):
        each.process_element(1)
        each.set_processing_time(15)
    assert ([None], [1]) == (first.process_element(2), second.process_element(2))


# Told once


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], list[str]]:
    """Run something in a process that was told nothing, and return the warnings."""
    monkeypatch.setattr(_deprecation, "_SHOWN", set())

    def run(call: Callable[[], Any]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        return [str(each.message) for each in caught]

    return run


Told = Callable[[Callable[[], Any]], list[str]]


@pytest.mark.parametrize("length", [300, 3600, 86_400, 604_800, 2_592_000])
def test_a_ttl_that_looks_like_seconds_is_told_once(told: Told, length: int) -> None:
    """At the line of the program, whoever calls it again."""
    (message,) = told(lambda: [ttl(length), StateTtlConfig(ttl=length)])
    assert f"a plain number is a length in ms, got a TTL of {length} ms" in message
    assert f"write Time.seconds({length}) or timedelta(seconds={length})" in message


@pytest.mark.parametrize(
    "length", [1, 10, 299, 1_000, 1_234, 60_000, 3_600_000, 86_400_000, Time.milliseconds(3600)]
)
def test_a_ttl_in_ms_is_not_told(told: Told, length: Any) -> None:
    """Nor are the small numbers in which tests count."""
    assert [] == told(lambda: ttl(length))


class Rings(Slip):
    """Registers a timer for each element."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return [timestamp]


def fire(now: int, *times: int) -> list[Any]:
    """What timers give when the watermark comes."""
    rings = harness(Rings())
    for time in times:
        rings.process_element(time)
    return rings.process_watermark(now)


def test_a_timer_of_an_epoch_in_seconds_is_told(told: Told) -> None:
    """It fires at once, in 1970."""
    (message,) = told(lambda: fire(1_700_000_000_000, 1_700_000_060))
    assert (
        "the time of a timer is in ms since 1970, got 1700000060, which is on 1970-01-20 and fires at "
        "once; if it is in seconds, multiply it: 1700000060 * 1000"
    ) == message


@pytest.mark.parametrize(
    ("now", "time"),
    [
        (1_700_000_000_000, 0),
        (1_700_000_000_000, 1_699_999_999_999),
        (100, 5),
        (2**63 - 1, 1_700_000_000),
    ],
)
def test_other_timers_are_not_told(told: Told, now: int, time: int) -> None:
    """Of 1970 itself, of now, in a test, and at the end of a batch."""
    assert [] == told(lambda: fire(now, time))


def helper(value: Any) -> Any:
    """A generator of the module."""
    yield value


def in_vain(told: Told, function: Any) -> list[str]:
    """What is told of a function, however often."""
    return told(lambda: [harness(function), harness(function)])


def test_a_generator_that_is_not_iterated_is_told(told: Told) -> None:
    """Its body never runs; the message has the line and the remedy."""

    class Loses(Slip):
        def process_element(self, value: Any, ctx: Any) -> Any:
            self.split(value)
            helper(value)
            yield from self.split(value)

        def split(self, value: Any) -> Any:
            yield value

    line = Loses.process_element.__code__.co_firstlineno
    place = f"without a loop in {Loses.__qualname__}.process_element ({__file__}"
    assert [
        f"a generator runs while it is iterated, got {call}(...) {place}:{at}); "
        f"write yield from {call}(...)"
        for call, at in (("self.split", line + 1), ("helper", line + 2))
    ] == in_vain(told, Loses())


def test_a_timer_without_on_timer_is_told(told: Told) -> None:
    """Nothing would happen when it is due."""

    class Waits(Slip):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(value)

    (message,) = in_vain(told, Waits())
    assert message.startswith(
        f"a timer calls on_timer when it is due, got {Waits.__qualname__}, which registers timers ("
    )
    assert message.endswith("and has no on_timer; define it, or register none")


def test_an_assignment_over_a_state_is_told(told: Told) -> None:
    """It is lost with the worker, and the state keeps what it had."""

    class Assigns(Slip):
        def process_element(self, value: Any, ctx: Any) -> None:
            self.total = value

    line = Assigns.process_element.__code__.co_firstlineno + 1
    (message,) = in_vain(told, Assigns())
    assert (
        "an assignment does not write to a state, got self.total = ... over a state of "
        f"{Assigns.__qualname__} ({__file__}:{line}); write self.total.update(...)"
    ) == message


def test_what_is_right_is_not_told(told: Told) -> None:
    """A handle may be chosen anew, and a generator may be kept."""

    class Right(Slip):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(value)
            self.total = self.parts if value else self.map
            self.number = 5
            kept = self.split(value)
            self.close()
            yield from kept

        def split(self, value: Any) -> Any:
            yield value

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            """Nothing."""

    assert [] == in_vain(told, Right())


def test_a_job_is_told_as_well(told: Told) -> None:
    """When the function is given to the stream."""

    class Forgets(Slip):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(value)

    (message,) = told(lambda: keyed().process(Forgets()))
    assert "has no on_timer" in message


# Packages


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("testing.strategies", "hypothesis", "testing"),
        ("columns.cuts", "hypothesis", "testing"),
    ],
)
def test_a_missing_package_of_a_tool_is_told_with_its_extra(
    module: str, package: str, extra: str
) -> None:
    """As an error of ours that is an ImportError, too."""
    program = f"import sys; sys.modules[{package!r}] = None; import pyflinklike.{module}"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    last = run.stderr.splitlines()[-1]
    assert last.startswith(
        f"pyflinklike.errors.RequirementError: pyflinklike.{module} needs another package, got "
    )
    assert last.endswith(f"pip install '.[{extra}]' in a checkout of pyflinklike")
