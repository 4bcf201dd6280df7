# SPDX-License-Identifier: Apache-2.0
"""Which store a descriptor declares."""

from __future__ import annotations

from pyflinklike.stores.base import StateStore
from pyflinklike.stores.descriptors import StoreDescriptor

__all__ = ["store_of"]


def store_of(descriptor: StoreDescriptor) -> type[StateStore]:
    """The class of the store declared so."""
    return type(descriptor.new_store())
