# SPDX-License-Identifier: Apache-2.0
"""How something joins an operator that the operator itself does not know, such as stores."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Extension"]


class Extension(Protocol):
    """Adds tables of its own to an operator, and is told when its calls and batches begin and end.

    `StoreRegistry` is one.  `runtime/assembly.py` is where extensions and operator meet.
    """

    def __contains__(self, name: object) -> bool:
        """Whether a table of this name is its own."""

    def open(self, descriptor: Any) -> Any:
        """What a descriptor declares; the same object for the same declaration.

        Raises:
            DeclarationError: The descriptor is not one of this extension, or its name is taken.
            IncompatibleStateError: What was restored under the name does not fit.
        """

    def get(self, name: str) -> Any:
        """What was opened under a name.

        Raises:
            PyflinklikeError: Nothing was.
        """

    def declared(self) -> dict[str, dict[str, Any]]:
        """What was opened, by name, as plain data for the record of the operator."""

    def begin_call(self) -> None:
        """A record or timer begins.  It is not called before something was opened."""

    def flush(self) -> None:
        """The micro-batch of the current key group ends; this may add outputs."""

    def drop_expired(self) -> None:
        """Delete what has expired in the current key group."""

    def close(self) -> None:
        """The operator ends: nothing that was opened can be used any more."""
