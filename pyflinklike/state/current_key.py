# SPDX-License-Identifier: Apache-2.0
"""The current key, under which the tables of an operator look for their entries."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

import attrs

from pyflinklike.errors import StateAccessError


class _NoKey:
    """Stands for the current key while no key is current.

    Every access hashes the current key, and this object refuses to be hashed.  So any access
    outside a keyed call raises the right error, and other accesses pay nothing for the check.
    """

    def __hash__(self) -> int:
        msg = (
            "keyed state and timers can only be used while process_element or on_timer runs, "
            "got an access with no current key; in open() only create the state"
        )
        raise StateAccessError(msg)

    def __repr__(self) -> str:
        return "NO_KEY"


NO_KEY: Final = _NoKey()


class _NoNamespace:
    """Stands for the current namespace while no namespace is current; see `_NoKey`."""

    def __hash__(self) -> int:
        msg = (
            "state and timers of a window can only be used while that window is worked on, "
            "got an access with no current window; use them within the call that gets them"
        )
        raise StateAccessError(msg)

    def __repr__(self) -> str:
        return "NO_NAMESPACE"


NO_NAMESPACE: Final = _NoNamespace()


@attrs.define
class CurrentKey:
    """The current key of one operator, in its frozen form; all tables of the operator read it.

    Args:
        key: The frozen key, or `NO_KEY` outside a keyed call.
        namespace: The frozen namespace, which divides the state of the key further; only
            namespaced tables read it.
    """

    key: Hashable = NO_KEY
    namespace: Hashable = NO_NAMESPACE


class TableKey(Protocol):
    """The object from which a table reads the key to look under."""

    @property
    def key(self) -> Hashable:
        """The frozen key, or `NO_KEY`, which cannot be hashed."""


GROUP_KEY: Final = None
"""Stands for the key if entries belong to the key group; a key of the user is never None."""


@attrs.frozen
class KeyOfGroup:
    """One key for all keys of a group, for access while any key is current."""

    _current: CurrentKey

    @property
    def key(self) -> Hashable:
        """`GROUP_KEY`; hashing the current key refuses an access without one."""
        hash(self._current.key)
        return GROUP_KEY


class KeyAtAnyTime:
    """One key for all keys of a group, for access even while no key is current."""

    key = GROUP_KEY


@attrs.define
class NamespacedKey:
    """The pair of the current key and the current namespace."""

    _current: CurrentKey

    @property
    def key(self) -> tuple[Hashable, Hashable]:
        """The pair; hashing it refuses an access if either is missing."""
        current = self._current
        return current.key, current.namespace

    @key.setter
    def key(self, pair: tuple[Hashable, Hashable]) -> None:
        """Make both current."""
        self._current.key, self._current.namespace = pair
