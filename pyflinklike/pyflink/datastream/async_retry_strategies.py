# SPDX-License-Identifier: Apache-2.0
"""Classes of retry strategies, as `pyflink.datastream.async_retry_strategies`.

The methods of `AsyncRetryStrategy` make the same strategies, here as in PyFlink.
"""

from __future__ import annotations

from pyflinklike.pyflink._graph.functions import (
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExceptionPredicate,
    ResultPredicate,
    RetryPredicate,
)
from pyflinklike.pyflink._names import of_pyflink

__all__ = [
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

__getattr__ = of_pyflink(__name__)


class _Made(AsyncRetryStrategy):
    """Gives a strategy the name of a class.

    Args:
        made: The strategy, made by a method of `AsyncRetryStrategy`.
    """

    def __init__(self, made: AsyncRetryStrategy) -> None:
        self._made = made

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another attempt is allowed."""
        return self._made.can_retry(current_attempts)

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how long to wait before the next attempt, in ms."""
        return self._made.get_backoff_time_millis(current_attempts)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return the predicates that choose the elements to retry."""
        return self._made.get_retry_predicate()


class NoRetryStrategy(_Made):
    """Retries no element."""

    def __init__(self) -> None:
        super().__init__(AsyncRetryStrategy.no_restart())


class FixedDelayRetryStrategy(_Made):
    """Waits the same time before each attempt; it takes the arguments of `AsyncRetryStrategy.fixed_delay`."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        super().__init__(
            AsyncRetryStrategy.fixed_delay(
                max_attempts, backoff_time_millis, result_predicate, exception_predicate
            )
        )


class ExponentialBackoffDelayRetryStrategy(_Made):
    """Waits longer each time; it takes the arguments of `AsyncRetryStrategy.exponential_backoff`."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        super().__init__(
            AsyncRetryStrategy.exponential_backoff(
                max_attempts,
                initial_delay,
                max_retry_delay,
                multiplier,
                result_predicate,
                exception_predicate,
            )
        )


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()
"""Retries no element."""
