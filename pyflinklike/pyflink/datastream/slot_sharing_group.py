# SPDX-License-Identifier: Apache-2.0
"""Resources of operators in Flink, as `pyflink.datastream.SlotSharingGroup`.

Here the host decides where operators run.  A group is accepted, warns once, and has no effect.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

import attrs

from pyflinklike._deprecation import WithoutJava
from pyflinklike.pyflink._foreign_names import without_effect
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.options import Getter, Setter, attribute, make_method

__all__ = ["MemorySize", "SlotSharingGroup"]

__getattr__ = of_pyflink(__name__)

_UNITS = {"bytes": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


def _whole(unit: str) -> Getter[int]:
    doc = f"Return the size in {unit}, rounded down."
    return make_method(lambda size: size.bytes_size // _UNITS[unit], doc)  # type: ignore[no-any-return]


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
        return MemorySize(bytes_size=mebi_bytes * _UNITS["MiB"])

    get_bytes, get_kibi_bytes, get_mebi_bytes, get_gibi_bytes, get_tebi_bytes = (
        _whole(each) for each in ("bytes", "KiB", "MiB", "GiB", "TiB")
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
