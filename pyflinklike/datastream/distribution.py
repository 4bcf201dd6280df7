# SPDX-License-Identifier: Apache-2.0
"""Which instance of the next operator gets an element, with PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyflinklike.api.selectors import KeySelector, Partitioner, as_key_selector
from pyflinklike.datastream.connected_streams import BroadcastStream, Connectable
from pyflinklike.datastream.declared import Outlets
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.graph.captured import captured
from pyflinklike.graph.nodes import Partitioning
from pyflinklike.shown import shown
from pyflinklike.state.descriptors import MapStateDescriptor

__all__ = ["Distributed"]

D = TypeVar("D", bound="Distributed[Any]")
S = TypeVar("S", bound=Outlets)


class Distributed(Connectable[S]):
    """A stream whose elements can be sent to other instances."""

    def shuffle(self: D) -> D:
        """Elements go to instances by chance."""
        return self._partition(Partitioning.SHUFFLE)

    def rebalance(self: D) -> D:
        """Elements go to instances in turn."""
        return self._partition(Partitioning.REBALANCE)

    def rescale(self: D) -> D:
        """Elements go to some of the instances in turn."""
        return self._partition(Partitioning.RESCALE)

    def forward(self: D) -> D:
        """Elements stay with their instance."""
        return self._partition(Partitioning.FORWARD)

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor[Any, Any]) -> Any:
        """A stream that every instance of the next operator gets whole.

        Args:
            broadcast_state_descriptors: The states that its elements change; with them it is a
                `BroadcastStream`, for `connect`.

        Raises:
            DeclarationTypeError: One is no `MapStateDescriptor`.
        """
        if not broadcast_state_descriptors:
            return self._partition(Partitioning.BROADCAST)
        for each in broadcast_state_descriptors:
            if not isinstance(each, MapStateDescriptor):
                msg = f"broadcast_state_descriptor must be MapStateDescriptor, got {shown(each)}"
                raise DeclarationTypeError(msg)
        return BroadcastStream(self, broadcast_state_descriptors)

    def partition_custom(
        self: D,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any],
    ) -> D:
        """Elements go to the instance that a function tells.

        Args:
            partitioner: Is given a key and the number of instances.
            key_selector: Tells the key.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        given = getattr(partitioner, "partition", partitioner)
        if not callable(given) or isinstance(partitioner, type):
            msg = f"Parameter partitioner should be type of Partitioner or a callable function, got {shown(partitioner)}"
            raise DeclarationTypeError(msg)
        selector = captured(as_key_selector(key_selector))
        how = {"partitioner": captured(given), "selector": selector.get_key}
        return self._partition(Partitioning.CUSTOM, **how)

    def _partition(self: D, how: Partitioning, **fields: Any) -> D:
        raise NotImplementedError
