# SPDX-License-Identifier: Apache-2.0
"""What all stores have in common: a name, a life, tables and a changelog.

A store is a client of tables, as states are: it has no storage of its own and
does not know which backend it is on.  Working state, durability, restore and
savepoints are therefore those of any state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from pyflinklike.errors import (
    StateValueError,
    StoreClosedError,
    StoreNotInitializedError,
    StoreValueError,
)
from pyflinklike.shown import shown
from pyflinklike.state.table import MISSING, Entry, OrderedTable
from pyflinklike.stores.changes import WriteBackLog
from pyflinklike.stores.codec import KeyCodec
from pyflinklike.stores.context import StoreContext
from pyflinklike.stores.cursor import Cursor
from pyflinklike.stores.descriptors import StoreDescriptor

__all__ = ["LOG", "StateStore"]

T = TypeVar("T")

LOG = logging.getLogger("pyflinklike.stores")


class StateStore:
    """Base of all stores; obtained with `runtime_context.get_store(descriptor)`.

    Every method but `close` and the properties needs a store that is open and a
    current key, as state does.

    Args:
        descriptor: What the store was declared as.
    """

    _is_in_memory = False

    def __init__(self, descriptor: StoreDescriptor) -> None:
        self._descriptor = descriptor
        self._name = descriptor.name
        self._codec = KeyCodec(descriptor.name, descriptor.key_type)
        self._context: StoreContext | None = None
        self._is_closed = False
        self._changes: WriteBackLog | None = None
        self._table: OrderedTable
        self._freeze: Callable[[Any], Any] = descriptor.value_type.freeze
        self._thaw: Callable[[Any], Any] = descriptor.value_type.thaw

    # Life

    def init(self, context: StoreContext) -> None:
        """Open the store in an operator; `get_store` does this.

        Raises:
            IncompatibleStateError: What was restored under its name is something else.
        """
        self._context = context
        self._table = context.ordered_table(self._descriptor.spec())
        self._open_tables(context)
        tag = self._descriptor.changelog_tag
        if self._descriptor.changelog and context.wants(tag.tag_id):
            self._changes = WriteBackLog(
                self._name,
                tag,
                context,
                self._table,
                self._logged_key,
                self._thaw,
                is_caching=self._descriptor.caching and self._can_cache,
            )

    def _open_tables(self, context: StoreContext) -> None:
        """Open the helper tables that this kind of store has."""

    @property
    def _can_cache(self) -> bool:
        return True

    @property
    def name(self) -> str:
        """The name it was declared with."""
        return self._name

    @property
    def scope(self) -> str:
        """Whether each current key has a store of its own, "key", or all of a group one, "partition"."""
        return self._descriptor.scope

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed."""
        return self._context is not None and not self._is_closed

    @property
    def is_persistent(self) -> bool:
        """Whether its working state lies on a local disk; it is durable either way."""
        context = self._context
        if context is None or self._is_in_memory:
            return False
        return context.backend.is_persistent

    @property
    def changelog_name(self) -> str:
        """`<operator>-<store>-changelog`, as Kafka Streams names the topic.

        Raises:
            StoreNotInitializedError: It was never opened.
        """
        if self._context is None:
            raise self._not_initialized()
        return f"{self._context.application}-{self._name}-changelog"

    @property
    def changelog_config(self) -> dict[str, str]:
        """The topic's settings: those declared over Kafka Streams' defaults for this kind."""
        return self._descriptor.topic_config()

    @property
    def position(self) -> dict[int, int]:
        """How many commits the store's contents include, by key group."""
        return self._ready().position()

    def flush(self) -> None:
        """Log what the cache holds; the end of a micro-batch does this, too."""
        self._ready()
        if self._changes is not None:
            self._changes.flush()

    def close(self) -> None:
        """Flush, close the cursors and refuse further use; closing again does nothing."""
        if self._is_closed:
            return
        context = self._context
        try:
            if context is not None:
                self.flush()
        finally:
            self._is_closed = True
            if context is not None:
                context.cursors.close_of(self._name)

    def abandon(self) -> None:
        """Close without a flush: the operator has ended, and what was not committed is lost."""
        self._is_closed = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def _ready(self) -> StoreContext:
        context = self._context
        if context is None:
            raise self._not_initialized()
        if self._is_closed:
            msg = f"store {self._name!r} is closed, got an access; ask for it anew in open()"
            raise StoreClosedError(msg)
        return context

    def _not_initialized(self) -> StoreNotInitializedError:
        return StoreNotInitializedError(
            f"store {self._name!r} is not open, got an access; "
            "obtain it with runtime_context.get_store(descriptor)"
        )

    # What the runtime calls

    def drop_expired(self) -> None:
        """Delete what expired under every key of the group; a compaction does this."""

    def arrange(self) -> None:
        """Bring the current key group into the layout declared now, where that has changed."""

    def _each_key(self) -> list[Any]:
        """The keys, frozen, that have entries."""
        return list({key: None for key, _, _ in self._table.scan()})

    # Tables

    def _spec_of(self, part: str, **fields: Any) -> Any:
        """The spec of a helper table, `<store>/<part>`; names of stores have no slash."""
        spec = self._descriptor.spec()
        return attrs.evolve(spec, name=f"{self._name}/{part}", **fields)

    def _frozen(self, value: Any) -> Any:
        try:
            return self._freeze(value)
        except StateValueError as error:
            msg = f"store {self._name!r}: {error}"
            raise StateValueError(msg) from error.__cause__

    def _put_entry(
        self, user_key: bytes, entry: Entry, value: Any, timestamp: int | None = None
    ) -> None:
        """Write an entry, and note the change; `value` is the logged part of it."""
        if self._changes is not None:
            self._changes.note(user_key, value, self._time(timestamp))
        self._table.put(user_key, entry)

    def _delete_entry(self, user_key: bytes, timestamp: int | None = None) -> None:
        if self._changes is not None:
            self._changes.note(user_key, MISSING, self._time(timestamp))
        self._table.delete(user_key)

    def _time(self, timestamp: int | None) -> int | None:
        assert self._context is not None
        return self._context.timestamp() if timestamp is None else timestamp

    def _logged_key(self, key: Any, user_key: bytes) -> Any:
        assert self._context is not None
        parts = self._parts(user_key)
        if self._descriptor.scope == "key":
            parts = (self._context.key_type.thaw_key(key), *parts)
        return parts[0] if len(parts) == 1 else parts

    def _parts(self, user_key: bytes) -> tuple[Any, ...]:
        """What tells an entry from the others, in the user's form."""
        return (self._codec.decode(user_key)[0],)

    # Reading

    def _cursor(self, found: Sequence[Any], decode: Callable[[Any], T]) -> Cursor[T]:
        return Cursor(self._name, found, decode, self._ready().cursors)

    def _key_bounds(self, key_from: Any, key_to: Any) -> tuple[bytes | None, bytes | None] | None:
        """The bytes of an inclusive range of keys; None where it can hold nothing."""
        begin = None if key_from is None else self._codec.encode(key_from)
        end = None if key_to is None else self._codec.encode(key_to)
        if begin is not None and end is not None and begin > end:
            LOG.warning(
                "store %r: the range from %s to %s is empty; are its ends in the wrong order?",
                self._name,
                shown(key_from),
                shown(key_to),
            )
            return None
        return begin, end

    def _refuse(self, message: str) -> StoreValueError:
        return StoreValueError(f"store {self._name!r}: {message}")
