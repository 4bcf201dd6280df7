# SPDX-License-Identifier: Apache-2.0
"""What the log and the runtime use of a backend: tables of key groups, changes, warm state.

States use less of a backend: `pyflinklike.state.table.Tables`.  These are protocols; a backend is
made from `pyflinklike.backends.base.KeyedBackend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.column_changes import Changes
from pyflinklike.state.table import Tables, TableSpec

__all__ = ["KeyedStateBackend", "LocalStateBackend"]


class KeyedStateBackend(Tables, Protocol):
    """The tables of one operator, pointed at one key group at a time."""

    owner: str
    """The operator whose state this is; set anew after a `release`, before the next task."""

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group.

        Args:
            index: Of the group.
            tables: The backend's own data of the group, by table name, which the
                caller keeps with it; empty for a group that has no working state.
        """

    def takes_columns(self, spec: TableSpec) -> bool:
        """Return whether `apply` takes the entries of a table as columns, not one by one."""

    def drain(self) -> Sequence[Changes]:
        """Return what changed since the last drain, and count it as taken."""

    def discard_changes(self) -> None:
        """Forget what changed, because a snapshot holds all of it."""

    def apply(self, changes: Any) -> None:
        """Take over entries that a restore has read; they do not count as changed."""

    def contents(self) -> Sequence[Changes]:
        """Return every entry of the key group, as changes to an empty one."""

    def count(self) -> int:
        """Count the entries of the key group in all tables."""

    def take_warm(self, index: int) -> WorkingState | None:
        """Return the working state kept of a key group, or None, and keep it no more.

        Since it is no longer kept, a group whose batch fails is gone.  It may be stale: the caller
        compares its nonce with the head's.
        """

    def keep_warm(self, state: WorkingState) -> None:
        """Keep the working state of a committed key group for a later batch, if there is room."""

    def release(self) -> None:
        """Release what another process may want at the end of a task, such as a lock on files.

        The next task uses the same tables, and may be another owner's.
        """

    def close(self) -> None:
        """Release everything; the backend is not used again."""


@runtime_checkable
class LocalStateBackend(KeyedStateBackend, Protocol):
    """A backend whose working state lies where it may be damaged.

    Data that can no longer be read raises a `LocalStateError` from `enter`, `apply` and
    `keep_warm`, and from every other method where `rebuild_from` was given nothing.
    """

    def rebuild_from(self, logged: Callable[[], Iterable[Changes]] | None) -> None:
        """Say from where the current key group can be rebuilt while it is worked on.

        Args:
            logged: Reads every entry as it was before the batch, as changes to an empty group; None
                once the log can no longer give them.
        """

    def discard(self) -> None:
        """Close the backend, and delete its data."""
