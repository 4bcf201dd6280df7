# SPDX-License-Identifier: Apache-2.0
"""Opens what commands look into: a checkpoint or a savepoint."""

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
            raise DeclarationValueError(f"{msg}; leave it out")
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
