# SPDX-License-Identifier: Apache-2.0
"""The classes that users subclass to fold values, and the base of all user functions.

A mistake in a method's signature would show only at its first call, maybe hours later in a window
that closes or a timer.  So `check_methods` compares each method of a user's class with the method
that it overrides, once, before anything runs: it must take the arguments with which the runtime
calls it, and it must not be a coroutine.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from types import FunctionType
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import attrs

from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import ACC, IN, OUT, T
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.types import TypeInformation

F = TypeVar("F")

_OURS: Final = __name__.partition(".")[0]
_COLLECTORS: Final = frozenset({"out", "collector"})
_CHECKED: Final[WeakSet[type]] = WeakSet()


class Function:
    """Base of all user functions."""

    def open(self, runtime_context: Any) -> None:
        """Prepare the function before its first element, and obtain the states.

        On a Spark stream this is called once in each Python worker for a run of the query: the
        function stays open from one micro-batch to the next.  There is no current key yet, so
        states can be obtained but not read.
        """

    def close(self) -> None:
        """Release the resources that `open` took, once after the last element.

        Spark may end the workers of a stream at any time; `close` is not called then.
        """


def adopt(given: Any, kind: type) -> Any:
    """Return an object that has the methods of a class as an instance of the class.

    PyFlink calls such methods without checking for a base class, so a program may leave it out.

    Args:
        given: An object of the user, with or without the base class.
        kind: A class with abstract methods.

    Returns:
        An object that calls the methods of `given`.  It is `given` itself if that is an instance of
        `kind`, a class, a function of another kind, or has no abstract method of `kind`.

    Raises:
        DeclarationTypeError: The object has some of the abstract methods, and lacks others.
    """
    if isinstance(given, (kind, type)) or _is_of_a_kind(given):
        return given
    wanted: frozenset[str] = kind.__abstractmethods__  # type: ignore[attr-defined]
    methods = {name: getattr(given, name, None) for name in _methods_of(kind)}
    methods = {name: method for name, method in methods.items() if callable(method)}
    lacking = wanted - methods.keys()
    if lacking == wanted:
        return given
    cls = type(given)
    if lacking:
        msg = (
            f"a {kind.__name__} has {', '.join(sorted(wanted))}, got {short_repr(given)} without "
            f"{', '.join(sorted(lacking))}; define what is missing"
        )
        raise DeclarationTypeError(msg)
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    made = type(cls.__name__, (kind,), dict.fromkeys(methods) | names)()
    vars(made).update(methods)
    return made


def _is_of_a_kind(given: object) -> bool:
    """Return whether an object is a function of a class of ours other than `Function` itself."""
    package = __name__.partition(".")[0]
    return isinstance(given, Function) and any(
        issubclass(each, Function)
        and each is not Function
        and each.__module__.partition(".")[0] == package
        for each in type(given).__mro__
    )


def _methods_of(kind: type) -> list[str]:
    members = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return [name for name, each in members.items() if callable(each) and not isinstance(each, type)]


class ReduceFunction(Function, ABC, Generic[T]):
    """Folds two values into one of the same type, for `ReducingState`.

    The brackets of `ReduceFunction[int]` give a type checker the type of the values; they are
    optional.
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Fold the value so far and the next one into one; this must be associative."""

    def fixed(self) -> str | None:
        """Return a description that a restart may not change, such as "sum('n')".

        None if any change is allowed, as for code of the user.
        """
        return None

    def make_stored_fold(
        self,
        type_info: TypeInformation,  # noqa: ARG002
    ) -> Callable[[Sequence[T]], T] | None:
        """Return a function that folds many elements at once, with the same result as `reduce`.

        The function takes elements whose stored form is the user's form, and may raise if `reduce`
        would.  None if the elements must be folded one by one, as by code of the user.

        Args:
            type_info: The type of the elements, in which the fold is stored after each of them.
        """
        return None

    def folded_field(self, names: Sequence[str]) -> str | None:  # noqa: ARG002
        """Return the name of the folded field if the function knows the field by position only.

        Args:
            names: The names of the fields of an element.
        """
        return None


@attrs.frozen
class ReduceFunctionWrapper(ReduceFunction[T]):
    """A callable as a `ReduceFunction`, whose method is the callable itself.

    Two are equal if their callables are.

    Args:
        func: Folds the value so far and the next one.
    """

    _func: Callable[[T, T], T]
    reduce = property(attrgetter("_func"))


def as_reduce_function(
    function: ReduceFunction[T] | Callable[[T, T], T],
) -> ReduceFunction[T]:
    """Return a `ReduceFunction` as it is, and another callable wrapped into one.

    Raises:
        DeclarationTypeError: The argument is neither, or is a subclass of `ReduceFunction` instead
            of an instance, or cannot be called with two values.
    """
    if isinstance(function, ReduceFunction):
        return check_methods(function)
    given: Any = function
    # A class is callable, so PyFlink would wrap it, and fail at the second element.
    is_its_class = isinstance(given, type) and issubclass(given, ReduceFunction)
    if callable(given) and not is_its_class:
        return check_methods(ReduceFunctionWrapper(given))
    remedy = instance_of(ReduceFunction, given, "give for example lambda a, b: a + b")
    msg = f"The input must be a ReduceFunction or a callable function! Got {short_repr(given)}; {remedy}"
    raise DeclarationTypeError(msg)


class AggregateFunction(Function, ABC, Generic[IN, ACC, OUT]):
    """Folds values into an accumulator of another type, for `AggregatingState`.

    The brackets of `AggregateFunction[int, Row, float]` give a type checker the types of values,
    accumulator and result; they are optional.

    Example:
        ```python
        class Mean(AggregateFunction):
            def create_accumulator(self):
                return 0, 0

            def add(self, value, accumulator):
                return accumulator[0] + value, accumulator[1] + 1

            def get_result(self, accumulator):
                return accumulator[0] / accumulator[1]

            def merge(self, acc_a, acc_b):
                return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        ```
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Make an accumulator that has seen no value."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Add a value, and return the accumulator: the same object, changed, or another one."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result for readers of the state; this must not change the accumulator."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Merge two accumulators into one, which may be either of them."""


def not_returned(method: str, function: Any) -> StateValueError:
    """Return the error for a function whose `reduce`, `add` or `merge` has returned None.

    In Flink, None empties the state on some backends.  Most often, a `return` was forgotten.

    Args:
        method: The name of the method.
        function: The function, or the callable that stands for its `reduce`.
    """
    function = getattr(function, "_func", getattr(function, "__self__", function))
    named = isinstance(function, Function)
    name = type(function).__qualname__ if named else short_repr(function)
    return StateValueError(
        f"{method} must return the folded value and not None, got None from {name}; check that "
        "each path through it has a return"
    )


# Methods of the user's in place of ours


def check_methods(function: F) -> F:
    """Return a user's object whose methods can be called as the methods that they override.

    Args:
        function: An instance of a class of ours, or of a subclass; any other object passes.

    Raises:
        DeclarationTypeError: A method takes other arguments, or is a coroutine.
    """
    kind = type(function)
    if kind in _CHECKED:
        return function
    for name, rule in _rules(kind):
        method = getattr(function, name, None)
        if method is not None and not _is_ours(method):
            code = rule.__code__
            takes = code.co_varnames[1 : code.co_argcount]
            is_async = inspect.iscoroutinefunction(rule)
            check_call(method, name, takes, is_async=is_async)
    # Instances of a wrapper of ours have different methods, so each of them must be checked.
    if not _is_ours(kind):
        _CHECKED.add(kind)
    return function


def _rules(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """Yield the methods that a class has from classes of ours, by name; the nearest class counts."""
    seen = set()
    for each in kind.__mro__:
        if _is_ours(each):
            for name, member in vars(each).items():
                if isinstance(member, FunctionType) and name[0] != "_" and name not in seen:
                    seen.add(name)
                    yield name, member


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == _OURS


def check_call(call: Any, name: str, takes: Sequence[str], *, is_async: bool = False) -> None:
    """Check that a user's callable can be called with these arguments, and is no coroutine.

    A callable without a signature passes, such as some that are written in C.

    Args:
        call: A method, function or other callable of the user.
        name: The name of the method that it overrides, or of the argument, for messages.
        takes: The names of the arguments with which it is called.
        is_async: Whether it may be a coroutine.

    Raises:
        DeclarationTypeError: The callable does not take the arguments, or is a coroutine.
    """
    is_method = inspect.ismethod(call)
    called = f"{type(call.__self__).__qualname__}.{name}" if is_method else name
    if not is_async and (inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)):
        msg = (
            f"{called} is called without await, got async def {_named(call)}; write def without "
            "async (for calls that wait, a job has AsyncDataStream and AsyncFunction)"
        )
        raise DeclarationTypeError(msg)
    if getattr(call, "__signature__", None) is not None:
        return  # such as of a mock: the attribute need not be what the callable takes
    try:
        # The runtime calls the decorator, and not the function that it wraps.
        signature = inspect.signature(call, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*takes)
    except TypeError:
        arguments = ", ".join(takes)
        write = f"lambda {arguments}: ..."
        if is_method:
            write = f"def {name}({', '.join(['self', *takes])})"
        no_collector = _COLLECTORS.isdisjoint(signature.parameters)
        msg = (
            f"{called} is called with ({arguments}), got {_named(call)}{signature}; write for "
            f"example {write}{'' if no_collector else ', and yield outputs'}"
        )
        raise DeclarationTypeError(msg) from None


def _named(call: Any) -> str:
    """Return the name of a callable as its `def` has it."""
    return str(getattr(call, "__name__", None) or type(call).__qualname__)
