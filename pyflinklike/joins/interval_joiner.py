# SPDX-License-Identifier: Apache-2.0
"""The interval join: pairs of elements of one key whose times lie within an interval.

It follows the rules of Flink's `IntervalJoinOperator`:

1. A left element at l and a right element at r are a pair if l + lower <= r <= l + upper.
2. The pair is emitted when the second of the two arrives, with the greater of their times.
3. An element that is earlier than the watermark is late: it goes to its side output, or is
   dropped and counted.
4. An element is removed when the watermark has reached the last time that a partner can have, or
   the element's own time if all partners are earlier.

Flink's DataStream API has no outer joins.  Here they add a rule: an element that is removed
without a partner is emitted with None, at the time of rule 4.

If failed calls become dead letters, each pair fails alone: an element still meets its other
partners, and is kept and removed, even if the function failed.

https://github.com/apache/flink/blob/master/flink-runtime/src/main/java/org/apache/flink/streaming/api/operators/co/IntervalJoinOperator.java
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import attrs

from pyflinklike._changelog.damage import RESTORE_ADVICE
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._messages import own_state, shown_state
from pyflinklike.errors import CorruptStateError, StateValueError
from pyflinklike.functions.contexts import RuntimeContext
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import KeyedCoProcessFunction, KeyedProcessFunction
from pyflinklike.joins.join_functions import ProcessJoinFunction, call_alone, outputs_in
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.keyed_states import MapState
from pyflinklike.state.table import MISSING, OrderedTable, Setting, Table, TableSpec
from pyflinklike.types import TypeInformation, Types

OUTER: Final[Mapping[str, tuple[bool, bool]]] = MappingProxyType(
    {
        "inner": (False, False),
        "left_outer": (True, False),
        "right_outer": (False, True),
        "full_outer": (True, True),
    }
)
"""Whether left and right elements without a partner are emitted, by the name of the join."""

_FEWER = (
    "the former join did not note which elements had found a partner; keep its kind, choose one "
    "that emits fewer elements without a partner, or begin a new checkpoint"
)
_LEFT = own_state("_join_left", "the kept elements of the left input")
_RIGHT = own_state("_join_right", "the kept elements of the right input")
_PICKLED = Types.PICKLED_BYTE_ARRAY()


@attrs.frozen
class JoinBounds:
    """The interval around a left element in which right elements are its partners.

    Args:
        lower: The least difference in ms: the time of a right element minus the time of the left
            element; often negative.
        upper: The greatest such difference in ms; both bounds are included.
    """

    lower: int
    upper: int

    def kept_for(self, is_left: bool) -> int:
        """Return for how many ms after its own time an element may find a partner."""
        return max(self.upper if is_left else -self.lower, 0)

    def partners_of(self, timestamp: int, is_left: bool) -> tuple[int, int]:
        """Return the first and the last time in ms of an element's partners."""
        if is_left:
            return timestamp + self.lower, timestamp + self.upper
        return timestamp - self.upper, timestamp - self.lower


@attrs.define
class _PairContext(ProcessJoinFunction.Context):
    key: Any = None
    left: int | None = None
    right: int | None = None
    time: int = 0

    def get_left_timestamp(self) -> int | None:
        """Return the time of the left element."""
        return self.left

    def get_right_timestamp(self) -> int | None:
        """Return the time of the right element."""
        return self.right

    def get_timestamp(self) -> int:
        """Return the time of the pair."""
        return self.time

    def get_current_key(self) -> Any:
        """Return the key of both elements."""
        return self.key


@attrs.define
class _Side:
    """One input of the join.

    Args:
        is_left: Whether this is the first input.
        outer: Whether elements without a partner are also emitted.
        late: The side output of late elements; None if they are only counted.
        element_type: The type of the elements.
        buffer: The elements that may still find a partner; None until the function is open.
    """

    is_left: bool
    outer: bool
    late: OutputTag | None
    element_type: TypeInformation
    buffer: Any = attrs.field(default=None, repr=False)


class IntervalJoin(KeyedCoProcessFunction):
    """Joins two keyed streams by an interval of time; on Spark `KeyedDataFrame.interval_join`.

    Args:
        function: The user's function, which gets each pair of elements.
        bounds: The interval in which two elements are a pair.
        join: "inner", "left_outer", "right_outer" or "full_outer".
        left_type: The type of the first input's elements; by default anything that pickles.
        right_type: The type of the second input's elements; by default anything that pickles.
        left_late: The side output of the first input's late elements; None drops and counts them.
        right_late: The side output of the second input's late elements; None drops and counts
            them.
    """

    def __init__(
        self,
        function: ProcessJoinFunction,
        bounds: JoinBounds,
        join: str = "inner",
        *,
        left_type: TypeInformation = _PICKLED,
        right_type: TypeInformation = _PICKLED,
        left_late: OutputTag | None = None,
        right_late: OutputTag | None = None,
    ) -> None:
        self._function = function
        self._bounds = bounds
        left_outer, right_outer = OUTER[join]
        # Only an outer side notes which elements have found a partner, so after a restart a side
        # can be outer only if it was before.
        accepts = tuple(
            former
            for former, (left, right) in OUTER.items()
            if left >= left_outer and right >= right_outer
        )
        self._kind = Setting("the kind of the join", join, accepts, _FEWER)
        self._left = _Side(True, left_outer, left_late, left_type)
        self._right = _Side(False, right_outer, right_late, right_type)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function, and obtain the states."""
        self._function.open(runtime_context)
        for side, name in ((self._left, _LEFT), (self._right, _RIGHT)):
            descriptor = BufferDescriptor(name, side.element_type, self._kind)
            side.buffer = runtime_context.get_map_state(descriptor)
        self._attempt = runtime_context._attempt
        self._dropped = runtime_context.get_metrics_group().counter("numLateRecordsDropped")
        self._context = _PairContext()

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    def process_element1(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Join a left element with the right ones."""
        return self._join(self._left, self._right, value, ctx)

    def process_element2(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Join a right element with the left ones."""
        return self._join(self._right, self._left, value, ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Remove the elements that can no longer find a partner."""
        for side in (self._left, self._right):
            kept_for = self._bounds.kept_for(side.is_left)
            for over in side.buffer.within(MIN_WATERMARK, timestamp - kept_for):
                if side.outer and not over.joined:
                    yield from self._alone(side, over, timestamp, ctx.get_current_key())
                side.buffer.remove(over.place)
            # Each element has a timer, but it may be too early: a restart may have widened the
            # interval after it was registered.
            earliest = side.buffer.earliest()
            if earliest is not None:
                ctx.timer_service().register_event_time_timer(earliest + kept_for)

    def _join(
        self, side: _Side, other: _Side, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterator[Any]:
        timestamp, timers = _time_of(ctx.timestamp()), ctx.timer_service()
        if timestamp < timers.current_watermark():
            if side.late is None:
                self._dropped.inc()
            else:
                yield side.late, value
            return
        bounds = self._bounds
        partners = list(other.buffer.within(*bounds.partners_of(timestamp, side.is_left)))
        # As in Flink, the element is kept first: the function may change the object that it gets.
        side.buffer.append(timestamp, bool(partners), value)
        timers.register_event_time_timer(timestamp + bounds.kept_for(side.is_left))
        if partners:
            self._context.key = ctx.get_current_key()
        for partner in partners:
            if other.outer and not partner.joined:
                other.buffer.mark_joined(partner)
            yield from self._pair(side.is_left, timestamp, value, partner)

    def _pair(self, is_left: bool, timestamp: int, value: Any, partner: Buffered) -> Iterable[Any]:
        """Return the outputs for an element and a partner that arrived before it."""
        context = self._context
        context.time = max(timestamp, partner.timestamp)
        if is_left:
            context.left, context.right = timestamp, partner.timestamp
            pair = value, partner.element
        else:
            context.left, context.right = partner.timestamp, timestamp
            pair = partner.element, value
        return self._call(pair)

    def _alone(self, side: _Side, over: Buffered, time: int, key: Any) -> Iterator[Any]:
        context = self._context
        context.key, context.time = key, time
        if side.is_left:
            context.left, context.right = over.timestamp, None
            pair = over.element, None
        else:
            context.left, context.right = None, over.timestamp
            pair = None, over.element
        # The elements before it are settled, so the failure snapshot of a letter begins with this
        # one.
        yield from self._call(pair, settled=True)

    def _call(self, pair: tuple[Any, Any], *, settled: bool = False) -> Iterable[Any]:
        function, context = self._function, self._context
        if self._attempt is None:
            return outputs_in(function.process_element(*pair, context), function, "process_element")
        return call_alone(
            self._attempt,
            lambda: function.process_element(*pair, context),
            pair,
            function,
            "process_element",
            settled=settled,
        )


def _time_of(timestamp: int | None) -> int:
    """Return the time of an element.

    Raises:
        StateValueError: The element has no time.
    """
    if timestamp is None:
        msg = (
            "elements of an interval join need times, got one without; name the column with "
            "event_time, and filter out the rows in which it is null"
        )
        raise StateValueError(msg)
    return timestamp


# The buffer of one input
#
# An ordered table keeps the elements under their time and a number, by which elements of the same
# time differ.  So a range finds the elements within an interval; Flink walks through all elements.


_KEY = struct.Struct(">QI")
# Added to times, which may be negative: only the bytes of unsigned numbers sort in their order.
_BIAS = 1 << 63
_LAST = (1 << 63) - 1
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


class Buffered(NamedTuple):
    """An element of a buffer.

    Args:
        place: The key of the element in the ordered table.
        timestamp: The time of the element in ms.
        joined: Whether the element has found a partner; only noted by outer joins.
        element: The element, which the caller may change.
    """

    place: bytes
    timestamp: int
    joined: bool
    element: Any


class JoinBuffer(MapState[bytes, Any]):
    """Elements of the current key by time; `BufferDescriptor` makes it."""

    __slots__ = ("_range",)

    def __init__(self, name: str, table: Any, value_type: TypeInformation) -> None:
        super().__init__(name, table, _BYTES, value_type)
        ordered: OrderedTable = table
        self._range = ordered.range

    def append(self, timestamp: int, joined: bool, element: Any) -> None:
        """Add an element after the elements of the same time.

        Raises:
            StateValueError: The element does not fit the declared type.
        """
        # The elements of one time are removed together, so number 0 is free only if there is no
        # other.
        place = _KEY.pack(timestamp + _BIAS, 0)
        if self._get(place) is not MISSING:
            last, _ = next(iter(self._range(place, _end(timestamp), backwards=True, limit=1)))
            place = _KEY.pack(timestamp + _BIAS, self._unpack(last)[1] + 1)
        self.put(place, (joined, element))

    def within(self, first: int, last: int) -> Iterator[Buffered]:
        """Yield the elements from one time to another, both included, by time and arrival."""
        thaw = self._thaw or _same
        begin = _KEY.pack(max(first + _BIAS, 0), 0)
        for place, stored in self._range(begin, _end(last)):
            joined, element = thaw(stored)
            # Null would count as "not joined", and emit an element without its partner.
            if joined is None:
                rule = "an element must say whether it has joined"
                raise self._corrupt(rule, "null")
            yield Buffered(place, self._unpack(place)[0] - _BIAS, joined, element)

    def mark_joined(self, buffered: Buffered) -> None:
        """Note that an element has found a partner."""
        self.put(buffered.place, (True, buffered.element))

    def earliest(self) -> int | None:
        """Return the least time of an element, or None if there is no element."""
        for place, _ in self._range(limit=1):
            return self._unpack(place)[0] - _BIAS
        return None

    def _unpack(self, place: bytes) -> tuple[int, int]:
        """Return the time, as it is stored, and the number in a place."""
        if len(place) != _KEY.size:
            raise self._corrupt(f"an element's key must have {_KEY.size} bytes", f"{len(place)}")
        time, number = _KEY.unpack(place)
        return time, number

    def _corrupt(self, rule: str, got: str) -> CorruptStateError:
        msg = f"{shown_state(self.name)}: {rule}, got {got}; {RESTORE_ADVICE}"
        return CorruptStateError(msg)


def _end(last: int) -> bytes | None:
    """Return the first place after a time; None if no time is greater."""
    if last >= _LAST:
        return None
    return _KEY.pack(max(last + 1 + _BIAS, 0), 0)


def _same(stored: Any) -> Any:
    return stored


class BufferDescriptor(MapStateDescriptor[bytes, Any]):
    """Declares a `JoinBuffer`, obtained with `get_map_state`.

    Args:
        name: The name of the state.
        element_type: The type of the elements.
        join: The kind of the join, as a setting that a restart checks.
    """

    kind = "join buffer"

    def __init__(self, name: str, element_type: TypeInformation, join: Setting) -> None:
        super().__init__(name, _BYTES, Types.TUPLE([Types.BOOLEAN(), element_type]))
        self._join = join

    def spec(self) -> TableSpec:
        """Return the spec of the table: ordered, with the kind of the join among its settings."""
        own = super().spec()
        return attrs.evolve(own, ordered=True, settings=(*own.settings, self._join))

    def state(self, table: Table) -> JoinBuffer:
        """Make the state over a table of that `spec`."""
        return JoinBuffer(self.name, table, self._value_type_info)
