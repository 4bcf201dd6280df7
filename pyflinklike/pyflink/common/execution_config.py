# SPDX-License-Identifier: Apache-2.0
"""Settings of all operators of a program, as `pyflink.common.ExecutionConfig`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyflinklike._checks import is_int
from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._deprecation import WithoutJava, former, without_effect
from pyflinklike._messages import shown
from pyflinklike.errors import DeclarationValueError
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.configuration import Configuration
from pyflinklike.pyflink.common.options import Option, boolean, duration
from pyflinklike.pyflink.common.restart_strategy import RestartStrategyConfiguration

__all__ = ["ExecutionConfig"]

__getattr__ = of_pyflink(__name__)

PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
JOB_PARAMETERS = "pipeline.global-job-parameters"
_WATERMARK_INTERVAL = duration("pipeline.auto-watermark-interval", 200)
_MOST_KEY_GROUPS = 32_768


def check_max_parallelism(max_parallelism: int) -> None:
    """Check a number of key groups.

    Raises:
        DeclarationValueError: It is not from 1 to 32768.
    """
    if not is_int(max_parallelism) or not 1 <= max_parallelism <= _MOST_KEY_GROUPS:
        msg = f"max_parallelism is from 1 to {_MOST_KEY_GROUPS}, got {shown(max_parallelism)}"
        raise DeclarationValueError(msg)


class ExecutionConfig(WithoutJava):
    """Settings of all operators of a program; those without effect here are stored for their getters.

    Args:
        configuration: The configuration that holds the settings; None for a new one.
    """

    PARALLELISM_DEFAULT = -1
    """The result of `get_parallelism` if it is not set; given to `set_parallelism` it unsets it."""
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration
        self.restart_strategy: RestartStrategyConfiguration | None = None

    def get_parallelism(self) -> int:
        """Return how many instances an operator has that does not set a number; -1 if it is not set."""
        return self._configuration.get_integer(PARALLELISM, -1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set how many instances an operator has that does not set a number itself.

        Args:
            parallelism: The number, at least 1; -1 leaves it to the host.

        Raises:
            DeclarationValueError: It is another number.
        """
        if parallelism == -1:
            self._configuration.remove_config(PARALLELISM)
            return self
        if not is_int(parallelism) or parallelism < 1:
            msg = f"Parallelism must be at least one, or -1 (use system default), got {shown(parallelism)}"
            raise DeclarationValueError(msg)
        self._configuration.set_integer(PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 if it is not set."""
        return self._configuration.get_integer(MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups, which is fixed for the life of a checkpoint.

        Args:
            max_parallelism: From 1 to 32768.

        Raises:
            DeclarationValueError: It is another number.
        """
        check_max_parallelism(max_parallelism)
        self._configuration.set_integer(MAX_PARALLELISM, max_parallelism)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return how often Flink sends watermarks, in ms; here they follow elements at once."""
        return _WATERMARK_INTERVAL.of(self._configuration)

    def set_auto_watermark_interval(self, interval: DurationLike) -> ExecutionConfig:
        """Store how often Flink sends watermarks; here they follow elements at once.

        Args:
            interval: An int in ms, or a `Time`, `Duration` or `timedelta`.
        """
        milliseconds = to_milliseconds(interval, "the interval of watermarks")
        _WATERMARK_INTERVAL.set(self._configuration, milliseconds)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that `RuntimeContext.get_job_parameter` reads."""
        text = self._configuration.get_string(JOB_PARAMETERS, "{}")
        return parse_map(text)

    def set_global_job_parameters(
        self, global_job_parameters_dict: Mapping[str, str]
    ) -> ExecutionConfig:
        """Set the parameters that `RuntimeContext.get_job_parameter` reads.

        Args:
            global_job_parameters_dict: Values by name; both become text.
        """
        texts = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        self._configuration.set_string(JOB_PARAMETERS, json.dumps(texts))
        return self

    # Java's serializers, which do not exist here

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> Any:
        """Store a class of Java with its serializer, for the getter.

        Args:
            type_class_name: The name of the class.
            serializer_class_name: The name of the serializer's class.
        """
        return self._add_to_register("kryo defaults", type_class_name, serializer_class_name)

    def register_type_with_kryo_serializer(
        self, type_class_name: str, serializer_class_name: str
    ) -> Any:
        """Store a class of Java with its serializer, for the getter.

        Args:
            type_class_name: The name of the class.
            serializer_class_name: The name of the serializer's class.
        """
        return self._add_to_register("kryo types", type_class_name, serializer_class_name)

    def register_pojo_type(self, type_class_name: str) -> Any:
        """Store a class of Java, for the getter.

        Args:
            type_class_name: The name of the class.
        """
        return self._add_to_register("pojos", type_class_name, "")

    def register_kryo_type(self, type_class_name: str) -> Any:
        """Store a class of Java, for the getter.

        Args:
            type_class_name: The name of the class.
        """
        return self._add_to_register("kryo", type_class_name, "")

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return the classes given to `add_default_kryo_serializer`, with their serializers."""
        return dict(self._register("kryo defaults"))

    def get_registered_types_with_kryo_serializer_classes(self) -> dict[str, str]:
        """Return the classes given to `register_type_with_kryo_serializer`, with their serializers."""
        return dict(self._register("kryo types"))

    def get_registered_pojo_types(self) -> list[str]:
        """Return the classes given to `register_pojo_type`."""
        return list(self._register("pojos"))

    def get_registered_kryo_types(self) -> list[str]:
        """Return the classes given to `register_kryo_type`."""
        return list(self._register("kryo"))

    def _add_to_register(self, kind: str, name: str, value: str) -> ExecutionConfig:
        self._register(kind)[name] = value
        return self

    def _register(self, kind: str) -> dict[str, str]:
        registers = vars(self._configuration).setdefault("_java_classes", {})
        found: dict[str, str] = registers.setdefault(kind, {})
        return found

    def set_latency_tracking_interval(self, interval: DurationLike) -> ExecutionConfig:
        """Store how often Flink measures latency, for its getter.

        Args:
            interval: An int is in ms.
        """
        return self._store(_LATENCY, to_milliseconds(interval, _LATENCY.key))

    def get_latency_tracking_interval(self) -> int:
        """Return what was set, in ms; 0 before."""
        return _LATENCY.of(self._configuration)

    def set_task_cancellation_interval(self, interval: DurationLike) -> ExecutionConfig:
        """Store how often Flink interrupts a task that is cancelled, for its getter.

        Args:
            interval: An int is in ms.
        """
        return self._store(_INTERRUPTS, to_milliseconds(interval, _INTERRUPTS.key))

    def get_task_cancellation_interval(self) -> int:
        """Return what was set, in ms; 30,000 before."""
        return _INTERRUPTS.of(self._configuration)

    def set_task_cancellation_timeout(self, timeout: DurationLike) -> ExecutionConfig:
        """Store how long Flink waits for a task that is cancelled, for its getter.

        Args:
            timeout: An int is in ms.
        """
        return self._store(_CANCELLATION, to_milliseconds(timeout, _CANCELLATION.key))

    def get_task_cancellation_timeout(self) -> int:
        """Return what was set, in ms; 180,000 before."""
        return _CANCELLATION.of(self._configuration)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Store whether Flink compresses snapshots, for its getter; here large segments are.

        Args:
            use_snapshot_compression: True or False.
        """
        return self._store(_COMPRESSION, bool(use_snapshot_compression))

    def is_use_snapshot_compression(self) -> bool:
        """Return what was set; False before."""
        return _COMPRESSION.of(self._configuration)

    @without_effect("any object that pickles has a type; declare types where they matter")
    def disable_generic_types(self) -> ExecutionConfig:
        """Store that elements without a type are refused, for its getter."""
        return self._store(_GENERIC_TYPES, False)

    def enable_generic_types(self) -> ExecutionConfig:
        """Store that elements without a type are taken, as they always are."""
        return self._store(_GENERIC_TYPES, True)

    def has_generic_types_disabled(self) -> bool:
        """Return whether they were disabled."""
        return not _GENERIC_TYPES.of(self._configuration)

    # Of Flink 1

    @former("the keys restart-strategy..., which have no effect either")
    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> ExecutionConfig:
        """Store a strategy for its getter: Spark runs a failed task again.

        Args:
            restart_strategy_configuration: One made by `RestartStrategies`.
        """
        self.restart_strategy = restart_strategy_configuration
        return self

    @former("nothing: it has no effect")
    def get_restart_strategy(self) -> RestartStrategyConfiguration | None:
        """Return what was set; None before."""
        return self.restart_strategy

    def _store(self, option: Option[Any], value: Any) -> ExecutionConfig:
        option.set(self._configuration, value)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


def parse_map(text: str) -> dict[str, str]:
    """Read a map as configurations write it: JSON, or `key:value,key:value`.

    Raises:
        DeclarationValueError: It begins as JSON and cannot be read.
    """
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            msg = (
                f"{JOB_PARAMETERS} is a map as JSON, or key:value,key:value, got {shown(text)} "
                f"({error}); write for example a:1,b:2"
            )
            raise DeclarationValueError(msg) from error
        return {str(key): str(value) for key, value in found.items()}
    pairs = (part.partition(":") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


_GENERIC_TYPES = boolean("pipeline.generic-types", True)
_COMPRESSION = boolean("execution.checkpointing.snapshot-compression", False)
_LATENCY = duration("metrics.latency.interval", 0)
_INTERRUPTS = duration("task.cancellation.interval", 30_000, "task.cancellation-interval")
_CANCELLATION = duration("task.cancellation.timeout", 180_000)

_SWITCHES = {
    "closure_cleaner": boolean("pipeline.closure-cleaner", True),
    "object_reuse": boolean("pipeline.object-reuse", False),
    "force_kryo": boolean("pipeline.force-kryo", False),
    "force_avro": boolean("pipeline.force-avro", False),
    "auto_generated_uids": boolean("pipeline.auto-generate-uids", True),
}
"""Settings without effect, by the names of their methods."""


def _setter(name: str, option: Option[bool], value: bool) -> Callable[[Any], ExecutionConfig]:
    def set_option(self: ExecutionConfig) -> ExecutionConfig:
        return self._store(option, value)

    set_option.__name__ = name
    set_option.__qualname__ = f"{ExecutionConfig.__name__}.{name}"
    set_option.__doc__ = f"Store {value} as `{option.key}`, for its getter."
    return set_option


def _getter(name: str, option: Option[bool]) -> Callable[[Any], bool]:
    def get_option(self: ExecutionConfig) -> bool:
        return option.of(self._configuration)

    get_option.__name__ = name
    get_option.__qualname__ = f"{ExecutionConfig.__name__}.{name}"
    get_option.__doc__ = f"Return whether `{option.key}` is set; {option.default} before."
    return get_option


def _add_switches() -> None:
    """Give the class the methods of its switches, which differ in nothing but their names."""
    for switch, option in _SWITCHES.items():
        for name, value in ((f"enable_{switch}", True), (f"disable_{switch}", False)):
            setattr(ExecutionConfig, name, _setter(name, option, value))
        verb = "has" if switch.endswith("s") else "is"
        getter = f"{verb}_{switch}_enabled"
        setattr(ExecutionConfig, getter, _getter(getter, option))


_add_switches()
