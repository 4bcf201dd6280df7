# SPDX-License-Identifier: Apache-2.0
"""What Flink does when a job fails, as `pyflink.common.RestartStrategies`: here Spark decides.

Spark runs a failed task again as often as `spark.task.maxFailures` says.  A job that has failed goes
on from its checkpoint when its program is started again.
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

_telling_once = without_effect(
    "Spark runs a failed task again, see spark.task.maxFailures, and a job goes on from its checkpoint"
)


@attrs.frozen
class RestartStrategyConfiguration(WithoutJava):
    """A strategy; it is stored, and has no effect."""

    def get_description(self) -> str:
        """Return a sentence about the strategy."""
        return repr(self)


def _interval(given: DurationLike) -> timedelta:
    return timedelta(milliseconds=to_milliseconds(given, "the interval of a restart strategy"))


class RestartStrategies:
    """Makes strategies, for programs of Flink 1; Flink 2 has the keys `restart-strategy...`."""

    @_telling_once
    @attrs.frozen
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Not to try again."""

    @_telling_once
    @attrs.frozen
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """What the cluster is configured to do."""

    @_telling_once
    @attrs.frozen
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """To try again some times."""

        _restart_attempts: int
        _delay_between_attempts_interval: timedelta = attrs.field(converter=_interval)
        get_restart_attempts = attribute("_restart_attempts")
        get_delay_between_attempts_interval = attribute("_delay_between_attempts_interval")

    @_telling_once
    @attrs.frozen
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """To try again while there are few failures in some time."""

        _max_failure_rate: int
        _failure_interval: timedelta = attrs.field(converter=_interval)
        _delay_between_attempts_interval: timedelta = attrs.field(converter=_interval)
        get_max_failure_rate = attribute("_max_failure_rate")
        get_failure_interval = attribute("_failure_interval")
        get_delay_between_attempts_interval = attribute("_delay_between_attempts_interval")

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """Make a strategy that does not try again."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """Make the strategy of the cluster."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: DurationLike
    ) -> FixedDelayRestartStrategyConfiguration:
        """Make a strategy that tries again some times.

        Args:
            restart_attempts: How often.
            delay_between_attempts: The time between; an int is in ms.
        """
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: DurationLike, delay_interval: DurationLike
    ) -> FailureRateRestartStrategyConfiguration:
        """Make a strategy that tries again while there are few failures in some time.

        Args:
            failure_rate: How many failures there may be.
            failure_interval: In which time; an int is in ms.
            delay_interval: The time between two attempts; an int is in ms.
        """
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )
