# SPDX-License-Identifier: Apache-2.0
"""The interface through which commands ask a checkpoint or a savepoint; it is one for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import pyarrow as pa

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.state_infos import StateInfo, StateInfos

__all__ = ["Answers", "EntryChoice", "TimerCounts", "order_of"]


class Answers(Protocol):
    """The answers of a checkpoint after a micro-batch, or of a savepoint."""

    @property
    def where(self) -> str:
        """The name of the checkpoint or savepoint in messages."""

    @property
    def batch_id(self) -> int | None:
        """The micro-batch of all answers; None for a savepoint without one."""

    def facts(self) -> str:
        """Describe the checkpoint or savepoint for the line above a list of its states."""

    def states(self, *, sizes: bool = False) -> StateInfos:
        """Return the states of the chosen operator, or of all."""

    def count_keys(self) -> dict[str, int]:
        """Count the keys with entries, by the uid of the operator."""

    def count_timers(self) -> dict[str, dict[str, int]]:
        """Count the registered timers, by the uid of the operator and then by domain."""

    def rows(self, info: StateInfo, choice: EntryChoice) -> pa.Table:
        """Return the chosen entries of a state, sorted."""

    def timers(
        self, domain: str | None, before: int | None, limit: int | None
    ) -> list[TimerCounts]:
        """Return the timers of each operator.

        Args:
            domain: "event_time" or "processing_time"; None returns both.
            before: If given, only timers that are due before this time, in ms.
            limit: The most rows of each operator; None returns all.
        """

    def records(self) -> list[OperatorRecord]:
        """Return the operator records of the chosen operators."""

    def clock(self) -> BatchClock | None:
        """Return the times of the batch, or None if a savepoint does not record them."""

    def count_stamped(self, info: StateInfo, after: int, until: int) -> int:
        """Count the entries with a stamp after `after` and not after `until`, both in ms.

        The state must have a TTL.
        """

    def entries(self, info: StateInfo) -> Any:
        """Return all entries of a state, in the form for `compare`."""

    def timer_entries(self, uid: str | None) -> tuple[Any, list[str]]:
        """Return the timers of an operator for `compare`, None without a uid, and its key columns."""

    def compare(
        self, before: Any, after: Any, keys: list[str], limit: int | None
    ) -> tuple[dict[str, int], pa.Table]:
        """Compare entries: return the number of differences by change, and the first of them.

        Args:
            before: The result of `entries` or `timer_entries`; None if there are no entries.
            after: The same of other answers of this class; only one of the two may be None.
            keys: The names of the key columns.
            limit: The most rows to return; None returns all.
        """

    def export(self, out: str, kind: str) -> None:
        """Write all states and timers to a directory, as "savepoint" or one of `FORMATS`."""


@attrs.frozen
class EntryChoice:
    """A choice of the entries of a state.

    Args:
        limit: The most entries, the first ones in the order of keys; None chooses all.
        where: A condition of Spark's SQL, or None.
        alive: True chooses entries that have not expired, False expired ones, None both.
        key: The only key, if `has_key`.
        has_key: Whether only the entries of `key` are chosen; None is a key, so it cannot say that.
    """

    limit: int | None = None
    where: str | None = None
    alive: bool | None = None
    key: Any = None
    has_key: bool = False


@attrs.frozen
class TimerCounts:
    """The number of timers of an operator, and the next of them.

    Args:
        uid: The uid of the operator.
        counts: A dict for each domain: `domain`, `timers`, `due`, and `first` and `last` in ms.
        rows: The next timers, sorted by time.
    """

    uid: str
    counts: list[dict[str, Any]]
    rows: pa.Table


_ENTRY = (
    *("namespace", "user_key", "position", "store_key", "window_start", "number"),
    *("session_start", "session_end", "valid_from", "last_use"),
)


def order_of(columns: Sequence[tuple[str, Any]], keys: Sequence[str]) -> list[str]:
    """Return the sort order: key columns first, then the columns that differ within a key.

    Args:
        columns: Names and Arrow types of the rows' columns.
        keys: The names of the key columns.
    """
    types = dict(columns)
    # Timers of one key differ in their time; two entries of a timestamped store may have the same.
    timers = ("domain", "timestamp") if "domain" in types else ()
    wanted = [name for name in (*keys, *_ENTRY, *timers) if name in types]
    # Arrow sorts no structs, lists or maps.
    return [name for name in wanted if not pa.types.is_nested(types[name])]
