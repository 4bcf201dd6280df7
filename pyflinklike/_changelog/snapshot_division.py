# SPDX-License-Identifier: Apache-2.0
"""Dividing a snapshot by key: into key groups, or to write its keys in another form.

A query that begins with a savepoint may have another number of key groups than the one that the
savepoint was taken of, and then every entry has to go to the group of its key.  The sections of
each table are replayed into one Arrow table, and the rows are sorted by key group.  So the result
has each entry once, and the entries of a key in their order.

No program is needed, because the columns of a section follow from the types in its declaration.
States that the program no longer declares are divided like all others.  Only distinct keys become
Python objects.

Keys of an undeclared type (of a harness without `key_type`) are read as keys of a declared type,
and the other way round, if they fit.  Two different declared types are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.damage import decoding
from pyflinklike._changelog.entry_codec import divide_batch, encode_batch
from pyflinklike._changelog.key_group_state import timers_table
from pyflinklike._changelog.segment_chain import refusal_of_shared, sections_of, snapshots
from pyflinklike._changelog.segments import MAX_BYTES, SEGMENT_BYTES, Declaration, Section, Segment
from pyflinklike._changelog.stored_table import StoredTable, codes_of, replay
from pyflinklike._clock import TimeDomain
from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.types import TypeInformation
from pyflinklike.types.key_codec import ANY_KEY


def with_keys_of(snapshot: Segment, key_type: TypeInformation, where: str) -> Segment:
    """Return a snapshot whose keys are written as a program writes them, if that is possible.

    Args:
        snapshot: Returned as it is if its keys are written so already, or if both key types are
            declared and differ: then restoring a state raises an error.
        key_type: The program's type of keys.
        where: Name of the snapshot, for messages.

    Raises:
        IncompatibleStateError: A key does not fit the type.
    """
    declarations = snapshot.declarations.values()
    stored = {each.key for each in declarations if not each.per_group}
    wanted = key_type.signature
    if not any(ANY_KEY in (key, wanted) for key in stored - {wanted}):
        return snapshot
    groups = regroup_snapshot(snapshot, key_type, lambda keys: [0] * len(keys), 1, where, MAX_BYTES)
    return groups[0][0] if groups else Segment(snapshot.nonce, b"")


def regroup_snapshot(
    snapshot: Segment,
    key_type: TypeInformation,
    group_of: Callable[[list[Any]], Sequence[int]],
    max_parallelism: int,
    where: str,
    segment_bytes: int = SEGMENT_BYTES,
    *,
    by_frozen_key: bool = False,
) -> dict[int, list[Segment]]:
    """Divide a snapshot by key group.

    Args:
        snapshot: Snapshot of all key groups, or of a harness.
        key_type: Type of the keys in the result.
        group_of: Returns the key groups of keys, which are in the user's form.
        max_parallelism: The number of key groups.
        where: Name of the snapshot, for messages.
        segment_bytes: Largest plain body of a segment with more than one entry, in bytes.
        by_frozen_key: Whether `group_of` takes keys in their stored form.  A pickled key needs
            this: if it is unpickled and pickled again, the bytes may differ.

    Returns:
        Self-contained segments for each key group that has state, by index of the group.

    Raises:
        CorruptStateError: The snapshot is damaged.
        IncompatibleStateError: A key does not fit the type, the type of a state is unknown, or
            entries that belong to no key would have to be divided between key groups.
    """
    keyed: dict[str, list[Section]] = {}
    shared: list[Section] = []
    for section in sections_of([snapshot], where):
        if section.declaration.per_group:
            shared.append(section)
        else:
            keyed.setdefault(section.declaration.name, []).append(section)
    tables = [_KeyedEntries.of(some, where).rekey(key_type, where) for some in keyed.values()]
    # The keys of all tables at once, because on Spark each call of `group_of` costs a job.
    distinct = list(dict.fromkeys(key for table in tables for key in table.keys))
    given = distinct if by_frozen_key else [key_type.thaw_key(key) for key in distinct]
    groups = dict(zip(distinct, group_of(given)))
    sections: dict[int, list[Section]] = {}
    for table in tables:
        for index, section in table.sections(groups, segment_bytes):
            sections.setdefault(index, []).append(section)
    for section in shared:
        if section.declaration.is_mark:
            # Any key group with entries may have some of the store's, so each gets the number.
            for mine in sections.values():
                mine.append(section)
            continue
        if max_parallelism > 1 and not section.declaration.is_replicated:
            raise refusal_of_shared(section.declaration, where)
        # Every key group keeps a copy of broadcast state, also a group without keys so far.
        for index in range(max_parallelism):
            sections.setdefault(index, []).append(section)
    return {index: list(snapshots(mine, segment_bytes)) for index, mine in sections.items()}


def timer_domains(segments: Iterable[Segment]) -> set[TimeDomain]:
    """Return the domains of the timers in snapshots that `regroup_snapshot` gave."""
    names = {each.name for segment in segments for each in segment.declarations.values()}
    return {domain for domain in TimeDomain if timers_table(domain) in names}


@attrs.frozen
class _KeyedEntries:
    """The entries of one table of a snapshot, each once, with their distinct keys.

    Args:
        table: The table, as its declaration describes it.
        entries: An Arrow table with the columns of `StoredTable.schema`.
        keys: The distinct keys, as a program keeps them.
        places: For each entry, the index of its key in `keys`.
    """

    table: StoredTable
    entries: pa.Table
    keys: list[Hashable]
    places: Any

    @classmethod
    def of(cls, sections: Sequence[Section], where: str) -> _KeyedEntries:
        """Replay the sections of one table.

        Raises:
            CorruptStateError: A section is damaged.
            IncompatibleStateError: The type of the table is unknown, or two sections have types
                that cannot evolve into each other.
        """
        declaration = _latest_of(sections)
        state = f"state {declaration.name!r}"
        with decoding(state, "must be declared with known types"):
            table = StoredTable(declaration)
        entries = replay(table, sections, where)
        with decoding(f"{where}, {state}", "must hold keys of its types"):
            column = entries.column("key").combine_chunks()
            if column.null_count:
                msg = "a key that is null"
                raise ValueError(msg)
            places = codes_of([column], len(column))
            distinct = column.take(pc.index_in(pc.unique(places), places))
            return cls(table, entries, table.key_type.from_arrow(distinct), places)

    def rekey(self, key_type: TypeInformation, where: str) -> _KeyedEntries:
        """Return the entries under keys in the form of another type.

        Raises:
            IncompatibleStateError: Both types are declared and differ, a key does not fit, or two
                keys become one.
        """
        stored = self.table.declaration
        declaration = attrs.evolve(stored, key=key_type.signature)
        if stored == declaration and type(self.table.key_type) is type(key_type):
            return self
        if ANY_KEY not in (stored.key, declaration.key):
            stored.check_types(declaration)
        if self.table.key_type.is_pickled:
            msg = (
                f"{where}: pickled keys are read only if the program declares their type, "
                f"got {stored.key!r} for keys of {key_type.signature!r}; pass key_type to the "
                "harness if you trust the snapshot's writer, whose pickles run code here"
            )
            raise IncompatibleStateError(msg)
        try:
            thaw, freeze = self.table.key_type.thaw_key, key_type.freeze_key
            keys = [freeze(thaw(key)) for key in self.keys]
        except StateValueError as error:
            msg = f"{where}: its keys must fit the keys of the program, got one that does not: "
            raise IncompatibleStateError(f"{msg}{error}") from error
        if len(set(keys)) < len(keys):
            # For example 1 and 1.0 of a harness.  Entries of one key would overwrite the other's.
            msg = f"{where}: two keys must not become one in {key_type.signature!r}"
            raise IncompatibleStateError(
                f"{msg}, got such keys in state {stored.name!r}; declare a type that tells them apart"
            )
        column = key_type.to_arrow(keys).take(self.places)
        entries = self.entries.set_column(0, pa.field("key", key_type.arrow_type), column)
        return _KeyedEntries(StoredTable(declaration), entries, keys, self.places)

    def sections(self, groups: Mapping[Hashable, int], limit: int) -> Iterator[tuple[int, Section]]:
        """Divide the entries into sections by key group.

        Args:
            groups: The key group of each key.
            limit: Most bytes of a payload with more than one entry.

        Yields:
            Pairs of a key group and a section, in order.
        """
        indexes = pa.array([groups[key] for key in self.keys], pa.int64()).take(self.places)
        order = pc.sort_indices(indexes)  # a stable sort, which keeps the order of entries
        entries, indexes = self.entries.take(order), indexes.take(order)
        stamps = entries.column("stamp")
        # A section has stamps for all of its entries or for none, so the two kinds are divided.
        for is_chosen, left_out in ((pc.is_null(stamps), ["stamp"]), (pc.is_valid(stamps), [])):
            some, start = entries.filter(is_chosen).drop_columns(left_out), 0
            counts = indexes.filter(is_chosen.combine_chunks()).value_counts()
            for index, count in zip(*(part.to_pylist() for part in counts.flatten())):
                for batch in some.slice(start, count).combine_chunks().to_batches():
                    for part in divide_batch(batch, limit):
                        yield index, Section(self.table.declaration, encode_batch(part))
                start += count


def _latest_of(sections: Iterable[Section]) -> Declaration:
    """Return the newest of the sections' declarations: all others can evolve into it.

    Raises:
        IncompatibleStateError: Two of them cannot evolve into each other.
    """
    latest, *others = dict.fromkeys(each.declaration for each in sections)
    for each in others:
        latest.check_alike(each)
        if each.value != latest.value and latest.grows_into(each):
            latest = each
    return latest
