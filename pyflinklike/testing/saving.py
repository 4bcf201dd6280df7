# SPDX-License-Identifier: Apache-2.0
"""The savepoint of a harness: the states of its program, and those it was restored from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyflinklike import __version__
from pyflinklike.clock import wall_clock
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.segments import Segment
from pyflinklike.replay.described import owner_of
from pyflinklike.replay.key_types import name_of
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.values import shown_type
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.savepoints.directory import write_log
from pyflinklike.savepoints.files import place_of
from pyflinklike.state.table import RESERVED_PREFIX
from pyflinklike.types import TupleTypeInfo, TypeInformation
from pyflinklike.types.keys import ANY_KEY

__all__ = ["write_savepoint"]

_Columns = tuple[tuple[str, str], ...]


def write_savepoint(
    path: str | os.PathLike[str],
    mode: str,
    operator: KeyedProcessOperator,
    snapshot: Segment,
    *,
    function: str,
    key_type: TypeInformation,
    former: OperatorRecord | None,
    key_columns: Sequence[str],
) -> None:
    """Write a directory of Parquet files.

    Args:
        path: The directory to write.
        mode: "error", or "overwrite" to replace a savepoint that is there.
        operator: Operator of the harness.
        snapshot: All of its state.
        function: Name of the function's class, which is the operator's uid, too.
        key_type: Type of the keys.
        former: Record of the operator in the savepoint that was restored, if there was one.
        key_columns: Names of the columns that make the key, for elements that come as columns.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path or the mode cannot be used.
        IncompatibleStateError: There is a state of a kind that nobody has said, or a key that the
            key columns of the restored savepoint cannot hold.
    """
    # As `OperatorRecord.after`: states left out of the program are still stored.
    states = {**({} if former is None else former.states), **operator.declared()}
    _check_described(snapshot, states)
    columns = _named(key_columns, key_type) if former is None else _former_columns(former, key_type)
    # 1: all keys of a harness are in one key group.
    identity = OperatorIdentity(function, 1, columns, key_type.signature)
    record = OperatorRecord(identity, function, __version__, "UTC", None, "None", states)
    there = place_of(path)
    written = there.begin(mode)
    write_log(written, record, [snapshot], __version__, wall_clock())
    there.replace(written)


def _former_columns(former: OperatorRecord, key_type: TypeInformation) -> _Columns:
    """Return the key columns of the savepoint that was restored, which the next one has, too."""
    identity = former.identity
    if identity.key_columns:
        return identity.key_columns
    if identity.key == ANY_KEY or key_type.signature != ANY_KEY:
        return ()
    columns = KeyColumns.of(former)
    return tuple(zip(columns.names, map(name_of, columns.types)))


def _named(names: Sequence[str], key_type: TypeInformation) -> _Columns:
    """Return key columns that a harness was told, with types as its type of keys says."""
    kinds = [key_type]
    if len(names) > 1 and isinstance(key_type, TupleTypeInfo):
        kinds = list(key_type.field_types)
    if key_type.signature == ANY_KEY or len(kinds) != len(names):
        return ()
    return tuple((name, name_of(shown_type(kind))) for name, kind in zip(names, kinds))


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
