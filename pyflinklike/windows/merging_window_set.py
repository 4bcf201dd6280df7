# SPDX-License-Identifier: Apache-2.0
"""The set of windows that a key has now, if windows merge, as Flink's `MergingWindowSet`.

When windows merge, their contents move into the state of one of them, the *state window*.  They
stay there when the merged window grows.  So an element of a session costs the same, however many
elements the session has.  Flink picks any of the state windows; here the state window of the
earliest window is kept, so that a retry does the same.

https://github.com/apache/flink/blob/master/flink-runtime/src/main/java/org/apache/flink/streaming/runtime/operators/windowing/MergingWindowSet.java
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

_SESSIONS = own_state("merging-window-set", "the sessions of a key")  # named as Flink's

IsOver = Callable[[Any], bool]
"""Returns whether a window takes no more elements."""

OnMerge = Callable[[Any, "list[Any]", Any, "list[Any]"], None]
"""Gets the merged window, the windows before, its state window, and the other state windows."""


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
        state: A map of the key, from each state window to the window whose contents it holds; both
            are namespaces.
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
        """Whether windows merge only if they intersect."""
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
        """Return the window that now covers a window of time; None if that has ended."""
        if isinstance(window, TimeWindow):
            for start, end in self._state.values():
                if start <= window.start and window.end <= end:
                    return self._serializer.to_window((start, end))  # type: ignore[no-any-return]
        return None

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return pairs of a state window and the window whose contents it holds."""
        return self._state.items()

    def grow(self, state_window: Any, actual: Any) -> None:
        """Add a window, or let a window grow that does not merge; both are namespaces."""
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
            on_merge: Gets a call before windows merge in the state, or before a window grows.
            is_over: Returns whether a window takes no more elements.  Also a window of the set can
                be over, if the lateness was greater before a restart.

        Returns:
            The window, or the window that it became part of, and the namespace of its contents;
            None if that window is over, so that the element is late.
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
        """Add a session.  The known sessions do not meet each other, so only the new one joins any.

        Most elements come here, so it works on the stored namespaces, without an object per window.
        """
        start, end = new.namespace
        met = [item for item in self._state.items() if item[1][0] <= end and start <= item[1][1]]
        if not met:
            if is_over(new):
                return None
            self._state.put(new.namespace, new.namespace)
            return new, new.namespace
        target, (first, last) = met[0]
        # An element within a session changes nothing in the set.
        if len(met) == 1 and first <= start and end <= last:
            actual = TimeWindow(first, last)
            return None if is_over(actual) else (actual, target)
        olds = {TimeWindow(*actual): state_window for state_window, actual in met}
        merged = reduce(TimeWindow.cover, olds, new)
        if is_over(merged):
            return None
        return merged, self._join(merged, olds, on_merge)

    def _groups(self, known: Collection[Any], new: Any) -> list[tuple[Collection[Any], Any]]:
        """Return the groups of windows that merge, each with the window that it becomes."""
        found = _Found()
        if known:
            self._merge_windows([*known, new], found)
        return found.groups

    def _join(self, merged: Window, olds: dict[Any, Any], on_merge: OnMerge) -> Any:
        """Move the contents of all into one state window, and return its namespace.

        Args:
            merged: The window that they become.
            olds: The windows, each with the namespace of its contents.
            on_merge: Gets a call before the state changes.
        """
        # Sorted, so that the choice of the state window does not depend on the order of a map.
        target, *others = [olds[each] for each in sorted(olds)]
        on_merge(merged, list(olds), target, others)
        for each in others:
            self._state.remove(each)
        self._state.put(target, self._serializer.to_namespace(merged))
        return target
