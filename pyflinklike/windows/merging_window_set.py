# SPDX-License-Identifier: Apache-2.0
"""The set of windows that a key has now, where windows merge, as Flink's `MergingWindowSet`.

When windows merge, their contents move into the state of one of them, the *state window*, and
stay there however the merged window grows.  So an element of a session costs the same however
many elements the session has.  Flink picks any state window; here it is the one of the earliest
window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import reduce
from typing import Any

import attrs

from pyflinklike._messages import own_state
from pyflinklike.functions.contexts import NamespacedRuntimeContext
from pyflinklike.state import MapState
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.windows.assigners import MergingWindowAssigner, SessionWindows, WindowAssigner
from pyflinklike.windows.window_kinds import TimeWindow, Window, WindowSerializer

__all__ = ["MergingWindowSet"]

_SESSIONS = own_state("merging-window-set", "the sessions of a key")  # named as Flink's

IsOver = Callable[[Any], bool]
"""Whether a window is over for elements to come."""

OnMerge = Callable[[Any, "list[Any]", Any, "list[Any]"], None]
"""Gets the merged window, the windows it was made of, its state window, and those merged into it."""


@attrs.define
class _Found(MergingWindowAssigner.MergeCallback[Any]):
    """The groups of windows that an assigner found to be merged."""

    groups: list[tuple[Collection[Any], Any]] = attrs.field(factory=list)

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.groups.append((list(to_be_merged), merge_result))


class MergingWindowSet:
    """The windows of the current key.

    Args:
        assigner: Finds the windows that merge.
        state: A map of the key from each state window to the window whose contents it has, both as
            namespaces.
        serializer: The serializer of the windows.
    """

    def __init__(
        self,
        assigner: MergingWindowAssigner[Any, Any],
        state: MapState[Any, Any],
        serializer: WindowSerializer[Any],
    ) -> None:
        self._merge_windows = assigner.merge_windows
        self.by_intersection = isinstance(assigner, SessionWindows)
        """Whether just those merge that intersect."""
        self._state = state
        self._serializer = serializer

    @classmethod
    def of(
        cls, assigner: WindowAssigner[Any, Any], context: NamespacedRuntimeContext
    ) -> MergingWindowSet | None:
        """Return the set of an operator; None if its windows do not merge.

        Args:
            assigner: The assigner of the operator.
            context: The context of the operator, which is open.
        """
        if not isinstance(assigner, MergingWindowAssigner):
            return None
        serializer = assigner.get_window_serializer()
        kind = serializer.type_info
        descriptor = MapStateDescriptor(_SESSIONS, kind, kind)
        state = context.get_map_state(descriptor)
        context.reserve(descriptor)
        return cls(assigner, state, serializer)

    def state_window(self, window: Window) -> Any:
        """Return the namespace of a window's contents; None if the key lacks the window."""
        namespace = self._serializer.to_namespace(window)
        for state_window, actual in self._state.items():
            if actual == namespace:
                return state_window
        return None

    def find_holding(self, window: Window) -> Window | None:
        """Return the window that a window of time has become part of; None if that has ended."""
        if isinstance(window, TimeWindow):
            for start, end in self._state.values():
                if start <= window.start and window.end <= end:
                    return self._serializer.to_window((start, end))  # type: ignore[no-any-return]
        return None

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return each window with the one whose contents it has: the state window first."""
        return self._state.items()

    def grow(self, state_window: Any, actual: Any) -> None:
        """Add a window, or let one grow that merges with no other; both are namespaces."""
        self._state.put(state_window, actual)

    def retire(self, state_window: Any) -> None:
        """Remove a window that has ended.

        Args:
            state_window: The namespace of its contents.
        """
        self._state.remove(state_window)

    def add(self, new: Window, on_merge: OnMerge, is_over: IsOver) -> tuple[Window, Any] | None:
        """Add a window.

        Args:
            new: A window of an element.
            on_merge: Is called before windows merge, or one grows, in the state.
            is_over: Returns whether a window takes no more elements.  A window of the set can be
                over: with a greater lateness, before a restart, it was not.

        Returns:
            The window, or the one that it became part of, and the namespace of its contents; None
            if that window is over, so that the element is late.
        """
        if self.by_intersection:
            return self._add_session(new, on_merge, is_over)
        to_window = self._serializer.to_window
        known = {to_window(actual): state_window for state_window, actual in self._state.items()}
        if new in known:
            return None if is_over(new) else (new, known[new])
        result = None
        for group, merged in self._groups(known, new):
            if new in group and is_over(new) and is_over(merged):
                return None
            olds = [each for each in known if each in group]
            target = known[olds[0]]
            if olds != [merged]:
                target = self._join(merged, {each: known[each] for each in olds}, on_merge)
            if new in group:
                result = merged, target
        if result is None and not is_over(new):
            namespace = self._serializer.to_namespace(new)
            self._state.put(namespace, namespace)
            return new, namespace
        return result

    def _add_session(
        self, new: Any, on_merge: OnMerge, is_over: IsOver
    ) -> tuple[Window, Any] | None:
        """Add a window where the known ones do not meet: only the new one joins any.

        Most elements come here, so it works on what the state stores, without an object per window.
        """
        start, end = new.namespace
        met = [item for item in self._state.items() if item[1][0] <= end and start <= item[1][1]]
        if not met:
            if is_over(new):
                return None
            self._state.put(new.namespace, new.namespace)
            return new, new.namespace
        target, (first, last) = met[0]
        if len(met) == 1 and first <= start and end <= last:
            actual = TimeWindow(first, last)
            return None if is_over(actual) else (actual, target)
        olds = {TimeWindow(*actual): state_window for state_window, actual in met}
        merged = reduce(TimeWindow.cover, olds, new)
        if is_over(merged):
            return None
        return merged, self._join(merged, olds, on_merge)

    def _groups(self, known: Collection[Any], new: Any) -> list[tuple[Collection[Any], Any]]:
        """Return the groups of windows that become one, each with that one."""
        found = _Found()
        if known:
            self._merge_windows([*known, new], found)
        return found.groups

    def _join(self, merged: Window, olds: dict[Any, Any], on_merge: OnMerge) -> Any:
        """Make one state window hold the contents of all, and return its namespace.

        Args:
            merged: The window that they become.
            olds: The windows, each with the namespace of its contents.
            on_merge: Is called before the state changes.
        """
        target, *others = [olds[each] for each in sorted(olds)]
        on_merge(merged, list(olds), target, others)
        for each in others:
            self._state.remove(each)
        self._state.put(target, self._serializer.to_namespace(merged))
        return target
