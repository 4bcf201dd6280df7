# SPDX-License-Identifier: Apache-2.0
"""Snapshots divided by key: into key groups, or to write their keys in another way.

The sections are replayed, so the result holds each entry once.  No program is needed, since the
columns of a section follow from the signatures in its declaration; so states that nobody declares
any more come along.  Values and stamps are copied as columns; only keys and user keys become
Python objects.

Keys of an undeclared type (of a harness without `key_type`) are read as keys of a declared one, and
the other way round, if they fit.  Keys of two different declared types are not.

A table of a snapshot, replayed without its program.

The last row of an entry counts, unless it deletes the entry or its key was cleared since.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.engine.clock import TimeDomain
from pyflinklike.engine.log.checkpoint_logs import refuse_shared, sections_of
from pyflinklike.engine.log.damage import decoding
from pyflinklike.engine.log.entry_codec import (
    CLEAR,
    DELETE,
    divided_batch,
    encode_batch,
    has_stamps,
    keys_of,
    read_batch,
)
from pyflinklike.engine.log.segment_chain import snapshots
from pyflinklike.engine.log.segments import MAX_BYTES, SEGMENT_BYTES, Declaration, Section, Segment
from pyflinklike.engine.state.table import Shape, TableSpec
from pyflinklike.engine.state.timer_agenda import timers_table
from pyflinklike.engine.types import TypeInformation, Types
from pyflinklike.engine.types.catalog import type_of
from pyflinklike.engine.types.key_codec import ANY_KEY
from pyflinklike.errors import IncompatibleStateError, StateValueError

__all__ = ["ReplayedTable", "regrouped", "timer_domains", "with_keys_of"]


def with_keys_of(snapshot: Segment, key_type: TypeInformation, where: str) -> Segment:
    """Return a snapshot whose keys are written as a program writes them, where they can be.

    Args:
        snapshot: Returned as it is if its keys are written so already, or if both key types are
            declared and differ: then restoring a state will say so.
        key_type: The program's.
        where: Name of the snapshot, for messages.

    Raises:
        IncompatibleStateError: A key does not fit the type.
    """
    declarations = snapshot.declarations.values()
    stored = {each.key for each in declarations if not each.per_group}
    wanted = key_type.signature
    if not any(ANY_KEY in (key, wanted) for key in stored - {wanted}):
        return snapshot
    groups = regrouped(snapshot, key_type, lambda keys: [0] * len(keys), 1, where, MAX_BYTES)
    return groups[0][0] if groups else Segment(snapshot.nonce, b"")


def regrouped(
    snapshot: Segment,
    key_type: TypeInformation,
    group_of: Callable[[list[Any]], Sequence[int]],
    max_parallelism: int,
    where: str,
    segment_bytes: int = SEGMENT_BYTES,
) -> dict[int, list[Segment]]:
    """Divide a snapshot by key group.

    Args:
        snapshot: Snapshot of all key groups, or of a harness.
        key_type: Type of the keys in the result.
        group_of: Returns the key groups of keys, which are in the user's form.
        max_parallelism: The number of key groups.
        where: Name of the snapshot, for messages.
        segment_bytes: Largest plain body of a segment with more than one entry, in bytes.

    Returns:
        For each key group that has state, segments each of which needs no other.

    Raises:
        CorruptStateError: The snapshot is damaged.
        IncompatibleStateError: A key does not fit the type, the type of a state is unknown, or
            entries that belong to no key cannot be told apart by key group.
    """
    tables: dict[str, ReplayedTable] = {}
    shared: list[Section] = []
    for section in sections_of([snapshot], where):
        if section.declaration.per_group:
            shared.append(section)
            continue
        table = tables.get(section.declaration.name)
        if table is None:
            table = tables[section.declaration.name] = ReplayedTable(section.declaration)
        table.read(section, where)
    for table in tables.values():
        table.convert_keys(key_type, where)
    # The keys of all tables at once, for on Spark `group_of` costs a job.
    distinct = list(
        dict.fromkeys(table.key_of(each) for table in tables.values() for each in table.rows)
    )
    groups = dict(zip(distinct, group_of([key_type.thaw_key(key) for key in distinct])))
    sections: dict[int, list[Section]] = {}
    for table in tables.values():
        for index, section in table.sections(groups, segment_bytes):
            sections.setdefault(index, []).append(section)
    for section in shared:
        if max_parallelism > 1 and not section.declaration.is_replicated:
            raise refuse_shared(section.declaration, where)
        # Every key group keeps a copy of broadcast state, also a group without keys so far.
        for index in range(max_parallelism):
            sections.setdefault(index, []).append(section)
    return {index: list(snapshots(mine, segment_bytes)) for index, mine in sections.items()}


def timer_domains(segments: Iterable[Segment]) -> set[TimeDomain]:
    """Return the domains of the timers in snapshots that `regrouped` gave."""
    names = {each.name for segment in segments for each in segment.declarations.values()}
    return {domain for domain in TimeDomain if timers_table(domain) in names}


_Form = tuple[str, bool]
"""Form of rows: the signature of the type of their values, and whether they have stamps."""


class ReplayedTable:
    """One table of a snapshot, replayed section by section.

    Args:
        declaration: Declaration of the first section.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.rows: dict[Hashable, dict[Hashable, tuple[_Form, int]]] = {}
        """The row of `_batches` that holds the entry under a key and user key."""
        self._batches: dict[_Form, list[pa.RecordBatch]] = {}
        self._sizes: dict[_Form, int] = {}
        self._key_type = type_of(declaration.key)
        with decoding(f"state {declaration.name!r}", "must be declared with known types"):
            self._spec = self._spec_of(declaration)

    @staticmethod
    def _spec_of(declaration: Declaration) -> TableSpec:
        return TableSpec(
            declaration.name,
            Shape(declaration.shape),
            declaration.kind,
            type_of(declaration.value) if declaration.value else None,
            type_of(declaration.user_key) if declaration.user_key else None,
            namespace_type=type_of(declaration.namespace) if declaration.namespace else None,
        )

    def key_of(self, owner: Any) -> Hashable:
        """Return the key alone of an owner, which is a key or a pair with a namespace."""
        own: Hashable = owner if self._spec.namespace_type is None else owner[0]
        return own

    def read(self, section: Section, where: str) -> None:
        """Replay the next section.

        Raises:
            IncompatibleStateError: The values of neither declaration, the first section's and this
                one's, grow into those of the other.
        """
        self.declaration.check_alike(section.declaration)
        spec = self._spec
        if section.declaration != self.declaration:
            spec = self._spec_of(section.declaration)
        batch = read_batch(section, spec, self._key_type, where)
        form = section.declaration.value, has_stamps(section)
        with decoding(f"{where}, state {self.declaration.name!r}", "must hold keys of its types"):
            self._replay(batch, form)

    def _replay(self, batch: pa.RecordBatch, form: _Form) -> None:
        count = batch.num_rows
        keys = keys_of(dict(zip(batch.schema.names, batch.columns)), self._spec, self._key_type)
        user_keys: Iterable[Any] = repeat(None, count)
        if self._spec.shape is not Shape.SINGLE:
            user_keys = (self._spec.user_key_type or Types.LONG()).from_arrow(
                batch.column("user_key")
            )
        operations: Iterable[Any] = repeat(None, count)
        if "operation" in batch.schema.names:
            operations = batch.column("operation").to_pylist()
            batch = batch.select([name for name in batch.schema.names if name != "operation"])
        rows = self.rows
        place = self._sizes.get(form, 0)
        for key, user_key, operation in zip(keys, user_keys, operations):
            if operation == CLEAR:
                rows.pop(key, None)
            elif operation == DELETE:
                rows.get(key, {}).pop(user_key, None)
            else:
                rows.setdefault(key, {})[user_key] = form, place
            place += 1
        self._batches.setdefault(form, []).append(batch)
        self._sizes[form] = place

    def convert_keys(self, key_type: TypeInformation, where: str) -> None:
        """Give the keys the form of another type.

        Raises:
            IncompatibleStateError: Both types are declared and differ, or a key does not fit.
        """
        declaration = attrs.evolve(self.declaration, key=key_type.signature)
        if self.declaration == declaration and type(self._key_type) is type(key_type):
            return
        if ANY_KEY not in (self.declaration.key, declaration.key):
            self.declaration.check_types(declaration)
        if self._key_type.is_pickled:
            msg = (
                f"{where}: pickled keys are read only where the program declares their type, "
                f"got {self.declaration.key!r} for keys of {key_type.signature!r}; pass a harness "
                "key_type, if whoever wrote the snapshot may run code here"
            )
            raise IncompatibleStateError(msg)
        try:
            thaw, freeze = self._key_type.thaw_key, key_type.freeze_key
            owners = {key: freeze(thaw(key)) for key in map(self.key_of, self.rows)}
            self.rows = {self._moved(owner, owners): mine for owner, mine in self.rows.items()}
        except StateValueError as error:
            msg = f"{where}: its keys must fit the keys of the program, got one that does not: "
            raise IncompatibleStateError(f"{msg}{error}") from error
        self.declaration, self._key_type = declaration, key_type

    def _moved(self, owner: Any, keys: Mapping[Hashable, Hashable]) -> Hashable:
        """Return an owner whose key is replaced."""
        key = keys[self.key_of(owner)]
        return key if self._spec.namespace_type is None else (key, owner[1])

    def sections(self, groups: Mapping[Hashable, int], limit: int) -> Iterator[tuple[int, Section]]:
        """Divide the entries into sections by key group; values keep the type they were read with.

        Args:
            groups: The key group of each key.
            limit: Most bytes of a payload with more than one entry.

        Yields:
            Pairs of a key group and a section, in order.
        """
        keys = sorted(self.rows, key=lambda owner: groups[self.key_of(owner)])
        for form, batches in self._batches.items():
            # Sections may go in any order, since the elements of a list have positions.
            chosen = [
                (key, row)
                for key in keys
                for found, row in self.rows[key].values()
                if found == form
            ]
            if not chosen:
                continue
            taken = pa.Table.from_batches(batches).take(pa.array([row for _, row in chosen]))
            column = self._key_type.to_arrow([self.key_of(key) for key, _ in chosen])
            field = pa.field("key", self._key_type.arrow_type)
            taken = taken.set_column(0, field, column)
            declaration = attrs.evolve(self.declaration, value=form[0])
            start = 0
            for index, some in groupby(chosen, lambda each: groups[self.key_of(each[0])]):
                count = sum(1 for _ in some)
                for batch in taken.slice(start, count).combine_chunks().to_batches():
                    for part in divided_batch(batch, limit):
                        yield index, Section(declaration, encode_batch(part))
                start += count
