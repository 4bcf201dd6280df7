# SPDX-License-Identifier: Apache-2.0
"""Functions that choose the key of an element, and the instance that gets it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import attrs

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.functions import Function
from pyflinklike.shown import instance_of, shown

__all__ = ["KeySelector", "NullByteKeySelector", "Partitioner", "as_key_selector"]


class KeySelector(Function, ABC):
    """Returns the key of an element, as `pyflink.datastream.KeySelector`."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key of an element: always the same key for an equal element."""


class Partitioner(Function, ABC):
    """Chooses the instance that gets an element, as `pyflink.datastream.Partitioner`."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the instance for a key.

        Args:
            key: The key of the element.
            num_partitions: How many instances there are.

        Returns:
            A number from 0, less than `num_partitions`.
        """


class NullByteKeySelector(KeySelector):
    """Gives all elements the key 0, as PyFlink's."""

    def get_key(self, value: Any) -> int:  # noqa: ARG002
        """Return 0."""
        return 0


@attrs.frozen
class _CallableKeySelector(KeySelector):
    """A callable as a `KeySelector`: it is itself the method, so an element costs one call."""

    func: Callable[[Any], Any]
    get_key = property(attrgetter("func"))


def as_key_selector(selector: KeySelector | Callable[[Any], Any]) -> KeySelector:
    """Return a `KeySelector` as it is, and a callable of an element as one.

    Raises:
        DeclarationTypeError: It is neither, or the class instead of an instance.
    """
    if isinstance(selector, KeySelector):
        return selector
    given: Any = selector
    if callable(given) and not (isinstance(given, type) and issubclass(given, KeySelector)):
        return _CallableKeySelector(given)
    remedy = instance_of(KeySelector, given, "give for example lambda value: value[0]")
    msg = (
        "Parameter key_selector should be type of KeySelector or a callable function, "
        f"got {shown(given)}; {remedy}"
    )
    raise DeclarationTypeError(msg)
