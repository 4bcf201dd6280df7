# SPDX-License-Identifier: Apache-2.0
"""Settings of PyFlink that are objects and have no effect here: they keep what a program gives to them.

* `RestartStrategies`: Spark retries a failed task as often as `spark.task.maxFailures` says.  If a job fails,
  start its program again: the job goes on from its checkpoint.
* `CheckpointStorage`: `CheckpointConfig.set_checkpoint_storage` takes the folder of a
  `FileSystemCheckpointStorage`.  All other settings of storages have no effect.
* `SlotSharingGroup`: the host decides where operators run.
* `TimeCharacteristic`: windows and timers name their own time.

PyFlink has them in modules such as `pyflink.common.restart_strategy`; `pyflinklike.pyflink._names` makes these.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from inspect import Parameter
from typing import Any, ClassVar

import attrs

from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._deprecation import WithoutJava
from pyflinklike.errors import DeclarationValueError
from pyflinklike.pyflink._foreign_names import without_effect
from pyflinklike.pyflink.common.options import Getter, Setter, attribute, make_method, unused

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
    "MemorySize",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "SlotSharingGroup",
    "TimeCharacteristic",
]


class TimeCharacteristic(Enum):
    """The time for windows and timers of a program up to Flink 1.11; later each of them names its own."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2


# Restart strategies

_of_spark = without_effect(
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

    @_of_spark
    @attrs.frozen
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job stays failed."""

    @_of_spark
    @attrs.frozen
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job restarts as the cluster is configured."""

    @_of_spark
    @attrs.frozen
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job restarts a number of times."""

        _restart_attempts: int
        _delay_between_attempts_interval: timedelta = attrs.field(converter=_interval)
        get_restart_attempts = attribute("_restart_attempts")
        get_delay_between_attempts_interval = attribute("_delay_between_attempts_interval")

    @_of_spark
    @attrs.frozen
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job restarts while failures are rare."""

        _max_failure_rate: int
        _failure_interval: timedelta = attrs.field(converter=_interval)
        _delay_between_attempts_interval: timedelta = attrs.field(converter=_interval)
        get_max_failure_rate = attribute("_max_failure_rate")
        get_failure_interval = attribute("_failure_interval")
        get_delay_between_attempts_interval = attribute("_delay_between_attempts_interval")

    no_restart = NoRestartStrategyConfiguration
    fall_back_restart = FallbackRestartStrategyConfiguration

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


# Storages of checkpoints


class CheckpointStorage(WithoutJava):
    """The base of all storages."""

    checkpoint_path: str | None = None
    get_checkpoint_path = attribute("checkpoint_path", "the folder; None for a storage without one")

    def get_savepoint_path(self) -> None:
        """Return None: the caller of a savepoint names its folder."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.checkpoint_path!r})"


@without_effect("checkpoints are files; give execution.checkpointing.dir a folder to go on from it")
@attrs.frozen(eq=False)
class JobManagerCheckpointStorage(CheckpointStorage):
    """The memory of Flink's job manager, which does not exist here.

    Args:
        checkpoint_path: The path of a folder; it has no effect.
        max_state_size: A size in bytes, only for the getter; None for Flink's default.
    """

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = 5 * 1024 * 1024

    checkpoint_path: str | None = None
    max_state_size: int | None = unused(DEFAULT_MAX_STATE_SIZE)
    get_max_state_size = attribute("max_state_size")


def _path(given: str | None) -> str:
    if given is None:
        msg = "checkpoint_path must not be None, got None; give the path of a folder"
        raise DeclarationValueError(msg)
    return str(given)


@attrs.frozen(eq=False)
class FileSystemCheckpointStorage(CheckpointStorage):
    """A folder for checkpoints.

    Args:
        checkpoint_path: The path of the folder, or its address.
        file_state_size_threshold: A size in bytes, only for the getter, which returns -1 for None.
        write_buffer_size: A size in bytes, only for the getter.

    Raises:
        DeclarationValueError: The path is None.
    """

    MAX_FILE_STATE_THRESHOLD: ClassVar[int] = 1024 * 1024

    checkpoint_path: str | None = attrs.field(default=None, converter=_path)
    file_state_size_threshold: int | None = unused(-1)
    write_buffer_size: int = -1
    get_min_file_size_threshold = attribute("file_state_size_threshold")
    get_write_buffer_size = attribute("write_buffer_size")


@without_effect("its storage is written in Java; give execution.checkpointing.dir a folder")
class CustomCheckpointStorage(CheckpointStorage):
    """A storage in Java, which has no effect here."""

    def __init__(self, *_: object) -> None:
        """Accept any arguments, and ignore them."""


# Resources of operators


def _in_units(power: int) -> Getter[int]:
    """Make the getter of a size in bytes (the power 0), KiB, MiB, GiB or TiB (4)."""
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    doc = f"Return the size in {unit}, rounded down."
    return make_method(lambda size: size.bytes_size // 1024**power, doc)  # type: ignore[no-any-return]


@attrs.frozen(order=True)
class MemorySize(WithoutJava):
    """A size in bytes.

    Args:
        bytes_size: The number of bytes.
    """

    bytes_size: int = attrs.field(kw_only=True)

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Make a size from a number of MiB.

        Args:
            mebi_bytes: The number of units of 1024 * 1024 bytes.
        """
        return MemorySize(bytes_size=mebi_bytes * 1024**2)

    get_bytes, get_kibi_bytes, get_mebi_bytes, get_gibi_bytes, get_tebi_bytes = (
        _in_units(power) for power in range(5)
    )

    def __str__(self) -> str:
        return f"{self.bytes_size} bytes"


def _setter(resource: str, in_mebi: bool = False) -> Setter:
    def store(builder: Any, value: Any) -> Any:
        builder._resources[resource] = MemorySize.of_mebi_bytes(value) if in_mebi else value
        return builder

    parameter = f"{resource}_mb" if in_mebi else resource
    doc = f"Store {parameter} for its getter: it has no effect here."
    return make_method(store, doc, **{parameter: Parameter.empty})  # type: ignore[no-any-return]


@without_effect(
    "the host decides where operators run; give executors memory and cores by Spark's settings"
)
@attrs.frozen
class SlotSharingGroup(WithoutJava):
    """A group of operators that share resources in Flink; `builder` begins one."""

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: dict[str, float] = attrs.field(factory=dict, hash=False)

    get_name = attribute("_name", "the name")
    get_managed_memory = attribute("_managed_memory")
    get_task_heap_memory = attribute("_task_heap_memory")
    get_task_off_heap_memory = attribute("_task_off_heap_memory")
    get_cpu_cores = attribute("_cpu_cores")

    def get_external_resources(self) -> dict[str, float]:
        """Return the numbers of other resources, by name."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group.

        Args:
            name: The name of the group.
        """
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Sets the resources of a group, and `build`s it."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._resources: dict[str, Any] = {}
            self._external: dict[str, float] = {}

        set_cpu_cores = _setter("cpu_cores")
        set_task_heap_memory = _setter("task_heap_memory")
        set_task_heap_memory_mb = _setter("task_heap_memory", in_mebi=True)
        set_task_off_heap_memory = _setter("task_off_heap_memory")
        set_task_off_heap_memory_mb = _setter("task_off_heap_memory", in_mebi=True)
        set_managed_memory = _setter("managed_memory")
        set_managed_memory_mb = _setter("managed_memory", in_mebi=True)

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Store the number of another resource for its getter."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """Make the group."""
            return SlotSharingGroup(
                self._name, **self._resources, external_resources=self._external
            )
