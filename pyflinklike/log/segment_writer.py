# SPDX-License-Identifier: Apache-2.0
"""Changes written as segments: those of one commit, and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import attrs

from pyflinklike.log.chain import divided
from pyflinklike.log.column_entries import encode_columns
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.entries import encode_entries
from pyflinklike.log.segments import Section, Segment
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.column_changes import Changes, ColumnChanges
from pyflinklike.types import TypeInformation

__all__ = ["SegmentWriter"]


@attrs.frozen
class SegmentWriter:
    """Write segments for one operator.

    Args:
        key_type: Type in which keys are written.
        segment_bytes: Largest plain body of a segment with more than one entry, in bytes.
    """

    key_type: TypeInformation
    segment_bytes: int

    def changed(
        self, changes: Iterable[Changes | Section], state: WorkingState
    ) -> Iterator[Segment]:
        """Write the changes of one commit as segments that follow the state; one segment at least.

        Args:
            changes: Changes, and sections that are written as they are; without any, the segment is
                empty.
            state: State before the commit; learns which tables are declared.
        """
        return divided(self._sections(changes), state, state.nonce, self.segment_bytes)

    def snapshot(self, contents: Iterable[Changes], state: WorkingState) -> Iterator[Segment]:
        """Write segments that need no other: these entries, and those of undeclared states.

        Args:
            contents: Every entry of the declared tables.
            state: State of the group; learns which tables are declared, and forgets all others.
        """
        state.declared.clear()
        state.declarations.clear()
        undeclared = chain.from_iterable(state.pending.values())
        sections = chain(self._sections(contents), undeclared)
        return divided(sections, state, b"", self.segment_bytes)

    def _sections(self, changes: Iterable[Changes | Section]) -> Iterator[Section]:
        for each in changes:
            if isinstance(each, Section):
                yield each
                continue
            declaration = Declaration.of(each.spec, self.key_type)
            encode = encode_columns if isinstance(each, ColumnChanges) else encode_entries
            for payload in encode(each, self.key_type, self.segment_bytes):
                yield Section(declaration, payload)
