# SPDX-License-Identifier: Apache-2.0
"""The contents of several namespaces of a state moved into one, as merging windows need it.

As by Flink's `mergeNamespaces`, lists are joined, and folded values are folded once more: the
target's own contents first, then those of the sources in their order.  The sources are empty
afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.state.assembly import Assembled
from pyflinklike.state.base import MergingState
from pyflinklike.state.current_key import CurrentKey

__all__ = ["merge_namespaces"]


def merge_namespaces(
    made: Assembled, current: CurrentKey, target: Hashable, sources: Iterable[Hashable]
) -> None:
    """Move what the current key has in some namespaces into another one.

    Args:
        made: The state, over a namespaced table.
        current: Has the key; its namespace is the same afterwards.
        target: Frozen namespace that gets the contents.
        sources: Frozen namespaces that lose them.

    Raises:
        DeclarationTypeError: Contents of this kind of state cannot be merged.
    """
    state = made.state
    if not isinstance(state, MergingState):
        msg = (
            "state that is merged must be a list, reducing or aggregating state, "
            f"got {state!r}; declare it as one of these"
        )
        raise DeclarationTypeError(msg)
    former = current.namespace
    try:
        state._merge_namespaces(made.table, current, target, sources)
    finally:
        current.namespace = former
