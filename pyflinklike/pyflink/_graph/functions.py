# SPDX-License-Identifier: Apache-2.0
"""Functions as a program declares them: copies of them, and functions that wait for a service.

PyFlink pickles a function when it is declared, with all that it refers to.  So a lambda of a loop
keeps the value that the loop's variable has then, and a function that appends to a list of the
program appends to its own copy.  Functions are captured here, too, whichever host runs the job.

The names of asynchronous functions are PyFlink's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import cloudpickle

from pyflinklike._checks import is_int, is_number
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.fold_functions import Function

F = TypeVar("F")


def copy_function(function: F) -> F:
    """Return a function with copies of all that it refers to.

    Raises:
        DeclarationTypeError: The function refers to something that cannot be pickled.
    """
    try:
        return own_copy(function)
    except Exception as error:
        msg = (
            "a function must be one that cloudpickle can write, with all that it refers to, got "
            f"{short_repr(function)}: {shown_error(error)}; make connections, locks and files in open()"
        )
        raise DeclarationTypeError(msg) from error


def own_copy(function: F) -> F:
    """Return a copy, since each parallel instance has its own."""
    # cloudpickle writes functions of the main program and lambdas by value, which pickle cannot.
    copy: F = cloudpickle.loads(cloudpickle.dumps(function))
    return copy


# Asynchronous functions


ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncFunction(Function, ABC):
    """Makes outputs of an element with a coroutine, as `pyflink.datastream.AsyncFunction`.

    The brackets of `AsyncFunction[str, str]` name the types of elements and outputs for a reader;
    they are optional.
    """

    def __class_getitem__(cls, _: Any) -> type[AsyncFunction]:
        return cls

    @abstractmethod
    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the outputs for an element.

        If it raises, the job fails, or the retry strategy has the element tried again.
        """

    def timeout(self, value: Any) -> list[Any]:
        """Return the outputs for an element that took too long; raises by default.

        Raises:
            TimeoutError: Unless it is overridden.
        """
        msg = f"Async function call has timed out for input: {short_repr(value)}"
        raise TimeoutError(msg)


class AsyncRetryPredicate(ABC):
    """Decides which results and errors are tried again, as `pyflink.datastream.AsyncRetryPredicate`."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return a function that says of outputs whether to try again; None for never."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return a function that says of an error whether to try again; None for never."""


@attrs.frozen
class RetryPredicate(AsyncRetryPredicate):
    """Decides by two functions which results and errors are tried again; None means never.

    Args:
        result_predicate: Says of outputs whether to try again.
        exception_predicate: Says of an error whether to try again.
    """

    _result_predicate: ResultPredicate | None
    _exception_predicate: ExceptionPredicate | None

    def result_predicate(self) -> ResultPredicate | None:
        """Return the function for outputs."""
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the function for errors."""
        return self._exception_predicate


class AsyncRetryStrategy(ABC):
    """Decides when an element is tried again, as `pyflink.datastream.AsyncRetryStrategy`."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether there may be another attempt after `current_attempts`."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how long to wait before the next attempt, in ms."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return the predicates that decide what is tried again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Try nothing again."""
        return _Retries(0, 1, 1, 1.0, RetryPredicate(None, None))

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """Try again, each time after the same delay.

        Args:
            max_attempts: How often to try again at most.
            backoff_time_millis: The time between two attempts, in ms.
            result_predicate: Says of outputs whether to try again; None for never.
            exception_predicate: Says of an error whether to try again; None for never.

        Raises:
            DeclarationValueError: A number is not above 0.
        """
        _check_above_0(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        predicates = RetryPredicate(result_predicate, exception_predicate)
        return _Retries(max_attempts, backoff_time_millis, backoff_time_millis, 1.0, predicates)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """Try again, each time after a longer delay.

        Args:
            max_attempts: How often to try again at most.
            initial_delay: The first time to wait, in ms.
            max_retry_delay: The longest time to wait, in ms.
            multiplier: The factor by which each time is longer than the one before.
            result_predicate: Says of outputs whether to try again; None for never.
            exception_predicate: Says of an error whether to try again; None for never.

        Raises:
            DeclarationValueError: A number is not above 0.
        """
        _check_above_0(max_attempts=max_attempts, initial_delay=initial_delay)
        _check_above_0(max_retry_delay=max_retry_delay)
        if not is_number(multiplier) or multiplier <= 0:
            msg = f"multiplier should be greater than zero, got {short_repr(multiplier)}"
            raise DeclarationValueError(msg)
        predicates = RetryPredicate(result_predicate, exception_predicate)
        return _Retries(max_attempts, initial_delay, max_retry_delay, multiplier, predicates)


@attrs.frozen
class _Retries(AsyncRetryStrategy):
    """A strategy without state; PyFlink's has some, which elements that wait together would share."""

    most: int
    first_delay: int
    longest_delay: int
    multiplier: float
    predicates: AsyncRetryPredicate

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.most

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        # A greater power could overflow a float; the longest delay cuts it off anyway.
        delay = self.first_delay * self.multiplier ** min(current_attempts - 1, 60)
        return int(min(delay, self.longest_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self.predicates


def _check_above_0(**numbers: Any) -> None:
    for name, number in numbers.items():
        if not is_int(number) or number <= 0:
            msg = f"{name} should be greater than zero, got {short_repr(number)}"
            raise DeclarationValueError(msg)
