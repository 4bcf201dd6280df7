# SPDX-License-Identifier: Apache-2.0
"""The stores of one operator: made once, flushed and closed with it."""

from __future__ import annotations

from typing import Any

import attrs

from pyflinklike._runtime.call_contexts import Surroundings
from pyflinklike.errors import DeclarationValueError
from pyflinklike.stores.state_store import StateStore, StoreContext
from pyflinklike.stores.store_descriptors import StoreDescriptor

__all__ = ["StoreRegistry"]

_NOT_DURABLE = {"name", "key_type", "value_type", "caching", "changelog", "changelog_config"}
"""Fields of a descriptor that say nothing of what is stored, or are told otherwise."""


class StoreRegistry:
    """The stores of an operator by name.

    Args:
        surroundings: What the stores find around them.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._context = StoreContext(**attrs.asdict(surroundings, recurse=False))
        self._stores: dict[str, tuple[StoreDescriptor, StateStore]] = {}

    def __contains__(self, name: object) -> bool:
        """Return whether a table of this name belongs to a store."""
        return isinstance(name, str) and name.partition("/")[0] in self._stores

    def open(self, descriptor: StoreDescriptor) -> StateStore:
        """Return the store of a declaration; the same one for the same declaration.

        Raises:
            DeclarationValueError: A store declared otherwise has its name.
            IncompatibleStateError: What was restored under the name does not fit.
        """
        known = self._stores.get(descriptor.name)
        if known is not None:
            former, store = known
            if former != descriptor:
                msg = (
                    f"store {descriptor.name!r} is already declared as {former!r}, "
                    f"got {descriptor!r}; use another name or the same descriptor"
                )
                raise DeclarationValueError(msg)
            return store
        opened: StateStore = descriptor.new_store()
        opened.init(self._context)
        self._stores[descriptor.name] = descriptor, opened
        return opened

    def get(self, name: str) -> StateStore:
        """Return the store of a name."""
        return self._stores[name][1]

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return the stores by name, as plain data: kind, signatures of their types, options."""
        return {name: describe_store(descriptor) for name, (descriptor, _) in self._stores.items()}

    def begin_call(self) -> None:
        """Close cursors that the previous call left open: a record or timer begins."""
        self._context.cursors.end_call()

    def flush(self) -> None:
        """Log what the caches hold: a micro-batch of the current key group ends."""
        self._context.cursors.end_call()
        for _, store in self._stores.values():
            if store.is_open:
                store.flush()

    def drop_expired(self) -> None:
        """Delete what has expired in the current key group."""
        for _, store in self._stores.values():
            if store.is_open:
                store.drop_expired()

    def close(self) -> None:
        """Refuse further use of the stores: the operator ends."""
        for _, store in self._stores.values():
            store.abandon()


def describe_store(descriptor: StoreDescriptor) -> dict[str, Any]:
    """Describe a store as plain data: kind, signatures of its types, options."""
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
