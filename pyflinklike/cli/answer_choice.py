# SPDX-License-Identifier: Apache-2.0
"""The opening of a checkpoint or a savepoint for a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyflinklike.cli.asking import Source
from pyflinklike.errors import DeclarationValueError, UnknownStateError
from pyflinklike.replay.described import StateInfo, state_of
from pyflinklike.savepoints.files import place_of
from pyflinklike.savepoints.manifest import MANIFEST

__all__ = ["chosen", "is_savepoint", "opened", "operator_of"]


@contextmanager
def opened(
    path: str, operator: str | None, batch: int | None, master: str, *, quiet: bool = True
) -> Iterator[Source]:
    """Open the checkpoint or savepoint at a path until the end of the block.

    Args:
        path: The path of a checkpoint or a savepoint.
        operator: Spark's number of an operator or its uid; None for all operators.
        batch: The number of a micro-batch; None for the last.
        master: The master URL of Spark for a checkpoint; a savepoint needs no Spark.
        quiet: Whether to hide what Java prints.

    Raises:
        DeclarationValueError: Nothing is at the path, or a batch is asked of a savepoint.
    """
    if is_savepoint(path):
        if batch is not None:
            msg = (
                f"--batch chooses a batch of a checkpoint, got savepoint {path!r}, which is of one"
            )
            raise DeclarationValueError(f"{msg}; leave it out")
        from pyflinklike.cli.saved import SavepointSource

        yield SavepointSource.opened(path, operator)
        return
    from pyflinklike.cli.checkpoints import CheckpointSource
    from pyflinklike.cli.sessions import session

    with session(master, quiet=quiet) as spark:
        yield CheckpointSource.opened(spark, path, operator_of(operator), batch)


def operator_of(text: str | None) -> int | str | None:
    """Read Spark's number of an operator, or its uid, as the user typed it."""
    return int(text) if text is not None and text.isdecimal() else text


def is_savepoint(path: str) -> bool:
    """Return whether a path leads to a savepoint instead of a checkpoint.

    Raises:
        DeclarationValueError: Nothing is at the path; this is found before Spark starts.
    """
    try:
        place = place_of(path)
        if place.exists(MANIFEST):
            return True
        if place.exists():
            return False
    except (DeclarationValueError, OSError):
        if ":" in path:  # Spark may know this file system although Arrow does not
            return False
        raise
    msg = f"PATH must be a checkpoint or a savepoint, got {path!r}, where there is nothing"
    raise DeclarationValueError(f"{msg}; give the checkpointLocation of a query")


def chosen(source: Source, name: str) -> StateInfo:
    """Return the state of a name, whichever operator has it.

    Raises:
        UnknownStateError: No operator has such a state, or several have.
    """
    infos = source.states()
    having = [info for info in infos if info.name == name]
    if len(having) > 1:
        uids = [info.uid or str(info.operator_id) for info in having]
        msg = f"{source.where}: state {name!r} must be one operator's, got those of {uids}"
        raise UnknownStateError(f"{msg}; choose with --operator")
    return state_of(infos, name, source.where)
