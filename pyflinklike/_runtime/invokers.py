# SPDX-License-Identifier: Apache-2.0
"""Function invokers: they call the user's function for records and timers, and open and close it.

`outputs` gathers the results that the function yields.  If the function raises, the new error names
the method, the key and the element or timer; our own errors keep their class and get a note.

`UserFunctionInvoker` calls a function of one input.  Most other invokers subclass it, and say which
method takes a record (`_element_call`) and how messages name that method (`_name_call`).

The loops here run for every record, so they are written for speed: they look up nothing that stays
the same, and enter `try` once for many records.  After a dead letter a loop goes on with the record
behind it, because the iterator over the records outlives the `try`.
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


@attrs.frozen
class FunctionInvoker(ABC):
    """Calls one function; the operator knows the function only through this interface.

    The invoker alone knows which methods the function has, and what a record holds.

    Args:
        function: The function of the user or of a program, such as the windows.
        parts: The parts of the operator that the calls use.
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
            UserFunctionError: The function raised.  Its writes stay in the working state, which the
                host must then not commit.
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
            queue: One of the two queues of the current group, in the form that the invoker needs.
            now: The time of its domain in ms.

        Raises:
            UserFunctionError: The function raised.
        """

    @abstractmethod
    def repeat(self, called: Called) -> None:
        """Repeat a call that failed elsewhere, and gather its outputs.

        An error of the function passes unchanged.  No entry expires before the call, so the
        function finds the state that it had when the call failed.
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
        # Chosen once for a batch, so that one loop serves all kinds of functions at no extra call.
        process_element, before = self._element_call(), parts.before_every_call
        emit_main, emit_key = outputs.main.append, outputs.keys.append
        value: Any = None
        if parts.guard is not None:
            # A host may decode records as they are read: errors of that must not look like the
            # call's.
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
                        for result in results:  # `Outputs.emit` written out: saves a call
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
        # Hosts call the returned function for every record, so all that stays the same is looked up
        # here.
        parts = self._parts
        current, clock, context = parts.current, parts.clock, parts.context
        emit, before, guard = parts.outputs.emit, parts.before_every_call, parts.guard
        process_element: Callable[[Any, Any], Iterable[Any] | None] | None = None

        def process_one(key: Any, value: Any, timestamp: int | None) -> None:
            nonlocal process_element
            # Looked up at the first record: `open`, which may assign methods, runs after this is
            # made.
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
                    if getgeneratorstate(due) == GEN_CLOSED:  # the queue raised, and not a call
                        self._explain(error, "on_timer", timestamp)
                        raise
                    self._fail(error, "on_timer", timestamp, timestamp, TIMER)
        finally:
            if parts.guard is not None:
                parts.guard.end()
            due.close()  # if a call raised, the timers behind it stay due
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
        """Call the user's function within a call of a program of ours, as `Attempt` says."""
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
                # The program's own call must not turn this error into a letter a second time.
                guard.refuse()
                raise
        return None

    def repeat(self, called: Called) -> None:
        """Repeat a call that failed elsewhere, and gather its outputs."""
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
        """Raise an error that names the failed call, or make a dead letter of the call.

        Args:
            error: The error that the function raised.
            method: The name of the method that was called.
            subject: The element that it got, or the time of the timer.
            given: The value of the record, which may hold more than `subject`, or the timer's time.
            kind: The kind of the call, as `Called` has it.
            part: The part of the call that failed; None if the whole call did.

        Raises:
            UserFunctionError: There are no dead letters, or too many.
        """
        failure: Exception = error
        name = None if part is None else part.name
        try:
            self._explain(error, method, subject, name)
        except UserFunctionError as explained:
            failure = explained
        parts = self._parts
        guard = parts.guard
        if guard is None:
            raise failure
        if not guard.may_keep(error):
            guard.give_up()
            raise failure
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
        # Undone before the subject is shown: a part shows the window as it was before the part.
        guard.undo(None if part is None else part.mark)
        seen = short_repr(subject) if part is None else part.subject()
        is_part = part is not None
        guard.fail(error, whole_message(failure), called, shown_key, name, seen, is_part=is_part)

    def _explain(
        self, error: Exception, method: str, subject: Any, name: str | None = None
    ) -> None:
        """Name the call that raised: in a note if the error is our own, else in a new error.

        Args:
            error: The error that the function raised.
            method: The method that the runtime called.
            subject: The element that it got, or the time of the timer.
            name: The name of the function that raised, if it is known.

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
            # The user registered no timer here: to the user it is the window that fires.
            if place:
                about = place if method == "on_timer" else f"{about}, {place}"
        call = f"{name or f'{self.name()}.{method}'} failed for key {whose}, {about}, at time {timestamp}"
        if not isinstance(error, PyflinklikeError):
            advice = hint(error, has_timestamp=timestamp is not None)
            msg = f"{call}: {_cause(error, hidden)}{where}{advice}"
            raise UserFunctionError(msg) from error
        error.add_note(f"{call}{where}")


class _PartialCall(NamedTuple):
    """A part of a call that failed alone.

    Args:
        mark: The state of the operator at its beginning.
        subject: Shows the arguments of the user's function; it is called after the undo.
        name: The name of the function that was called; None if the error names it.
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
    """Calls a `NamespacedFunction`, which may add many records in one step (`add_bulk`).

    It does so only if no user code could see a difference between that and single records.
    """

    def name(self) -> str:
        """Return the name of the user's own function for messages."""
        name: str = self.function.called()
        return name

    def process(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records of the current group: in one step if the function can, else in order.

        Raises:
            UserFunctionError: The function raised.
        """
        parts = self._parts
        guard = parts.guard
        # TTL and stores do something before each record, so records must be taken one by one.
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
                # One by one, no record failed.  But the first attempt may have changed the
                # elements.
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
        """Raise an error that names the key, after many elements failed in one step.

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

    These functions have state per key, but no timers, and they do not see the time of an element.
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
        # A savepoint of another function may have left timers; these functions cannot take them.
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
        # Co-map and co-flat-map functions have no `on_timer`, so timers from a savepoint do
        # nothing.
        call: Callable[[int, Any], Results] = getattr(self.function, "on_timer", _fire_nothing)
        return call

    def _name_call(self, value: tuple[int, Any]) -> tuple[str, Any]:
        # There is no value if the error came before the first record was read.
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
        # As in PyFlink, a result that counts as false, such as an empty list, gives no output.
        return (first if number == 1 else second)(element) or None

    return process
