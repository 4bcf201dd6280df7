# SPDX-License-Identifier: Apache-2.0
"""The common part of all stores: a name, a life cycle, tables and a changelog.

A store reads and writes tables, as states do (`pyflinklike.state.table`).  It has no storage of its
own and does not know the backend.  So its durability, restore and savepoints are the same as for
any state.

This module has, from top to bottom: the base class of stores; the log of their changes and its
cache (not to be confused with the log of a key group, which makes state durable); cursors; the
context of a store; and the registry of an operator's stores.
"""

from __future__ import annotations

import heapq
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

import attrs

from pyflinklike._messages import short_repr
from pyflinklike._runtime.call_contexts import Surroundings
from pyflinklike.errors import (
    CursorClosedError,
    DeclarationValueError,
    StateValueError,
    StoreClosedError,
    StoreNotInitializedError,
    StoreValueError,
)
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.table import (
    MISSING,
    Entry,
    OrderedTable,
    Shape,
    Table,
    TableSpec,
)
from pyflinklike.stores.store_codec import KeyCodec
from pyflinklike.stores.store_descriptors import StoreDescriptor
from pyflinklike.stores.store_records import ChangelogRecord
from pyflinklike.types import TypeInformation

T = TypeVar("T")

LOG = logging.getLogger("pyflinklike.stores")


class StateStore:
    """The base of all stores; obtained with `runtime_context.get_store(descriptor)`.

    All methods but `close` and the properties need an open store and a current key, as with state.

    Args:
        descriptor: The declaration of the store.
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
            IncompatibleStateError: The restored state of this name was declared otherwise.
        """
        self._context = context
        self._table = context.make_ordered_table(self._descriptor.spec())
        self._open_tables(context)
        tag = self._descriptor.changelog_tag
        if self._descriptor.changelog and context.wants(tag.tag_id):
            self._changes = WriteBackLog(
                self._name,
                tag,
                context,
                self._table,
                self._key_for_log,
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
        """The declared name of the store."""
        return self._name

    @property
    def scope(self) -> str:
        """`key` if each current key has its own store, `partition` if a key group shares one."""
        return self._descriptor.scope

    @property
    def is_open(self) -> bool:
        """True if the store was opened and not closed."""
        return self._context is not None and not self._is_closed

    @property
    def is_persistent(self) -> bool:
        """True if its working state is on a local disk; it is durable either way."""
        context = self._context
        if context is None or self._is_in_memory:
            return False
        return context.backend.is_persistent

    @property
    def changelog_name(self) -> str:
        """`<operator>-<store>-changelog`, as Kafka Streams names the topic.

        Raises:
            StoreNotInitializedError: The store was never opened.
        """
        if self._context is None:
            raise self._not_initialized()
        return f"{self._context.application}-{self._name}-changelog"

    @property
    def changelog_config(self) -> dict[str, str]:
        """The declared settings of the topic, and Kafka Streams' defaults for all others."""
        return self._descriptor.topic_config()

    @property
    def position(self) -> dict[int, int]:
        """For each key group, the number of commits that the store's contents include."""
        return self._ready().position()

    def flush(self) -> None:
        """Log the changes in the cache; the end of a micro-batch does this, too."""
        self._ready()
        if self._changes is not None:
            self._changes.flush()

    def close(self) -> None:
        """Flush, close the cursors and refuse further use; a second call does nothing."""
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
        """Close without a flush, because the operator has ended; uncommitted changes are lost."""
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

    # The runtime calls these

    def drop_expired(self) -> None:
        """Delete the expired entries of every key of the group; a compaction does this."""

    def arrange(self) -> None:
        """Move the entries of the current key group to the present layout, if it has changed."""

    def _each_key(self) -> list[Any]:
        """Return the frozen keys that have entries."""
        return list({key: None for key, _, _ in self._table.scan()})

    # Tables

    def _spec_of(self, part: str, **fields: Any) -> Any:
        """Return the spec of a helper table, `<store>/<part>`; names of stores have no slash."""
        spec = self._descriptor.spec()
        return attrs.evolve(spec, name=f"{self._name}/{part}", **fields)

    def _single(self, part: str, value_type: TypeInformation, **fields: Any) -> Table:
        """Return a helper table that has one entry under each key, or in the key group."""
        plain = {"shape": Shape.SINGLE, "ordered": False, "user_key_type": None, "paired": False}
        return self._ready().table(self._spec_of(part, value_type=value_type, **plain, **fields))

    def _check(self, value: Any) -> Any:
        """Freeze a value for `_put`: None becomes `MISSING`."""
        return MISSING if value is None else self._frozen(value)

    def _put(self, user_key: bytes, frozen: Any) -> None:
        if frozen is MISSING:
            self._delete_entry(user_key)
        else:
            self._put_entry(user_key, frozen, frozen)

    def _frozen(self, value: Any) -> Any:
        try:
            return self._freeze(value)
        except StateValueError as error:
            msg = f"store {self._name!r}: {error}"
            raise StateValueError(msg) from error.__cause__

    def _put_entry(
        self, user_key: bytes, entry: Entry, value: Any, timestamp: int | None = None
    ) -> None:
        """Write an entry, and note the change; `value` is the part of the entry to log."""
        # First the note: it looks up whether the entry is there before this write.
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

    def _key_for_log(self, key: Any, user_key: bytes) -> Any:
        assert self._context is not None
        parts = self._parts(user_key)
        if self._descriptor.scope == "key":
            parts = (self._context.key_type.thaw_key(key), *parts)
        return parts[0] if len(parts) == 1 else parts

    def _parts(self, user_key: bytes) -> tuple[Any, ...]:
        """Return the parts of an entry's user key, in the user's form."""
        return (self._codec.decode(user_key)[0],)

    # Reading

    def _cursor(self, found: Sequence[Any], decode: Callable[[Any], T]) -> Cursor[T]:
        return Cursor(self._name, found, decode, self._ready().cursors)

    def _key_bounds(self, key_from: Any, key_to: Any) -> tuple[bytes | None, bytes | None] | None:
        """Return the bytes of an inclusive range of keys; None if the range is empty."""
        begin = None if key_from is None else self._codec.encode(key_from)
        end = None if key_to is None else self._codec.encode(key_to)
        if begin is not None and end is not None and begin > end:
            LOG.warning(
                "store %r: the range from %s to %s is empty; are its ends in the wrong order?",
                self._name,
                short_repr(key_from),
                short_repr(key_to),
            )
            return None
        return begin, end

    def _refusal(self, message: str) -> StoreValueError:
        return StoreValueError(f"store {self._name!r}: {message}")


# The changelog, and the write-back cache in front of it
#
# A write goes to the store's table at once, so reads only look there, and the log of the key group
# makes it durable.  The cache holds *changes*: if an entry is written many times between two
# flushes, only the last write becomes a `ChangelogRecord`.  The records come in the order of these
# last writes.  If an entry did not exist before and does not exist afterwards, it gets no record.
#
# The cache is flushed at the end of each micro-batch (in a harness: of each call), by `flush()`,
# and when it has too many entries.  Kafka's cache flushes everything, too, when it evicts a changed
# entry.  A restore writes to the tables directly, so it logs no changes.


MAX_DIRTY = 65_536
"""The largest number of entries whose changes wait for a flush."""


@attrs.define(eq=False)
class WriteBackLog:
    """The changes of a store that wait to be logged.

    Args:
        store: The name of the store.
        tag: The side output of the records.
        context: The context of the store.
        table: The table of the entries.
        logged_key: Returns the key of a record for a frozen current key and a user key.
        thaw: Returns the user's form of a value.
        is_caching: True if changes wait for a flush.
    """

    _store: str
    _tag: OutputTag
    _context: StoreContext
    _table: Table
    _logged_key: Callable[[Any, bytes], Any]
    _thaw: Callable[[Any], Any]
    _is_caching: bool = attrs.field(kw_only=True)
    _dirty: dict[tuple[Any, bytes], tuple[bool, Any, int | None, Any]] = attrs.field(
        init=False, factory=dict
    )

    def note(self, user_key: bytes, value: Any, timestamp: int | None) -> None:
        """Note a write that is about to happen.

        Args:
            user_key: The user key of the entry.
            value: The frozen value to come; `MISSING` if the entry is deleted.
            timestamp: The time of the record in ms.
        """
        where, writer = self._where(user_key), self._context.key
        write_buffer = self._context.write_buffer
        if not self._is_caching:
            if value is not MISSING or self._table.get(user_key) is not MISSING:
                self._log(where, value, timestamp, writer)
        elif write_buffer is None:
            self._keep(where, self._was_there(where), value, timestamp, writer)
        else:
            # The table must be asked now, before the write; the change waits for the call's
            # success.
            was_there = self._was_there(where)
            write_buffer.do_later(lambda: self._keep(where, was_there, value, timestamp, writer))

    def _was_there(self, where: tuple[Any, bytes]) -> bool:
        """Return whether the entry was there at the last flush."""
        former = self._dirty.get(where)
        return self._table.get(where[1]) is not MISSING if former is None else former[0]

    def _keep(
        self,
        where: tuple[Any, bytes],
        was_there: bool,
        value: Any,
        timestamp: int | None,
        writer: Any,
    ) -> None:
        """Keep a change for the next flush, in place of an earlier change of the entry."""
        former = self._dirty.pop(where, None)  # a key written again moves to the end
        was_there = was_there if former is None else former[0]
        self._dirty[where] = was_there, value, timestamp, writer
        if len(self._dirty) > MAX_DIRTY:
            self._flush()

    def log(self, user_key: bytes, value: Any, timestamp: int | None) -> None:
        """Log a write at once; the arguments are the same as for `note`."""
        self._log(self._where(user_key), value, timestamp, self._context.key)

    def flush(self) -> None:
        """Log the changes that wait; if a call runs, this waits until it has succeeded."""
        write_buffer = self._context.write_buffer
        if write_buffer is None:
            self._flush()
        else:
            write_buffer.do_later(self._flush)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for where, (was_there, value, timestamp, writer) in dirty.items():
            if was_there or value is not MISSING:
                self._log(where, value, timestamp, writer)

    def _where(self, user_key: bytes) -> tuple[Any, bytes]:
        key = GROUP_KEY if self._table.spec.per_group else self._context.key
        return key, user_key

    def _log(
        self, where: tuple[Any, bytes], value: Any, timestamp: int | None, writer: Any
    ) -> None:
        key, user_key = where
        is_gone = value is MISSING
        record = ChangelogRecord(
            self._store,
            self._logged_key(key, user_key),
            None if is_gone else self._thaw(value),
            timestamp,
            "delete" if is_gone else "put",
        )
        self._context.emit(self._tag, record, writer)


# Cursors
#
# A cursor is a snapshot: it does not see changes after it was opened.  It closes itself at its end,
# or at the latest at the end of the call that opened it.  In that case we give a `ResourceWarning`,
# because the same program on Kafka Streams would leak the iterator.


class OpenCursors:
    """The cursors that are open in the current call."""

    def __init__(self) -> None:
        self._open: dict[int, Cursor[Any]] = {}

    def add(self, cursor: Cursor[Any]) -> None:
        """Remember a cursor until it is closed."""
        self._open[id(cursor)] = cursor

    def discard(self, cursor: Cursor[Any]) -> None:
        """Forget a closed cursor."""
        self._open.pop(id(cursor), None)

    def end_call(self) -> None:
        """Close the cursors that the call has left open, with a warning for each."""
        while self._open:
            _, cursor = self._open.popitem()
            cursor.close()
            warnings.warn(
                f"a cursor over store {cursor.store!r} was left open; read it to its end, "
                "close() it, or open it in a `with` block",
                ResourceWarning,
                stacklevel=2,
            )

    def close_of(self, store: str) -> None:
        """Close the cursors over a store that closes."""
        for cursor in [each for each in self._open.values() if each.store == store]:
            cursor.close()


class Cursor(Iterator[T], Generic[T]):
    """An iterator over the results of a read; also a context manager.

    Args:
        store: The name of the store.
        found: The items in their stored form.
        decode: Converts an item from its stored form.
        opened: The open cursors; this one adds itself, and removes itself when it closes.
    """

    def __init__(
        self, store: str, found: Sequence[Any], decode: Callable[[Any], T], opened: OpenCursors
    ) -> None:
        self.store = store
        """Name of the store."""
        self._found: Sequence[Any] = found
        self._decode = decode
        self._opened = opened
        self._next = 0
        self._is_closed = False
        self._is_exhausted = False
        opened.add(self)

    @classmethod
    def merged(cls, cursors: Sequence[Cursor[T]], *, reverse: bool) -> Cursor[T]:
        """Make one cursor over the items of several, and close these.

        Args:
            cursors: At least one unread cursor, each over the same store in another key group.
            reverse: True if they begin with the last items.
        """
        # The first part of a raw item gives the order: its user key, or its time.
        found = heapq.merge(*(each._found for each in cursors), key=itemgetter(0), reverse=reverse)
        first = cursors[0]
        merged = cls(first.store, list(found), first._decode, OpenCursors())
        for each in cursors:
            each.close()
        return merged

    @property
    def closed(self) -> bool:
        """True if the cursor was closed, or read to its end."""
        return self._is_closed or self._is_exhausted

    def __next__(self) -> T:
        self._check()
        if self._next >= len(self._found):
            self._is_exhausted = True
            self._found = ()
            self._next = 0
            self._opened.discard(self)
            raise StopIteration
        item = self._decode(self._found[self._next])
        self._next += 1
        return item

    def peek(self) -> T | None:
        """Return the next item without moving on; None at the end.

        Raises:
            CursorClosedError: The cursor was closed.
        """
        self._check()
        return self._decode(self._found[self._next]) if self._next < len(self._found) else None

    def close(self) -> None:
        """Release the items; a second call does nothing."""
        self._is_closed = True
        self._found = ()
        self._opened.discard(self)

    def __enter__(self) -> Cursor[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cursor({self.store!r}, closed={self.closed})"

    def _check(self) -> None:
        if self._is_closed:
            msg = (
                f"a cursor can be read until it is closed and within the call that opened it, "
                f"got a read of one over store {self.store!r} after that; open another one"
            )
            raise CursorClosedError(msg)


# The operator that a store runs in


@attrs.frozen(kw_only=True)
class StoreContext(Surroundings):
    """The surroundings of the stores of one operator.

    Args:
        cursors: The cursors that are open.
    """

    cursors: OpenCursors = attrs.field(factory=OpenCursors)

    @property
    def key(self) -> Any:
        """The current key, frozen."""
        return self.backend.current.key

    def table(self, spec: TableSpec) -> Table:
        """Return the table of a spec, with its restored entries."""
        table = self.backend.table(spec)
        self.on_table(spec)
        return table

    def make_ordered_table(self, spec: TableSpec) -> OrderedTable:
        """Return the ordered table of a spec, with its restored entries."""
        return cast(OrderedTable, self.table(spec))

    def under(self, key: Any) -> _Under:
        """Make a key current for the length of a `with` block."""
        return _Under(self, key)


class _Under:
    def __init__(self, context: StoreContext, key: Any) -> None:
        self._current = context.backend.current
        self._key = key

    def __enter__(self) -> None:
        self._former = self._current.key
        self._current.key = self._key

    def __exit__(self, *_: object) -> None:
        self._current.key = self._former


# The stores of one operator: made once, flushed and closed with it

_NOT_DURABLE = {"name", "key_type", "value_type", "caching", "changelog", "changelog_config"}
"""Fields of a descriptor that do not matter to stored entries, or are described separately."""


class StoreRegistry:
    """The stores of an operator by name.

    Args:
        surroundings: The operator's backend, clock and other parts that stores use.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._context = StoreContext(**attrs.asdict(surroundings, recurse=False))
        self._stores: dict[str, tuple[StoreDescriptor, StateStore]] = {}

    def __contains__(self, name: object) -> bool:
        """Return whether a table of this name belongs to a store."""
        return isinstance(name, str) and name.partition("/")[0] in self._stores

    def open(self, descriptor: StoreDescriptor) -> StateStore:
        """Return the store of a declaration; an equal declaration gives the same store.

        Raises:
            DeclarationValueError: Another declaration has the same name.
            IncompatibleStateError: The restored state of this name does not fit.
        """
        known = self._stores.get(descriptor.name)
        if known is not None:
            former, store = known
            if former != descriptor:
                msg = (
                    f"store {descriptor.name!r} is already declared as {former!r}, "
                    f"got {descriptor!r}; use another name or the same descriptor"
                )
                raise DeclarationValueError(msg)
            return store
        opened: StateStore = descriptor.new_store()
        opened.init(self._context)
        self._stores[descriptor.name] = descriptor, opened
        return opened

    def get(self, name: str) -> StateStore:
        """Return the store of a name."""
        return self._stores[name][1]

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return the stores by name, as plain data: kind, signatures of their types, options."""
        return {name: describe_store(descriptor) for name, (descriptor, _) in self._stores.items()}

    def begin_call(self) -> None:
        """Close cursors that the previous call left open, before a record or timer."""
        self._context.cursors.end_call()

    def flush(self) -> None:
        """Log the changes in the caches, at the end of a micro-batch of the current key group."""
        self._context.cursors.end_call()
        for _, store in self._stores.values():
            if store.is_open:
                store.flush()

    def drop_expired(self) -> None:
        """Delete the expired entries of all stores in the current key group."""
        for _, store in self._stores.values():
            if store.is_open:
                store.drop_expired()

    def close(self) -> None:
        """Refuse further use of the stores, because the operator ends."""
        for _, store in self._stores.values():
            store.abandon()


def describe_store(descriptor: StoreDescriptor) -> dict[str, Any]:
    """Describe a store as plain data: kind, signatures of its types, options."""
    options = {
        field.name: getattr(descriptor, field.name)
        for field in attrs.fields(type(descriptor))
        if field.name not in _NOT_DURABLE
    }
    return {
        "store": descriptor.noun,
        "key": descriptor.key_type.signature,
        "value": descriptor.value_type.signature,
        **options,
    }


StoreDescriptor._make_extension = StoreRegistry
