# SPDX-License-Identifier: Apache-2.0
"""The arguments of a harness, and the state that it begins with."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import attrs

from pyflinklike.api.operator_state import refuse_checkpointed_function
from pyflinklike.backends.base import StateBackend
from pyflinklike.checks import is_int, is_int64
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.regrouping import with_keys_of
from pyflinklike.log.segments import Segment, read_segment
from pyflinklike.log.working_state import WorkingState
from pyflinklike.savepoints.directory import open_savepoint
from pyflinklike.shown import instance_of, shown
from pyflinklike.types import TypeInformation

__all__ = ["Restored", "check_arguments", "check_key_selector", "checked_time", "restored_state"]


@attrs.frozen
class Restored:
    """The beginning of a harness.

    Args:
        state: The working state of its only key group.
        record: Record of the operator in a savepoint; None for a snapshot, which has none.
    """

    state: WorkingState
    record: OperatorRecord | None = None


def check_arguments(
    function: Any,
    kinds: tuple[type, ...],
    state_backend: Any,
    restore: Any,
    key_type: Any,
    max_parallelism: Any,
) -> None:
    """Refuse arguments that no harness can be made of.

    Args:
        function: The function under test.
        kinds: The classes of functions that the harness drives.
        state_backend: A backend, or None for the default.
        restore: A snapshot or the path of a savepoint, or None for no state.
        key_type: A type, or None for keys of any type.
        max_parallelism: A number of key groups.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: `max_parallelism` is below 1.
    """
    names = " or ".join(each.__name__ for each in kinds)
    _check_kind(function, kinds, f"{names} is required")
    refuse_checkpointed_function(function)
    _check_kind(state_backend, (StateBackend, type(None)), "state_backend is a StateBackend")
    rule = "restore takes the bytes that snapshot() gave, or the path of a savepoint"
    _check_kind(restore, (bytes, str, os.PathLike, type(None)), rule)
    _check_kind(key_type, (TypeInformation, type(None)), "key_type is a TypeInformation")
    _check_kind(max_parallelism, int, "max_parallelism is an int")
    if max_parallelism < 1:
        msg = f"max_parallelism must be at least 1, got {shown(max_parallelism)}; for example 128"
        raise DeclarationValueError(msg)


def check_key_selector(key_selector: Any, name: str) -> None:
    """Refuse a key selector that cannot be called.

    Args:
        key_selector: The argument of the harness.
        name: Name of the argument, for messages.

    Raises:
        DeclarationTypeError: It cannot be called.
    """
    _check_kind(key_selector, Callable, f"{name} should be a callable function")


def _check_kind(given: Any, kind: Any, rule: str) -> None:
    if not isinstance(given, kind) or isinstance(given, bool):
        msg = f"{rule}, got {shown(given)}; {instance_of(kind, given, 'give an instance')}"
        raise DeclarationTypeError(msg)


def checked_time(time: Any, what: str, *, required: bool = False) -> Any:
    """Return a time in ms as it was given.

    Args:
        time: An int, or None where that is allowed.
        what: What has the time, for messages.
        required: Whether None is refused.

    Raises:
        StateValueError: The time is no int of 64 bits.
    """
    if time is None and not required:
        return None
    if not is_int(time):
        msg = f"{what} must be an int of ms, got {shown(time)}; convert it"
        raise StateValueError(msg)
    if not is_int64(time):
        msg = f"{what} must fit in 64 bits, got {shown(time)}; it is in ms"
        raise StateValueError(msg)
    return time


def restored_state(
    snapshot: bytes | str | os.PathLike[str] | None, key_type: TypeInformation
) -> Restored:
    """Return what a harness begins with.

    Args:
        snapshot: The bytes of a snapshot, or the directory of a savepoint of one operator; None for
            no state.
        key_type: Type of the keys.

    Raises:
        CorruptStateError: The snapshot is damaged.
        IncompatibleStateError: A key in it does not fit the type.
        StateValueError: A value in a savepoint does not fit its type.
        UnknownStateError: A savepoint has several operators.
    """
    state = WorkingState(0)
    if snapshot is None:
        return Restored(state)
    segment, record = _saved(snapshot)
    state.read(with_keys_of(segment, key_type, "snapshot"), "snapshot")
    return Restored(state, record)


def _saved(snapshot: bytes | str | os.PathLike[str]) -> tuple[Segment, OperatorRecord | None]:
    if isinstance(snapshot, bytes):
        return read_segment(snapshot, "snapshot"), None
    savepoint = open_savepoint(snapshot)
    record = savepoint.manifest.operator(None, savepoint.place.where).record
    return savepoint.segment(), record
