# SPDX-License-Identifier: Apache-2.0
"""Calls of the user's function: for records, for timers, at the beginning and at the end.

`outputs` gather what the function yields.  An error that it raises becomes one that names the
method, the key and the element or timer; our own errors keep their class and get a note.

`UserFunctionInvoker` calls a function of one input.  Most callers of other functions subclass it, and say
which method takes a record (`_element_call`) and how messages name it (`_name_call`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from inspect import GEN_CLOSED, getgeneratorstate
from types import GeneratorType
from typing import Any, NamedTuple

import attrs

from pyflinklike._messages import short_repr, shown_error, shown_state, whole_message
from pyflinklike._runtime.call_contexts import OperatorParts
from pyflinklike._runtime.failure_isolation import CallMark
from pyflinklike._runtime.failure_snapshot import ELEMENT, TIMER, Called
from pyflinklike._runtime.outputs import CHANGEABLE
from pyflinklike._runtime.timer_queue import TimerQueue
from pyflinklike._runtime.user_errors import hint, where_raised
from pyflinklike.errors import PyflinklikeError, UserFunctionError
from pyflinklike.functions.contexts import RuntimeContext
from pyflinklike.functions.element_functions import FilterFunction, MapFunction
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    NamespacedFunction,
    PreparedTogether,
    check_results,
)
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY, NO_NAMESPACE
from pyflinklike.types import TypeInformation

__all__ = [
    "FunctionInvoker",
    "MapInvoker",
    "NamespacedInvoker",
    "TwoInputInvoker",
    "UserFunctionInvoker",
]


@attrs.frozen
class FunctionInvoker(ABC):
    """Calls one function, of which the operator knows nothing else.

    The caller alone knows which methods the function has, and what the value of a record is to it.

    Args:
        function: The user's function.
        parts: The parts of the operator.
    """

    function: Any
    _parts: OperatorParts

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""
        return self._parts.key_type

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function, which declares its states.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self.function.open(runtime_context)
        except PyflinklikeError as error:
            error.add_note(f"{self.name()}.open failed{where_raised(error)}")
            raise
        except Exception as error:
            where = f"{where_raised(error)}{hint(error, has_timestamp=True)}"
            msg = f"{self.name()}.open failed: {shown_error(error)}{where}"
            raise UserFunctionError(msg) from error

    def close(self) -> None:
        """Close the function.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self.function.close()
        except PyflinklikeError:
            raise
        except Exception as error:
            msg = f"{self.name()}.close failed: {shown_error(error)}{where_raised(error)}"
            raise UserFunctionError(msg) from error

    @abstractmethod
    def process(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records of the current group, in order.

        Args:
            keys: The keys in their frozen form.
            values: For each record the element, or with two inputs the pair of the number of the
                input and the element.
            timestamps: The event times in ms, None for an element without event time.

        Raises:
            UserFunctionError: The function raised; its writes stay in the working state, which
                the host must then not commit.
        """

    @abstractmethod
    def one_by_one(self) -> Callable[[Any, Any, int | None], None]:
        """Return a function that processes a single record of the current group.

        Returns:
            A function of the key, the value and the timestamp, with the errors of `process`.
        """

    @abstractmethod
    def fire(self, queue: Any, now: int) -> int:
        """Fire the due timers of a queue, and return their number.

        Args:
            queue: One of the two queues of the current group, in the form that the caller needs.
            now: The time of its domain in ms.

        Raises:
            UserFunctionError: The function raised.
        """

    @abstractmethod
    def repeat(self, called: Called) -> None:
        """Make a call again that failed elsewhere, and gather its outputs.

        What the function raises comes as it is.  Nothing expires before the call: what the state
        was when the call failed is what the function finds.
        """

    def name(self) -> str:
        """Return the name of the function for messages."""
        return type(self.function).__qualname__


@attrs.frozen
class UserFunctionInvoker(FunctionInvoker):
    """Calls a function of one input."""

    def process(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records of the current group, in order."""
        parts = self._parts
        current, clock, context, outputs = parts.current, parts.clock, parts.context, parts.outputs
        # Asked once for a batch: one loop serves all kinds of functions, and costs none a call more.
        process_element, before = self._element_call(), parts.before_every_call
        emit_main, emit_key = outputs.main.append, outputs.keys.append
        value: Any = None
        if parts.guard is not None:
            # What cannot be read fails here, and not as if the call before it had failed.
            keys, values, timestamps = list(keys), list(values), list(timestamps)
            values = parts.guard.follow(values)
        records = zip(keys, values, timestamps)
        is_over = False
        try:
            while not is_over:
                try:
                    for current.key, value, clock.timestamp in records:
                        if before:
                            for each in before:
                                each()
                        results = process_element(value, context)
                        if results is None:
                            continue
                        if results.__class__ is not GeneratorType:
                            check_results(results)
                        for result in results:  # `Outputs.emit` written out: a call per record less
                            kind = result.__class__
                            if kind is tuple and result and result[0].__class__ is OutputTag:
                                outputs.emit_side(result, current.key)
                            else:
                                emit_main(result.copy() if kind in CHANGEABLE else result)
                                emit_key(current.key)
                    is_over = True
                except Exception as error:
                    self._fail(error, *self._name_call(value), value)
        finally:
            if parts.guard is not None:
                parts.guard.end()
            current.key, clock.timestamp = NO_KEY, None

    def one_by_one(self) -> Callable[[Any, Any, int | None], None]:
        """Return a function that processes a single record of the current group."""
        # Hosts call the returned function for every record, so it looks up nothing that stays the same.
        parts = self._parts
        current, clock, context = parts.current, parts.clock, parts.context
        emit, before, guard = parts.outputs.emit, parts.before_every_call, parts.guard
        process_element: Callable[[Any, Any], Iterable[Any] | None] | None = None

        def process_one(key: Any, value: Any, timestamp: int | None) -> None:
            nonlocal process_element
            # Asked at the first record, since this function is made before `open`.
            if process_element is None:
                process_element = self._element_call()
            current.key, clock.timestamp = key, timestamp
            if guard is not None:
                guard.follow_one(value)
            try:
                for each in before:
                    each()
                results = process_element(value, context)
                if results is not None:
                    emit(results, key)
            except Exception as error:
                self._fail(error, *self._name_call(value), value)
            finally:
                if guard is not None:
                    guard.end()
                current.key, clock.timestamp = NO_KEY, None

        return process_one

    def fire(self, queue: TimerQueue, now: int) -> int:
        """Fire the due timers of a queue, and return their number."""
        # The clock gets no timestamp here: a processing time must not stamp event-time TTL.
        parts = self._parts
        current, context, before = parts.current, parts.context, parts.before_every_call
        context.domain = queue.domain
        timestamp = None
        fired = 0
        due, on_timer, emit = queue.due(now), self._timer_call(), parts.outputs.emit
        touch = parts.metrics.touched.add
        is_over = False
        try:
            while not is_over:
                try:
                    for timestamp in due:
                        context.fired_at = timestamp
                        fired += 1
                        touch(current.key)
                        for each in before:
                            each()
                        results = on_timer(timestamp, context)
                        if results is not None:
                            emit(results, current.key)
                    is_over = True
                except Exception as error:
                    if getgeneratorstate(due) == GEN_CLOSED:  # no call raised, but the queue
                        self._explain(error, "on_timer", timestamp)
                        raise
                    self._fail(error, "on_timer", timestamp, timestamp, TIMER)
        finally:
            if parts.guard is not None:
                parts.guard.end()
            due.close()  # if a call raised: timers not yet given stay due
            current.key = NO_KEY
            context.domain = context.fired_at = None
        parts.metrics.timers_fired += fired
        return fired

    def attempt(
        self,
        call: Callable[[], Sequence[Any]],
        subject: Callable[[], str],
        name: str | None = None,
        *,
        settled: bool = False,
    ) -> Sequence[Any] | None:
        """Call the user's function within a call of a program of ours, as `Attempt` has it."""
        parts = self._parts
        guard, is_timer = parts.guard, parts.context.domain is not None
        assert guard is not None
        if settled:
            guard.settle()
        mark = guard.mark()
        try:
            return call()
        except Exception as error:
            if not guard.may_keep(error):
                raise
            given = parts.context.fired_at if is_timer else guard.value()
            method, of = ("on_timer", given) if is_timer else self._name_call(given)
            kind, part = TIMER if is_timer else ELEMENT, _PartialCall(mark, subject, name)
            try:
                self._fail(error, method, of, given, kind, part)
            except BaseException:
                guard.refuse()
                raise
        return None

    def repeat(self, called: Called) -> None:
        """Make a call again that failed elsewhere, and gather its outputs."""
        parts = self._parts
        current, clock, context = parts.current, parts.clock, parts.context
        current.key, current.namespace = called.key, called.namespace
        is_timer = called.kind == TIMER
        clock.timestamp = None if is_timer else called.timestamp
        try:
            if is_timer:
                context.domain, context.fired_at = called.domain, called.timestamp
                results = self._timer_call()(called.given, context)
            else:
                results = self._element_call()(called.given, context)
            if results is not None:
                parts.outputs.emit(results, called.key)
        finally:
            current.key, current.namespace, clock.timestamp = NO_KEY, NO_NAMESPACE, None
            if is_timer:
                context.domain = context.fired_at = None

    def _element_call(self) -> Callable[[Any, Any], Iterable[Any] | None]:
        """Return the function to call with the value of a record and the context."""
        call: Callable[[Any, Any], Iterable[Any] | None] = self.function.process_element
        return call

    def _timer_call(self) -> Callable[[int, Any], Iterable[Any] | None]:
        """Return the function to call with the time of a timer and the context."""
        call: Callable[[int, Any], Iterable[Any] | None] = self.function.on_timer
        return call

    def _name_call(self, value: Any) -> tuple[str, Any]:
        """Return the name of the method that takes a record, and the element that it gets."""
        return "process_element", value

    def _fail(
        self,
        error: Exception,
        method: str,
        subject: Any,
        given: Any,
        kind: str = ELEMENT,
        part: _PartialCall | None = None,
    ) -> None:
        """Raise what the function raised, with the call named; or make a dead letter of the call.

        Args:
            error: What the function raised.
            method: The name of the method that was called.
            subject: The element that it got, or the time of the timer.
            given: What was processed: the value of a record, or as `subject`.
            kind: The kind of the call, as `Called` has it.
            part: The part of the call that failed; None if the whole call did.

        Raises:
            UserFunctionError: There are no dead letters, or too many.
        """
        told: Exception = error
        name = None if part is None else part.name
        try:
            self._explain(error, method, subject, name)
        except UserFunctionError as explained:
            told = explained
        parts = self._parts
        guard = parts.guard
        if guard is None:
            raise told
        if not guard.may_keep(error):
            guard.give_up()
            raise told
        key = parts.current.key
        if name is None:
            name = method
            if isinstance(self.function, NamespacedFunction):
                name, _ = self.function.failed_call(error, method)
        shown_key = None if key is NO_KEY or key is GROUP_KEY else self.key_type.thaw_key(key)
        called = Called(
            kind=kind,
            given=given,
            key=key,
            namespace=guard.namespace,
            timestamp=parts.context.timestamp(),
            domain=parts.context.domain,
        )
        guard.undo(None if part is None else part.mark)
        seen = short_repr(subject) if part is None else part.subject()
        is_part = part is not None
        guard.fail(error, whole_message(told), called, shown_key, name, seen, is_part=is_part)

    def _explain(
        self, error: Exception, method: str, subject: Any, name: str | None = None
    ) -> None:
        """Name the call that raised: in a note of our own error, or in a new error.

        Args:
            error: What was raised.
            method: The method that was called by the runtime.
            subject: The element that it got, or the time of the timer.
            name: The name of what raised, if it is known.

        Raises:
            UserFunctionError: The error is not our own.
        """
        key, timestamp = self._parts.current.key, self._parts.context.timestamp()
        whose = (
            "none" if key is NO_KEY or key is GROUP_KEY else short_repr(self.key_type.thaw_key(key))
        )
        about = f"{'timer' if method == 'on_timer' else 'element'} {short_repr(subject)}"
        where, hidden = where_raised(error), ""
        if isinstance(self.function, NamespacedFunction):
            found, place = self.function.failed_call(error, method)
            name, hidden = name or found, self.function.hidden_state
            # The user registered no timer: to the user it is the window that fires.
            if place:
                about = place if method == "on_timer" else f"{about}, {place}"
        call = f"{name or f'{self.name()}.{method}'} failed for key {whose}, {about}, at time {timestamp}"
        if not isinstance(error, PyflinklikeError):
            advice = hint(error, has_timestamp=timestamp is not None)
            msg = f"{call}: {_cause(error, hidden)}{where}{advice}"
            raise UserFunctionError(msg) from error
        error.add_note(f"{call}{where}")


class _PartialCall(NamedTuple):
    """A part of a call that fails alone.

    Args:
        mark: Its beginning.
        subject: Shows what the user's function was called with, once the part is undone.
        name: The name of what was called; None if the error tells it.
    """

    mark: CallMark
    subject: Callable[[], str]
    name: str | None


def _cause(error: Exception, hidden: str) -> str:
    state = getattr(error, "state_name", None)
    where = "" if state is None or state == hidden else f"in the function of {shown_state(state)}: "
    return f"{where}{shown_error(error)}{getattr(error, 'state_hint', '')}"


# Functions with namespaces


@attrs.frozen
class NamespacedInvoker(UserFunctionInvoker):
    """Calls a `NamespacedFunction`, which may take records together where nobody can tell."""

    def name(self) -> str:
        """Return the name of the user's own function for messages."""
        name: str = self.function.called()
        return name

    def process(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records of the current group: together where the function can, else in order.

        Raises:
            UserFunctionError: The function raised.
        """
        parts = self._parts
        guard = parts.guard
        # What TTL and stores do before each record can be seen between two of them.
        steps = parts.before_every_call if guard is None else parts.before_every_call[1:]
        if steps:
            super().process(keys, values, timestamps)
            return
        keys, values, timestamps = list(keys), list(values), list(timestamps)
        current, error = parts.current, None
        failed_key: Any = NO_KEY
        prepared: PreparedTogether | None = None
        try:
            prepared = self.function.add_bulk(keys, values, timestamps, unchanged=guard is not None)
        except Exception as raised:
            error, failed_key = raised, current.key
        finally:
            current.key = NO_KEY
        if prepared is None:
            super().process(keys, values, timestamps)
            if error is not None and guard is None:
                # It does not fail again.  But the first time it may have changed its elements.
                self._fail_together(error, failed_key, values)
            return
        try:
            prepared.write()
        except Exception as raised:
            self._fail_together(raised, current.key, values)
        finally:
            current.key = NO_KEY
            if guard is not None:
                guard.end()
        if guard is not None:
            guard.count_calls(len(keys) - len(prepared.left))
        if prepared.left:
            left = prepared.left
            super().process(*([each[at] for at in left] for each in (keys, values, timestamps)))

    def _fail_together(self, error: Exception, key: Any, values: Sequence[Any]) -> None:
        """Raise what was raised while elements were processed together, with the key named.

        Raises:
            UserFunctionError: The error is not our own.
        """
        current = self._parts.current
        current.key = key
        try:
            self._explain(error, "process_element", values)
        finally:
            current.key = NO_KEY
        raise error


# Functions without a context


Results = Iterable[Any] | None


@attrs.frozen
class MapInvoker(UserFunctionInvoker):
    """Calls a `MapFunction`, `FlatMapFunction` or `FilterFunction` on keyed records.

    Such functions have state per key, but neither timers nor the time of an element.
    """

    def name(self) -> str:
        """Return the name of the function for messages; a wrapped callable shows its own name."""
        given = getattr(self.function, "func", self.function)
        return getattr(given, "__qualname__", type(given).__qualname__)

    def _element_call(self) -> Callable[[Any, Any], Results]:
        function = self.function
        if isinstance(function, MapFunction):
            return _map(function.map)
        if isinstance(function, FilterFunction):
            return _filter(function.filter)
        return _flat_map(function.flat_map)

    def _timer_call(self) -> Callable[[int, Any], Results]:
        # These functions register no timers, so ignore restored ones.
        return _fire_nothing

    def _name_call(self, value: Any) -> tuple[str, Any]:
        if isinstance(self.function, MapFunction):
            return "map", value
        return ("filter" if isinstance(self.function, FilterFunction) else "flat_map"), value


def _map(call: Callable[[Any], Any]) -> Callable[[Any, Any], Results]:
    return lambda value, _: (call(value),)


def _filter(call: Callable[[Any], Any]) -> Callable[[Any, Any], Results]:
    return lambda value, _: (value,) if call(value) else None


def _flat_map(call: Callable[[Any], Results]) -> Callable[[Any, Any], Results]:
    def checked(value: Any, _: Any) -> Results:
        results = call(value)
        if results is not None and results.__class__ is not GeneratorType:
            check_results(results, "flat_map functions")
        return results

    return checked


def _fire_nothing(_: int, __: Any) -> None:
    return None


# Functions of two inputs


@attrs.frozen
class TwoInputInvoker(UserFunctionInvoker):
    """Calls a `KeyedCoProcessFunction`, `CoMapFunction` or `CoFlatMapFunction`.

    The value of a record is a pair: the number of its input, 1 or 2, and the element.  Both inputs
    share the states and timers of a key.
    """

    def _element_call(self) -> Callable[[Any, Any], Results]:
        first, second = (getattr(self.function, self._method(number)) for number in (1, 2))
        if isinstance(self.function, CoMapFunction):
            return _map_two_inputs(first, second)
        if isinstance(self.function, CoFlatMapFunction):
            return _flat_mapped_of_two(first, second)

        def process(record: tuple[int, Any], context: Any) -> Results:
            number, element = record
            results: Results = (first if number == 1 else second)(element, context)
            return results

        return process

    def _timer_call(self) -> Callable[[int, Any], Results]:
        # Co-map and co-flat-map functions register no timers, so ignore restored ones.
        call: Callable[[int, Any], Results] = getattr(self.function, "on_timer", _fire_nothing)
        return call

    def _name_call(self, value: tuple[int, Any]) -> tuple[str, Any]:
        # There is no value if the first record could not even be read.
        number, element = value or (1, None)
        return self._method(number), element

    def _method(self, number: int) -> str:
        if isinstance(self.function, CoMapFunction):
            return f"map{number}"
        if isinstance(self.function, CoFlatMapFunction):
            return f"flat_map{number}"
        return f"process_element{number}"


def _map_two_inputs(
    first: Callable[[Any], Any], second: Callable[[Any], Any]
) -> Callable[[Any, Any], Results]:
    def process(record: tuple[int, Any], _: Any) -> Results:
        number, element = record
        result = (first if number == 1 else second)(element)
        return None if result is None else (result,)

    return process


def _flat_mapped_of_two(
    first: Callable[[Any], Results], second: Callable[[Any], Results]
) -> Callable[[Any, Any], Results]:
    def process(record: tuple[int, Any], _: Any) -> Results:
        number, element = record
        # As in PyFlink a false result, such as an empty list, is no output.
        return (first if number == 1 else second)(element) or None

    return process
