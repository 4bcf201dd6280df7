# SPDX-License-Identifier: Apache-2.0
"""Key groups of images, decoded into tables when a read asks for them, and cached.

This is a worker that never commits: it has the same log, nonce rule, backend, states and stores.
Several images may be read in turn.  A decoded key group is cached under its nonce, so images share
it if it did not change between them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.backends.heap.warm import WarmGroups
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.log.entries import encode_batch
from pyflinklike.log.key_group_log import KeyGroupLog
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.segments import Section
from pyflinklike.log.stored_entries import read_batch
from pyflinklike.log.working_state import WorkingState
from pyflinklike.replay.codes import codes_of
from pyflinklike.replay.described import owner_of
from pyflinklike.replay.table import StoredTable
from pyflinklike.replica.counters import ReplicaMetrics
from pyflinklike.replica.image import GroupLog, Image
from pyflinklike.replica.tables import UnwrittenTables
from pyflinklike.runtime.current_group import CurrentGroup
from pyflinklike.state.agenda import timers_table
from pyflinklike.state.assembly import Assembled
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY, NO_NAMESPACE, CurrentKey
from pyflinklike.stores.base import StateStore
from pyflinklike.stores.context import StoreContext
from pyflinklike.types import TypeInformation

__all__ = ["DecodedGroups"]

T = TypeVar("T")
LOG = logging.getLogger("pyflinklike.replica")
_WHOLE = 8
"""Of so many repeated loads one decodes the whole key group."""
_OFTEN = 20
"""The number of repeated loads after which the log warns: so many are no accident."""


class DecodedGroups:
    """The tables of an operator, pointed at one key group of one image at a time.

    Args:
        record: The operator record, which declares its states.
        key_type: The type of its keys.
        states: Names of the states and stores that may be asked for.
        has_timers: Whether timers may be asked for.
        metrics: Count the loads.
        cache_bytes: The most bytes that may stay decoded.
        allow_pickle: Whether values may be unpickled.
        wall_clock: Returns the processing time in ms; None to use that of the image.
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
        # A client that asks for key after key comes round to the same groups.  If they do not all
        # fit, a least recently used cache would drop just the group that is asked for next.
        self._cache, self._cache_bytes = WarmGroups(in_rounds=True), cache_bytes
        self._seen: dict[int, bytes] = {}  # the nonce at the last load of a group's whole log
        self._again, self._has_warned = 0, False
        self._wall_clock = wall_clock
        self._image: Image | None = None
        self._entered: tuple[int, bytes] | None = None
        self._decoded: dict[int, bytes] = {}
        backend = HashMapStateBackend(0).create_keyed_state_backend(self.current, "replica")
        self._log = KeyGroupLog(backend, self.key_type, record.identity, _NoCleanup(), metrics)
        self._group = CurrentGroup(
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
        self._decoded.clear()
        self._seen.clear()
        self._entered = None

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
            # The state is brought up to date in place, so its former image must decode it anew.
            state = self._cache.take((index, self._decoded.pop(index)))
        if log is None:
            self._group.enter(WorkingState(index))
        else:
            former = None if state is None else (state.nonce, len(state.pending))
            if state is None and nonce and self._has_gone(index, nonce):
                # The cache had no room for the group, so only the key is decoded.  Now and then
                # the whole group is: readers may have turned to it, and then it should stay.
                is_whole = key is GROUP_KEY or self._stores or self._again % _WHOLE == 0
                if not is_whole:
                    self._enter_key(log, index, key)
                    return
            state = self._group.load(log, log.head, state or WorkingState(index))
            if nonce and former != (nonce, len(state.pending)):
                self._keep(at, state)
        self._entered = at

    def _enter_key(self, log: GroupLog, index: int, key: Any) -> None:
        """Point the tables at a key group of which only one key is decoded, for one read."""
        # The whole log is read and checked, but most of the time goes into values.
        state = self._log.load(log, log.head, WorkingState(index))
        wanted = self.key_type.to_arrow([key])
        where = self._log.where(index)
        for name in {spec.name for spec in self._group.specs if not spec.per_group}:
            if name in state.pending:
                found = (
                    _of_key(each, wanted, self.key_type, where) for each in state.pending[name]
                )
                state.pending[name] = list(found)
        self._group.enter(state)
        self._metrics.key_loads += 1

    def _has_gone(self, index: int, nonce: bytes) -> bool:
        """Return whether a group was decoded from this log before; warn if it often was."""
        if self._seen.get(index) != nonce:
            self._seen[index] = nonce
            return False
        self._again += 1
        self._metrics.repeated_loads += 1
        if self._again >= _OFTEN and not self._has_warned:
            self._warn()
        return True

    def _warn(self) -> None:
        self._has_warned = True
        LOG.warning(
            "operator %r: what a replica has decoded must fit in cache_bytes, got %d bytes, and key "
            "groups were decoded %d times again, which makes each of these reads slow; give "
            "open_state(..., cache_bytes=) more, or states= with those that are asked for",
            self.record.identity.name,
            self._cache_bytes,
            self._again,
        )

    def _may_be_asked(self, table: str) -> bool:
        return table in self._timers or owner_of(table, self._states) in self._states

    def _keep(self, at: tuple[int, bytes], state: WorkingState) -> None:
        for name in [each for each in state.pending if not self._may_be_asked(each)]:
            del state.pending[name]
        with self.tables.written(), self.surroundings.under(GROUP_KEY):
            for store in self._stores:
                store.arrange()
        self._group.backend.discard_changes()
        self._decoded[at[0]] = at[1]
        self._cache.keep(at, state, self._cache_bytes)
        self._metrics.decoded_bytes = self._cache.total_bytes


def _of_key(section: Section, wanted: Any, key_type: TypeInformation, where: str) -> Section:
    """Cut a section to the entries of one key.

    Args:
        section: A section of a table whose entries belong to keys.
        wanted: The key, as a column of one row.
        key_type: The type of the keys.
        where: Names the key group in messages.
    """
    batch = read_batch(section, StoredTable(section.declaration).spec, key_type, where)
    keys = batch.column("key")
    if keys.null_count:
        return section  # damaged: the decoder raises the error
    if pa.types.is_nested(keys.type) or pa.types.is_floating(keys.type):  # Arrow's NaN is not NaN
        codes = codes_of([pa.concat_arrays([wanted, keys])], 1 + len(keys))
        mine = batch.filter(pc.equal(codes.slice(1), codes[0]))
    else:
        mine = batch.filter(pc.equal(keys, wanted[0]))
    return attrs.evolve(section, payload=encode_batch(mine))


class _NoCleanup:
    """The cleanup of a log that is never written."""

    def now(self) -> int:
        """Return some time: nobody uses it."""
        return 0

    def is_compaction_due(self, compacted_at: int) -> bool:  # noqa: ARG002
        """Return False: a replica compacts no log."""
        return False

    def drop_expired(self) -> None:
        """Do nothing: a replica deletes no entries."""
