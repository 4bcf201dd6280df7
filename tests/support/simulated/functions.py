# SPDX-License-Identifier: Apache-2.0
"""The functions of drawn programs: what they do follows from the numbers of their records.

A record is a row of `RECORD`: a key `k`, an `id`, a time `ts` that may be null, a number `n` of 40
bits, and a `note` that may be null.  Two numbers are never equal but by a repetition, and their
sums neither; so a record that was lost, processed twice, or mixed into another key shows in what
comes out.  The lowest bits of a number choose what is done with the record.  Outputs tell what the
function could see: its state, its timers, the watermark.

Functions whose name begins with `Gather` give the same in whatever order the records of one time
come: behind another operator that order is Spark's to choose.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs
from pyspark.sql import types as st

from pyflinklike._clock import MIN_WATERMARK, Time, TimeDomain
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.joins import CoGroupFunction, ProcessJoinFunction
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.state.fold_functions import AggregateFunction
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.types import Types
from pyflinklike.windows import ProcessWindowFunction, SessionWindowTimeGapExtractor

__all__ = [
    "LATE",
    "RECORD",
    "RULES",
    "SIDE",
    "Contents",
    "CountByColumns",
    "CountByRecord",
    "DeclaresOnUse",
    "EveryState",
    "EveryStore",
    "Gap",
    "GatherGroups",
    "GatherPairs",
    "GatherSums",
    "JoinOfTwo",
    "KeepsTwice",
    "Letters",
    "Picky",
    "PickyColumns",
    "PickyOfTwo",
    "RecordSum",
    "Service",
    "SumOfNumbers",
    "Ttl",
    "UnderRules",
    "instant",
    "refuse_some",
    "total_row",
]

RECORD: Final = st.StructType(
    [
        st.StructField("k", st.StringType()),
        st.StructField("id", st.LongType()),
        st.StructField("ts", st.TimestampType()),
        st.StructField("n", st.LongType()),
        st.StructField("note", st.StringType()),
    ]
)
"""The columns of records, and of what most functions yield."""
SIDE: Final = OutputTag("side", Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()]))
LATE: Final = OutputTag("late")
TEXT, LONG, INT = Types.STRING(), Types.LONG(), Types.INT()
_EPOCH = dt.datetime(1970, 1, 1)
_MASK = (1 << 62) - 1


class Service:
    """Something outside that functions ask while they process a record: there an attempt can end.

    Attributes:
        ask: The simulation's, while an attempt runs; the oracle's service never fails.
    """

    ask: Callable[[], None] = staticmethod(lambda: None)


def instant(milliseconds: int) -> dt.datetime:
    """Return a point in time as a function yields it."""
    return _EPOCH + dt.timedelta(milliseconds=milliseconds)


@attrs.frozen
class Ttl:
    """A TTL as data.

    Args:
        ms: The length; 0 for none.
        on_read: Whether reads renew it, too.
        event_time: Whether it goes by event time.
        compacted: Whether compactions drop what is expired.
    """

    ms: int = 0
    on_read: bool = False
    event_time: bool = False
    compacted: bool = True

    def on(self, descriptor: Any) -> Any:
        """Enable it on a descriptor, and return that."""
        if not self.ms:
            return descriptor
        builder = StateTtlConfig.new_builder(Time.milliseconds(self.ms))
        if self.on_read:
            builder.update_ttl_on_read_and_write()
        if self.event_time:
            builder.use_event_time()
        if not self.compacted:
            builder.disable_cleanup_in_background()
        descriptor.enable_time_to_live(builder.build())
        return descriptor


# Functions that raise


@attrs.frozen
class Letters:
    """Dead letters of a function that raises for some records and timers.

    Args:
        have_failure_snapshots: Whether each has a failure snapshot.
        at_once: Whether the function raises before it has done anything.  Else it has done all it
            does, which is to be undone: the outcome must be the same.
    """

    have_failure_snapshots: bool = True
    at_once: bool = False

    @property
    def option(self) -> DeadLetters:
        """The option of `process`."""
        return DeadLetters(
            "letters", at_most=1.0, snapshot_bytes=65_536 * self.have_failure_snapshots
        )


class Picky(KeyedProcessFunction):
    """Does what another function does, but raises for some records and timers.

    Args:
        function: The other function.
        at_once: As of `Letters`.
    """

    def __init__(self, function: Any, *, at_once: bool) -> None:
        self._function, self._at_once = function, at_once

    def open(self, runtime_context: Any) -> None:
        self._function.open(runtime_context)

    def declare_others(self) -> tuple[str, ...]:
        """Declare what records declare, and return the names."""
        declare: Any = getattr(self._function, "declare_others", tuple)
        return declare()  # type: ignore[no-any-return]

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._call(value.n, self._function.process_element(value, ctx))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        return self._call(timestamp, self._function.on_timer(timestamp, ctx))

    def _call(self, number: int, results: Iterable[Any] | None) -> Iterator[Any]:
        # The other function is a generator, which has not begun yet.
        if self._at_once:
            refuse_some(number)
        yield from results or ()
        refuse_some(number)


class PickyOfTwo(KeyedCoProcessFunction):
    """`Picky` of two inputs.

    Args:
        function: The other function.
        at_once: As of `Letters`.
    """

    def __init__(self, function: Any, *, at_once: bool) -> None:
        self._function, self._picky = function, Picky(function, at_once=at_once)

    def open(self, runtime_context: Any) -> None:
        self._function.open(runtime_context)

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._picky._call(value.n, self._function.process_element1(value, ctx))

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._picky._call(value.n, self._function.process_element2(value, ctx))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        return self._picky.on_timer(timestamp, ctx)


class PickyColumns(KeyedBatchFunction):
    """`Picky` over columns: it has done all it does when it raises.

    Args:
        function: The other function.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: Any) -> None:
        self._function.open(runtime_context)

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        return self._refuse(batch.numpy("n"), self._function.process_batch(batch, ctx))

    def on_timers(self, batch: Any, ctx: Any) -> Any:
        return self._refuse(batch.timestamps, self._function.on_timers(batch, ctx))

    def _refuse(self, numbers: Any, results: Any) -> Any:
        for each in numbers.tolist():
            refuse_some(each)
        return results


def refuse_some(number: int) -> None:
    """Raise for one of seven numbers.

    Raises:
        ValueError: For these.
    """
    if number % 7 == 3:
        msg = f"{number} is refused"
        raise ValueError(msg)


class _Extremes(AggregateFunction):
    """The sum and the greatest number."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value) & _MASK, max(accumulator[1], value)

    def get_result(self, accumulator: tuple[int, int]) -> str:
        return f"{accumulator[0]}<={accumulator[1]}"

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return (acc_a[0] + acc_b[0]) & _MASK, max(acc_a[1], acc_b[1])


def _mix(one: int, other: int) -> int:
    """Reduce two numbers so that their order shows."""
    return (one * 31 + other) & _MASK


class EveryState(KeyedProcessFunction):
    """Writes and reads every kind of state, and registers timers.

    Args:
        ttl: Of all its states.
        is_grown: Whether its types have grown since the query was begun.
        events: Whether it registers event timers.
        processing: Whether it registers processing timers.
        has_more: Whether it declares a state that it may have left out before.
    """

    def __init__(
        self, ttl: Ttl, *, is_grown: bool, events: bool, processing: bool, has_more: bool
    ) -> None:
        self._ttl, self._is_grown, self._has_more = ttl, is_grown, has_more
        self._events, self._processing = events, processing

    def open(self, runtime_context: Any) -> None:
        of, on = runtime_context, self._ttl.on
        names, kinds = ["a", "b"], [INT, TEXT]
        if self._is_grown:
            names, kinds = ["b", "c", "a"], [TEXT, LONG, LONG]
        number = LONG if self._is_grown else INT
        self._row_fields = names
        self.sum = of.get_state(on(ValueStateDescriptor("sum", LONG)))
        self.row = of.get_state(on(ValueStateDescriptor("row", Types.ROW_NAMED(names, kinds))))
        self.list = of.get_list_state(on(ListStateDescriptor("list", number)))
        self.map = of.get_map_state(on(MapStateDescriptor("map", TEXT, number)))
        self.reduced = of.get_reducing_state(on(ReducingStateDescriptor("reduced", _mix, LONG)))
        pair = Types.TUPLE([LONG, LONG])
        self.folded = of.get_aggregating_state(
            on(AggregatingStateDescriptor("folded", _Extremes(), pair))
        )
        self.more = None
        if self._has_more:
            self.more = of.get_state(on(ValueStateDescriptor("more", LONG)))
        self._writes = [
            self._sum_up,
            self._sum_up_more,
            self._set_row,
            lambda n: self.list.add(n % 997),
            lambda n: self.map.put(f"m{n % 5}", n % 997),
            self.reduced.add,
            self.folded.add,
            lambda n: self.list.add_all([n % 97, n % 89]),
            lambda n: self.list.update([n % 83]),
            lambda n: self.map.remove(f"m{n % 5}"),
            lambda _: self.list.clear(),
            lambda _: self.map.clear(),
            lambda _: self.reduced.clear(),
            lambda _: self.sum.clear(),
            lambda _: self.row.clear(),
        ]
        self._reads = [
            self.sum.value,
            lambda: self.more and self.more.value(),
            lambda: self.row.value() and tuple(self.row.value().as_dict().items()),
            lambda: list(self.list),
            lambda: sorted(self.map.items()),
            self.reduced.get,
            self.folded.get,
            lambda: self.map.get("m1"),
            lambda: self.map.contains("m2"),
            lambda: sorted(self.map.keys()),
            lambda: len(list(self.map.values())),
        ]

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        n = value.n
        for shift in (0, 8)[: 1 + n % 2]:
            self._writes[(n >> shift) % len(self._writes)](n)
        if n % 2:
            Service.ask()
        time = self._register_timers(n, ctx)
        read = self._reads[(n >> 16) % len(self._reads)]()
        yield value.k, value.id, value.ts, n, f"{read} of {value.note} at {time}"
        if n % 5 == 0:
            yield SIDE, (value.k, n)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        total, read = self.sum.value() or 0, self._reads[timestamp % len(self._reads)]()
        domain = ctx.time_domain()
        again = timestamp + 1 + timestamp % 700
        if timestamp % 3 == 1 and domain is TimeDomain.EVENT_TIME:
            ctx.timer_service().register_event_time_timer(again)
        elif timestamp % 3 == 1:
            now = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(max(again, now + 1))
        if timestamp % 4 == 1:
            self.sum.clear()
        note = f"{read} by {domain.name} under {self._watermark(ctx)}"
        yield str(ctx.get_current_key()), None, instant(timestamp), total, note

    def _register_timers(self, n: int, ctx: Any) -> int | None:
        timers = ctx.timer_service()
        time: int | None = ctx.timestamp()
        if self._events and n % 3:
            due = (time if time is not None else 0) + (n >> 20) % 2000
            timers.register_event_time_timer(due)
            if n % 7 == 1:
                timers.delete_event_time_timer(due + 1 - (n >> 24) % 3)
        if self._processing and n % 3 < 2:
            due = timers.current_processing_time() + (n >> 20) % 2000
            timers.register_processing_time_timer(due)
            if n % 7 == 2:
                timers.delete_processing_time_timer(due - (n >> 24) % 2)
        return time

    def _watermark(self, ctx: Any) -> int:
        watermark: int = ctx.timer_service().current_watermark()
        return watermark if self._events or self._processing else MIN_WATERMARK

    def _sum_up(self, n: int) -> None:
        self.sum.update(((self.sum.value() or 0) + n) & _MASK)

    def _sum_up_more(self, n: int) -> None:
        if self.more is not None:
            self.more.update((self.more.value() or 0) + n)

    def _set_row(self, n: int) -> None:
        from pyflinklike.types.row import Row

        values = {"a": n % 991, "b": f"{n % 13}", "c": n}
        self.row.update(Row(**{name: values[name] for name in self._row_fields}))


class GatherSums(KeyedProcessFunction):
    """Passes on some records, and at the ends of stretches of time the sums so far.

    Args:
        ttl: The TTL of all its states.
        stretch: Of time, in ms; 0 without event time.
        keys: How many keys the records that it passes on have.
    """

    def __init__(self, ttl: Ttl, stretch: int, keys: int) -> None:
        self._ttl, self._stretch, self._keys = ttl, stretch, keys

    def open(self, runtime_context: Any) -> None:
        on = self._ttl.on
        self.sum = runtime_context.get_state(on(ValueStateDescriptor("sum", LONG)))
        self.by = runtime_context.get_map_state(on(MapStateDescriptor("by", LONG, LONG)))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        n, timers = value.n, ctx.timer_service()
        self.sum.update(((self.sum.value() or 0) + n) & _MASK)
        self.by.put(n % 4, ((self.by.get(n % 4) or 0) + n) & _MASK)
        if n % 2:
            Service.ask()
        if self._stretch:
            time = ctx.timestamp() or 0
            timers.register_event_time_timer((time // self._stretch + 1) * self._stretch)
        if n % 2:
            note = f"{value.note} under {timers.current_watermark()}"[-80:]
            yield self._key(n), getattr(value, "id", None), _time_of(value), n + 1, note

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        total, by = self.sum.value() or 0, sorted(self.by.items())
        if timestamp // self._stretch % 3 == 0:
            self.by.clear()
        if timestamp // self._stretch % 5 == 0:
            self.sum.clear()
        watermark = ctx.timer_service().current_watermark()
        note = f"{by} of {ctx.get_current_key()} under {watermark}"
        yield self._key(total), 7, instant(timestamp), total, note

    def _key(self, n: int) -> str:
        return f"k{n % self._keys}"


def _time_of(value: Any) -> Any:
    """Return the time of a record, or of the window that gave it."""
    return value.ts if hasattr(value, "ts") else getattr(value, "window_time", None)


class KeepsTwice(KeyedProcessFunction):
    """Draws numbers, keeps each in two states, and shows whether both have the same.

    Two attempts draw two numbers: so a state in which something of both is mixed shows.  The states
    are declared when they are used, and so no reader compares them with the oracle's numbers.
    """

    def open(self, runtime_context: Any) -> None:
        self._context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        n = value.n
        ones = self._context.get_map_state(_DRAWN)
        others = self._context.get_map_state(_DRAWN_AGAIN)
        if n % 3 == 0:
            drawn = int.from_bytes(os.urandom(7), "big")
            ones.put(n % 2, drawn)
            others.put(n % 2, drawn)
        else:
            # Written anew, and so alone in the segment of this micro-batch.
            touched, at = (ones, others)[n % 3 - 1], n // 3 % 2
            if touched.contains(at):
                touched.put(at, touched.get(at))
        same = sorted(ones.items()) == sorted(others.items())
        yield value.k, value.id, value.ts, n, f"{same}"


_DRAWN: Final = MapStateDescriptor("drawn", LONG, LONG)
_DRAWN_AGAIN: Final = MapStateDescriptor("drawn again", LONG, LONG)


class DeclaresOnUse(KeyedProcessFunction):
    """Declares most of its states when a record uses them.

    So a worker that has just begun knows less than is in the log: what it does not know yet must
    stay, whatever is compacted, erased or kept on a disk meanwhile.

    Args:
        ttl: Of the state that it declares at once; those that it declares later have none.
        events: Whether it registers event timers.
    """

    def __init__(self, ttl: Ttl, *, events: bool) -> None:
        self._ttl, self._events = ttl, events

    def open(self, runtime_context: Any) -> None:
        self._context = runtime_context
        on = self._ttl.on
        self.count = runtime_context.get_state(on(ValueStateDescriptor("count", LONG)))

    def declare_others(self) -> tuple[str, ...]:
        """Declare what records declare, and return the names."""
        for at in range(_SELDOM):
            self._value(at)
            self._entries(at)
        return tuple(f"{each} {at}" for at in range(_SELDOM) for each in ("seldom", "entries"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        n = value.n
        verb, at = n % 8, (n >> 8) % _SELDOM
        found: Any = None
        if verb == 0:
            kept = self._value(at)
            found = kept.value()
            kept.update(((found or 0) + n) & _MASK)
        elif verb == 1:
            entries = self._entries(at)
            found = sorted(entries.items())
            if n % 3:
                entries.put(n % 5, n)
            else:
                entries.remove(n % 5)
        elif verb == 2:
            self._value(at).clear()
        if verb < 4:
            Service.ask()
        if n % 3 == 1:
            self.count.update(((self.count.value() or 0) + n) & _MASK)
        else:
            self.count.clear()
        if self._events and n % 5 == 0:
            time = ctx.timestamp()
            ctx.timer_service().register_event_time_timer((time or 0) + (n >> 20) % 2000)
        yield value.k, value.id, value.ts, n, f"{found} and {self.count.value()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        total = self.count.value()
        self.count.clear()
        yield str(ctx.get_current_key()), None, instant(timestamp), total or 0, "its timer"

    def _value(self, at: int) -> Any:
        return self._context.get_state(ValueStateDescriptor(f"seldom {at}", LONG))

    def _entries(self, at: int) -> Any:
        return self._context.get_map_state(MapStateDescriptor(f"entries {at}", LONG, LONG))


_SELDOM: Final = 4
"""How many values, and how many maps, are declared on use."""


# Two inputs


class JoinOfTwo(KeyedCoProcessFunction):
    """Keeps the last record of the second input, and puts it beside those of the first.

    Args:
        ttl: The TTL of all its states.
    """

    def __init__(self, ttl: Ttl) -> None:
        self._ttl = ttl

    def open(self, runtime_context: Any) -> None:
        on = self._ttl.on
        self.last = runtime_context.get_state(on(ValueStateDescriptor("last", LONG)))
        self.waiting = runtime_context.get_list_state(on(ListStateDescriptor("waiting", LONG)))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        last = self.last.value()
        if last is None:
            self.waiting.add(value.n)
        self._register_timers(value, ctx)
        yield value.k, value.id, value.ts, value.n, f"beside {last}"

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        former = self.last.value()
        self.last.update(value.n)
        waiting = list(self.waiting)
        if value.n % 3:
            self.waiting.clear()
        self._register_timers(value, ctx)
        yield value.k, value.id, value.ts, value.n, f"after {former} for {waiting}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp % 3 == 0:
            self.last.clear()
        note = f"{list(self.waiting)} under {ctx.timer_service().current_watermark()}"
        yield ctx.get_current_key(), None, instant(timestamp), self.last.value() or 0, note

    def _register_timers(self, value: Any, ctx: Any) -> None:
        if ctx.timestamp() is not None and value.n % 2:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + (value.n >> 9) % 1500)


RULES: Final = MapStateDescriptor("rules", TEXT, LONG)
_LATEST: Final = ValueStateDescriptor("latest", LONG)


class UnderRules(KeyedBroadcastProcessFunction):
    """Shows all rules beside each record and timer; a rule may change the state of all keys."""

    def open(self, runtime_context: Any) -> None:
        self.latest = runtime_context.get_state(_LATEST)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules, n = ctx.get_broadcast_state(RULES), value.n
        if n % 7 == 0:
            rules.clear()
        elif n % 5 == 0:
            rules.remove(value.k)
        elif n % 3 == 0:
            ctx.apply_to_keyed_state(_LATEST, lambda _, latest: latest.update(n))
        else:
            rules.put(value.k, ((rules.get(value.k) or 0) * 31 + n) & _MASK)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        former = self.latest.value()
        if value.n % 3:
            self.latest.update(value.n)
        if value.n % 2:
            Service.ask()
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + value.n % 900)
        yield value.k, value.id, value.ts, value.n, f"{former} under {self._rules(ctx)}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        note = f"under {self._rules(ctx)}"
        yield ctx.get_current_key(), None, instant(timestamp), self.latest.value() or 0, note

    def _rules(self, ctx: Any) -> list[Any]:
        return sorted(ctx.get_broadcast_state(RULES).items())


class GatherPairs(ProcessJoinFunction):
    """Shows both partners of a pair; an outer join has one of them alone."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        one = left if left is not None else right
        note = f"{_show(left)} with {_show(right)}"
        yield one.k, one.id, one.ts, one.n, note


def total_row(left: Any, right: Any) -> tuple[int, str]:
    """Make a row of two partners in a window."""
    numbers = [each.n for each in (left, right) if each is not None]
    return sum(numbers) & _MASK, f"{_show(left)} with {_show(right)}"


class GatherGroups(CoGroupFunction):
    """Shows both groups of a window."""

    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        numbers = [sorted(each.n for each in group) for group in (first, second)]
        yield sum(map(sum, numbers)) & _MASK, f"{numbers[0]} and {numbers[1]}"


def _show(record: Any) -> str:
    return "nothing" if record is None else f"{record.n}"


# Windows


class SumOfNumbers(AggregateFunction):
    """Sums up, and counts.

    Args:
        is_picky: Whether it raises for some records.
    """

    def __init__(self, *, is_picky: bool = False) -> None:
        self._is_picky = is_picky

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        if self._is_picky:
            refuse_some(value.n)
        return (accumulator[0] + value.n) & _MASK, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, str]:
        return accumulator[0], f"{accumulator[1]} records"

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return (acc_a[0] + acc_b[0]) & _MASK, acc_a[1] + acc_b[1]


class Contents(ProcessWindowFunction):
    """Shows the records of a window, how often it has fired, and the windows of its key so far.

    Args:
        is_ordered: Whether records are shown in their order.
        has_state: Whether it keeps state of each window: not of such that merge.
        letters: Of a function that raises for some windows; None for one that does not.
    """

    def __init__(
        self, *, is_ordered: bool, has_state: bool, letters: Letters | None = None
    ) -> None:
        self._is_ordered, self._has_state, self._letters = is_ordered, has_state, letters

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        numbers = [each.n for each in elements]
        if not self._is_ordered:
            numbers.sort()
        total = sum(numbers) & _MASK
        if self._letters is not None and self._letters.at_once:
            refuse_some(total)
        note = f"{numbers} under {context.current_watermark()}"
        if self._has_state:
            fired = context.window_state().get_state(_FIRED)
            fired.update((fired.value() or 0) + 1)
            note += f", fired {fired.value()} times"
        yield total, note
        if self._letters is not None:
            refuse_some(total)

    def clear(self, context: Any) -> None:
        if self._has_state:
            context.window_state().get_state(_FIRED).clear()


_FIRED: Final = ValueStateDescriptor("fired", LONG)


class Gap(SessionWindowTimeGapExtractor):
    """The gap of a session that each record says."""

    def extract(self, element: Any) -> int:
        gap: int = 100 + element.n % 900
        return gap


class RecordSum:
    """Reduces two records to one with the sum of their numbers, and else the greater values.

    Args:
        is_picky: Whether it raises for some second records.
    """

    def __init__(self, *, is_picky: bool = False) -> None:
        self._is_picky = is_picky

    def __call__(self, one: Any, other: Any) -> Any:
        if self._is_picky:
            refuse_some(other.n)
        values = one.as_dict()
        for name, value in other.as_dict().items():
            if value is not None and (values[name] is None or values[name] < value):
                values[name] = value
        return one._replace(**{**values, "n": (one.n + other.n) & _MASK})


# Columns and records in turn


class CountByRecord(KeyedProcessFunction):
    """A running sum, sums by note, and a timer: the same as `CountByColumns`.

    Args:
        ttl: The TTL of all its states.
        events: Whether it registers event timers.
    """

    def __init__(self, ttl: Ttl, *, events: bool) -> None:
        self._ttl, self._events = ttl, events

    def open(self, runtime_context: Any) -> None:
        on = self._ttl.on
        self.sum = runtime_context.get_state(on(ValueStateDescriptor("sum", LONG)))
        self.by = runtime_context.get_map_state(on(MapStateDescriptor("by", LONG, LONG)))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        total = (self.sum.value() or 0) + value.n
        self.sum.update(total)
        count = (self.by.get(value.id) or 0) + 1
        self.by.put(value.id, count)
        if self._events:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + value.n % 1000)
        yield value.k, value.id, value.ts, total, f"{count}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), -1, instant(timestamp), self.sum.value() or 0, "timer"


class CountByColumns(KeyedBatchFunction):
    """`CountByRecord` over columns.

    Args:
        ttl: The TTL of all its states.
        events: Whether it registers event timers.
    """

    def __init__(self, ttl: Ttl, *, events: bool) -> None:
        self._ttl, self._events = ttl, events

    def open(self, runtime_context: Any) -> None:
        on = self._ttl.on
        self.sum = runtime_context.get_column_state(on(ValueStateDescriptor("sum", LONG)))
        self.by = runtime_context.get_column_map_state(on(MapStateDescriptor("by", LONG, LONG)))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        groups = batch.groups
        total = groups.running(np.add, batch.numpy("n"), self.sum.get(0))
        self.sum.put(groups.last(total))
        by = self.by.at(batch["id"])
        count = by.groups.spread(by.get(0)) + by.groups.rank() + 1
        by.put(by.groups.last(count))
        if self._events:
            due = batch.timestamps + batch.numpy("n") % 1000
            ctx.timer_service().register_event_time_timer(due, codes=groups.codes)
        return {
            "k": batch["k"],
            "id": batch["id"],
            "ts": batch["ts"],
            "n": total,
            "note": pa.array([str(each) for each in count.tolist()], pa.string()),
        }

    def on_timers(self, batch: Any, ctx: Any) -> Any:
        import pyarrow as pa

        rows = len(batch.timestamps)
        micros = pa.array(batch.timestamps * 1000, pa.int64())
        return {
            "k": batch["k"],
            "id": pa.array([-1] * rows, pa.int64()),
            "ts": micros.cast(pa.timestamp("us", tz="UTC")),
            "n": self.sum.get(0),
            "note": pa.array(["timer"] * rows, pa.string()),
        }


# Stores


class EveryStore(KeyedProcessFunction):
    """Writes and reads every kind of store.

    Args:
        stream_time: Of the stores that keep one: "key" or "watermark".
        caching: Whether changes are cached before they are logged.
        retention: In ms, of windows, sessions and versions.
        is_shared: Whether all keys of a key group have one store.
    """

    def __init__(self, stream_time: str, *, caching: bool, retention: int, is_shared: bool) -> None:
        scope = "partition" if is_shared else "key"
        common: dict[str, Any] = {"caching": caching, "scope": scope}
        timed = {**common, "stream_time": scope if stream_time == "key" else stream_time}
        self._stores: list[Any] = [
            KeyValueStoreDescriptor("kv", TEXT, LONG, **common),
            LruStoreDescriptor("lru", TEXT, LONG, max_entries=2, **common),
            TimestampedStoreDescriptor("stamped", TEXT, LONG, **common),
            WindowStoreDescriptor(
                "windows", TEXT, LONG, window_size=100, retention=retention, **timed
            ),
            SessionStoreDescriptor("sessions", TEXT, LONG, retention=retention, **timed),
            VersionedStoreDescriptor("versions", TEXT, LONG, history_retention=retention, **timed),
        ]

    def open(self, runtime_context: Any) -> None:
        self.stores = {each.name: runtime_context.get_store(each) for each in self._stores}
        self._verbs = [
            lambda n, _: self.stores["kv"].put(f"s{n % 4}", n),
            lambda n, _: self.stores["kv"].delete(f"s{n % 4}"),
            lambda n, _: self.stores["lru"].put(f"s{n % 4}", n),
            lambda n, _: self.stores["lru"].get(f"s{n % 3}"),
            lambda n, time: self.stores["stamped"].put(f"s{n % 3}", n, time),
            lambda n, time: self.stores["windows"].put(f"s{n % 3}", n, time // 100 * 100),
            lambda n, time: self.stores["sessions"].put(f"s{n % 2}", time, time + n % 300, n),
            lambda n, time: self.stores["versions"].put(f"s{n % 2}", n if n % 3 else None, time),
        ]
        self._reads = [
            lambda _: [tuple(each) for each in self.stores["kv"].all()],
            lambda _: [tuple(each) for each in self.stores["stamped"].range("s0", "s1")],
            lambda _: len(self.stores["lru"]),
            lambda time: [*self.stores["windows"].fetch("s1", time - 500, time)],
            lambda _: [tuple(each) for each in self.stores["sessions"].fetch("s1")],
            lambda time: self.stores["versions"].get("s1", time - 200),
        ]

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        n, time = value.n, ctx.timestamp() or 0
        for shift in (0, 8):
            self._verbs[(n >> shift) % len(self._verbs)](n, time)
            if n % 4 == 3:
                Service.ask()
        read = self._reads[(n >> 16) % len(self._reads)](time)
        yield value.k, value.id, value.ts, n, f"{read}"
