# SPDX-License-Identifier: Apache-2.0
"""Timers as columns: the table is that of a `TimerQueue`, but many timers fire in one call.

A key sees no difference to timers that fire one by one.  Its timers fire in ascending time, each
is removed before the function is called for it, and what the function registers or deletes in
that call counts for the later ones.

So timers fire in *waves*.  A wave has the earliest due timer of every key that has one, in the
order of time.  Most keys have at most one due timer, so there is mostly one wave.  Timers of
different keys keep the order of their times within a wave only.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.clock import MAX_WATERMARK, TimeDomain
from pyflinklike.columns.map_table import MapTable
from pyflinklike.errors import UserFunctionError
from pyflinklike.runtime.timer_queue import MOST_AT_THE_END, next_round
from pyflinklike.state.agenda import Agenda, timers_spec

__all__ = ["ColumnTimerQueue"]

_NONE = np.zeros(0, np.int64)


class ColumnTimerQueue:
    """The timers of one domain in the current key group.

    Args:
        domain: The clock that the timers follow.
        backend: One with column tables.
    """

    def __init__(self, domain: TimeDomain, backend: Any) -> None:
        self.domain = domain
        self.is_quiesced = self.has_ignored = False
        self.table: MapTable = backend.column_table(timers_spec(domain))
        self._firing: list[Any] | None = None

    def enter(self, agendas: dict[TimeDomain, Agenda]) -> None:
        """Do nothing: the table alone holds the timers, without an agenda."""

    def register(self, rows: Any, timestamps: Any) -> None:
        """Add timers; do nothing where one exists.

        A quiesced queue adds none, and remembers that it ignored some.

        Args:
            rows: The rows of their keys.
            timestamps: NumPy array of int64 in ms.
        """
        if not len(rows):
            return
        table, columns = self.table, self.table.columns
        places = np.unique(table.places(rows, pa.array(timestamps)))
        added = places[~table.present(places)]
        if self.is_quiesced:
            self.has_ignored = self.has_ignored or len(added) > 0
            return
        table.put(added, None)
        if columns.least is not None:
            columns.least = min(columns.least, int(timestamps.min()))
        if self._firing is not None:
            self._firing.append(added)

    def delete(self, rows: Any, timestamps: Any) -> None:
        """Remove timers; do nothing where there is none."""
        if len(rows):
            self.table.remove(np.unique(self.table.places(rows, pa.array(timestamps))))

    def due(self, now: int) -> Generator[tuple[Any, Any], None, None]:
        """Remove the timers that are due, wave by wave.

        Between two waves the function may register and delete timers.  Close the generator:
        timers that it has not yielded then stay due.

        Args:
            now: The time of the domain in ms.

        Yields:
            The rows of keys, none twice, and the timestamps in ms, which ascend.

        Raises:
            UserFunctionError: The function registers timers without end.
        """
        if self._earliest_known() > now:
            return
        table = self.table
        self._firing, late = [], _NONE
        try:
            places = self._until(now)
            waves, rounds, allowed = 0, 0, self._most_of_a_key(places)
            before = _NONE, _NONE
            while len(places):
                wave, rest = self._first_of_each_key(places)
                table.remove(wave)
                rows, times = table.entries.rows(wave), table.entries.user_keys(wave)
                rounds = self._counted(rounds, before, (rows, times))
                waves += 1
                # At the end of the input every timer is due, so one that always registers again never ends.
                if now == MAX_WATERMARK and waves > allowed:
                    _refuse_endless()
                yield rows, times
                before = rows, times
                places, late = self._left(rest, late, now)
        finally:
            self._firing = None
            table.columns.least = None  # timers have gone: the earliest is unknown

    def _until(self, now: int) -> Any:
        places = self.table.all_rows()
        return places[self.table.entries.user_keys(places) <= now]

    def _most_of_a_key(self, places: Any) -> int:
        rows = self.table.entries.rows(places)
        return MOST_AT_THE_END + (int(np.bincount(rows).max()) if len(rows) else 0)

    def _first_of_each_key(self, places: Any) -> tuple[Any, Any]:
        """Split timers into the earliest of each key, in the order of time, and the rest."""
        rows, times = self.table.entries.rows(places), self.table.entries.user_keys(places)
        order = np.lexsort((times, rows))
        is_first = np.ones(len(order), bool)
        is_first[1:] = np.diff(rows[order]) != 0
        wave = order[is_first]
        return places[wave[np.argsort(times[wave], kind="stable")]], places[order[~is_first]]

    def _left(self, rest: Any, late: Any, now: int) -> tuple[Any, Any]:
        """Return the timers due after a wave, and those that wait for the next advance."""
        assert self._firing is not None
        table = self.table
        if self._firing:
            added = np.unique(np.concatenate(self._firing))
            self._firing.clear()
            added = added[table.present(added)]
            times = table.entries.user_keys(added)
            if self.domain is TimeDomain.PROCESSING_TIME:
                # A timer for "now" waits: in Flink the clock goes on while timers fire; here it stands still.
                is_late = (times == now) & ~np.isin(added, rest)
                late = np.union1d(late, added[is_late])
            rest = np.setdiff1d(np.union1d(rest, added[times <= now]), late)
        return rest[table.present(rest)], late

    def _counted(self, rounds: int, before: Any, wave: tuple[Any, Any]) -> int:
        """Count the waves in which some key has a timer no later than its timer of the last wave."""
        (rows, times), (former_rows, former) = wave, before
        _, here, there = np.intersect1d(rows, former_rows, assume_unique=True, return_indices=True)
        again = times[here] <= former[there]
        return next_round(rounds, int(times[here][again][0])) if again.any() else rounds

    def _earliest_known(self) -> float:
        """Return a time no later than the earliest timer's, in ms; infinity without timers."""
        columns = self.table.columns
        if not columns.count:
            return float("inf")
        if columns.least is None:
            places = self.table.all_rows()
            columns.least = int(self.table.entries.user_keys(places).min())
        return columns.least

    def earliest(self) -> int | None:
        """Return the time of the earliest timer in ms, or None."""
        self.table.columns.least = None  # the timer that it came from may have been deleted
        return None if self._earliest_known() == float("inf") else self.table.columns.least

    def count(self) -> int:
        """Count the timers of the key group."""
        return self.table.count()


def _refuse_endless() -> None:
    msg = (
        f"on_timers must come to an end when time does, got more than {MOST_AT_THE_END:,} timers "
        "that it registered for one key at the end of the input; register none where "
        "ctx.current_watermark() is MAX_WATERMARK"
    )
    raise UserFunctionError(msg)
