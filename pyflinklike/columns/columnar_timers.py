# SPDX-License-Identifier: Apache-2.0
"""Timers as columns: the table is the same as for a `TimerQueue`, but many timers fire in one call.

A key sees no difference to timers that fire one by one.  Its timers fire in ascending time, each
is removed before the function is called for it, and what the function registers or deletes in
that call counts for the later ones.

So timers fire in *waves*.  A wave has the earliest due timer of every key that has one, in the
order of time.  Most keys have at most one due timer, so there is mostly one wave.  Timers of
different keys keep the order of their times within a wave only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike._changelog.key_group_state import TimerHeap, timers_spec
from pyflinklike._checks import warn_of_seconds
from pyflinklike._clock import MAX_WATERMARK, Clock, TimeDomain
from pyflinklike._runtime.call_contexts import ClockReadings
from pyflinklike._runtime.timer_queue import MOST_AT_THE_END, next_round
from pyflinklike.columns.column_tables import BatchRows, MapTable
from pyflinklike.columns.keyed_batch_function import ColumnTimerService
from pyflinklike.columns.value_columns import check_codes, check_mask, plain_array
from pyflinklike.errors import PyflinklikeError, StateValueError, UserFunctionError

_NONE = np.zeros(0, np.int64)


class ColumnTimerQueue:
    """The timers of one domain in the current key group.

    Args:
        domain: The clock that the timers follow.
        backend: A backend with column tables.
    """

    def __init__(self, domain: TimeDomain, backend: Any) -> None:
        self.domain = domain
        self.is_quiesced = self.has_ignored = False
        self.table: MapTable = backend.column_table(timers_spec(domain))
        # While timers fire, `register` notes new ones here, for the next waves.
        self._firing: list[Any] | None = None

    def enter(self, agendas: dict[TimeDomain, TimerHeap]) -> None:
        """Do nothing, because the table alone holds the timers, without a heap."""

    def register(self, rows: Any, timestamps: Any) -> None:
        """Add timers; a timer that exists stays as it is.

        A quiesced queue adds no timers, and remembers that it has ignored some.

        Args:
            rows: The rows of their keys.
            timestamps: The times in ms, as a NumPy array of int64.
        """
        if not len(rows):
            return
        table, columns = self.table, self.table.columns
        places = np.unique(table.places(rows, pa.array(timestamps)))
        added = places[~table.columns.present[places]]
        if self.is_quiesced:
            self.has_ignored = self.has_ignored or len(added) > 0
            return
        table.put(added, None)
        if columns.least is not None:
            columns.least = min(columns.least, int(timestamps.min()))
        if self._firing is not None:
            self._firing.append(added)

    def delete(self, rows: Any, timestamps: Any) -> None:
        """Remove timers, if they exist."""
        if len(rows):
            self.table.remove(np.unique(self.table.places(rows, pa.array(timestamps))))

    def due(self, now: int) -> Generator[tuple[Any, Any], None, None]:
        """Remove the timers that are due, wave by wave.

        Between two waves the function may register and delete timers.  Close the generator, so that
        the timers that it has not yielded stay due.

        Args:
            now: The time of the domain in ms.

        Yields:
            The rows of keys, none twice, and the timestamps in ms, which ascend.

        Raises:
            UserFunctionError: The function registers timers without end.
        """
        earliest = self._earliest_known()
        if earliest > now:
            return
        warn_of_seconds(int(earliest), now)
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
                rounds = self._count_waves(rounds, before, (rows, times))
                waves += 1
                # At the end of the input every timer is due, so a new one in each call never ends.
                if now == MAX_WATERMARK and waves > allowed:
                    _refuse_endless()
                yield rows, times
                before = rows, times
                places, late = self._find_left_timers(rest, late, now)
        finally:
            self._firing = None
            table.columns.least = None  # timers were removed, so the earliest is unknown

    def _until(self, now: int) -> Any:
        places = self.table.all_rows()
        return places[self.table.entries.user_keys(places) <= now]

    def _most_of_a_key(self, places: Any) -> int:
        rows = self.table.entries.rows(places)
        return MOST_AT_THE_END + (int(np.bincount(rows).max()) if len(rows) else 0)

    def _first_of_each_key(self, places: Any) -> tuple[Any, Any]:
        """Split timers into the earliest of each key, in the order of time, and the rest."""
        rows, times = self.table.entries.rows(places), self.table.entries.user_keys(places)
        # lexsort sorts by its last key first: by row, and within a row by time.
        order = np.lexsort((times, rows))
        is_first = np.ones(len(order), bool)
        is_first[1:] = np.diff(rows[order]) != 0
        wave = order[is_first]
        return places[wave[np.argsort(times[wave], kind="stable")]], places[order[~is_first]]

    def _find_left_timers(self, rest: Any, late: Any, now: int) -> tuple[Any, Any]:
        """Return the timers due after a wave, and those that wait for the next advance."""
        assert self._firing is not None
        table = self.table
        if self._firing:
            added = np.unique(np.concatenate(self._firing))
            self._firing.clear()
            added = added[table.columns.present[added]]
            times = table.entries.user_keys(added)
            if self.domain is TimeDomain.PROCESSING_TIME:
                # A new timer for "now" waits for the next advance.  In Flink the clock goes on while
                # timers fire, and here it stands still.
                is_late = (times == now) & ~np.isin(added, rest)
                late = np.union1d(late, added[is_late])
            rest = np.setdiff1d(np.union1d(rest, added[times <= now]), late)
        return rest[table.columns.present[rest]], late

    def _count_waves(self, rounds: int, before: Any, wave: tuple[Any, Any]) -> int:
        """Count the waves in which a key has a timer that is no later than its last one."""
        (rows, times), (former_rows, former) = wave, before
        _, here, there = np.intersect1d(rows, former_rows, assume_unique=True, return_indices=True)
        again = times[here] <= former[there]
        return (
            next_round(rounds, int(times[here][again][0]), "on_timers") if again.any() else rounds
        )

    def _earliest_known(self) -> float:
        """Return a lower bound in ms of the earliest timer; infinity if there are no timers."""
        columns = self.table.columns
        if not columns.count:
            return float("inf")
        if columns.least is None:
            places = self.table.all_rows()
            columns.least = int(self.table.entries.user_keys(places).min())
        return columns.least

    def times_of(self, rows: Any) -> tuple[Any, Any]:
        """Return the timers of keys: for each the number of its key in `rows`, and its time in ms."""
        which, places = self.table.places_of(rows)
        times = self.table.entries.user_keys(places)
        order = np.lexsort((times, which))
        return which[order], times[order]

    def earliest(self) -> int | None:
        """Return the time of the earliest timer in ms, or None."""
        self.table.columns.least = None  # the function may have deleted the timer of this bound
        return None if self._earliest_known() == float("inf") else self.table.columns.least

    def count(self) -> int:
        """Count the timers of the key group."""
        return self.table.count()


def _refuse_endless() -> None:
    msg = (
        "on_timers must stop registering timers at the end of the input, got more than "
        f"{MOST_AT_THE_END:,} for one key; register none if "
        "ctx.current_watermark() is MAX_WATERMARK"
    )
    raise UserFunctionError(msg)


# The timer service


_WHAT = "the time of a timer"
_MOST = 2**63 - 1


@attrs.frozen
class KeyedColumnTimerService(ClockReadings, ColumnTimerService):
    """Registers and deletes the timers of a batch's keys.

    Args:
        batch: Holds the rows of the batch's keys while a call runs.
        refused: The error that a registration raises, for each domain whose timers cannot fire.
    """

    _clock: Clock
    _event_timers: ColumnTimerQueue
    _processing_timers: ColumnTimerQueue
    _batch: BatchRows
    _refused: Mapping[TimeDomain, PyflinklikeError]

    @property
    def queues(self) -> tuple[ColumnTimerQueue, ColumnTimerQueue]:
        """The queue of event time, then the queue of processing time."""
        return self._event_timers, self._processing_timers

    def register_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Register timers that call `on_timers` when the watermark reaches these times."""
        self._register(self._event_timers, timestamps, where, codes)

    def register_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Register timers that call `on_timers` when the processing time reaches these times."""
        self._register(self._processing_timers, timestamps, where, codes)

    def delete_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete event-time timers, if they exist."""
        self._change(self._event_timers.delete, timestamps, where, codes)

    def delete_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete processing-time timers, if they exist."""
        self._change(self._processing_timers.delete, timestamps, where, codes)

    def list_event_time_timers(self) -> tuple[Any, Any]:
        """Return the groups and the times in ms of the event-time timers of the batch's keys."""
        return self._event_timers.times_of(self._rows())

    def list_processing_time_timers(self) -> tuple[Any, Any]:
        """Return the groups and the times in ms of the processing-time timers of the keys."""
        return self._processing_timers.times_of(self._rows())

    def _register(self, queue: ColumnTimerQueue, timestamps: Any, where: Any, codes: Any) -> None:
        if queue.domain in self._refused:
            raise self._refused[queue.domain]
        self._change(queue.register, timestamps, where, codes)

    def _change(
        self, change: Callable[[Any, Any], None], timestamps: Any, where: Any, codes: Any
    ) -> None:
        rows = self._rows()
        if codes is not None:
            rows = rows[check_codes(codes, len(rows), "timers")]
        times = _check(timestamps, len(rows))
        if where is not None:
            is_chosen = check_mask(where, len(rows), "timers", "times")
            rows, times = rows[is_chosen], times[is_chosen]
        change(rows, times)

    def _rows(self) -> Any:
        """Return the rows of the batch's keys, while a call runs."""
        return self._batch.of_call("timers", "use ctx.timer_service() of the call")


def _check(timestamps: Any, count: int) -> Any:
    times = plain_array(timestamps, _WHAT)
    if times.dtype.kind not in "iu" and times.size:
        msg = f"{_WHAT} must be an int of ms, got {times.dtype}; batch.timestamps has such ints"
        raise StateValueError(msg)
    if times.dtype.kind == "u" and times.size and int(times.max()) > _MOST:
        msg = f"{_WHAT} must fit in 64 bits, got {int(times.max())}; give it in ms"
        raise StateValueError(msg)
    if times.ndim and len(times) != count:
        msg = (
            f"timers take one time for each of {count} groups or codes, or one for all, got "
            f"{len(times)}; codes=batch.groups.codes takes one for each record"
        )
        raise StateValueError(msg)
    return np.broadcast_to(times.astype(np.int64), (count,))
