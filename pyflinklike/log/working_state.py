# SPDX-License-Identifier: Apache-2.0
"""The working state of one key group: all that a worker may keep of it between batches.

It may be stale and is never the truth: the log decides by its nonce whether it may be used, and
brings it up to date.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import attrs

from pyflinklike.clock import TimeDomain
from pyflinklike.errors import CorruptStateError
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import Section, Segment
from pyflinklike.log.stored_entries import entries_in
from pyflinklike.state.agenda import Agenda
from pyflinklike.state.column_changes import Changes
from pyflinklike.state.table import RESERVED_PREFIX

__all__ = ["WorkingState"]


@attrs.define
class WorkingState:
    """The working state of one key group.

    Args:
        index: Index of the key group.
        nonce: Nonce of the last commit in this state; empty for an empty group.
        next_sequence: Number of the first segment that is not in this state.
        tables: The backend's data, by table name.
        timers: The timers in the order they come up, by domain.
        declared: Ids of the tables that the log has declared since its snapshot, by name.
        declarations: Declarations of the tables in the log, by id.
        pending: Sections read but not yet applied, by table name.  Sections of states that the
            program does not declare stay here.
        added: What a savepoint has added, for the next commit to log: entries of declared tables,
            and those sections of others that stay in `pending`.
        rewrite: Whether the next commit must be a snapshot.
    """

    index: int
    nonce: bytes = b""
    next_sequence: int = 0
    tables: dict[str, Any] = attrs.field(factory=dict)
    timers: dict[TimeDomain, Agenda] = attrs.field(factory=dict)
    declared: dict[str, int] = attrs.field(factory=dict)
    declarations: dict[int, Declaration] = attrs.field(factory=dict)
    pending: dict[str, list[Section]] = attrs.field(factory=dict)
    added: list[Changes | Section] = attrs.field(factory=list)
    rewrite: bool = False

    def read(self, segment: Segment, where: str) -> None:
        """Take in a segment; its entries are decoded once their table is declared."""
        for table_id, declaration in segment.declarations.items():
            self.declarations[table_id] = declaration
            self.declared[declaration.name] = table_id
        for table_id, payload in segment.sections:
            declaration_of = self.declarations.get(table_id)
            if declaration_of is None:
                msg = f"{where}: a segment must declare its tables, got table id {table_id}"
                raise CorruptStateError(msg)
            self.keep(Section(declaration_of, payload, where))
            if declaration_of.name.startswith(RESERVED_PREFIX):
                self.timers.clear()  # they are derived from the table that these entries change
        self.nonce = segment.nonce

    @property
    def pending_entries(self) -> int:
        """The number of entries in the pending sections."""
        return entries_in(chain.from_iterable(self.pending.values()))

    def keep(self, section: Section) -> None:
        """Keep a section until its table is declared."""
        self.pending.setdefault(section.declaration.name, []).append(section)
