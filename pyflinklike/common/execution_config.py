# SPDX-License-Identifier: Apache-2.0
"""How a program wants its jobs run, as `pyflink.common.ExecutionConfig`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyflinklike.checks import is_int
from pyflinklike.common.configuration import Configuration
from pyflinklike.errors import DeclarationValueError
from pyflinklike.shown import shown

__all__ = ["ExecutionConfig"]

PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
JOB_PARAMETERS = "pipeline.global-job-parameters"
_WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
_MOST_KEY_GROUPS = 32_768


class ExecutionConfig:
    """Settings of all operators of a program; what no host heeds is kept for its getter.

    Args:
        configuration: Holds them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def get_parallelism(self) -> int:
        """How many instances an operator has that asks for no number; -1 if that is not set."""
        return self._configuration.get_integer(PARALLELISM, -1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Say how many instances an operator has that asks for no number; -1 leaves it to the host.

        Raises:
            DeclarationValueError: It is less than 1.
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
        """How many key groups there are; -1 if that is not set."""
        return self._configuration.get_integer(MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Say how many key groups there are, fixed for the life of a checkpoint.

        Raises:
            DeclarationValueError: It is not from 1 to 32768.
        """
        if not is_int(max_parallelism) or not 1 <= max_parallelism <= _MOST_KEY_GROUPS:
            msg = f"max_parallelism is from 1 to {_MOST_KEY_GROUPS}, got {shown(max_parallelism)}"
            raise DeclarationValueError(msg)
        self._configuration.set_integer(MAX_PARALLELISM, max_parallelism)
        return self

    def get_auto_watermark_interval(self) -> int:
        """How often Flink sends watermarks, in ms; here they follow elements."""
        return self._configuration.get_integer(_WATERMARK_INTERVAL, 200)

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Kept for its getter."""
        self._configuration.set_integer(_WATERMARK_INTERVAL, interval)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """What `RuntimeContext.get_job_parameter` gives."""
        text = self._configuration.get_string(JOB_PARAMETERS, "{}")
        return parsed_map(text)

    def set_global_job_parameters(
        self, global_job_parameters_dict: Mapping[str, str]
    ) -> ExecutionConfig:
        """Say what `RuntimeContext.get_job_parameter` gives."""
        texts = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        self._configuration.set_string(JOB_PARAMETERS, json.dumps(texts))
        return self

    def __getattr__(self, name: str) -> Any:
        """Setters and getters of what no host here heeds: PyFlink's, with its defaults."""
        found = _KEPT.get(name)
        if found is None:
            msg = f"ExecutionConfig has no {name!r}; it has those of PyFlink 2.3"
            raise AttributeError(msg)
        key, default, value = found
        if value is not None:
            return lambda: self._keep(key, value)
        if name.startswith("set_"):
            return lambda given: self._keep(key, json.dumps(given))
        return lambda: json.loads(self._configuration.get_string(key, json.dumps(default)))

    def _keep(self, key: str, value: str) -> ExecutionConfig:
        self._configuration.set_string(key, value)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


def parsed_map(text: str) -> dict[str, str]:
    """A map as configurations write it: JSON, or `key:value,key:value`."""
    if text.lstrip().startswith("{"):
        found = json.loads(text)
        return {str(key): str(value) for key, value in found.items()}
    pairs = (part.partition(":") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _switch(name: str, key: str, *, default: bool, getter: str) -> dict[str, Any]:
    return {
        f"enable_{name}": (key, default, "true"),
        f"disable_{name}": (key, default, "false"),
        getter: (key, default, None),
    }


def _number(name: str, key: str, default: Any) -> dict[str, Any]:
    return {f"set_{name}": (key, default, None), f"get_{name}": (key, default, None)}


_KEPT: dict[str, tuple[str, Any, str | None]] = {
    **_switch(
        "closure_cleaner",
        "pipeline.closure-cleaner",
        default=True,
        getter="is_closure_cleaner_enabled",
    ),
    **_switch(
        "object_reuse", "pipeline.object-reuse", default=False, getter="is_object_reuse_enabled"
    ),
    **_switch("force_kryo", "pipeline.force-kryo", default=False, getter="is_force_kryo_enabled"),
    **_switch("force_avro", "pipeline.force-avro", default=False, getter="is_force_avro_enabled"),
    **_switch(
        "auto_generated_uids",
        "pipeline.auto-generate-uids",
        default=True,
        getter="has_auto_generated_uids_enabled",
    ),
    **_number("latency_tracking_interval", "metrics.latency.interval", 0),
    **_number("task_cancellation_interval", "task.cancellation.interval", 30_000),
    **_number("task_cancellation_timeout", "task.cancellation.timeout", 180_000),
    "set_use_snapshot_compression": ("execution.checkpointing.snapshot-compression", False, None),
    "is_use_snapshot_compression": ("execution.checkpointing.snapshot-compression", False, None),
}
