# SPDX-License-Identifier: Apache-2.0
"""The bulk path of windows: all records of a micro-batch go into their windows in one step.

One by one, each record looks up, folds and stores the contents of each of its windows, and
registers their timers.  If no user code runs between two records, `WindowGroups` does the same with
one look-up, one loop over the elements, one write and one timer for each key and window.  The
stored entries, their order and the firings are the same.

`WindowGroups.of` decides which windows can take this path: windows of event time by one of our
assigners, with the default trigger and without an evictor.  Some of their records still go one by
one:

* late records, which go out or are counted;
* with an allowed lateness, all records of a key that has a record at or below the watermark, since
  its windows may fire at once;
* with sessions, all records of a key that may have a late record, or whose sessions merge;
* with windows that overlap, all records if a key has fewer than two on average, since that is
  faster.

The first step prepares all contents, which calls the user's fold; the second step writes them.  So
if a fold raises, the state has not changed, and the records can go one by one, which shows the
record that fails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
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

_FAR: Final = 2**62
"""From this distance from 1970 on, in ms, the end of a window may not fit in 64 bits."""

_Many = Sequence[Any]
_Run = tuple[Any, Sequence[Any], list[Any]]
"""The key, the windows and the elements of a run."""
_Group = tuple[Any, Any, list[list[Any]]]
"""A key, a window, and the runs of the elements in both."""


class WindowGroups(ABC):
    """Puts many records of a key group into their windows in one step.

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
        """Return the bulk path for these windows; None if the user's code could see a difference.

        Args:
            declared: The windows, as the user declared them.
            current: Takes the current key and window.
            contents: The contents of the current key and window.
            register: Registers a timer of event time of the current key and window.
            merging: The windows of the current key if windows merge, else None.
        """
        # `type(...) is`, since a class that a user derives from ours may do anything per record.
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
        self, keys: _Many, values: _Many, timestamps: Sequence[int | None], watermark: int
    ) -> PreparedTogether | None:
        """Prepare to put records into their windows, as `NamespacedFunction.add_bulk`.

        Errors of a fold or an element pass unchanged.

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
        self, keys: _Many, values: _Many, times: Sequence[int], watermark: int, first: int
    ) -> PreparedTogether | None:
        """Prepare records that all have a time; `first` is the earliest one."""


class _AlignedGroups(WindowGroups):
    """Windows that begin at the same times for all keys.

    A *run* is the records of a key that are in the same windows: their times are between two times
    at which windows begin or end.  So a record costs one look-up, however many windows it is in.
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
        self, keys: _Many, values: _Many, times: Sequence[int], watermark: int, first: int
    ) -> PreparedTogether | None:
        # With fewer than two records a key, one by one is faster by a half.
        if self._overlap and len(keys) < 2 * len(set(keys)):
            return None
        alone: set[Any] = set()
        if self._lateness and first <= watermark:
            alone = {key for key, time in zip(keys, times) if time <= watermark}
        runs: list[_Run] = []
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
        # A second look at all records, since most micro-batches leave none.
        left: Sequence[int] = ()
        if some_are_left:
            left = [
                number
                for number, (key, time) in enumerate(zip(keys, times))
                if key in alone or (time <= watermark and not self._open_at(time, watermark)[2])
            ]
        groups, prepared = self._prepare_runs(runs, values)
        return PreparedTogether(left, lambda: self._write(groups, prepared))

    def _prepare_runs(
        self, runs: list[_Run], values: Sequence[Any]
    ) -> tuple[list[_Group], list[Any]]:
        """Prepare the contents of each key and window that the runs are in."""
        groups: list[_Group] = []
        by_key: dict[Any, dict[Any, list[list[Any]]]] = {}
        ready, prepare = self._contents.choose_steps(values)
        # Groups are in the order in which single records would first store them.
        for key, windows, elements in runs:
            part, mine = ready(elements), by_key.setdefault(key, {})
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
        return groups, prepared

    def _open_at(self, time: int, watermark: int) -> tuple[int, int, list[Any]]:
        """Return the span of times around one in the same windows, and their open windows."""
        low, high, windows = self._find_spell(time)
        return low, high, [each.namespace for each in windows if each.end - 1 > watermark]

    def _write(self, groups: list[_Group], prepared: list[Any]) -> None:
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
        is_noted: Whether it is new or has grown, so that the set of windows must be changed.
        elements: The elements to add to its contents.
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
        self, keys: _Many, values: _Many, times: Sequence[int], watermark: int, first: int
    ) -> PreparedTogether:
        alone: set[Any] = set()
        latest_over = watermark - self._gap + 1
        if first <= latest_over:
            alone = {key for key, time in zip(keys, times) if time <= latest_over}
        records = zip(keys, values, times)
        touched, noted, timed = self._find_sessions(records, watermark, alone)
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

    def _find_sessions(
        self, records: Iterable[tuple[Any, Any, int]], watermark: int, alone: set[Any]
    ) -> tuple[list[_Session], list[_Session], list[_Session]]:
        """Put records into sessions; add to `alone` the keys whose records must go one by one.

        Returns:
            The writes to the contents, the set of windows and the timers, each in the order in
            which single records would make them.
        """
        gap = self._gap
        # Each list ends with the latest session, to which most records belong.
        known: dict[Any, list[_Session]] = {}
        touched: list[_Session] = []
        noted: list[_Session] = []
        timed: list[_Session] = []
        for key, value, time in records:
            sessions = known.get(key)
            if sessions is None:
                found = None if key in alone else self._load(key, watermark)
                if found is None:
                    alone.add(key)
                    continue
                sessions = known[key] = found
            end = time + gap
            session = sessions[-1] if sessions else None
            if session is None or time > session.end:
                session, has_grown = _Session(key, (time, end), time, end), True
                sessions.append(session)
            elif time >= session.start:
                has_grown = end > session.end
                if has_grown:
                    session.end = end
            else:
                session, has_grown = self._join_earlier(sessions, key, time)
                if session is None:
                    alone.add(key)
                    del known[key]
                    continue
            if has_grown and not session.is_noted:
                session.is_noted = True
                noted.append(session)
            if not session.elements:
                touched.append(session)
                # A session that has grown keeps its first timer; when that fires, it registers the
                # next one.
                if session.target == (session.start, session.end):
                    timed.append(session)
            session.elements.append(value)
        return touched, noted, timed

    def _join_earlier(
        self, sessions: list[_Session], key: Any, time: int
    ) -> tuple[_Session | None, bool]:
        """Return the session of a record before the latest one, and whether it is new or has grown.

        The session is None if several become one: merging contents is left to single records.
        """
        end = time + self._gap
        met = [each for each in sessions if each.start <= end and time <= each.end]
        if not met:
            sessions.insert(0, _Session(key, (time, end), time, end))
            return sessions[0], True
        if len(met) > 1:
            return None, False
        (session,) = met
        has_grown = time < session.start or session.end < end
        session.start, session.end = min(time, session.start), max(end, session.end)
        return session, has_grown

    def _load(self, key: Any, watermark: int) -> list[_Session] | None:
        """Return the sessions of a key, in order; None if a session is over.

        A stored session can be over if the lateness was greater before a restart.
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
