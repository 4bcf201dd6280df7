# SPDX-License-Identifier: Apache-2.0
"""The resources that Flink gives to operators, as `pyflink.datastream.SlotSharingGroup`.

Here the host decides where operators run: a group is taken, says so once, and has no effect.
"""

from __future__ import annotations

from typing import Any

import attrs

from pyflinklike._deprecation import WithoutJava, without_effect
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["MemorySize", "SlotSharingGroup"]

__getattr__ = of_pyflink(__name__)

_KIBI, _MEBI, _GIBI, _TEBI = (1024**power for power in (1, 2, 3, 4))


@attrs.frozen(order=True)
class MemorySize(WithoutJava):
    """A number of bytes.

    Args:
        bytes_size: The number.
    """

    bytes_size: int = attrs.field(kw_only=True)

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Make a size.

        Args:
            mebi_bytes: In units of 1024 * 1024 bytes.
        """
        return MemorySize(bytes_size=mebi_bytes * _MEBI)

    def get_bytes(self) -> int:
        """Return the number of bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """Return the whole KiB."""
        return self.bytes_size // _KIBI

    def get_mebi_bytes(self) -> int:
        """Return the whole MiB."""
        return self.bytes_size // _MEBI

    def get_gibi_bytes(self) -> int:
        """Return the whole GiB."""
        return self.bytes_size // _GIBI

    def get_tebi_bytes(self) -> int:
        """Return the whole TiB."""
        return self.bytes_size // _TEBI

    def __str__(self) -> str:
        return f"{self.bytes_size} bytes"


@without_effect(
    "the host decides where operators run; give executors memory and cores by Spark's settings"
)
@attrs.frozen
class SlotSharingGroup(WithoutJava):
    """A group of operators that share resources; `builder` makes one."""

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: dict[str, float] = attrs.field(factory=dict, hash=False)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Return what was set; None before."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return what was set; None before."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return what was set; None before."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Return what was set; None before."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Return what was set, by name."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group.

        Args:
            name: Its name.
        """
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Sets the resources of a group, and `build`s it."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._resources: dict[str, Any] = {}
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set a number of cores."""
            return self._set(cpu_cores=cpu_cores)

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set a size."""
            return self._set(task_heap_memory=task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set a size in MiB."""
            return self._set(task_heap_memory=MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(
            self, task_off_heap_memory: MemorySize
        ) -> SlotSharingGroup.Builder:
            """Set a size."""
            return self._set(task_off_heap_memory=task_off_heap_memory)

        def set_task_off_heap_memory_mb(
            self, task_off_heap_memory_mb: int
        ) -> SlotSharingGroup.Builder:
            """Set a size in MiB."""
            return self._set(task_off_heap_memory=MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set a size."""
            return self._set(managed_memory=managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set a size in MiB."""
            return self._set(managed_memory=MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set a number of another resource."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """Make the group."""
            return SlotSharingGroup(
                self._name, **self._resources, external_resources=self._external
            )

        def _set(self, **resources: Any) -> SlotSharingGroup.Builder:
            self._resources |= resources
            return self
