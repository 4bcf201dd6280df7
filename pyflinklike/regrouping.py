# SPDX-License-Identifier: Apache-2.0
"""Snapshots taken apart by key: into key groups, or to write their keys otherwise.

The sections are replayed, so that what comes out holds each entry once.  It needs
no program: the columns of a section follow from the signatures in its declaration,
so states that nobody declares any more come along.  Values and stamps are copied
as columns; only keys and user keys become Python objects.

Keys of an undeclared type (those of a harness that was given no `key_type`) and
of a declared one are each other's, if they fit; two declared types are not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.changelog import MAX_BYTES, SEGMENT_BYTES, Declaration, Section, Segment
from pyflinklike.clock import TimeDomain
from pyflinklike.decoding import decoding
from pyflinklike.entries import CLEAR, DELETE, divided_batch, encode_batch
from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.log_chain import snapshots
from pyflinklike.savepoint import refuse_shared, sections_of
from pyflinklike.stored_entries import has_stamps, read_batch
from pyflinklike.table import Shape, TableSpec
from pyflinklike.timers import timers_table
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.keys import AnyKeyTypeInfo
from pyflinklike.types.signature import type_of

__all__ = ["regrouped", "timer_domains", "with_keys_of"]

_ANY_KEY = AnyKeyTypeInfo().signature


def with_keys_of(snapshot: Segment, key_type: TypeInformation, where: str) -> Segment:
    """A snapshot whose keys are written as a program writes them, where they can be.

    Args:
        snapshot: It is given back as it is if nothing need be changed, or nothing may:
            that two declared key types differ is told when a state is restored.
        key_type: The program's.
        where: Which snapshot, for messages.

    Raises:
        IncompatibleStateError: A key does not fit the type.
    """
    declarations = snapshot.declarations.values()
    stored = {each.key for each in declarations if not each.per_group}
    wanted = key_type.signature
    if not any(_ANY_KEY in (key, wanted) for key in stored - {wanted}):
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
    """A snapshot taken apart by key group.

    Args:
        snapshot: Of all key groups, or of a harness.
        key_type: Of the keys in the result.
        group_of: Tells the key groups of keys, which it is given in the user's form.
        max_parallelism: The number of key groups.
        where: Which snapshot, for messages.
        segment_bytes: How large a segment may get where several entries are in it.

    Returns:
        A snapshot for each key group that has state: segments, each of which needs no other.

    Raises:
        CorruptStateError: The snapshot is damaged.
        IncompatibleStateError: A key does not fit the type, the type of a state is unknown, or
            entries that belong to no key cannot be told apart by key group.
    """
    tables: dict[str, _Table] = {}
    shared: list[Section] = []
    for section in sections_of([snapshot], where):
        if section.declaration.per_group:
            shared.append(section)
            continue
        table = tables.get(section.declaration.name)
        if table is None:
            table = tables[section.declaration.name] = _Table(section.declaration)
        table.read(section, where)
    for table in tables.values():
        table.convert_keys(key_type, where)
    distinct = list(dict.fromkeys(key for table in tables.values() for key in table.rows))
    groups = dict(zip(distinct, group_of([key_type.thaw_key(key) for key in distinct])))
    sections: dict[int, list[Section]] = {}
    for table in tables.values():
        for index, payload in table.sections(groups, segment_bytes):
            sections.setdefault(index, []).append(Section(table.declaration, payload))
    if shared:
        if max_parallelism > 1:
            raise refuse_shared(shared[0].declaration, where)
        sections.setdefault(0, []).extend(shared)
    return {index: list(snapshots(mine, segment_bytes)) for index, mine in sections.items()}


def timer_domains(segments: Iterable[Segment]) -> set[TimeDomain]:
    """The domains of the timers in snapshots that `regrouped` gave."""
    names = {each.name for segment in segments for each in segment.declarations.values()}
    return {domain for domain in TimeDomain if timers_table(domain) in names}


class _Table:
    """One table of a snapshot, replayed.

    Args:
        declaration: As stored.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.rows: dict[Hashable, dict[Hashable, tuple[bool, int]]] = {}
        """Which row of `_batches` holds the entry under a key and user key."""
        self._batches: dict[bool, list[pa.RecordBatch]] = {False: [], True: []}
        self._sizes = {False: 0, True: 0}
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
        )

    def read(self, section: Section, where: str) -> None:
        """Take in the next section."""
        self.declaration.check(section.declaration)
        batch = read_batch(section, self._spec, self._key_type, where)
        with decoding(f"{where}, state {self.declaration.name!r}", "must hold keys of its types"):
            self._replay(batch, stamped=has_stamps(section))

    def _replay(self, batch: pa.RecordBatch, *, stamped: bool) -> None:
        count = batch.num_rows
        keys = self._key_type.from_arrow(batch.column("key"))
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
        place = self._sizes[stamped]
        for key, user_key, operation in zip(keys, user_keys, operations):
            if operation == CLEAR:
                rows.pop(key, None)
            elif operation == DELETE:
                rows.get(key, {}).pop(user_key, None)
            else:
                rows.setdefault(key, {})[user_key] = stamped, place
            place += 1
        self._batches[stamped].append(batch)
        self._sizes[stamped] = place

    def convert_keys(self, key_type: TypeInformation, where: str) -> None:
        """Have the keys in the form of another type.

        Raises:
            IncompatibleStateError: Both types are declared and differ, or a key does not fit.
        """
        declaration = attrs.evolve(self.declaration, key=key_type.signature)
        if self.declaration == declaration and type(self._key_type) is type(key_type):
            return
        if _ANY_KEY not in (self.declaration.key, declaration.key):
            self.declaration.check(declaration)
        if self._key_type.is_pickled:
            msg = (
                f"{where}: pickled keys are read only where the program declares their type, "
                f"got {self.declaration.key!r} for keys of {key_type.signature!r}; pass a harness "
                "key_type, if whoever wrote the snapshot may run code here"
            )
            raise IncompatibleStateError(msg)
        try:
            thaw, freeze = self._key_type.thaw_key, key_type.freeze_key
            self.rows = {freeze(thaw(key)): mine for key, mine in self.rows.items()}
        except StateValueError as error:
            msg = f"{where}: its keys must fit the keys of the program, got one that does not: "
            raise IncompatibleStateError(f"{msg}{error}") from error
        self.declaration, self._key_type = declaration, key_type

    def sections(self, groups: Mapping[Hashable, int], limit: int) -> Iterator[tuple[int, bytes]]:
        """The payloads of each key group's sections, in order.

        Args:
            groups: The key group of each key.
            limit: How many bytes a payload may have where several entries are in it.
        """
        keys = sorted(self.rows, key=groups.__getitem__)
        for stamped, batches in self._batches.items():
            # Entries of one key are all stamped or all not: the order of a list is kept.
            chosen = [
                (key, row)
                for key in keys
                for has_stamp, row in self.rows[key].values()
                if has_stamp is stamped
            ]
            if not chosen:
                continue
            taken = pa.Table.from_batches(batches).take(pa.array([row for _, row in chosen]))
            column = self._key_type.to_arrow([key for key, _ in chosen])
            field = pa.field("key", self._key_type.arrow_type)
            taken = taken.set_column(0, field, column)
            start = 0
            for index, some in groupby(chosen, lambda each: groups[each[0]]):
                count = sum(1 for _ in some)
                for batch in taken.slice(start, count).combine_chunks().to_batches():
                    for part in divided_batch(batch, limit):
                        yield index, encode_batch(part)
                start += count
