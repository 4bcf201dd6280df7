# SPDX-License-Identifier: Apache-2.0
"""Settings of all operators of a program, as `pyflink.common.ExecutionConfig`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import Parameter
from typing import Any

from pyflinklike._checks import is_int
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationValueError
from pyflinklike.pyflink._foreign_names import deprecated_alias, without_effect
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.configuration import Configuration
from pyflinklike.pyflink.common.options import Getter, Setter, boolean, duration, make_method
from pyflinklike.pyflink.common.stored_settings import RestartStrategyConfiguration

__all__ = ["ExecutionConfig"]

__getattr__ = of_pyflink(__name__)

PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
JOB_PARAMETERS = "pipeline.global-job-parameters"
_GENERIC_TYPES = boolean("pipeline.generic-types", True)
_WATERMARKS = duration("pipeline.auto-watermark-interval", 200)
_LATENCY = duration("metrics.latency.interval", 0)
_INTERRUPTS = duration("task.cancellation.interval", 30_000, "task.cancellation-interval")
_CANCELLATION = duration("task.cancellation.timeout", 180_000)
_COMPRESSION = boolean("execution.checkpointing.snapshot-compression", False)
_CLEANER = boolean("pipeline.closure-cleaner", True)
_REUSE = boolean("pipeline.object-reuse", False)
_KRYO = boolean("pipeline.force-kryo", False)
_AVRO = boolean("pipeline.force-avro", False)
_UIDS = boolean("pipeline.auto-generate-uids", True)
# Flink's bound: a key group fits into two bytes.
_MOST_KEY_GROUPS = 32_768


def check_max_parallelism(max_parallelism: int) -> None:
    """Check a number of key groups.

    Raises:
        DeclarationValueError: The number is not from 1 to 32768.
    """
    if not is_int(max_parallelism) or not 1 <= max_parallelism <= _MOST_KEY_GROUPS:
        msg = f"max_parallelism is from 1 to {_MOST_KEY_GROUPS}, got {short_repr(max_parallelism)}"
        raise DeclarationValueError(msg)


def _register(kind: str, *parameters: str) -> tuple[Setter, Getter[Any]]:
    """Make the setter and the getter for names of classes in Java.

    Args:
        kind: The use of the classes, by which they are stored.
        parameters: The names of the setter's parameters: a class, and a serializer if there are two.
    """

    def found(config: Any) -> dict[str, str]:
        kinds = vars(config._configuration).setdefault("_java_classes", {})
        classes: dict[str, str] = kinds.setdefault(kind, {})
        return classes

    def add(config: Any, name: str, serializer: str = "") -> Any:
        found(config)[name] = serializer
        return config

    form = dict if len(parameters) > 1 else list
    doc = "Store a class of Java for the getter: it has no effect here."
    return (
        make_method(add, doc, **dict.fromkeys(parameters, Parameter.empty)),
        make_method(lambda config: form(found(config)), "Return the classes that were stored."),
    )


class ExecutionConfig(WithoutJava):
    """Settings of all operators of a program; settings without effect here are stored for their getters.

    Args:
        configuration: The configuration that holds the settings; None for a new one.
    """

    PARALLELISM_DEFAULT = -1
    """The result of `get_parallelism` if nothing is set; `set_parallelism` takes it to unset the number."""
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration
        self.restart_strategy: RestartStrategyConfiguration | None = None

    def get_parallelism(self) -> int:
        """Return the number of instances of operators that set none themselves; -1 if it is not set."""
        return self._configuration.get_integer(PARALLELISM, -1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the number of instances of operators that set none themselves.

        Args:
            parallelism: The number, at least 1; -1 leaves it to the host.

        Raises:
            DeclarationValueError: The number is out of this range.
        """
        if parallelism == -1:
            self._configuration.remove_config(PARALLELISM)
            return self
        if not is_int(parallelism) or parallelism < 1:
            msg = f"Parallelism must be at least one, or -1 (use system default), got {short_repr(parallelism)}"
            raise DeclarationValueError(msg)
        self._configuration.set_integer(PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 if it is not set."""
        return self._configuration.get_integer(MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups, which is fixed for the life of a checkpoint.

        Args:
            max_parallelism: The number, from 1 to 32768.

        Raises:
            DeclarationValueError: The number is out of this range.
        """
        check_max_parallelism(max_parallelism)
        self._configuration.set_integer(MAX_PARALLELISM, max_parallelism)
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
            global_job_parameters_dict: Values by name; names and values become texts.
        """
        texts = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        self._configuration.set_string(JOB_PARAMETERS, json.dumps(texts))
        return self

    # Serializers in Java, which have no effect here: elements are pickled, or written by their types

    add_default_kryo_serializer, get_default_kryo_serializer_classes = _register(
        "kryo defaults", "type_class_name", "serializer_class_name"
    )
    register_type_with_kryo_serializer, get_registered_types_with_kryo_serializer_classes = (
        _register("kryo types", "type_class_name", "serializer_class_name")
    )
    register_pojo_type, get_registered_pojo_types = _register("pojos", "type_class_name")
    register_kryo_type, get_registered_kryo_types = _register("kryo", "type_class_name")

    # Settings without effect: for example, here a watermark follows each element

    get_auto_watermark_interval, set_auto_watermark_interval = _WATERMARKS.kept("interval")
    get_latency_tracking_interval, set_latency_tracking_interval = _LATENCY.kept("interval")
    get_task_cancellation_interval, set_task_cancellation_interval = _INTERRUPTS.kept("interval")
    get_task_cancellation_timeout, set_task_cancellation_timeout = _CANCELLATION.kept("timeout")
    is_use_snapshot_compression, set_use_snapshot_compression = _COMPRESSION.kept(
        "use_snapshot_compression"
    )
    enable_closure_cleaner, disable_closure_cleaner, is_closure_cleaner_enabled = _CLEANER.switch()
    enable_object_reuse, disable_object_reuse, is_object_reuse_enabled = _REUSE.switch()
    enable_force_kryo, disable_force_kryo, is_force_kryo_enabled = _KRYO.switch()
    enable_force_avro, disable_force_avro, is_force_avro_enabled = _AVRO.switch()
    enable_auto_generated_uids, disable_auto_generated_uids, has_auto_generated_uids_enabled = (
        _UIDS.switch()
    )
    enable_generic_types = _GENERIC_TYPES.switch()[0]

    @without_effect("any object that pickles has a type; declare types where they matter")
    def disable_generic_types(self) -> ExecutionConfig:
        """Store for the getter that elements need a type; no element is refused."""
        _GENERIC_TYPES.set(self._configuration, False)
        return self

    def has_generic_types_disabled(self) -> bool:
        """Return whether `disable_generic_types` was called."""
        return not _GENERIC_TYPES.of(self._configuration)

    # Methods of Flink 1

    @deprecated_alias("the keys restart-strategy..., which have no effect either")
    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> ExecutionConfig:
        """Store a strategy for its getter: Spark runs a failed task again.

        Args:
            restart_strategy_configuration: A strategy made by `RestartStrategies`.
        """
        self.restart_strategy = restart_strategy_configuration
        return self

    @deprecated_alias("nothing: it has no effect")
    def get_restart_strategy(self) -> RestartStrategyConfiguration | None:
        """Return the strategy that was set; None if none was."""
        return self.restart_strategy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


def parse_map(text: str) -> dict[str, str]:
    """Read a map as configurations write it: JSON, or `key:value,key:value`.

    Raises:
        DeclarationValueError: The text begins as JSON and is not well formed.
    """
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            msg = (
                f"{JOB_PARAMETERS} is a map as JSON, or key:value,key:value, got {short_repr(text)} "
                f"({error}); write for example a:1,b:2"
            )
            raise DeclarationValueError(msg) from error
        return {str(key): str(value) for key, value in found.items()}
    pairs = (part.partition(":") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}
