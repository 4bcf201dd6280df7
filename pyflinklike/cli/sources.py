# SPDX-License-Identifier: Apache-2.0
"""Opens what commands look into: a savepoint."""

from __future__ import annotations

from pyflinklike.cli.asking import Source
from pyflinklike.cli.saved import SavepointSource
from pyflinklike.errors import DeclarationValueError, UnknownStateError
from pyflinklike.replay.described import StateInfo, state_of
from pyflinklike.savepoints.files import place_of
from pyflinklike.savepoints.manifest import MANIFEST

__all__ = ["check_savepoint_at", "chosen", "opened"]


def opened(path: str, operator: str | None) -> Source:
    """What is at a path.

    Args:
        path: Of a savepoint.
        operator: The uid of an operator; None for all there are.

    Raises:
        DeclarationValueError: No savepoint is there.
    """
    check_savepoint_at(path)
    return SavepointSource.opened(path, operator)


def check_savepoint_at(path: str) -> None:
    """Refuse what is no savepoint.

    Raises:
        DeclarationValueError: Nothing is there, or something else.
    """
    place = place_of(path)
    if not place.exists(MANIFEST):
        what = "another directory" if place.exists() else "nothing"
        msg = f"PATH must be the directory of a savepoint, got {path!r}, where there is {what}"
        raise DeclarationValueError(f"{msg}; take_savepoint() makes one of a checkpoint")


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
