# SPDX-License-Identifier: Apache-2.0
"""The declarations of a function as plain data, which JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyflinklike.state.assembly import Assembled
from pyflinklike.state.table import TableSpec
from pyflinklike.state.ttl_config import CLOCK_OF_TTL, StateTtlConfig

__all__ = ["declared_state", "declared_states", "declared_ttl"]


def declared_states(
    specs: Iterable[TableSpec],
    assembled: Mapping[str, Assembled],
) -> dict[str, dict[str, Any]]:
    """Describe each state by name, broadcast states too: kind, signatures of types, TTL.

    Args:
        specs: The specs of all tables; those of stores and of the runtime are left out.
        assembled: The states by name.
    """
    return {
        spec.name: declared_state(
            spec, assembled[spec.name].ttl_config if spec.name in assembled else None
        )
        for spec in specs
        if spec.name in assembled or spec.is_replicated
    }


def declared_state(spec: TableSpec, ttl: StateTtlConfig | None) -> dict[str, Any]:
    """Describe one state for the operator record, by its table's spec and its TTL, if any."""
    said: dict[str, Any] = {"kind": spec.kind}
    if spec.namespace_type is not None:
        said["namespace"] = spec.namespace_type.signature
    if spec.user_key_type is not None:
        said["user_key"] = spec.user_key_type.signature
    if spec.value_type is not None:
        said["value"] = spec.value_type.signature
    settings = {each.name: each.value for each in spec.settings if each.name != CLOCK_OF_TTL}
    if settings:
        said["settings"] = settings
    if ttl is not None:
        said["ttl"] = declared_ttl(ttl)
    return said


def declared_ttl(ttl: StateTtlConfig) -> dict[str, Any]:
    """Describe a TTL for the operator record."""
    return {
        "ms": ttl.ttl_ms,
        "update_type": ttl.get_update_type().name,
        "visibility": ttl.get_state_visibility().name,
        "time": ttl.get_ttl_time_characteristic().name,
    }
