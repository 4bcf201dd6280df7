# SPDX-License-Identifier: Apache-2.0
"""The logs of an operator as a checkpoint holds them: checked, read, and merged into a savepoint.

**Checking.**  A state store may lose data without an error: if Spark reads a damaged file up to the
damage, it looks like a shorter one.  So a reader compares what it finds with the registry.  Each
key group of the registry must be there, and no other.  The head of each must have the time at
which, by the registry, the group last had records.  `GroupChecker` goes on after damage, and reports
all of it.

**Merging.**  A savepoint in bytes is the state of all key groups as one self-contained segment; the
snapshot of a harness has the same form.  `merge` copies the sections of all logs undecoded.  That
is right because key groups have no keys in common, and the sections of one group stay in order.
Only a store's notes (`Declaration.is_mark`) are in every group: one of these is copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.entry_codec import decode_entries, rows_in
from pyflinklike._changelog.key_group_state import timers_table
from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike._changelog.operator_record import (
    RECORD_AT,
    REGISTRY_AT,
    KeyGroupRegistry,
    OperatorIdentity,
    OperatorRecord,
    is_of_state,
)
from pyflinklike._changelog.segment_chain import (
    read_chain,
    refusal_of_shared,
    sections_of,
    segment_name,
)
from pyflinklike._changelog.segments import MAX_BYTES, Declaration, Section, Segment, read_segment
from pyflinklike._changelog.stored_table import StoredTable, codes_of, last_of_each, numbers, replay
from pyflinklike._clock import TimeDomain
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, PyflinklikeError
from pyflinklike.state.table import LAYOUT, RESERVED_PREFIX, Shape, TableSpec
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import declaration_of
from pyflinklike.state_processor._logs.state_rows import GroupTables
from pyflinklike.types import Types
from pyflinklike.types.catalog import type_of


def record_and_registry(
    blobs: Mapping[int, bytes], where: str
) -> tuple[OperatorRecord, KeyGroupRegistry]:
    """Read the record and the registry of an operator.

    Args:
        blobs: Blobs stored beside the key groups, by sequence number.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: One of them is missing or damaged.
    """
    if RECORD_AT not in blobs or REGISTRY_AT not in blobs:
        msg = f"{where}: state must hold the record of its operator and the registry of its key groups"
        raise CorruptStateError(f"{msg}, got numbers {sorted(blobs)}; go back to a checkpoint")
    record = OperatorRecord.from_bytes(blobs[RECORD_AT], where)
    return record, KeyGroupRegistry.from_bytes(blobs[REGISTRY_AT], where)


def check_groups(registry: KeyGroupRegistry, groups: Collection[int], where: str) -> None:
    """Refuse key groups that are not exactly the ones in the registry.

    Args:
        registry: The key groups of the operator.
        groups: Indexes of the key groups that were found.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: A key group is missing or surplus.
    """
    unlike = sorted(registry.served_at.keys() ^ set(groups))
    if unlike:
        msg = (
            f"{where}: its registry names {len(registry.served_at)} key groups, got {len(groups)}, "
            f"which differ in {_some(unlike)}"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")


def head_of(blobs: Mapping[int, bytes], where: str) -> Head:
    """Read the head of a key group.

    Args:
        blobs: The blobs of the group by sequence number.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The head is missing or damaged.
    """
    if HEAD_AT not in blobs:
        msg = f"{where}: a key group must have a head, got none; go back to a checkpoint"
        raise CorruptStateError(msg)
    return Head.from_bytes(blobs[HEAD_AT], where)


def check_log(
    identity: OperatorIdentity, served_at: int, blobs: Mapping[int, bytes], where: str
) -> list[Segment]:
    """Read the segments of one key group that count.

    Args:
        identity: Identity in the operator's record.
        served_at: Time in the registry at which the key group last had records, in ms.
        blobs: The blobs of the group by sequence number; there may be more than count.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: Something is missing or damaged, or belongs to another operator.
    """
    head = head_of(blobs, where)
    check_head(head, identity, served_at, where)
    return read_log(head, blobs, where)


def check_head(head: Head, identity: OperatorIdentity, served_at: int, where: str) -> None:
    """Refuse the head of a key group that does not agree with the record and the registry.

    Args:
        head: Head of the key group, as it was read.
        identity: Identity in the operator's record.
        served_at: Time in the registry at which the key group last had records, in ms.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The head does not agree with one of them.
    """
    if head.identity != identity.text or head.max_parallelism != identity.max_parallelism:
        msg = (
            f"{where}: a key group must be of the operator {identity.text} with "
            f"{identity.max_parallelism} key groups, got {head.identity} with {head.max_parallelism}"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")
    if head.served_at != served_at:
        msg = (
            f"{where}: by the registry it last had records in the micro-batch of {served_at} ms, "
            f"got the state after {head.served_at} ms"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")


def _some(numbers: list[int]) -> str:
    more = len(numbers) - 10
    return ", ".join(map(str, numbers[:10])) + (f" and {more} more" if more > 0 else "")


def read_log(head: Head, segments: Mapping[int, bytes], where: str) -> list[Segment]:
    """Read the segments of a key group's log that count, in order.

    Args:
        head: Head of the group, which says which segments count.
        segments: Blobs by sequence number; there may be more than count.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    sequences = range(head.first_sequence, head.next_sequence)
    return [each for _, each in read_chain(segments.get, sequences, b"", head.nonce, where)]


# Savepoints


def merge(
    logs: Mapping[str, Sequence[Segment]],
    limit: int = MAX_BYTES,
    *,
    dropped: Collection[str] = (),
) -> bytes:
    """Merge the logs of many key groups into one snapshot.

    Args:
        logs: The log of each group as `read_log` gives it, by the group's name for messages.
        limit: Most bytes of the savepoint before it is compressed.
        dropped: The names of states to leave out, which some groups have lost already.

    Raises:
        CorruptStateError: A segment does not declare its tables.
        IncompatibleStateError: Two key groups declare a state with types that cannot evolve into
            each other, or both have entries that belong to no key.
        SparkSetupError: The savepoint would be larger than 2 GiB.
    """
    merged = Segment(os.urandom(16), b"")
    ids: dict[Declaration, int] = {}
    first: dict[str, Declaration] = {}
    owners: dict[str, str] = {}
    marks: dict[Declaration, dict[str, Section]] = {}

    def add(declaration: Declaration, section: Section) -> None:
        table_id = ids.setdefault(declaration, len(ids))
        merged.declarations[table_id] = declaration
        merged.sections.append((table_id, section.payload))

    for where, log in logs.items():
        for section in sections_of(log, where):
            declaration = section.declaration
            if is_of_state(declaration.name, dropped):
                continue
            if declaration.is_mark:
                marks.setdefault(declaration, {})[where] = section  # the last one counts
                continue
            if declaration.per_group and owners.setdefault(declaration.name, where) != where:
                if declaration.is_replicated:
                    continue  # one key group's copy is as good as another's
                raise refusal_of_shared(declaration, where)
            first.setdefault(declaration.name, declaration).check_alike(declaration)
            add(declaration, section)
    for declaration, sections in marks.items():
        add(declaration, _mark_of_all(declaration, sections))
    return merged.to_bytes(limit)


def _mark_of_all(declaration: Declaration, sections: Mapping[str, Section]) -> Section:
    """Return the section with the number that all key groups can go on from.

    Args:
        declaration: Declaration of the table.
        sections: The last section of each key group, by the group's name.

    Raises:
        IncompatibleStateError: The entries of two key groups are laid out differently.
    """
    spec = TableSpec(declaration.name, Shape.SINGLE, declaration.kind, Types.LONG(), per_group=True)
    numbers: dict[str, int] = {}
    for where, section in sections.items():
        entries = decode_entries(section, spec, Types.LONG(), 0, where).entries
        numbers[where] = entries[-1]
    if declaration.kind == LAYOUT and len(set(numbers.values())) > 1:
        (one, first), (other, second) = _unlike(numbers)
        msg = (
            f"{other}: the entries of store {declaration.name.rpartition('/')[0]!r} must lie in "
            f"segments of one length, got {second} ms and in {one} {first} ms, because its retention "
            "or segments were changed and not every key group had records since; take the savepoint "
            "as a directory"
        )
        raise IncompatibleStateError(msg)
    # Layouts are equal here; of stream times the latest is right, since time never goes back.
    return sections[max(numbers, key=numbers.__getitem__)]


def _unlike(numbers: Mapping[str, int]) -> tuple[tuple[str, int], tuple[str, int]]:
    first, *others = numbers.items()
    return first, next(each for each in others if each[1] != first[1])


def refuse_pickles(logs: Mapping[str, Iterable[Segment]]) -> None:
    """Refuse logs in which a state is, or could be, pickled.

    Args:
        logs: The log of each group, by the group's name for messages.

    Raises:
        IncompatibleStateError: A state is pickled, or has a type that is not one of `Types`.
    """
    for where, log in logs.items():
        for section in sections_of(log, where):
            declaration = section.declaration
            types = (
                *(declaration.key, declaration.namespace),
                *(declaration.user_key, declaration.value),
            )
            pickled = [each for each in types if each and type_of(each).is_pickled]
            if pickled:
                msg = (
                    f"{where}: the savepoint must be without pickles, got state "
                    f"{declaration.name!r} of {pickled[0]}; pass allow_pickle=True if you trust the "
                    "checkpoint's writer, whose pickles run code when the savepoint is restored"
                )
                raise IncompatibleStateError(msg)


# All the damage that can be found, not only the first


_DOMAINS = {timers_table(domain): domain for domain in TimeDomain}


@attrs.frozen
class Finding:
    """Damage that a check has found.

    Args:
        part: The damaged part: "record", "registry", "head", "segment", "chain", "counts",
            "states", "values", "keys", "timers", "batch", "manifest" or "file".
        message: The place, the rule, and the contents that break the rule.
    """

    part: str
    message: str


@attrs.frozen
class Checked:
    """The amount that was checked.

    Args:
        key_groups: The number of key groups of a checkpoint.
        segments: The number of segments in their logs.
        entries: The number of rows in these, older writes included; or in the files of a savepoint.
        files: The number of files of a savepoint.
        batches: The number of micro-batches of a checkpoint.
        left_out: The parts that could not be checked, each with the reason.
    """

    key_groups: int = 0
    segments: int = 0
    entries: int = 0
    files: int = 0
    batches: int = 0
    left_out: tuple[str, ...] = ()

    def __add__(self, other: Checked) -> Checked:
        return Checked(*(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other))))


@attrs.frozen
class GroupChecker:
    """Check key groups of an operator; a checker is pickled for the workers that do so.

    Args:
        record: The record of the operator.
        served_at: When each key group last had records, in ms, by the registry.
        wanted_call: Takes the first timer of each domain, and returns the time in ms at which the
            host must call the group at the latest, or None.  None skips this check.
    """

    record: OperatorRecord
    served_at: Mapping[int, int]
    wanted_call: Callable[[Mapping[TimeDomain, int]], int | None] | None = None

    def check(
        self, index: int, blobs: Mapping[int, bytes], where: str
    ) -> tuple[list[Finding], Checked, Head | None]:
        """Return all damage of a key group, the amount that was checked, and the head.

        Args:
            index: The index of the group.
            blobs: The blobs of the group by sequence number.
            where: The name of the group, for messages.

        Returns:
            The head is None if it cannot be read, or if the registry lacks the group.
        """
        segments = {at: blob for at, blob in blobs.items() if at >= 0}
        found = list(self._unreadable(segments, where))
        head, entries = None, 0
        if index not in self.served_at:
            msg = f"{where}: a key group must be in the operator's registry, got one that is not"
            return [*found, Finding("registry", msg)], Checked(1, len(segments)), None
        try:
            head = head_of(blobs, where)
        except CorruptStateError as error:
            found.append(Finding("head", str(error)))
        else:
            found += _find_unnamed(head, segments, where)
            try:
                check_head(head, self.record.identity, self.served_at[index], where)
                log = read_log(head, segments, where)
            except CorruptStateError as error:
                # A damaged segment was found before, and breaks the chain as well: report it once.
                if all(each.message != str(error) for each in found):
                    found.append(Finding("chain", str(error)))
            else:
                more, entries = self._contents(head, log, segments, where)
                found += more
        return found, Checked(1, len(segments), entries), head

    def _unreadable(self, segments: Mapping[int, bytes], where: str) -> Iterator[Finding]:
        for sequence, blob in sorted(segments.items()):
            try:
                read_segment(blob, segment_name(where, sequence))
            except (CorruptStateError, IncompatibleStateError) as error:
                yield Finding("segment", str(error))

    def _contents(
        self, head: Head, log: list[Segment], segments: Mapping[int, bytes], where: str
    ) -> tuple[list[Finding], int]:
        try:
            tables = GroupTables.of(log, where).sections
            rows = sum(rows_in(each, where) for some in tables.values() for each in some)
        except CorruptStateError as error:
            return [Finding("values", str(error))], 0
        found = list(_counts(head, rows, segments, where))
        earliest: dict[TimeDomain, int] = {}
        for name, sections in tables.items():
            more, entries = self._table(name, sections, where)
            found += more
            if name in _DOMAINS and entries is not None and entries.num_rows:
                earliest[_DOMAINS[name]] = pc.min(entries.column("user_key")).as_py()
        return [*found, *self._lost_timers(head, earliest, where)], rows

    def _table(
        self, name: str, sections: list[Section], where: str
    ) -> tuple[list[Finding], pa.Table | None]:
        """Return the damage of a table, and its entries if they can be read."""
        stored = sections[-1].declaration
        found = []
        try:
            if name in self.record.states:
                stored.check_types(declaration_of(self.record, name))
        except IncompatibleStateError as error:
            found.append(Finding("states", f"{where}, as the record has it: {error}"))
        try:
            entries = replay(StoredTable(stored), sections, where)
            entries.validate(full=True)
        except (CorruptStateError, IncompatibleStateError) as error:
            return [*found, Finding("values", str(error))], None
        except pa.ArrowException as error:
            msg = f"{where}, state {name!r}: columns must hold values of their types, got {error}"
            return [*found, Finding("values", msg)], None
        return found, entries

    def _lost_timers(
        self, head: Head, earliest: Mapping[TimeDomain, int], where: str
    ) -> Iterator[Finding]:
        wanted = None if self.wanted_call is None else self.wanted_call(earliest)
        if wanted is not None and (head.wake_at is None or head.wake_at > wanted):
            first = ", ".join(f"{at} ({domain.name.lower()})" for domain, at in earliest.items())
            msg = (
                f"{where}: its first timers are due at {first}, so its head must ask for a call at "
                f"{wanted} ms or before, got {head.wake_at}"
            )
            yield Finding("timers", msg)


def _find_unnamed(head: Head, segments: Mapping[int, bytes], where: str) -> Iterator[Finding]:
    beside = sorted(set(segments) - set(range(head.first_sequence, head.next_sequence)))
    if beside:
        msg = (
            f"{where}: only segments {head.first_sequence} to {head.next_sequence - 1}, which the "
            f"head names, must be there, got {beside} besides"
        )
        yield Finding("segment", msg)


def _counts(head: Head, rows: int, segments: Mapping[int, bytes], where: str) -> Iterator[Finding]:
    size = sum(len(segments[at]) for at in range(head.first_sequence, head.next_sequence))
    counted, there = (head.log_entries, head.log_bytes), (rows, size)
    if counted != there:
        msg = (
            f"{where}: the head counts {counted[0]} entries in {counted[1]} bytes, and the log must "
            f"have as many, got {there[0]} in {there[1]}"
        )
        yield Finding("counts", msg)


@attrs.frozen
class StoredKeys:
    """Reads the keys of key groups; it is pickled for the workers that run it."""

    record: OperatorRecord

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows: key columns, a state that has entries of the key, key group.

        Raises:
            IncompatibleStateError: The keys are of a type that cannot be read.
        """
        fields = KeyColumns.of(self.record).fields
        return pa.schema(
            [*fields, pa.field("state", pa.string()), pa.field("key_group", pa.int32())]
        )

    def read(self, index: int, blobs: Mapping[int, bytes], where: str) -> Iterator[pa.RecordBatch]:
        """Return the keys of one key group; keys of a damaged head or table are left out.

        Args:
            index: The index of the group.
            blobs: The blobs of the group by sequence number.
            where: The name of the group, for messages.
        """
        # `GroupChecker` reports damage; here only keys that can be read count.
        try:
            log = read_log(head_of(blobs, where), blobs, where)
            tables = GroupTables.of(log, where)
        except PyflinklikeError:
            return
        columns = KeyColumns.of(self.record)
        for name, sections in tables.sections.items():
            declaration = sections[-1].declaration
            if declaration.per_group:
                continue
            try:
                entries = tables.entries(StoredTable(declaration))
                keys = columns.show(_distinct(entries.column("key").combine_chunks()))
            except (PyflinklikeError, pa.ArrowException):
                continue
            what = "timers" if name.startswith(RESERVED_PREFIX) else f"state {name!r}"
            rows = len(keys[0])
            arrays = [
                *keys,
                pa.repeat(pa.scalar(what), rows),
                pa.repeat(pa.scalar(index, pa.int32()), rows),
            ]
            yield from pa.table(arrays, schema=self.schema).to_batches()


def _distinct(keys: pa.Array) -> pa.Array:
    codes = codes_of([keys], len(keys))
    return keys.take(last_of_each(codes, numbers(len(keys))).drop_null())
