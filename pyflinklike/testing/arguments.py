# SPDX-License-Identifier: Apache-2.0
"""What a harness may be given, and the state that it begins with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.log.regrouping import with_keys_of
from pyflinklike.log.segments import read_segment
from pyflinklike.log.working_state import WorkingState
from pyflinklike.shown import shown
from pyflinklike.types import TypeInformation

__all__ = ["check_arguments", "checked_time", "restored_state"]

_KINDS: dict[str, tuple[Any, str]] = {
    "function": (KeyedProcessFunction, "KeyedProcessFunction is required"),
    "key_selector": (Callable, "key_selector should be a callable function"),
    "state_backend": ((StateBackend, type(None)), "state_backend is a StateBackend"),
    "restore": ((bytes, type(None)), "restore takes the bytes that snapshot() gave"),
    "max_parallelism": (int, "max_parallelism is an int"),
    "key_type": ((TypeInformation, type(None)), "key_type is a TypeInformation"),
}


def check_arguments(**given: Any) -> None:
    """Refuse what no harness can be made of.

    Args:
        **given: The arguments of `KeyedProcessHarness` whose kind matters.

    Raises:
        DeclarationTypeError: One is of the wrong kind.
        DeclarationValueError: `max_parallelism` is below 1.
    """
    for name, value in given.items():
        kind, rule = _KINDS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            msg = f"{rule}, got {shown(value)}; give an instance"
            raise DeclarationTypeError(msg)
    if given["max_parallelism"] < 1:
        got = shown(given["max_parallelism"])
        msg = f"max_parallelism must be at least 1, got {got}; for example 128"
        raise DeclarationValueError(msg)


def checked_time(time: Any, what: str, *, required: bool = False) -> Any:
    """A time in ms, as it was given.

    Args:
        time: An int, or None where that is allowed.
        what: Whose time, for messages.
        required: Whether None is refused.

    Raises:
        StateValueError: It is no int of 64 bits.
    """
    if time is None and not required:
        return None
    if type(time) is not int:
        msg = f"{what} must be an int of ms, got {shown(time)}; convert it"
        raise StateValueError(msg)
    if not MIN_WATERMARK <= time <= MAX_WATERMARK:
        msg = f"{what} must fit in 64 bits, got {shown(time)}; it is in ms"
        raise StateValueError(msg)
    return time


def restored_state(snapshot: bytes | None, key_type: TypeInformation) -> WorkingState:
    """The working state of a harness's only key group.

    Args:
        snapshot: What it holds; nothing if None.
        key_type: Of the keys.

    Raises:
        CorruptStateError: The snapshot is damaged.
        IncompatibleStateError: A key in it does not fit the type.
    """
    state = WorkingState(0)
    if snapshot is not None:
        segment = read_segment(snapshot, "snapshot")
        state.read(with_keys_of(segment, key_type, "snapshot"), "snapshot")
    return state
