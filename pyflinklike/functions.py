# SPDX-License-Identifier: Apache-2.0
"""What users subclass to fold values, and the base of all their functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic

import attrs

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import instance_of, shown
from pyflinklike.type_vars import ACC, IN, OUT, T

__all__ = [
    "AggregateFunction",
    "Function",
    "ReduceFunction",
    "ReduceFunctionWrapper",
    "as_reduce_function",
]


class Function:
    """Base of all user functions."""

    def open(self, runtime_context: Any) -> None:
        """Called once before the first element; obtain the states here.

        On a Spark stream that is once per Python worker and run of the query: the function
        stays open from one micro-batch to the next.  There is no current key yet: states can be obtained, not read.
        """

    def close(self) -> None:
        """Called once after the last element; release here what `open` took.

        Not called where a worker is ended, as Spark ends those of a stream.
        """


class ReduceFunction(Function, ABC, Generic[T]):
    """Folds two values into one of the same type, for `ReducingState`.

    The brackets of `ReduceFunction[int]` tell a type checker what it folds; they are optional.
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """The fold of what was there and what is added; must be associative."""

    def fixed(self) -> str | None:
        """What it makes of elements, in words, where a restart may not change that: "sum('n')".

        None where it cannot be told, as of code of the user's own.
        """
        return None

    def folded_field(self, names: Sequence[str]) -> str | None:  # noqa: ARG002
        """Name of the field that it folds, where it knows that by its position only.

        Args:
            names: Of the fields of an element.
        """
        return None


@attrs.frozen
class ReduceFunctionWrapper(ReduceFunction[T]):
    """A callable as a `ReduceFunction`; equal if it wraps an equal callable.

    Args:
        func: Called with what was there and what is added.
    """

    _func: Callable[[T, T], T]

    def reduce(self, value1: T, value2: T) -> T:
        """What the callable makes of the two."""
        return self._func(value1, value2)


def as_reduce_function(
    function: ReduceFunction[T] | Callable[[T, T], T],
) -> ReduceFunction[T]:
    """A `ReduceFunction` as it is; another callable wrapped into one.

    Raises:
        DeclarationTypeError: It is neither, or a `ReduceFunction` class that was not
            instantiated (PyFlink wraps that class, and fails at the second element).
    """
    if isinstance(function, ReduceFunction):
        return function
    given: Any = function
    is_its_class = isinstance(given, type) and issubclass(given, ReduceFunction)
    if callable(given) and not is_its_class:
        return ReduceFunctionWrapper(given)
    remedy = instance_of(ReduceFunction, given, "give for example lambda a, b: a + b")
    msg = f"The input must be a ReduceFunction or a callable function! Got {shown(given)}; {remedy}"
    raise DeclarationTypeError(msg)


class AggregateFunction(Function, ABC, Generic[IN, ACC, OUT]):
    """Folds values into an accumulator of another type, for `AggregatingState`.

    The brackets of `AggregateFunction[int, Row, float]` tell a type checker what is added, the
    accumulator and the result; they are optional.
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """A new accumulator that has seen no value."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator with `value` added: the same object, changed, or another."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """What the state's reader sees; must leave the accumulator unchanged."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """One accumulator that has seen what both have; may reuse either."""
