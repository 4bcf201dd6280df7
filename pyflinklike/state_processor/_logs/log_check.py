# SPDX-License-Identifier: Apache-2.0
"""Checks the log of a key group, and reports all the damage that can be found, not only the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.entry_codec import rows_in
from pyflinklike._changelog.key_group_state import timers_table
from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segment_chain import segment_name
from pyflinklike._changelog.segments import Section, Segment, read_segment
from pyflinklike._changelog.stored_table import StoredTable, replay
from pyflinklike._clock import TimeDomain
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.state_processor._logs.checkpoint_logs import check_log
from pyflinklike.state_processor._logs.group_reader import sections_by_table
from pyflinklike.state_processor._logs.state_infos import declaration_of

__all__ = ["Checked", "Finding", "GroupChecker"]

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
        self, index: int, head: bytes | None, segments: Mapping[int, bytes], where: str
    ) -> tuple[list[Finding], Checked]:
        """Return all damage of a key group, and the amount that was checked.

        Args:
            index: The index of the group.
            head: The stored head; None if the group lacks it.
            segments: The stored segments, by sequence number.
            where: The name of the group, for messages.
        """
        found = list(self._unreadable(segments, where))
        if index not in self.served_at:
            msg = f"{where}: a key group must be in the operator's registry, got one that is not"
            found.append(Finding("registry", msg))
            return found, Checked(1, len(segments))
        if head is None:
            msg = f"{where}: a key group must have a head, got none"
            return [*found, Finding("head", msg)], Checked(1, len(segments))
        entries = 0
        try:
            read = Head.from_bytes(head, where)
        except CorruptStateError as error:
            found.append(Finding("head", str(error)))
        else:
            found += _find_unnamed(read, segments, where)
            try:
                log = check_log(self.record.identity, self.served_at[index], read, segments, where)
            except CorruptStateError as error:
                # A damaged segment was found before, and breaks the chain as well: report it once.
                if all(each.message != str(error) for each in found):
                    found.append(Finding("chain", str(error)))
            else:
                more, entries = self._contents(read, log, segments, where)
                found += more
        return found, Checked(1, len(segments), entries)

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
            tables = sections_by_table(log, where)
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
