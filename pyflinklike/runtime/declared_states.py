# SPDX-License-Identifier: Apache-2.0
"""What a function has declared, as plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from pyflinklike.state.table import TableSpec
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.stores.descriptors import StoreDescriptor

__all__ = ["declared_states"]

_NOT_DURABLE = {"name", "key_type", "value_type", "caching", "changelog", "changelog_config"}
"""Fields of a store's descriptor that say nothing of what it has stored, or are told otherwise."""


def declared_states(
    specs: Iterable[TableSpec],
    ttls: Mapping[str, StateTtlConfig | None],
    stores: Iterable[StoreDescriptor],
) -> dict[str, dict[str, Any]]:
    """Each state and store by name: kind, signatures of its types, TTL, a store's options.

    Args:
        specs: Of all tables; those of stores and of the runtime are left out.
        ttls: By name of the state; those that are there are states.
        stores: The stores.
    """
    declared = {spec.name: _state(spec, ttls[spec.name]) for spec in specs if spec.name in ttls}
    return declared | {each.name: _store(each) for each in stores}


def _state(spec: TableSpec, ttl: StateTtlConfig | None) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": spec.kind}
    if spec.user_key_type is not None:
        said["user_key"] = spec.user_key_type.signature
    if spec.value_type is not None:
        said["value"] = spec.value_type.signature
    if ttl is not None:
        said["ttl"] = {
            "ms": ttl.ttl_ms,
            "update_type": ttl.get_update_type().name,
            "visibility": ttl.get_state_visibility().name,
            "time": ttl.get_ttl_time_characteristic().name,
        }
    return said


def _store(descriptor: StoreDescriptor) -> dict[str, Any]:
    options = {
        field.name: getattr(descriptor, field.name)
        for field in attrs.fields(type(descriptor))
        if field.name not in _NOT_DURABLE
    }
    return {
        "store": descriptor.noun,
        "key": descriptor.key_type.signature,
        "value": descriptor.value_type.signature,
        **options,
    }
