# SPDX-License-Identifier: Apache-2.0
"""Programs that every type checker accepts, and what it must know in them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame
from typing_extensions import assert_type

from pyflinklike import (
    AggregateFunction,
    AggregatingState,
    AggregatingStateDescriptor,
    CoMapFunction,
    HashMapStateBackend,
    Instant,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    OutputTag,
    ReduceFunction,
    ReducingState,
    ReducingStateDescriptor,
    Row,
    RuntimeContext,
    StateDescriptor,
    Time,
    TypeInformation,
    Types,
    ValueState,
    ValueStateDescriptor,
)
from pyflinklike.pyflink.datastream import CoProcessFunction, DataStream, WindowedStream
from pyflinklike.spark import KeyedConnectedDataFrames, KeyedDataFrame, key_by
from pyflinklike.stores import (
    ChangelogRecord,
    Cursor,
    KeyValueStore,
    KeyValueStoreDescriptor,
    LruKeyValueStore,
    LruStoreDescriptor,
    SessionStore,
    SessionStoreDescriptor,
    TimestampedStore,
    TimestampedStoreDescriptor,
    ValueAndTimestamp,
    VersionedStore,
    VersionedStoreDescriptor,
    WindowStore,
    WindowStoreDescriptor,
    open_in_memory,
)
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import CountTrigger, TumblingEventTimeWindows

LATE = OutputTag("late", Types.STRING())


class Sum(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Mean(AggregateFunction[int, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Both(KeyedCoProcessFunction):
    """The contexts by the names that PyFlink's users write."""

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterable[int]:
        ctx.timer_service().register_event_time_timer(value)
        return [value]

    def process_element2(self, value: int, ctx: KeyedCoProcessFunction.Context) -> None: ...

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[int]:
        ctx.time_domain()
        return [timestamp]


class OfTwo(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterable[int]:
        return [value, ctx.timestamp() or 0]

    def process_element2(self, value: int, ctx: CoProcessFunction.Context) -> None: ...


class AsInPyFlink(AggregateFunction):
    """Without brackets: all of its types are Any."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Row, accumulator: list[int]) -> list[int]:
        return [*accumulator, value.amount]

    def get_result(self, accumulator: list[int]) -> int:
        return sum(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


class States(KeyedProcessFunction):
    """What the getters give."""

    plain: ValueState  # without brackets, as in PyFlink

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.plain = self.count
        self.names = runtime_context.get_list_state(ListStateDescriptor("names", Types.STRING()))
        self.sizes = runtime_context.get_map_state(
            MapStateDescriptor("sizes", Types.STRING(), Types.DOUBLE())
        )
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", Sum(), Types.LONG())
        )
        self.least = runtime_context.get_reducing_state(
            ReducingStateDescriptor("least", lambda a, b: min(a, b + 0), Types.LONG())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        )
        self.untyped = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("untyped", AsInPyFlink(), Types.LIST(Types.LONG()))
        )
        self.any = runtime_context.get_state(
            ValueStateDescriptor("any", Types.PICKLED_BYTE_ARRAY())
        )
        assert_type(self.count, ValueState[int])
        assert_type(self.names, ListState[str])
        assert_type(self.sizes, MapState[str, float])
        assert_type(self.sum, ReducingState[int])
        assert_type(self.least, ReducingState[int])
        assert_type(self.mean, AggregatingState[int, float])
        assert_type(self.untyped, AggregatingState[Any, Any])
        assert_type(self.any, ValueState[Any])

    def process_element(
        self, value: Row, ctx: KeyedProcessFunction.Context
    ) -> Iterable[tuple[Any, ...]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.names.add(value.name)
        self.sizes["small"] = 1.5
        self.mean.add(count)
        assert_type(count, int)
        assert_type(self.count.value(), int | None)
        assert_type(self.names.get(), Iterable[str])
        assert_type(self.sizes["small"], float | None)
        assert_type(self.sum.get(), int | None)
        assert_type(self.mean.get(), float | None)
        yield ctx.get_current_key(), count
        yield LATE, "too late"


class Stores(KeyedProcessFunction):
    """What `get_store` gives."""

    def open(self, runtime_context: RuntimeContext) -> None:
        get = runtime_context.get_store
        text, number = Types.STRING(), Types.LONG()
        self.counts = get(KeyValueStoreDescriptor("counts", text, number, scope="partition"))
        self.recent = get(LruStoreDescriptor("recent", text, number, max_entries=3))
        self.timed = get(TimestampedStoreDescriptor("timed", text, number))
        self.windows = get(
            WindowStoreDescriptor("windows", text, number, window_size=dt.timedelta(hours=1))
        )
        self.sessions = get(SessionStoreDescriptor("sessions", text, number, retention=60_000))
        self.versions = get(
            VersionedStoreDescriptor("versions", text, number, history_retention=60_000)
        )
        assert_type(self.counts, KeyValueStore[str, int])
        assert_type(self.recent, LruKeyValueStore[str, int])
        assert_type(self.timed, TimestampedStore[str])
        assert_type(self.windows, WindowStore[str, int])
        assert_type(self.sessions, SessionStore[str, int])
        assert_type(self.versions, VersionedStore[str, int])

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        self.counts["a"] = self.counts.get("a", 0) + 1
        assert_type(self.counts["a"], int)
        assert_type(self.counts.get("a"), int | None)
        assert_type(self.counts.get("a", 0), int)
        assert_type(self.counts.get("a", "none"), int | str)
        assert_type(self.timed.get("a"), ValueAndTimestamp | None)
        assert_type(self.windows.get("a", 0), int | None)
        assert_type(self.windows.fetch("a"), Cursor[tuple[int, int]])
        assert_type(self.sessions.fetch_session("a", 0, 1), int | None)


def stores_by_themselves() -> None:
    """For unit tests."""
    store = open_in_memory(KeyValueStoreDescriptor("s", Types.LONG(), Types.STRING()))
    assert_type(store, KeyValueStore[int, str])


def types() -> None:
    """What each type is to Python."""
    assert_type(Types.BOOLEAN(), TypeInformation[bool])
    assert_type(Types.FLOAT(), TypeInformation[float])
    assert_type(Types.BIG_DEC(), TypeInformation[Decimal])
    assert_type(Types.INSTANT(), TypeInformation[Instant])
    assert_type(Types.SQL_TIMESTAMP(), TypeInformation[dt.datetime])
    assert_type(Types.PICKLED_BYTE_ARRAY(), TypeInformation[Any])
    lists: TypeInformation[list[int]] = Types.LIST(Types.LONG())
    maps: TypeInformation[dict[str, list[int]]] = Types.MAP(Types.STRING(), lists)
    nullable: TypeInformation[list[str | None]] = Types.BASIC_ARRAY(Types.STRING())
    tuples: TypeInformation[tuple[Any, ...]] = Types.TUPLE([Types.LONG(), maps, nullable])
    fields = [Types.LONG(), Types.STRING(), tuples]
    rows: TypeInformation[Row] = Types.ROW(fields)
    named: TypeInformation[Row] = Types.ROW_NAMED(["a", "b"], [Types.LONG(), rows])
    assert_type(ValueStateDescriptor("v", named), ValueStateDescriptor[Row])


def names(declared: list[StateDescriptor], any_type: TypeInformation) -> list[str]:
    """Without brackets a class is that of Any, also for strict checkers."""
    return [*(each.get_name() for each in declared), ValueStateDescriptor("v", any_type).get_name()]


def declarations() -> list[str]:
    """Descriptors of different types in one list."""
    every = [
        ValueStateDescriptor("v", Types.LONG()),
        MapStateDescriptor("m", Types.STRING(), Types.LONG()),
    ]
    return names([*every], Types.LONG())


def windowed(stream: WindowedStream[DataStream]) -> None:
    """Options of windows return the stream that they were called on, of its own class."""
    open_longer = stream.trigger(CountTrigger.of(2)).allowed_lateness(dt.timedelta(seconds=1))
    assert_type(open_longer, WindowedStream[DataStream])
    assert_type(open_longer.side_output_late_data(LATE), WindowedStream[DataStream])


def tags() -> None:
    """Side outputs."""
    assert_type(LATE, OutputTag[str])
    assert_type(OutputTag("rows", [Types.LONG()]), OutputTag[Row])
    assert_type(OutputTag("any"), OutputTag[Any])
    every: list[OutputTag] = [LATE, OutputTag("any")]
    counts = KeyValueStoreDescriptor("counts", Types.STRING(), Types.LONG())
    assert_type(counts.changelog_tag, OutputTag[ChangelogRecord])
    with KeyedProcessHarness(States(), key_selector=lambda value: value[0]) as harness:
        assert every
        assert_type(harness.side_output(LATE), list[str])
        assert_type(harness.side_output(counts.changelog_tag), list[ChangelogRecord])


class Totals(KeyedProcessFunction):
    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value.user, 1


def on_spark(
    df: DataFrame,
    keyed: KeyedDataFrame,
    both: KeyedConnectedDataFrames,
    pairs: KeyedCoProcessFunction,
    ones: CoMapFunction,
) -> None:
    """Options of operators, which a type checker knows one by one."""
    assert_type(
        keyed.process(
            Totals(),
            "user string, total long",
            event_time="ts",
            state_backend=HashMapStateBackend(),
            max_parallelism=16,
            uid="totals",
            side_outputs=[LATE],
            job_parameters={"limit": "3"},
            processing_time_timers=False,
            from_savepoint="/savepoints/1",
            output_event_time="ts",
            before_watermark="early",
            output_before_watermark="early_too",
            arrival_order=True,
            allow_pickle=False,
        ),
        DataFrame,
    )
    key_by(df, "user").process(Totals(), "user string", side_outputs={LATE: "text string"})
    keyed.sum("amount", running=False, event_time="ts", output_event_time="ts")
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).sum("amount", event_time="ts")
    both.process(pairs, "user string", event_time=("at", "ts"), before_watermark="early")
    both.map(ones, "one long", event_time=("at", "ts"))
