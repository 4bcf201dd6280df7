# SPDX-License-Identifier: Apache-2.0
"""A state of a replica: reads under any key, each answered of one micro-batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from pyflinklike.clock import DurationLike
from pyflinklike.errors import ScanDisabledError, StateAccessError
from pyflinklike.replay.described import StateInfo
from pyflinklike.replica.version import Version

__all__ = ["Pick", "ReadOnly", "ReadOnlyState"]

Pick = Callable[..., Version]
"""Chooses the version to read, by `at_least_batch`, `max_age` and `timeout`."""

_WRITING = frozenset(
    (
        *("put", "put_all", "put_if_absent", "multi_put", "delete", "remove", "clear", "pop"),
        *("popitem", "setdefault", "update", "add", "add_all", "flush"),
    )
)


class ReadOnly:
    """The base of states and stores that can only be read: every method that writes is refused.

    Args:
        info: The description of the state or store.
        pick: Chooses the version to read.
        allow_scan: Whether all key groups may be decoded for an answer.
    """

    def __init__(self, info: StateInfo, pick: Pick, *, allow_scan: bool) -> None:
        self.info = info
        """The description of the state or store, as it was when this object was made."""
        self._pick = pick
        self._allow_scan = allow_scan

    @property
    def name(self) -> str:
        """The name with which it was declared."""
        return self.info.name

    def __getattr__(self, name: str) -> Any:
        if name in _WRITING:
            return functools.partial(self._refuse, name)
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    def _refuse(self, verb: str, *_: Any, **__: Any) -> NoReturn:
        msg = f"{self.info.kind} {self.name!r}: a replica is only read, got {verb}()"
        raise StateAccessError(f"{msg}; write in the function, or edit a Savepoint")

    def _check_scan(self, verb: str) -> None:
        if not self._allow_scan:
            msg = f"{self.info.kind} {self.name!r}: scans must be allowed, got {verb}(), which"
            raise ScanDisabledError(
                f"{msg} decodes every key group; open_state(..., allow_scan=True)"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.info.kind!r})"


class ReadOnlyState(ReadOnly):
    """A state of a running query, under any key.

    Reducing and aggregating state is shown as it is stored; for aggregating state that is the
    accumulator.  Values expire by the clock of the micro-batch, as they do for the function.
    """

    def get(
        self,
        key: Any = None,
        *,
        namespace: Any = None,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> Any:
        """Return the value, list or dict of a key, or None; it belongs to the caller.

        Args:
            key: The key, a tuple if there are several key columns; None for broadcast state.
            namespace: The window, for state of windows.
            at_least_batch: The number of the micro-batch to wait for; None waits for none.
            max_age: Look for newer batches first if the last look is longer ago than this.
            timeout: The longest wait; by default that of `open_state`.

        Raises:
            StateValueError: The key is not a value of the key columns.
            StaleStateError: The replica has not come to that batch within the timeout.
            CorruptStateError: The log of the key group is damaged.
            StoreClosedError: The replica is closed.
        """
        version = self._pick(at_least_batch, max_age, timeout)
        return version.of_state(self.name, key, namespace)

    def get_many(
        self,
        keys: Iterable[Any],
        *,
        namespace: Any = None,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> dict[Any, Any]:
        """Return, as `get`, what is stored for each key that has an entry, all of one micro-batch."""
        version = self._pick(at_least_batch, max_age, timeout)
        found = ((key, version.of_state(self.name, key, namespace)) for key in keys)
        return {key: value for key, value in found if value is not None}

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return all keys with what is stored for them, all of one micro-batch, in no fixed order.

        The key of state of windows is a pair of key and window, that of broadcast state None.

        Raises:
            ScanDisabledError: The replica was not opened with `allow_scan=True`.
        """
        self._check_scan("items")
        return self._pick(None, None, None).all_of_state(self.name)
