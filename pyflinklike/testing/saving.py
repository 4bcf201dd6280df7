# SPDX-License-Identifier: Apache-2.0
"""The savepoint of a harness: with what its program declares, and with what it was restored from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyflinklike import __version__
from pyflinklike.clock import wall_clock
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.segments import Segment
from pyflinklike.replay.described import owner_of
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.savepoints.directory import write_log
from pyflinklike.savepoints.files import place_of
from pyflinklike.state.table import RESERVED_PREFIX
from pyflinklike.types import TypeInformation

__all__ = ["write_savepoint"]


def write_savepoint(
    path: str | os.PathLike[str],
    mode: str,
    operator: KeyedProcessOperator,
    snapshot: Segment,
    *,
    function: str,
    key_type: TypeInformation,
    former: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write a directory of Parquet files.

    Args:
        path: Of the directory.
        mode: "error", or "overwrite" to replace a savepoint that is there.
        operator: Of the harness.
        snapshot: All of its state.
        function: Name of the function's class, which is the operator's uid, too.
        key_type: Of the keys.
        former: What the savepoint that was restored says of its states, by name.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path or the mode does not do.
        IncompatibleStateError: There is state that nobody has said the kind of.
    """
    # As `OperatorRecord.after`: states left out of the program are still stored.
    states = {**former, **operator.declared()}
    _check_described(snapshot, states)
    identity = OperatorIdentity(function, 1, (), key_type.signature)
    record = OperatorRecord(identity, function, __version__, "UTC", None, "None", states)
    there = place_of(path)
    written = there.begin(mode)
    write_log(written, record, [snapshot], __version__, wall_clock())
    there.replace(written)


def _check_described(snapshot: Segment, states: Mapping[str, Any]) -> None:
    tables = {each.name for each in snapshot.declarations.values()}
    owners = {owner_of(each, states) for each in tables if not each.startswith(RESERVED_PREFIX)}
    unknown = sorted(owners - states.keys())
    if unknown:
        msg = (
            "savepoint() writes what the function declares, and what was restored from a savepoint; "
            f"got a restored snapshot that also has {unknown}; declare them, or restore a savepoint "
            "in place of the snapshot"
        )
        raise IncompatibleStateError(msg)
