# SPDX-License-Identifier: Apache-2.0
"""The default backend: working state in Python dicts of the worker."""

from __future__ import annotations

import attrs

from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.backends.heap.keyed_heap import HeapKeyedStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.current_key import CurrentKey

__all__ = ["HashMapStateBackend"]

_DEFAULT_WARM_BYTES = 512 * 1024 * 1024


@attrs.frozen
class HashMapStateBackend(StateBackend):
    """Working state in dicts, as Flink's HashMapStateBackend keeps it on the heap.

    Args:
        max_warm_bytes: The most working state that each Python worker keeps between micro-batches,
            in bytes.  If not all key groups fit, those that are used most often stay, and the others
            are rebuilt when they get records.  A group counts with an upper bound of its weight, so
            that the limit holds whatever the entries are.  A batch that needs more than this still
            gets it while it runs.

    Raises:
        DeclarationTypeError, DeclarationValueError: `max_warm_bytes` is not an int >= 0.
    """

    max_warm_bytes: int = attrs.field(default=_DEFAULT_WARM_BYTES)

    @max_warm_bytes.validator
    def _check_max_warm_bytes(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not is_int(value):
            msg = f"max_warm_bytes must be an int of bytes, got {short_repr(value)}; for example 256 * 1024**2"
            raise DeclarationTypeError(msg)
        if value < 0:
            msg = (
                f"max_warm_bytes must be at least 0, got {short_repr(value)}; 0 keeps nothing warm"
            )
            raise DeclarationValueError(msg)

    def create_keyed_state_backend(self, current: CurrentKey, owner: str) -> HeapKeyedStateBackend:
        """Create the tables of one operator instance."""
        return HeapKeyedStateBackend(current, owner, self.max_warm_bytes)

    def __str__(self) -> str:
        return "HashMapStateBackend"
