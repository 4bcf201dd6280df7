# SPDX-License-Identifier: Apache-2.0
"""What a function is opened with whose elements have no keys."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from pyflinklike.errors import DeclarationError
from pyflinklike.runtime.contexts import OperatorRuntimeContext
from pyflinklike.shown import shown
from pyflinklike.state.descriptors import StateDescriptor

__all__ = ["UnkeyedOperatorContext"]

S = TypeVar("S")


class UnkeyedOperatorContext(OperatorRuntimeContext):
    """An `OperatorRuntimeContext` without states and stores, all of which belong to keys."""

    def get_store(self, store_descriptor: Any) -> NoReturn:
        """Refuse it.

        Raises:
            DeclarationError: There are no keys.
        """
        raise _no_keys("store", store_descriptor)

    def _get(self, descriptor: StateDescriptor[S], wanted: type[StateDescriptor]) -> S:  # noqa: ARG002
        raise _no_keys("state", descriptor)


def _no_keys(noun: str, descriptor: Any) -> DeclarationError:
    return DeclarationError(
        f"a {noun} belongs to keys, got {shown(descriptor)} in a function whose elements have none; "
        "call key_by before connect, and subclass KeyedBroadcastProcessFunction"
    )
