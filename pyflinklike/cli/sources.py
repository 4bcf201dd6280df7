# SPDX-License-Identifier: Apache-2.0
"""What commands look into: a checkpoint or a savepoint, under one set of questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import attrs
import pyarrow as pa

from pyflinklike.errors import DeclarationValueError, UnknownStateError
from pyflinklike.replay.described import StateInfo, StateInfos, state_of
from pyflinklike.savepoints.files import place_of
from pyflinklike.savepoints.manifest import MANIFEST

__all__ = [
    "Asked",
    "Source",
    "Timers",
    "chosen",
    "is_savepoint",
    "opened",
    "operator_of",
    "order_of",
]

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

    def rows(self, info: StateInfo, asked: Asked) -> pa.Table:
        """Entries of a state."""

    def timers(self, domain: str | None, before: int | None, limit: int | None) -> list[Timers]:
        """The timers of each operator.

        Args:
            domain: Only of this one.
            before: Only those that are due before it, in ms.
            limit: At most so many rows of an operator; None for all.
        """

    def export(self, out: str, kind: str) -> None:
        """Write all states and timers to a directory, as "savepoint", "parquet" or "jsonl"."""


@contextmanager
def opened(
    path: str, operator: str | None, batch: int | None, master: str, *, quiet: bool = True
) -> Iterator[Source]:
    """What is at a path, until the end of the block.

    Args:
        path: Of a checkpoint or a savepoint.
        operator: Spark's number of an operator or its uid; None for all there are.
        batch: After which micro-batch; None for the last.
        master: Where Spark runs for a checkpoint; a savepoint needs none.
        quiet: Whether what Java prints is kept away.

    Raises:
        DeclarationValueError: Nothing is there, or a batch is asked of a savepoint.
    """
    if is_savepoint(path):
        if batch is not None:
            msg = (
                f"--batch chooses a batch of a checkpoint, got savepoint {path!r}, which is of one"
            )
            raise DeclarationValueError(f"{msg}; leave it away")
        from pyflinklike.cli.saved import SavepointSource

        yield SavepointSource.opened(path, operator)
        return
    from pyflinklike.cli.checkpoints import CheckpointSource
    from pyflinklike.cli.sessions import session

    with session(master, quiet=quiet) as spark:
        yield CheckpointSource.opened(spark, path, operator_of(operator), batch)


def operator_of(text: str | None) -> int | str | None:
    """Spark's number of an operator, or its uid, as it was typed."""
    return int(text) if text is not None and text.isdecimal() else text


def is_savepoint(path: str) -> bool:
    """Whether a path leads to a savepoint, and not to a checkpoint.

    Raises:
        DeclarationValueError: Nothing is there, which is seen before Spark is started.
    """
    try:
        place = place_of(path)
        if place.exists(MANIFEST):
            return True
        if place.exists():
            return False
    except (DeclarationValueError, OSError):
        if ":" in path:  # of a file system that Spark may know, and Arrow does not
            return False
        raise
    msg = f"PATH must be a checkpoint or a savepoint, got {path!r}, where there is nothing"
    raise DeclarationValueError(f"{msg}; give the checkpointLocation of a query")


def chosen(source: Source, name: str) -> StateInfo:
    """The state of a name, whichever operator has it.

    Raises:
        UnknownStateError: There is none, or several operators have one.
    """
    infos = source.states()
    having = [info for info in infos if info.name == name]
    if len(having) > 1:
        uids = [info.uid or str(info.operator_id) for info in having]
        msg = f"{source.where}: state {name!r} must be one operator's, got those of {uids}"
        raise UnknownStateError(f"{msg}; choose with --operator")
    return state_of(infos, name, source.where)


def order_of(columns: Sequence[tuple[str, Any]], keys: Sequence[str]) -> list[str]:
    """The columns by which rows are sorted: the key's, then those that tell its entries apart.

    Args:
        columns: Names and Arrow types of the rows.
        keys: The key columns.
    """
    types = dict(columns)
    wanted = [name for name in (*keys, *_ENTRY, "domain") if name in types]
    return [name for name in wanted if not pa.types.is_nested(types[name])]
