# SPDX-License-Identifier: Apache-2.0
"""Decodes key groups of images into tables when a read asks for them, and caches them.

This is a worker that never commits: it has the same log, nonce rule, backend, states and stores.
Several images may be read in turn.  A decoded key group is cached under its nonce, so images share
it if it did not change between them.

If the cache has no room for a decoded group, its entries stay as the columns of the log, which take
a fifth of the memory, and each read decodes the entries of one key.  Columns and decoded groups share
`cache_bytes`: columns get up to a half first, since one of them saves reading a whole log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.entry_codec import encode_batch, read_batch
from pyflinklike._changelog.key_group_log import KeyGroupLog
from pyflinklike._changelog.key_group_state import KeyGroupState, timers_table
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Section
from pyflinklike._changelog.stored_table import StoredTable, codes_of
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._runtime.keyed_operator import KeyGroupContext
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend, WarmGroups, weight_of
from pyflinklike.queryable_state.image import GroupLog, Image
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY, NO_NAMESPACE, CurrentKey
from pyflinklike.state.state_assembly import Assembled
from pyflinklike.state.table import Entry, Table, Tables, TableSpec
from pyflinklike.state_processor._logs.state_infos import owner_of
from pyflinklike.stores.state_store import StateStore, StoreContext
from pyflinklike.types import TypeInformation

T = TypeVar("T")
LOG = logging.getLogger("pyflinklike.queryable_state")
_OFTEN = 20
"""The number of repeated loads after which the log warns: so many are no accident."""


class DecodedGroups:
    """The tables of an operator, pointed at one key group of one image at a time.

    Args:
        record: The operator record, which declares the states.
        key_type: The type of the operator's keys.
        states: Names of the states and stores that may be asked for.
        metrics: The counters of loads and bytes, which this object changes.
        has_timers: Whether timers may be asked for.
        cache_bytes: The most bytes that may stay decoded.
        allow_pickle: Whether values may be unpickled.
        wall_clock: Returns the processing time in ms; None uses the image's processing time.
    """

    def __init__(
        self,
        record: OperatorRecord,
        key_type: TypeInformation,
        states: Iterable[str],
        metrics: ReplicaMetrics,
        *,
        has_timers: bool,
        cache_bytes: int,
        allow_pickle: bool,
        wall_clock: Callable[[], int] | None,
    ) -> None:
        self.record = record
        self.key_type = key_type
        self.clock, self.current = Clock(), CurrentKey()
        self.assembled: dict[str, Assembled] = {}
        self._stores: list[StateStore] = []
        self._states = frozenset(states)
        self._timers = frozenset(map(timers_table, TimeDomain)) if has_timers else frozenset()
        self._metrics = metrics
        self._cache, self._cache_bytes = WarmGroups(), cache_bytes
        self._columns = WarmGroups()
        self._sizes: dict[int, int] = {}
        """The weight of each group that was decoded as a whole."""
        self._seen: dict[int, bytes] = {}
        """The nonce at the last load of a group's whole log."""
        self._again, self._has_warned = 0, False
        self._wall_clock = wall_clock
        self._image: Image | None = None
        self._entered: tuple[int, bytes] | None = None
        self._decoded: dict[int, bytes] = {}
        """The nonce at which a group was last decoded as a whole."""
        self._read: dict[int, bytes] = {}
        """The nonce at which a group's columns were last read."""
        backend = HashMapStateBackend(0).create_keyed_state_backend(self.current, "replica")
        self._log = KeyGroupLog(backend, self.key_type, record.identity, _NoCleanup(), metrics)
        self._group = KeyGroupContext(
            backend, self._log, self.assembled, (), allow_pickle=allow_pickle
        )
        self.tables = UnwrittenTables(backend)
        self.declare = self._group.declare
        self.surroundings = StoreContext(
            backend=self.tables,
            clock=self.clock,
            key_type=self.key_type,
            application=record.identity.name,
            on_table=self.declare,
            emit=lambda *_: None,
            wants=lambda _: False,
            timestamp=lambda: None,
            position=self._group.position,
        )

    def join(self, store: StateStore) -> None:
        """Let a store arrange each key group that is decoded from now on."""
        if type(store).arrange is not StateStore.arrange:
            self._stores.append(store)
            self.forget()  # decoded groups may be in another layout

    def forget(self) -> None:
        """Drop everything decoded."""
        self._cache.clear()
        self._columns.clear()
        self._decoded.clear()
        self._read.clear()
        self._sizes.clear()
        self._seen.clear()
        self._entered = None

    def is_decoded(self, image: Image, index: int) -> bool:
        """Return whether a key group of an image can be read without decoding its log."""
        log = image.groups.get(index)
        return log is None or (index, log.head.nonce) in self._cache

    def read(self, image: Image, index: int, key: Any, namespace: Any, ask: Callable[[], T]) -> T:
        """Ask the tables of a key group under one key, and return the answer.

        Args:
            image: The image to read.
            index: The key group of the key.
            key: The frozen key; `GROUP_KEY` for entries that belong to no key.
            namespace: The frozen namespace; `NO_NAMESPACE` for a state without namespaces.
            ask: Reads the tables; its answer must not read them later.
        """
        if image is not self._image:
            self._image = image
            self.clock.processing_time = image.clock.processing_time
            self.clock.watermark = image.clock.watermark
        if self._wall_clock is not None:
            self.clock.processing_time = self._wall_clock()
        self._enter(image, index, key)
        current = self.current
        current.key, current.namespace = key, namespace
        try:
            return ask()
        finally:
            current.key, current.namespace = NO_KEY, NO_NAMESPACE

    def _enter(self, image: Image, index: int, key: Any) -> None:
        """Point the tables at a key group, and decode it if need be."""
        log = image.groups.get(index)
        nonce = b"" if log is None else log.head.nonce
        at = index, nonce
        if at == self._entered:
            return
        self._entered = None
        state = self._cache.use(at)
        if state is None and index in self._decoded:
            # `load` brings the state up to date in place, so reads of its former image must decode
            # the group anew.
            state = self._cache.take((index, self._decoded.pop(index)))
        if log is None:
            self._group.enter(KeyGroupState(index))
        else:
            former = None if state is None else (state.nonce, len(state.pending))
            if state is None and nonce:
                self._note_load(index, nonce)
                if not (key is GROUP_KEY or self._stores) and self._has_no_room(at):
                    self._enter_key(log, index, key)
                    return
            state = self._group.load(log, log.head, state or KeyGroupState(index))
            if nonce and former != (nonce, len(state.pending)):
                self._keep(at, state)
        self._entered = at

    def _has_no_room(self, at: tuple[int, bytes]) -> bool:
        """Return whether the cache would not keep a group whose size is known from before."""
        size = self._sizes.get(at[0])
        return size is not None and not self._cache.has_room(at, size, self._room())

    def _room(self) -> int:
        """Return how many bytes decoded groups may take: half of all, plus what columns leave."""
        return self._cache_bytes - min(self._columns.total_bytes, self._cache_bytes // 2)

    def _enter_key(self, log: GroupLog, index: int, key: Any) -> None:
        """Point the tables at a key group with the entries of one key, for one read."""
        at = index, log.head.nonce
        state = self._columns.use(at)
        if state is None:
            former = self._read.pop(index, None)
            state = None if former is None else self._columns.take((index, former))
            state = self._log.load(log, log.head, state or KeyGroupState(index))
            self._drop_unasked(state)
            self._read[index] = log.head.nonce
            # Columns push decoded groups out, up to a half: a decoded group takes five times the room.
            least = self._cache_bytes // 2
            self._columns.keep(at, state, max(least, self._cache_bytes - self._cache.total_bytes))
            self._cache.shrink(self._room())
            self._count_bytes()
        wanted = self.key_type.to_arrow([key])
        where = self._log.where(index)
        pending = dict(state.pending)
        for name in {spec.name for spec in self._group.specs if not spec.per_group}:
            if name in pending:
                read = [_ReadSection.of(each, self.key_type, where) for each in pending[name]]
                pending[name][:] = read
                found = (_of_key(each, wanted) for each in read)
                pending[name] = [each for each in found if each is not None]
        of_key = KeyGroupState(
            index,
            nonce=state.nonce,
            next_sequence=state.next_sequence,
            declared=dict(state.declared),
            declarations=dict(state.declarations),
            pending=pending,
        )
        self._group.enter(of_key)
        self._metrics.key_loads += 1

    def _note_load(self, index: int, nonce: bytes) -> None:
        """Note whether a group was decoded from this log before; warn if it often was."""
        # A log with another nonce has changed, so its load says nothing about the cache.
        if self._seen.get(index) != nonce:
            self._seen[index] = nonce
            return
        self._again += 1
        self._metrics.repeated_loads += 1
        if self._again >= _OFTEN and not self._has_warned:
            self._warn()

    def _warn(self) -> None:
        self._has_warned = True
        LOG.warning(
            "operator %r: decoded state does not fit in cache_bytes, got %d bytes, and %d reads had to "
            "decode a key group again, which is slow; raise cache_bytes of QueryableState.open, or "
            "name only the states that you read with states=",
            self.record.identity.name,
            self._cache_bytes,
            self._again,
        )

    def _may_be_asked(self, table: str) -> bool:
        return table in self._timers or owner_of(table, self._states) in self._states

    def _drop_unasked(self, state: KeyGroupState) -> None:
        for name in [each for each in state.pending if not self._may_be_asked(each)]:
            del state.pending[name]

    def _keep(self, at: tuple[int, bytes], state: KeyGroupState) -> None:
        self._drop_unasked(state)
        with self.tables.allow_writes(), self.surroundings.under(GROUP_KEY):
            for store in self._stores:
                store.arrange()
        self._group.backend.discard_changes()
        index, nonce = at
        self._decoded[index] = nonce
        self._sizes[index] = weight_of(state)
        self._cache.keep(at, state, self._room())
        self._columns.shrink(self._cache_bytes - self._cache.total_bytes)
        self._count_bytes()

    def _count_bytes(self) -> None:
        self._metrics.decoded_bytes = self._cache.total_bytes + self._columns.total_bytes


@attrs.frozen
class _ReadSection(Section):
    """A section with its columns, which were read from the payload and checked."""

    batch: pa.RecordBatch = attrs.field(eq=False, repr=False, kw_only=True)

    @classmethod
    def of(cls, section: Section, key_type: TypeInformation, where: str) -> _ReadSection:
        """Read a section of a table whose entries belong to keys, unless it was read before."""
        if isinstance(section, cls):
            return section
        spec = StoredTable(section.declaration).spec
        batch = read_batch(section, spec, key_type, where)
        return cls(section.declaration, section.payload, section.where, batch=batch)


def _of_key(section: _ReadSection, wanted: Any) -> Section | None:
    """Return the section with the entries of one key, or None if there are no such entries.

    Args:
        section: A section of all keys.
        wanted: The key, as a column of one row.
    """
    batch = section.batch
    keys = batch.column("key")
    if keys.null_count:
        return section  # damaged: the decoder raises the error
    # Arrow compares no structs, and its NaN does not equal NaN; codes do both.
    if pa.types.is_nested(keys.type) or pa.types.is_floating(keys.type):
        codes = codes_of([pa.concat_arrays([wanted, keys])], 1 + len(keys))
        mine = pc.equal(codes.slice(1), codes[0])
    elif pc.index(keys, wanted[0]).as_py() < 0:  # 3 times as fast; most sections lack the key
        return None
    else:
        mine = pc.equal(keys, wanted[0])
    return Section(section.declaration, encode_batch(batch.filter(mine)), section.where)


class _NoCleanup:
    """The cleanup of a log that is never written."""

    def now(self) -> int:
        """Return some time; a log that is only read does not use it."""
        return 0

    def is_compaction_due(self, compacted_at: int) -> bool:  # noqa: ARG002
        """Return False: a replica compacts no log."""
        return False

    def drop_expired(self) -> None:
        """Do nothing: a replica deletes no entries."""


class UnwrittenTables:
    """The tables of an operator, which drop writes.

    A function's read may remove expired entries, renew a stamp, or count as a use in an LRU store.
    The next read of a replica must not see any of that.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.current: CurrentKey = tables.current
        self.is_persistent: bool = tables.is_persistent
        self.takes_writes = False
        """True while a store arranges the layout that its reads need."""

    def table(self, spec: TableSpec) -> UnwrittenTable:
        """Make the table of a state."""
        return UnwrittenTable(self._tables.table(spec), self)

    @contextmanager
    def allow_writes(self) -> Iterator[None]:
        """Let the tables take writes within the context."""
        self.takes_writes = True
        try:
            yield
        finally:
            self.takes_writes = False


class UnwrittenTable:
    """A `Table` that drops writes; over an `OrderedTable` it is one, too.

    Args:
        table: The table of the backend; reads go to it.
        tables: The tables of the operator, which say whether writes are taken now.
    """

    def __init__(self, table: Table, tables: UnwrittenTables) -> None:
        self.spec = table.spec
        self._table = table
        self._tables = tables
        # Reads go straight to the table.
        self.get, self.multi_get = table.get, table.multi_get
        self.items, self.elements, self.is_empty = table.items, table.elements, table.is_empty
        self.scan, self.count = table.scan, table.count
        if self.spec.ordered:
            self.range = table.range  # type: ignore[attr-defined]

    def put(self, user_key: Any, entry: Entry) -> None:
        """Do nothing, except while a store arranges the layout."""
        if self._tables.takes_writes:
            self._table.put(user_key, entry)

    def delete(self, user_key: Any) -> None:
        """Do nothing, except while a store arranges the layout."""
        if self._tables.takes_writes:
            self._table.delete(user_key)

    def _drop(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    append = clear = multi_put = _drop

    def sweep(self, *_: Any, **__: Any) -> int:
        """Do nothing, and return that no entry was deleted."""
        return 0

    sweep_all = sweep


@attrs.define
class ReplicaMetrics:
    """Sums since the replica was opened.

    Args:
        refreshes: How often the replica looked for newer micro-batches.
        failed_refreshes: How often such a look ended in an error.
        batches: Micro-batches that the replica has read, the first included.
        reopens: How often everything was read anew, because the writes could not be followed.
        stored_bytes: Size in bytes of the logs that the replica holds, as they are stored.
        key_groups: Loads of a key group for a read.
        warm_loads: Loads of a group that was decoded already.
        caught_up_loads: Loads that decoded only the newer part of a log.
        cold_loads: Loads that decoded a whole log.
        repeated_loads: Loads of a group that was decoded before and had not changed, because
            `cache_bytes` had no room for it.
        key_loads: Loads that decoded only one key for one read, because `cache_bytes` had no room
            for its group.
        decoded_bytes: Upper bound of the memory of all groups in the cache, in bytes.
        compactions: Always 0, since a replica writes no log.
        segment_bytes: Always 0, for the same reason.
        dropped_entries: Always 0, for the same reason.
    """

    refreshes: int = 0
    failed_refreshes: int = 0
    batches: int = 0
    reopens: int = 0
    stored_bytes: int = 0
    key_groups: int = 0
    warm_loads: int = 0
    caught_up_loads: int = 0
    cold_loads: int = 0
    repeated_loads: int = 0
    key_loads: int = 0
    decoded_bytes: int = 0
    compactions: int = attrs.field(default=0, repr=False)
    segment_bytes: int = attrs.field(default=0, repr=False)
    dropped_entries: int = attrs.field(default=0, repr=False)
