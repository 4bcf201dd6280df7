# SPDX-License-Identifier: Apache-2.0
"""The protocol of what joins an operator without being known to it, such as stores."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Extension"]


class Extension(Protocol):
    """Adds its own tables to an operator, and follows the operator's calls and batches.

    `StoreRegistry` is one.  `keyed_process_operator` brings extension and operator together.
    """

    def __contains__(self, name: object) -> bool:
        """Return whether a table of this name belongs to the extension."""

    def open(self, descriptor: Any) -> Any:
        """Return the declared object: the same one for the same declaration.

        Raises:
            DeclarationError: The descriptor is not one of this extension, or its name is taken.
            IncompatibleStateError: The state restored under the name does not fit.
        """

    def get(self, name: str) -> Any:
        """Return the object that was opened under a name.

        Raises:
            PyflinklikeError: Nothing was opened under it.
        """

    def declared(self) -> dict[str, dict[str, Any]]:
        """Describe each opened object by name, as plain data for the operator record."""

    def begin_call(self) -> None:
        """Begin a record or timer; the operator calls this only after something was opened."""

    def flush(self) -> None:
        """End the micro-batch of the current key group, which may add outputs."""

    def drop_expired(self) -> None:
        """Delete expired entries of the current key group."""

    def close(self) -> None:
        """Close all opened objects, which cannot be used after that."""
