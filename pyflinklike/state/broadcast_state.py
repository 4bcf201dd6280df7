# SPDX-License-Identifier: Apache-2.0
"""Broadcast state: a map that belongs to no key, and is the same for all.

Names are as in `pyflink.datastream`.  As in Flink, the state lives as long as the job and does not
expire.  Each key group stores a copy (`REPLICATED`), so that a savepoint can be divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic

import attrs

from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.keyed_states import MapState
from pyflinklike.state.table import REPLICATED, Table, TableSpec


class ReadOnlyBroadcastState(Generic[K, V]):
    """A map that is the same for every key, as `pyflink.datastream.ReadOnlyBroadcastState`.

    A value that is read is a copy: changing it changes nothing in the state.

    Args:
        entries: The map that holds the entries.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: MapState[K, V]) -> None:
        self._entries = entries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._entries.name!r})"

    def get(self, key: K) -> V | None:
        """Return the value under a key, or None."""
        return self._entries.get(key)

    def contains(self, key: K) -> bool:
        """Return whether there is an entry under a key, even if its value is None."""
        return self._entries.contains(key)

    def items(self) -> Iterable[tuple[K, V]]:
        """Return the entries, read when they are iterated, in no specified order."""
        return self._entries.items()

    def keys(self) -> Iterable[K]:
        """Return the keys, read when they are iterated."""
        return self._entries.keys()

    def values(self) -> Iterable[V]:
        """Return the values, read when they are iterated."""
        return self._entries.values()

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        return self._entries.is_empty()

    __getitem__ = get
    __contains__ = contains

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A broadcast state that may be changed, as `pyflink.datastream.BroadcastState`.

    Only `process_broadcast_element` gets one.
    """

    __slots__ = ()

    def put(self, key: K, value: V) -> None:
        """Store a value under a key; None is a value if the type allows it.

        Raises:
            StateValueError: The key is None, or either does not fit its type.
        """
        self._entries.put(key, value)

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store every item of a mapping; if one is refused, nothing is stored.

        Raises:
            StateValueError: A key is None, or a key or value does not fit its type.
        """
        self._entries.put_all(dict_value)

    def remove(self, key: K) -> None:
        """Remove a key; if it is missing, this does nothing."""
        self._entries.remove(key)

    def clear(self) -> None:
        """Remove every entry."""
        self._entries.clear()

    __setitem__ = put
    __delitem__ = remove


def broadcast_spec(descriptor: MapStateDescriptor[K, V]) -> TableSpec:
    """Return the declaration of a broadcast state's table, for the backend and the log.

    Raises:
        DeclarationTypeError: The descriptor is not a `MapStateDescriptor`.
        DeclarationValueError: The descriptor has a TTL.
    """
    if not isinstance(descriptor, MapStateDescriptor):
        remedy = instance_of(MapStateDescriptor, descriptor, "a broadcast state is a map")
        msg = f"broadcast state takes a MapStateDescriptor, got {short_repr(descriptor)}; {remedy}"
        raise DeclarationTypeError(msg)
    if descriptor.ttl_config is not None:
        msg = (
            f"broadcast state does not expire, as in Flink, got {descriptor!r}; leave "
            "enable_time_to_live out, and remove entries by elements of the broadcast input"
        )
        raise DeclarationValueError(msg)
    return attrs.evolve(descriptor.spec(), kind=REPLICATED, per_group=True)


def map_over(descriptor: MapStateDescriptor[K, V], table: Table) -> MapState[K, V]:
    """Make the map of a broadcast state over a table made for its spec."""
    return descriptor.state(table)
