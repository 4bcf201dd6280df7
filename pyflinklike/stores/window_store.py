# SPDX-License-Identifier: Apache-2.0
"""The window store: values under a key and the start of a window."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

import attrs

from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.errors import DeclarationValueError, StateValueError
from pyflinklike.state.table import MISSING
from pyflinklike.stores.state_store import Cursor
from pyflinklike.stores.store_codec import INT_SIZE, LAST, encode_int, read_int
from pyflinklike.stores.store_descriptors import ExpiringStoreDescriptor, at_least, check_bool
from pyflinklike.stores.store_records import TimeLike, WindowedKeyValue, saturate
from pyflinklike.stores.timed_store import Found, SegmentedStore
from pyflinklike.types import TypeInformation, Types

D = TypeVar("D")


def to_window_size(length: DurationLike) -> int:
    """Convert a `window_size` to ms."""
    return to_milliseconds(length, "window_size")


def check_window_size(descriptor: Any, _: Any, given: int) -> None:
    """Refuse more than the retention."""
    if descriptor.retention < given:
        msg = (
            f"store {descriptor.name!r}: retention must be no smaller than window_size, got "
            f"retention {descriptor.retention} ms and window_size {given} ms; raise the former"
        )
        raise DeclarationValueError(msg)


@attrs.frozen
class WindowStoreDescriptor(ExpiringStoreDescriptor[K, V]):
    """The declaration of a `WindowStore`.

    Args:
        window_size: The length of a window: a `Time`, `Duration`, `timedelta` or an int of ms.
        retention: The stream time for which windows are kept after their start, likewise.
        segments: The number of time segments with live windows.  A segment lasts
            `retention / (segments - 1)`, at least a minute.
        retain_duplicates: True if a key may have several values in one window.
        stream_time: The progress by which windows expire: "key", "partition" (the key group)
            or "watermark".  None takes the same as the scope.
    """

    noun = "window"

    retain_duplicates: bool = attrs.field(kw_only=True, default=False, validator=check_bool)
    window_size: int = attrs.field(
        kw_only=True,
        converter=to_window_size,
        validator=[at_least(1, "give the length of a window", " ms"), check_window_size],
    )

    def _kind(self) -> str:
        values = "several values" if self.retain_duplicates else "one value"
        return f"{super()._kind()}, {values} per window of {self.window_size} ms"

    def _key_fields(self) -> tuple[tuple[str, TypeInformation], ...]:
        number = (("number", Types.LONG()),) if self.retain_duplicates else ()
        return (("key", self.key_type), ("window_start", Types.LONG()), *number)

    def new_store(self) -> WindowStore[K, V]:
        """Make the store, not yet opened."""
        return WindowStore(self)


class WindowStore(SegmentedStore, Generic[K, V]):
    """A store of values under a key and the start of a window, as Kafka Streams' WindowStore.

    Bounds of time apply to a window's *start*, and both are included.  None is an open bound; in
    Kafka, a `timeTo` of None is the present wall-clock time, which hides windows of the future.  A
    window is expired if its start is `<= stream time - retention`.  The windows of one key come by
    time; windows of several keys come by segment, then by key, then by time.
    """

    _expires_by = "window start"

    def __init__(self, descriptor: WindowStoreDescriptor) -> None:
        super().__init__(descriptor)
        self.window_size: int = descriptor.window_size
        """Length of a window in ms."""
        self.retain_duplicates: bool = descriptor.retain_duplicates
        """Whether a key may have several values in one window."""
        self._numbers = 2 if self.retain_duplicates else 1

    @property
    def _can_cache(self) -> bool:
        return not self._descriptor.retain_duplicates  # type: ignore[attr-defined]

    def put(self, key: K, value: V | None, window_start: TimeLike | None = None) -> None:
        """Store the value of a window; None deletes it, or does nothing with duplicates.

        Args:
            key: The key of the value.
            value: The value of the window.
            window_start: The start of the window, which need not be a multiple of the size.  None
                takes the window of the current element.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
            StoreValueError: No start is given, and the current element has no time.
        """
        context = self._ready()
        encoded = self._codec.encode(key)
        if window_start is None:
            now = context.timestamp()
            if now is None:
                msg = (
                    "a window needs a start, but the current element has no time; "
                    "give window_start="
                )
                raise self._refusal(msg)
            start = now // self.window_size * self.window_size
        else:
            start = self._instant(window_start, "window_start")
        frozen = self._check(value)
        if not self._admit(start):
            self._drop(key, value, start)
        elif not self.retain_duplicates:
            self._put(self._at(encoded, start), frozen)
        elif value is not None:
            self._put(self._next(encoded, start), frozen)

    @overload
    def get(self, key: K, window_start: TimeLike) -> V | None: ...
    @overload
    def get(self, key: K, window_start: TimeLike, default: V) -> V: ...
    @overload
    def get(self, key: K, window_start: TimeLike, default: D) -> V | D: ...
    def get(self, key: K, window_start: TimeLike, default: Any = None) -> Any:
        """Return the value of the window with this start, or the default.

        Raises:
            StateValueError: The key is None, something does not fit its type, or the store retains
                duplicates, so that a window has no single value.
        """
        self._ready()
        if self.retain_duplicates:
            msg = (
                f"store {self._name!r}: point lookup undefined with retain_duplicates, "
                f"got one of {short_repr(key)}; use fetch()"
            )
            raise StateValueError(msg)
        encoded = self._codec.encode(key)
        start = self._instant(window_start, "window_start")
        expired = self._expiry_bound()
        if expired is not None and start <= expired:
            return default
        entry = self._table.get(self._at(encoded, start))
        return default if entry is MISSING else self._thaw(entry)

    def fetch(
        self,
        key: K,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[tuple[int, V]]:
        """Return the windows of a key that begin from one time to another: (start in ms, value).

        Raises:
            StateValueError: The key is None, or something does not fit its type.
        """
        self._ready()
        encoded = self._codec.encode(key)
        begin, end = self._bound(time_from, "time_from"), self._bound(time_to, "time_to")
        found = self._of_key(encoded, begin, end, reverse=reverse)
        return self._cursor(found, self._to_start_and_value)

    def fetch_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return the windows of all keys from one to another that begin from one time to another.

        All bounds are included; None is an open end.

        Raises:
            StateValueError: Something does not fit its type.
        """
        self._ready()
        keys = self._key_bounds(key_from, key_to)
        begin, end = self._bound(time_from, "time_from"), self._bound(time_to, "time_to")
        found = [] if keys is None else self._of_keys(keys, begin, end, reverse=reverse)
        return self._cursor(found, self._to_windowed)

    def all(self, *, reverse: bool = False) -> Cursor[WindowedKeyValue]:
        """Return all windows of all keys."""
        return self.fetch_range(reverse=reverse)

    def fetch_all(
        self,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return the windows of all keys that begin from one time to another."""
        return self.fetch_range(None, None, time_from, time_to, reverse=reverse)

    # Entries

    def _next(self, key: bytes, start: int) -> bytes:
        """Return the user key of the next duplicate, after the others of its window."""
        window = self._at(key, start)
        for user_key, _ in self._table.range(window, window + LAST, backwards=True, limit=1):
            return window + encode_int(read_int(user_key, -INT_SIZE) + 1)
        return window + encode_int(0)

    def _parts(self, user_key: bytes) -> tuple[Any, ...]:
        start = self._time_of(user_key)
        if not self.retain_duplicates:
            return self._key_of(user_key), start
        return self._key_of(user_key), start, read_int(user_key, -INT_SIZE)

    def _to_start_and_value(self, found: Found) -> tuple[int, V]:
        return self._time_of(found[0]), self._thaw(found[1])

    def _to_windowed(self, found: Found) -> WindowedKeyValue:
        key, start, *_ = self._parts(found[0])
        end = saturate(start + self.window_size)
        return WindowedKeyValue(key, self._thaw(found[1]), start, end)
