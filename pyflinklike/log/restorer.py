# SPDX-License-Identifier: Apache-2.0
"""Sections restored as entries of the tables that a program declares."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pyflinklike.log.backend import KeyedStateBackend
from pyflinklike.log.column_entries import decode_columns
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import Section
from pyflinklike.log.stored_entries import decode_entries, has_stamps
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.column_changes import Changes
from pyflinklike.state.table import TableSpec
from pyflinklike.types import TypeInformation

__all__ = ["Restorer"]


@attrs.frozen
class Restorer:
    """Read sections for one operator, in the form that its backend takes.

    Args:
        backend: Says of which tables it takes columns.
        key_type: The program's type of keys.
        where: Names a key group for messages.
    """

    backend: KeyedStateBackend
    key_type: TypeInformation
    where: Callable[[int], str]

    def restored(self, state: WorkingState, spec: TableSpec, stamp: int) -> list[Changes]:
        """Decode the entries of a table that were read but not yet applied.

        Args:
            state: Holds the sections as `pending`, and loses them.
            spec: The program's declaration of the table.
            stamp: Stamp for entries written before TTL was switched on, in ms.

        Raises:
            IncompatibleStateError: They were written under another declaration.
        """
        changes = []
        for section in state.pending.pop(spec.name, ()):
            changes.append(self._entries(state, section, spec, stamp))
            # Without a snapshot, the next load from the log would stamp these entries anew, and
            # untouched entries would stay as if their settings had never been others.
            if has_stamps(section) != spec.paired or section.declaration.settings != spec.settings:
                state.rewrite = True
        return changes

    def added(
        self, state: WorkingState, section: Section, spec: TableSpec | None, stamp: int
    ) -> Changes | None:
        """Decode a section of a savepoint, and leave its entries to the next commit to log.

        Args:
            state: State of the group; keeps the section undecoded if `spec` is None.
            section: None of its entries is in the group yet.
            spec: The program's declaration of the table, or None.
            stamp: Stamp for entries written before TTL was switched on, in ms.

        Raises:
            IncompatibleStateError: They were written under another declaration.
        """
        if spec is None:
            state.keep(section)
            state.added.append(section)
            return None
        changes = self._entries(state, section, spec, stamp)
        state.added.append(changes)
        return changes

    def _entries(
        self, state: WorkingState, section: Section, spec: TableSpec, stamp: int
    ) -> Changes:
        section.declaration.check(Declaration.of(spec, self.key_type))
        decode = decode_columns if self.backend.takes_columns(spec) else decode_entries
        return decode(section, spec, self.key_type, stamp, self.where(state.index))
