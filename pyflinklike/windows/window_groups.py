# SPDX-License-Identifier: Apache-2.0
"""Records of a micro-batch that are put into their windows together.

Record by record, each one looks up, folds and stores the contents of each of its windows, and
registers their timers.  Where nobody can see anything between two records, `WindowGroups` does the
same with one look-up, one loop over the elements, one write and one timer for each key and window.
What is stored, in which order, and when it fires is the same, entry by entry.

`WindowGroups.of` says which windows can have that: those of event time that are of our assigners,
with the default trigger and without an evictor.  Of their records these are left for the way of
single records:

* late ones, which go out or are counted;
* with an allowed lateness, all records of a key that has one at or below the watermark, as its
  windows may fire at once;
* of sessions, all records of a key that may have a late one, or two of whose sessions become one;
* of windows that overlap, all records where a key has fewer than two on average: that is faster.

First all is prepared, which calls the user's fold; then it is written.  So where a fold raises,
nothing has changed, and the records can go the other way, which tells the culprit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

import attrs

from pyflinklike._clock import MAX_WATERMARK
from pyflinklike.functions.process_functions import PreparedTogether
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from pyflinklike.windows.merging_window_set import MergingWindowSet
from pyflinklike.windows.triggers import EventTimeTrigger
from pyflinklike.windows.window_contents import StoredContents, WindowDeclaration

__all__ = ["WindowGroups"]

_FAR: Final = 2**62
"""Times in ms this far from 1970 may have a window that ends at no time of 64 bits."""


class WindowGroups(ABC):
    """Puts records of a key group into their windows together.

    Args:
        current: Takes the current key and window.
        contents: The contents of the current key and window.
        register: Registers a timer of event time of the current key and window.
    """

    @staticmethod
    def of(
        declared: WindowDeclaration,
        current: CurrentKey,
        contents: StoredContents,
        register: Callable[[int], None],
        merging: MergingWindowSet | None,
    ) -> WindowGroups | None:
        """Return what puts records into these windows together; None if that could be noticed.

        A class that a user derives from one of ours may do anything between two records.

        Args:
            declared: The windows, as the user declared them.
            current: Takes the current key and window.
            contents: The contents of the current key and window.
            register: Registers a timer of event time of the current key and window.
            merging: The windows of the current key, where windows merge.
        """
        assigner, lateness = declared.assigner, declared.allowed_lateness
        if declared.evictor is not None or type(declared.trigger) is not EventTimeTrigger:
            return None
        if type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows):
            return _AlignedGroups(current, contents, register, assigner, lateness)
        if type(assigner) is EventTimeSessionWindows and merging is not None and not lateness:
            gap = assigner.fixed_gap
            assert gap is not None
            return _SessionGroups(current, contents, register, merging, gap)
        return None

    def __init__(
        self, current: CurrentKey, contents: StoredContents, register: Callable[[int], None]
    ) -> None:
        self._current, self._contents, self._register = current, contents, register

    def prepare(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        timestamps: Sequence[int | None],
        watermark: int,
    ) -> PreparedTogether | None:
        """Prepare to put records into their windows, as `NamespacedFunction.add_bulk`.

        What a fold or an element raises comes as it is.

        Args:
            keys: The key of each record, in its frozen form.
            values: The element of each record.
            timestamps: The event time of each record in ms, or None.
            watermark: The watermark of the operator in ms.
        """
        if not keys or None in timestamps:
            return None
        times: Sequence[int] = timestamps  # type: ignore[assignment]
        first = min(times)
        if first < -_FAR or max(times) > _FAR:
            return None
        return self._prepare(keys, values, times, watermark, first)

    @abstractmethod
    def _prepare(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        times: Sequence[int],
        watermark: int,
        first: int,
    ) -> PreparedTogether | None:
        """Prepare records that all have a time; `first` is the earliest one."""


class _AlignedGroups(WindowGroups):
    """Windows that begin at the same times for all keys.

    The records of a key between two times at which its windows change are a *run*: they are in the
    same windows.  So a record costs one look-up, however many windows it is in.
    """

    def __init__(
        self,
        current: CurrentKey,
        contents: StoredContents,
        register: Callable[[int], None],
        assigner: Any,
        lateness: int,
    ) -> None:
        super().__init__(current, contents, register)
        self._find_spell, self._lateness = assigner.find_spell, lateness
        self._overlap = assigner.overlap

    def _prepare(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        times: Sequence[int],
        watermark: int,
        first: int,
    ) -> PreparedTogether | None:
        # With one record in each, windows that overlap are faster one by one, by a half.
        if self._overlap and len(keys) < 2 * len(set(keys)):
            return None
        alone: set[Any] = set()
        if self._lateness and first <= watermark:
            alone = {key for key, time in zip(keys, times) if time <= watermark}
        runs: list[tuple[Any, Sequence[Any], list[Any]]] = []
        latest: dict[Any, tuple[int, list[Any]]] = {}
        low = high = 0  # no time is between them
        windows: Sequence[Any] = ()
        find_run, some_are_left = latest.get, bool(alone)
        for key, value, time in zip(keys, values, times):
            if not low <= time < high:
                low, high, windows = self._open_at(time, watermark)
            run = find_run(key)
            if run is not None and run[0] == low:
                run[1].append(value)
            elif not windows:
                some_are_left = some_are_left or time <= watermark
            elif not alone or key not in alone:
                begun = [value]
                latest[key] = low, begun
                runs.append((key, windows, begun))
        left: Sequence[int] = ()
        if some_are_left:
            left = [
                number
                for number, (key, time) in enumerate(zip(keys, times))
                if key in alone or (time <= watermark and not self._open_at(time, watermark)[2])
            ]
        groups: list[tuple[Any, Any, list[list[Any]]]] = []
        by_key: dict[Any, dict[Any, list[list[Any]]]] = {}
        ready, prepare = self._contents.choose_steps(values)
        for key, windows, elements in runs:
            part, mine = ready(elements), by_key.get(key)
            if mine is None:
                mine = by_key[key] = {}
            for window in windows:
                parts = mine.get(window)
                if parts is None:
                    mine[window] = parts = [part]
                    groups.append((key, window, parts))
                else:
                    parts.append(part)
        current, prepared = self._current, []
        for current.key, current.namespace, parts in groups:
            prepared.append(prepare(parts[0] if len(parts) == 1 else [*chain.from_iterable(parts)]))
        return PreparedTogether(left, lambda: self._write(groups, prepared))

    def _open_at(self, time: int, watermark: int) -> tuple[int, int, list[Any]]:
        """Return a spell, and the namespaces of its windows that are not over."""
        low, high, windows = self._find_spell(time)
        return low, high, [each.namespace for each in windows if each.end - 1 > watermark]

    def _write(self, groups: list[tuple[Any, Any, list[list[Any]]]], prepared: list[Any]) -> None:
        current, store, register = self._current, self._contents.store, self._register
        lateness = self._lateness
        for (current.key, window, _), stored in zip(groups, prepared):
            current.namespace = window
            store(stored)
            last = window[1] - 1
            register(last)
            if lateness and last + lateness < MAX_WATERMARK:
                register(last + lateness)


@attrs.define(eq=False)
class _Session:
    """A session of a key in this micro-batch.

    Args:
        key: The key in its frozen form.
        target: The namespace of its contents.
        start: The first time in ms.
        end: The time after the last one in ms.
        is_noted: Whether the set of windows will be told of it, as it is new or has grown.
        elements: What is added to its contents.
    """

    key: Any
    target: Any
    start: int
    end: int
    is_noted: bool = False
    elements: list[Any] = attrs.field(factory=list)


class _SessionGroups(WindowGroups):
    """Sessions with one gap, without a lateness."""

    def __init__(
        self,
        current: CurrentKey,
        contents: StoredContents,
        register: Callable[[int], None],
        merging: MergingWindowSet,
        gap: int,
    ) -> None:
        super().__init__(current, contents, register)
        self._merging, self._gap = merging, gap

    def _prepare(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        times: Sequence[int],
        watermark: int,
        first: int,
    ) -> PreparedTogether:
        gap = self._gap
        alone: set[Any] = set()
        latest_over = watermark - gap + 1
        if first <= latest_over:
            alone = {key for key, time in zip(keys, times) if time <= latest_over}
        # Each list ends with the latest session: that is where most records belong.
        known: dict[Any, list[_Session]] = {}
        # What is written to each table, in the order of single records.
        touched: list[_Session] = []
        noted: list[_Session] = []
        timed: list[_Session] = []
        for key, value, time in zip(keys, values, times):
            sessions = known.get(key)
            if sessions is None:
                if key in alone:
                    continue
                found = self._load(key, watermark)
                if found is None:
                    alone.add(key)
                    continue
                sessions = known[key] = found
            end = time + gap
            session = sessions[-1] if sessions else None
            if session is None or time > session.end:
                session = _Session(key, (time, end), time, end, is_noted=True)
                sessions.append(session)
                noted.append(session)
            elif time >= session.start:
                if end > session.end:
                    session.end = end
                    if not session.is_noted:
                        session.is_noted = True
                        noted.append(session)
            else:
                met = [each for each in sessions if each.start <= end and time <= each.end]
                if len(met) > 1:  # they become one, and their contents are merged, too
                    alone.add(key)
                    del known[key]
                    continue
                if met:
                    (session,) = met
                    is_noted = session.start <= time and end <= session.end
                    session.start, session.end = min(time, session.start), max(end, session.end)
                else:
                    session, is_noted = _Session(key, (time, end), time, end), False
                    sessions.insert(0, session)
                if not (is_noted or session.is_noted):
                    session.is_noted = True
                    noted.append(session)
            if not session.elements:
                touched.append(session)
                # A session that has grown keeps its first timer, which sees to the next one when it
                # fires.
                if session.target == (session.start, session.end):
                    timed.append(session)
            session.elements.append(value)
        left: Sequence[int] = ()
        if alone:
            left = [number for number, key in enumerate(keys) if key in alone]
            touched, noted, timed = (
                [each for each in some if each.key not in alone] for some in (touched, noted, timed)
            )
        current, prepared = self._current, []
        ready, prepare = self._contents.choose_steps(values)
        for each in touched:
            current.key, current.namespace = each.key, each.target
            prepared.append(prepare(ready(each.elements)))
        return PreparedTogether(left, lambda: self._write(touched, prepared, noted, timed))

    def _load(self, key: Any, watermark: int) -> list[_Session] | None:
        """Return the sessions of a key, in order; None if one is over.

        With a greater lateness, before a restart, such a session was not over.
        """
        self._current.key = key
        found = [
            _Session(key, target, start, end) for target, (start, end) in self._merging.items()
        ]
        if any(each.end - 1 <= watermark for each in found):
            return None
        return sorted(found, key=lambda each: each.start) if len(found) > 1 else found

    def _write(
        self,
        touched: list[_Session],
        prepared: list[Any],
        noted: list[_Session],
        timed: list[_Session],
    ) -> None:
        current, merging = self._current, self._merging
        store, register = self._contents.store, self._register
        for each in noted:
            current.key = each.key
            merging.grow(each.target, (each.start, each.end))
        for each, stored in zip(touched, prepared):
            current.key, current.namespace = each.key, each.target
            store(stored)
        for each in timed:
            current.key, current.namespace = each.key, each.target
            register(each.target[1] - 1)
