# SPDX-License-Identifier: Apache-2.0
"""What the log and the runtime ask of a backend: the tables of key groups, what changed, what is warm.

States ask less of it: `pyflinklike.state.table.Tables`.  These are protocols;
`pyflinklike.backends.base.KeyedBackend` is what a backend is made from.
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
    """Whose working state it keeps; assigned anew after a `release`, before the next task."""

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group.

        Args:
            index: Of the group.
            tables: The backend's own data of the group, by table name, which the
                caller keeps with it; empty for a group that has no working state.
        """

    def takes_columns(self, spec: TableSpec) -> bool:
        """Whether `apply` takes the entries of a table as columns rather than one by one."""

    def drain(self) -> Sequence[Changes]:
        """What changed since the last drain; the changes count as taken."""

    def discard_changes(self) -> None:
        """Forget what changed, for a snapshot has it all."""

    def apply(self, changes: Any) -> None:
        """Take over entries that a restore read; they do not count as changed."""

    def contents(self) -> Sequence[Changes]:
        """Every entry of the key group, as changes to an empty one."""

    def count(self) -> int:
        """How many entries the key group holds in all tables."""

    def take_warm(self, index: int) -> WorkingState | None:
        """The working state kept of a key group, or None.

        What is taken is kept no more, so that a group whose batch fails is gone.
        It may be stale; the caller compares its nonce with that of the log.
        """

    def keep_warm(self, state: WorkingState) -> None:
        """Keep the working state of a committed key group for a later batch, or do not."""

    def release(self) -> None:
        """A task is over: let go of what another process may want, such as a lock on files.

        The next task uses the same tables, and may be another owner's.
        """

    def close(self) -> None:
        """Release what the backend holds; it is not used again."""


@runtime_checkable
class LocalStateBackend(KeyedStateBackend, Protocol):
    """A backend whose working state lies where it may be damaged.

    What cannot be read any more is a `LocalStateError` of `enter`, `apply` and `keep_warm`,
    and of all else where nothing was given to `rebuild_from`.
    """

    def rebuild_from(self, logged: Callable[[], Iterable[Changes]] | None) -> None:
        """Where the current key group can be rebuilt from while it is worked on.

        Args:
            logged: Reads every entry there was before the batch, as changes to an empty
                group; None where that cannot be done any more.
        """

    def discard(self) -> None:
        """Close, and delete what is kept."""
