# SPDX-License-Identifier: Apache-2.0
"""Restart strategies, as `pyflink.common.RestartStrategies`: they are stored, and have no effect here.

Spark retries a failed task as often as `spark.task.maxFailures` says.  If a job fails, start its program
again: the job goes on from its checkpoint.
"""

from __future__ import annotations

from datetime import timedelta

import attrs

from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._deprecation import WithoutJava
from pyflinklike.pyflink._foreign_names import without_effect
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.options import attribute

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]

__getattr__ = of_pyflink(__name__)

_warn_once = without_effect(
    "Spark retries a failed task, see spark.task.maxFailures, and a job goes on from its checkpoint"
)


@attrs.frozen
class RestartStrategyConfiguration(WithoutJava):
    """A strategy, which has no effect."""

    def get_description(self) -> str:
        """Return the strategy and its numbers as text."""
        return repr(self)


def _interval(given: DurationLike) -> timedelta:
    return timedelta(milliseconds=to_milliseconds(given, "the interval of a restart strategy"))


class RestartStrategies:
    """Makes strategies for programs of Flink 1; Flink 2 has the settings `restart-strategy...` instead."""

    @_warn_once
    @attrs.frozen
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job stays failed."""

    @_warn_once
    @attrs.frozen
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job restarts as the cluster is configured."""

    @_warn_once
    @attrs.frozen
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job restarts a number of times."""

        _restart_attempts: int
        _delay_between_attempts_interval: timedelta = attrs.field(converter=_interval)
        get_restart_attempts = attribute("_restart_attempts")
        get_delay_between_attempts_interval = attribute("_delay_between_attempts_interval")

    @_warn_once
    @attrs.frozen
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job restarts while failures are rare."""

        _max_failure_rate: int
        _failure_interval: timedelta = attrs.field(converter=_interval)
        _delay_between_attempts_interval: timedelta = attrs.field(converter=_interval)
        get_max_failure_rate = attribute("_max_failure_rate")
        get_failure_interval = attribute("_failure_interval")
        get_delay_between_attempts_interval = attribute("_delay_between_attempts_interval")

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """Make the strategy without a restart."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """Make the strategy that the cluster configures."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: DurationLike
    ) -> FixedDelayRestartStrategyConfiguration:
        """Make a strategy that restarts a job a number of times.

        Args:
            restart_attempts: The greatest number of restarts.
            delay_between_attempts: The time before each restart; an int is in ms.
        """
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: DurationLike, delay_interval: DurationLike
    ) -> FailureRateRestartStrategyConfiguration:
        """Make a strategy that restarts a job while failures are rare.

        Args:
            failure_rate: The greatest number of failures in an interval.
            failure_interval: The length of the interval; an int is in ms.
            delay_interval: The time before each restart; an int is in ms.
        """
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )
