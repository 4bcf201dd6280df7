# SPDX-License-Identifier: Apache-2.0
"""The session store: aggregates under a key and the times of a session's first and last event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

import attrs

from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.state.table import MISSING
from pyflinklike.stores.state_store import Cursor
from pyflinklike.stores.store_codec import INT_SIZE, read_int
from pyflinklike.stores.store_descriptors import ExpiringStoreDescriptor
from pyflinklike.stores.store_records import (
    AbsorbedSession,
    SessionKey,
    SessionUpdate,
    TimeLike,
    WindowedKeyValue,
)
from pyflinklike.stores.timed_store import Found, SegmentedStore
from pyflinklike.types import TypeInformation, Types


@attrs.frozen
class SessionStoreDescriptor(ExpiringStoreDescriptor[K, V]):
    """The declaration of a `SessionStore`.

    Args:
        retention: The stream time for which sessions are kept after their end; at least the gap
            and the grace together.  A `Time`, `Duration`, `timedelta` or an int of ms.
        segments: The number of time segments with live sessions, as in a `WindowStoreDescriptor`.
        stream_time: The progress by which sessions expire: "key", "partition" or "watermark".  None
            takes the same as the scope.
    """

    noun = "session"

    def _key_fields(self) -> tuple[tuple[str, TypeInformation], ...]:
        return (("key", self.key_type), ("start", Types.LONG()), ("end", Types.LONG()))

    def new_store(self) -> SessionStore[K, V]:
        """Make the store, not yet opened."""
        return SessionStore(self)


class SessionStore(SegmentedStore, Generic[K, V]):
    """A store of sessions and their aggregates, as Kafka Streams' SessionStore.

    Start and end are the times of the first and last event, both included; they may be equal.  A
    session is expired if its end is `<= stream time - retention`.  The sessions of one key come in
    the order of their ends; sessions of several keys come by segment, then by key, then by end.
    """

    _expires_by = "session end"
    _numbers = 2

    def put(self, key: K, start: TimeLike, end: TimeLike, agg: V | None) -> None:
        """Store the aggregate of a session; None removes the session.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
            StoreValueError: The end is before the start.
        """
        self._ready()
        encoded, first, last = self._session(key, start, end)
        frozen = self._check(agg)
        if self._admit(last):
            self._put(self._at(encoded, last, first), frozen)
        else:
            self._drop(key, agg, last)

    def remove(self, key: K, start: TimeLike, end: TimeLike) -> None:
        """Remove a session; if it is missing, this does nothing."""
        self._ready()
        encoded, first, last = self._session(key, start, end)
        self._check_layout()
        self._delete_entry(self._at(encoded, last, first))

    def fetch_session(self, key: K, start: TimeLike, end: TimeLike) -> V | None:
        """Return the aggregate of exactly this session, or None."""
        self._ready()
        encoded, first, last = self._session(key, start, end)
        expired = self._expiry_bound()
        if expired is not None and last <= expired:
            return None
        entry = self._table.get(self._at(encoded, last, first))
        if entry is MISSING:
            return None
        agg: V = self._thaw(entry)
        return agg

    def fetch(self, key: K, *, reverse: bool = False) -> Cursor[WindowedKeyValue]:
        """Return all sessions of a key."""
        return self.find_sessions(key, None, None, reverse=reverse)

    def fetch_range(
        self, key_from: K | None = None, key_to: K | None = None, *, reverse: bool = False
    ) -> Cursor[WindowedKeyValue]:
        """Return all sessions of keys from one to another, both included; None is an open end."""
        return self.find_sessions_range(key_from, key_to, None, None, reverse=reverse)

    def find_sessions(
        self,
        key: K,
        earliest_end: TimeLike | None = None,
        latest_start: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return the sessions of a key that end from `earliest_end` on and start by `latest_start`.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        self._ready()
        encoded = self._codec.encode(key)
        ends, starts = self._bound(earliest_end), self._bound(latest_start)
        found = self._of_key(encoded, ends, None, reverse=reverse)
        return self._cursor(self._find_begun(found, starts), self._to_windowed)

    def find_sessions_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        earliest_end: TimeLike | None = None,
        latest_start: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return the sessions of a range of keys, both bounds included; None is an open end.

        The sessions end from `earliest_end` on and start by `latest_start`.
        """
        self._ready()
        keys = self._key_bounds(key_from, key_to)
        ends, starts = self._bound(earliest_end), self._bound(latest_start)
        found = [] if keys is None else self._of_keys(keys, ends, None, reverse=reverse)
        return self._cursor(self._find_begun(found, starts), self._to_windowed)

    def find_ended_sessions(
        self,
        earliest_end: TimeLike | None = None,
        latest_end: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return the sessions of all keys that end from one time to another, both included."""
        self._ready()
        first, last = self._bound(earliest_end), self._bound(latest_end)
        found = self._of_keys((None, None), first, last, reverse=reverse)
        return self._cursor(found, self._to_windowed)

    def add(
        self,
        key: K,
        timestamp: TimeLike,
        value: Any,
        *,
        gap: DurationLike,
        initializer: Callable[[], V],
        aggregator: Callable[[K, Any, V], V],
        merger: Callable[[K, V, V], V],
        grace: DurationLike = 0,
    ) -> SessionUpdate:
        """Add an event: to a session, to a new one, or as the bridge between several.

        This is Kafka Streams' session aggregation.  A session takes in events that are at most
        `gap` away, the gap itself included.  An event is late if the session that it would make has
        ended too long ago.  So an old event is accepted if it joins a live session.

        Args:
            key: The key of the event.
            timestamp: The time of the event in ms, or a datetime with a time zone.
            value: The value to aggregate; None is skipped, and counted in `skipped_records`.
            gap: The longest silence within a session, as a duration or an int of ms.
            initializer: Returns the aggregate of no event.
            aggregator: Takes key, value and aggregate, and returns the aggregate with the value.
            merger: Takes the key and two aggregates, and returns the aggregate of both.
            grace: The time for which a session stays open for late events, beyond the gap.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
            StoreValueError: The gap is not positive, the grace is negative, or the
                retention is smaller than both together.
        """
        self._ready()
        encoded = self._codec.encode(key)
        at = self._instant(timestamp, "timestamp")
        silence, wait = self._lengths(gap, grace)
        if value is None:
            self.skipped_records += 1
            return SessionUpdate([], None, None, late=False)
        self._admit(at)
        near = self._find_begun(
            self._of_key(encoded, at - silence, None, reverse=False), at + silence
        )
        merged = [self._to_windowed(each) for each in near]
        start = min([at, *(each.start for each in merged)])
        end = max([at, *(each.end for each in merged)])
        if self._is_late(end, silence + wait):
            self._drop(key, value, at)
            return SessionUpdate([], None, None, late=True)
        agg = initializer()
        for each in merged:
            agg = merger(key, agg, each.value)
        agg = aggregator(key, value, agg)
        frozen = self._check(agg)
        removed = [] if (start, end) == (at, at) else self._absorb(key, encoded, merged)
        self._put(self._at(encoded, end, start), frozen)
        return SessionUpdate(removed, SessionKey(key, start, end), agg, late=False)

    def _is_late(self, end: int, wait: int) -> bool:
        """Return whether a session with this end is already closed or expired."""
        now = self._now()
        return now is not None and (end < now - wait or end <= now - self.retention)

    def _absorb(
        self, key: K, encoded: bytes, merged: list[WindowedKeyValue]
    ) -> list[AbsorbedSession]:
        """Delete the sessions that become part of another one."""
        for each in merged:
            self._delete_entry(self._at(encoded, each.end, each.start))
        return [AbsorbedSession.of(key, each.start, each.end, each.value) for each in merged]

    skipped_records = 0
    """The number of events without a value that this instance skipped."""

    def _lengths(self, gap: DurationLike, grace: DurationLike) -> tuple[int, int]:
        silence = to_milliseconds(gap, f"store {self._name!r}: gap")
        wait = to_milliseconds(grace, f"store {self._name!r}: grace")
        if silence <= 0:
            raise self._refusal(f"gap must be positive, got {short_repr(gap)}; give at least 1 ms")
        if wait < 0:
            raise self._refusal(
                f"grace must not be negative, got {short_repr(grace)}; give 0 for none"
            )
        if self.retention < silence + wait:
            raise self._refusal(
                f"retention must be no smaller than gap and grace together, got retention "
                f"{self.retention} ms and {silence} + {wait} ms; declare a longer retention"
            )
        return silence, wait

    def _session(self, key: K, start: TimeLike, end: TimeLike) -> tuple[bytes, int, int]:
        encoded = self._codec.encode(key)
        first = self._instant(start, "start")
        last = self._instant(end, "end")
        if last < first:
            raise self._refusal(
                f"a session must not end before it starts, got start {first} and end {last}; "
                "swap them"
            )
        return encoded, first, last

    def _find_begun(self, found: list[Found], latest_start: int | None) -> list[Found]:
        if latest_start is None:
            return found
        return [each for each in found if read_int(each[0], -INT_SIZE) <= latest_start]

    def _parts(self, user_key: bytes) -> tuple[Any, ...]:
        return self._key_of(user_key), read_int(user_key, -INT_SIZE), self._time_of(user_key)

    def _to_windowed(self, found: Found) -> WindowedKeyValue:
        key, start, end = self._parts(found[0])
        return WindowedKeyValue(key, self._thaw(found[1]), start, end)
