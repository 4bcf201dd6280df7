# SPDX-License-Identifier: Apache-2.0
"""What commands ask of a checkpoint or a savepoint: one set of questions for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import pyarrow as pa

from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.described import StateInfo, StateInfos

__all__ = ["Asked", "Source", "Timers", "order_of"]

_ENTRY = (
    *("namespace", "user_key", "position", "store_key", "window_start", "number"),
    *("session_start", "session_end", "valid_from", "last_use"),
)


@attrs.frozen
class Asked:
    """Which entries of a state.

    Args:
        limit: At most so many, the first in the order of their keys; None for all.
        where: A condition of Spark's SQL; None for none.
        alive: Only those that are not expired, or only those that are; None for both.
        key: Only of this key.
        has_key: Whether there is one.
    """

    limit: int | None = None
    where: str | None = None
    alive: bool | None = None
    key: Any = None
    has_key: bool = False


@attrs.frozen
class Timers:
    """Timers of an operator.

    Args:
        uid: Of the operator.
        counts: Of each domain: `domain`, `timers`, `due`, and the `first` and `last` in ms.
        rows: The next of them.
    """

    uid: str
    counts: list[dict[str, Any]]
    rows: pa.Table


class Source(Protocol):
    """A checkpoint after a micro-batch, or a savepoint."""

    @property
    def where(self) -> str:
        """What messages call it."""

    @property
    def batch_id(self) -> int | None:
        """The micro-batch that all answers are of; None of a savepoint that has none."""

    def facts(self) -> str:
        """What is told of it above a list of its states."""

    def states(self, *, sizes: bool = False) -> StateInfos:
        """Its states, of the operator that was asked for or all."""

    def keys(self) -> dict[str, int]:
        """How many keys have entries, by the uid of the operator."""

    def registered_counts(self) -> dict[str, dict[str, int]]:
        """How many timers are registered: by the uid of the operator, then by domain."""

    def rows(self, info: StateInfo, asked: Asked) -> pa.Table:
        """Entries of a state."""

    def timers(self, domain: str | None, before: int | None, limit: int | None) -> list[Timers]:
        """The timers of each operator.

        Args:
            domain: Only of this one.
            before: Only those that are due before it, in ms.
            limit: At most so many rows of an operator; None for all.
        """

    def records(self) -> list[OperatorRecord]:
        """What the operators that were asked for say of themselves."""

    def clock(self) -> BatchClock | None:
        """The times of the batch; None of a savepoint that was not told them."""

    def count_stamped(self, info: StateInfo, after: int, until: int) -> int:
        """How many entries of a state with a TTL have a stamp after one time, and not after another.

        Args:
            info: Of the state.
            after: In ms.
            until: In ms.
        """

    def held(self, info: StateInfo) -> Any:
        """All entries of a state, as `compared` takes them."""

    def registered(self, uid: str | None) -> tuple[Any, list[str]]:
        """The timers of an operator, as `compared` takes them, and its key columns; None for no uid."""

    def compared(
        self, before: Any, after: Any, keys: list[str], limit: int | None
    ) -> tuple[dict[str, int], pa.Table]:
        """What differs between entries: how many by change, and the first.

        Args:
            before: Entries of a source of this kind; None for none.
            after: The same; one of both is there.
            keys: The key columns.
            limit: At most so many rows; None for all.
        """

    def export(self, out: str, kind: str) -> None:
        """Write all states and timers to a directory, as "savepoint" or one of `files.FORMATS`."""


def order_of(columns: Sequence[tuple[str, Any]], keys: Sequence[str]) -> list[str]:
    """The columns by which rows are sorted: the key's, then those that tell its entries apart.

    Args:
        columns: Names and Arrow types of the rows.
        keys: The key columns.
    """
    types = dict(columns)
    # The time of a timer tells it apart; that of an entry of a timestamped store does not.
    timers = ("domain", "timestamp") if "domain" in types else ()
    wanted = [name for name in (*keys, *_ENTRY, *timers) if name in types]
    return [name for name in wanted if not pa.types.is_nested(types[name])]
