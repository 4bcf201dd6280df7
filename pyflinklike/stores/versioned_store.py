# SPDX-License-Identifier: Apache-2.0
"""The versioned store: the values of a key by the time from which they are valid.

A version is one entry under (key, time), and the end of its validity is the time of the next entry.
So a late version needs one write, even between two others.  A deletion is an entry, too, with None.
"""

from __future__ import annotations

from typing import Generic

import attrs

from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.state.table import MISSING, Entry
from pyflinklike.stores.state_store import Cursor
from pyflinklike.stores.store_codec import INT_SIZE, LAST, encode_int, read_int
from pyflinklike.stores.store_descriptors import DAY, TimedStoreDescriptor, at_least
from pyflinklike.stores.store_records import NOT_PUT, TimeLike, VersionedRecord
from pyflinklike.stores.timed_store import TimedStore

_Version = tuple[int, Entry]


def to_history(length: DurationLike) -> int:
    """Convert a `history_retention` to ms."""
    return to_milliseconds(length, "history_retention")


@attrs.frozen
class VersionedStoreDescriptor(TimedStoreDescriptor[K, V]):
    """The declaration of a `VersionedStore`, to which `caching` makes no difference.

    Args:
        history_retention: The stream time for which the past can be read and changed: a `Time`,
            `Duration`, `timedelta` or an int of ms.
        stream_time: The progress by which versions are forgotten: "key", "partition" (the key
            group) or "watermark".  None takes the same as the scope.
    """

    noun = "versioned"
    _is_nullable = True

    history_retention: int = attrs.field(
        kw_only=True,
        converter=to_history,
        validator=at_least(0, "give 0 to keep the latest version only", " ms"),
    )

    def _topic_defaults(self) -> dict[str, str]:
        lag = self.history_retention + DAY
        return {"cleanup.policy": "compact", "min.compaction.lag.ms": str(lag)}

    def new_store(self) -> VersionedStore[K, V]:
        """Make the store, not yet opened."""
        return VersionedStore(self)


class VersionedStore(TimedStore, Generic[K, V]):
    """A store of values by the time from which they are valid.

    It is Kafka Streams' VersionedKeyValueStore.

    A version is valid until the next version of its key begins.  The store forgets a version that
    ended before `stream time - history_retention`, but never the latest version.  Each write is
    logged, because a cache would lose versions.
    """

    def __init__(self, descriptor: VersionedStoreDescriptor) -> None:
        super().__init__(descriptor)
        self.history_retention: int = descriptor.history_retention
        """The stream time for which the past can be read and changed, in ms."""

    @property
    def _can_cache(self) -> bool:
        return False

    def put(self, key: K, value: V | None, timestamp: TimeLike) -> int | None:
        """Store a version; None means that the key has no value from then on.

        Returns:
            The time in ms until which the version is valid: None if it is the latest one, and
            `NOT_PUT` if it is older than the history and was not stored.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        self._ready()
        encoded, at = self._codec.encode(key), self._instant(timestamp)
        frozen = None if value is None else self._frozen(value)
        now = self._advance(at)
        if now is not None and at < now - self.history_retention:
            self._skip("store %r: skipped an expired version of time %r", at)
            return NOT_PUT
        version = encoded + encode_int(at)
        if self._changes is not None:
            # Log a deletion even if the key had no value before, because it is a version, too.
            self._changes.log(version, MISSING if frozen is None else frozen, at)
        self._table.put(version, frozen)
        if now is not None:
            self._forget(encoded, now - self.history_retention)
        return self._valid_to(encoded, at)

    def get(self, key: K, as_of: TimeLike | None = None) -> VersionedRecord | None:
        """Return the version that is valid, now or at a time.

        The result is None if no version is valid, or the version is forgotten.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        self._ready()
        encoded = self._codec.encode(key)
        latest = self._last(encoded, None)
        if latest is None:
            return None
        if as_of is None or latest[0] <= (at := self._instant(as_of)):
            return self._record(latest, None)
        now = self._now()
        if now is not None and at < now - self.history_retention:
            return None
        version = self._last(encoded, at)
        return None if version is None else self._record(version, self._valid_to(encoded, at))

    def delete(self, key: K, timestamp: TimeLike) -> VersionedRecord | None:
        """Let the key have no value from a time on, and return the version valid at that time."""
        former = self.get(key, timestamp)
        return None if self.put(key, None, timestamp) == NOT_PUT else former

    def history(
        self,
        key: K,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        order: str = "desc",
    ) -> Cursor[VersionedRecord]:
        """Return the versions that were valid at some time from one to another, both included.

        Args:
            key: The key of the versions.
            time_from: First time of the range; None goes back as far as the history.
            time_to: Last time of the range; None is an open end.
            order: "desc" for the latest version first, or "asc".

        Raises:
            StateValueError: The key is None, or something does not fit its type.
            StoreValueError: `order` is another text.
        """
        self._ready()
        if order not in ("asc", "desc"):
            raise self._refusal(
                f"order must be 'asc' or 'desc', got {short_repr(order)}; choose one"
            )
        encoded = self._codec.encode(key)
        begin, end = self._bound(time_from), self._bound(time_to)
        now = self._now()
        oldest = None if now is None else now - self.history_retention
        found = []
        valid_to: int | None = None
        for at, entry in self._versions(encoded):
            is_known = valid_to is None or oldest is None or valid_to > oldest
            is_asked_for = (end is None or at <= end) and (
                begin is None or valid_to is None or valid_to > begin
            )
            if is_known and is_asked_for and entry is not None:
                found.append((at, entry, valid_to))
            valid_to = at
        if order == "asc":
            found.reverse()
        return self._cursor(found, lambda raw: VersionedRecord(self._thaw(raw[1]), raw[0], raw[2]))

    def drop_expired(self) -> None:
        """Delete the forgotten versions of every key of the group."""
        context = self._ready()
        for current in self._each_key():
            with context.under(current):
                now = self._now()
                keys = {user_key[:-INT_SIZE] for user_key, _ in self._table.range()}
                if now is not None:
                    for key in keys:
                        self._forget(key, now - self.history_retention)

    # Versions of a key

    def _versions(
        self, key: bytes, at: int | None = None, limit: int | None = None
    ) -> list[_Version]:
        """Return the versions of a key that begin by `at`, latest first; tombstones are None."""
        end = key + (LAST if at is None else encode_int(at + 1))
        return [
            (read_int(user_key, -INT_SIZE), entry)
            for user_key, entry in self._table.range(key, end, backwards=True, limit=limit)
        ]

    def _last(self, key: bytes, at: int | None) -> _Version | None:
        return next(iter(self._versions(key, at, limit=1)), None)

    def _valid_to(self, key: bytes, at: int) -> int | None:
        """Return the time at which the first version after `at` begins."""
        for user_key, _ in self._table.range(key + encode_int(at + 1), key + LAST, limit=1):
            return read_int(user_key, -INT_SIZE)
        return None

    def _forget(self, key: bytes, oldest: int) -> None:
        """Delete the versions that cannot be read: all that begin by `oldest` but the last.

        The last of them is still valid at `oldest`.  It is deleted, too, if it is a deletion.
        """
        versions = self._versions(key, oldest)
        keeps_first = bool(versions) and versions[0][1] is not None
        for at, _ in versions[keeps_first:]:
            self._table.delete(key + encode_int(at))

    def _record(self, version: _Version, valid_to: int | None) -> VersionedRecord | None:
        at, entry = version
        return None if entry is None else VersionedRecord(self._thaw(entry), at, valid_to)
