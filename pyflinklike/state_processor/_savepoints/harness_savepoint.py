# SPDX-License-Identifier: Apache-2.0
"""Writes the state of a harness as a savepoint.

The savepoint has the states that the function declares, and the states that the harness restored
from another savepoint.  A harness has one key group, and its operator's uid is the name of the
function's class.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyflinklike import __version__
from pyflinklike._changelog.operator_record import OperatorIdentity, OperatorRecord
from pyflinklike._clock import wall_clock
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state.table import RESERVED_PREFIX
from pyflinklike.state_processor._logs.column_values import type_to_show
from pyflinklike.state_processor._logs.key_columns import KeyColumns, name_of
from pyflinklike.state_processor._logs.state_infos import owner_of
from pyflinklike.state_processor._savepoints.savepoint_directory import write_log
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of
from pyflinklike.types import TupleTypeInfo, TypeInformation
from pyflinklike.types.key_codec import ANY_KEY

if TYPE_CHECKING:
    from pyflinklike.testing.operator_harness import HarnessState, OperatorHarness

__all__ = ["write_savepoint"]

_Columns = tuple[tuple[str, str], ...]


def write_savepoint(
    harness: OperatorHarness, path: str | os.PathLike[str], *, mode: str = "error"
) -> None:
    """Write all state and timers of a harness as a directory of Parquet files.

    The harness does not change.  The savepoint also has restored states that the function does not
    declare.

        write_savepoint(harness, "visits.savepoint")
        again = KeyedProcessHarness(Visits(), key, restore=open_savepoint("visits.savepoint"))

    Args:
        harness: Any harness of `pyflinklike.testing`.
        path: The directory to write, for `open_savepoint`, `process(..., from_savepoint=...)` or
            any tool that reads Parquet.
        mode: "error", or "overwrite" to replace a savepoint that is there.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path or the mode cannot be used.
        IncompatibleStateError: A snapshot was restored with states that the function does not
            declare; or a key does not fit the key columns of the restored savepoint.
    """
    held = harness.state_to_save()
    _check_described(held)
    columns = (
        _name_columns(held.key_columns, held.key_type)
        if held.former is None
        else _former_columns(held.former, held.key_type)
    )
    # 1: all keys of a harness are in one key group.
    identity = OperatorIdentity(held.function, 1, columns, held.key_type.signature)
    record = OperatorRecord(identity, held.function, __version__, "UTC", None, "None", held.states)
    there = savepoint_location_of(path)
    written = there.begin(mode)
    write_log(written, record, [held.snapshot], __version__, wall_clock())
    there.replace(written)


def _check_described(held: HarnessState) -> None:
    tables = {each.name for each in held.snapshot.declarations.values()}
    owners = {
        owner_of(each, held.states) for each in tables if not each.startswith(RESERVED_PREFIX)
    }
    unknown = sorted(owners - held.states.keys())
    if unknown:
        msg = (
            "write_savepoint needs the declaration of each state, got a restored snapshot with the "
            f"undeclared states {unknown}; declare them, or restore a savepoint in place of the snapshot"
        )
        raise IncompatibleStateError(msg)


def _former_columns(former: OperatorRecord, key_type: TypeInformation) -> _Columns:
    """Return the key columns of the savepoint that was restored; the next savepoint has them, too."""
    identity = former.identity
    if identity.key_columns:
        return identity.key_columns
    if identity.key == ANY_KEY or key_type.signature != ANY_KEY:
        return ()
    columns = KeyColumns.of(former)
    return tuple(zip(columns.names, map(name_of, columns.types)))


def _name_columns(names: Sequence[str], key_type: TypeInformation) -> _Columns:
    """Return the names of a harness' key columns, with the types of its keys."""
    kinds = [key_type]
    if len(names) > 1 and isinstance(key_type, TupleTypeInfo):
        kinds = list(key_type.field_types)
    if key_type.signature == ANY_KEY or len(kinds) != len(names):
        return ()
    return tuple((name, name_of(type_to_show(kind))) for name, kind in zip(names, kinds))
