# SPDX-License-Identifier: Apache-2.0
"""The share of an operator's state that a replica holds: all, some keys, or some key groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import attrs

from pyflinklike.checks import is_int
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateAccessError
from pyflinklike.shown import shown

__all__ = ["ALL", "Held", "Part", "Route"]

Route = Callable[[Any], tuple[Any, int]]
"""Returns, for a key in the user's form, the key as it is stored, and its key group.

It raises a `StateValueError` if the key is no value of the key columns."""


@attrs.frozen
class Held:
    """The key groups and keys that a replica holds.

    Args:
        groups: Numbers of key groups; None for all.
        keys: Keys as they are stored; None for all keys of these groups.
    """

    groups: frozenset[int] | None = None
    keys: frozenset[Hashable] | None = attrs.field(default=None, repr=False)

    def has_group(self, index: int) -> bool:
        """Return whether a key group is held."""
        return self.groups is None or index in self.groups

    def has_key(self, frozen: Hashable) -> bool:
        """Return whether a key may be asked for, if its key group is held."""
        return self.keys is None or frozen in self.keys

    def check(self, key: Any, frozen: Hashable, index: int) -> None:
        """Check that a key is held.

        Args:
            key: The key in the user's form, for messages.
            frozen: The key as it is stored.
            index: The key group of the key.

        Raises:
            StateAccessError: The key is not held.
        """
        if not self.has_key(frozen):
            msg = f"a replica that was opened with keys= is asked for these, got {shown(key)}"
            raise StateAccessError(f"{msg}; open one with this key, or without keys=")
        if not self.has_group(index):
            msg = f"a replica that was opened with key_groups= holds {_some(self.groups)}"
            raise StateAccessError(
                f"{msg}, got {shown(key)} of key group {index}; open one with it, or with all"
            )


ALL = Held()


@attrs.frozen
class Part:
    """The share that a user asks `open_state` for.

    Args:
        keys: Keys in the user's form, tuples if there are several key columns; None for all.
        groups: Numbers of key groups; None for all.
    """

    keys: tuple[Any, ...] | None = None
    groups: frozenset[int] | None = None

    @classmethod
    def of(cls, keys: Iterable[Any] | None, key_groups: Iterable[int] | None) -> Part:
        """Check the arguments of a user, and make a part of them.

        Raises:
            DeclarationTypeError: An argument is no list of keys, or no list of numbers.
            DeclarationValueError: Both are given, one is empty, or a number is negative.
        """
        if keys is not None and key_groups is not None:
            msg = "a replica holds some keys or some key groups, got keys= and key_groups="
            raise DeclarationValueError(f"{msg}; leave one out")
        if isinstance(keys, (str, bytes)) or not isinstance(keys, (Iterable, type(None))):
            msg = f"keys takes a list of keys, got {shown(keys)}; write keys=[...]"
            raise DeclarationTypeError(msg)
        wanted = None if keys is None else tuple(keys)
        groups = None if key_groups is None else _groups(key_groups)
        for name, given in (("keys", wanted), ("key_groups", groups)):
            if given is not None and not given:
                msg = f"{name} must name what the replica shall hold, got nothing"
                raise DeclarationValueError(f"{msg}; leave it out for all")
        return cls(wanted, groups)

    def held(self, route: Route, max_parallelism: int) -> Held:
        """Return this share for one operator.

        Args:
            route: Finds stored keys and their key groups.
            max_parallelism: The number of the operator's key groups.

        Raises:
            StateValueError: A key is no value of the key columns.
            DeclarationValueError: There is no such key group.
        """
        if self.keys is not None:
            places = [route(key) for key in self.keys]
            keys = frozenset(frozen for frozen, _ in places)
            return Held(frozenset(index for _, index in places), keys)
        beyond = sorted(each for each in self.groups or () if each >= max_parallelism)
        if beyond:
            msg = f"key_groups must be from 0 to {max_parallelism - 1}, got {beyond}"
            raise DeclarationValueError(f"{msg}; max_parallelism is {max_parallelism}")
        return ALL if self.groups is None else Held(self.groups)


def _groups(given: Any) -> frozenset[int]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        msg = f"key_groups takes a list of numbers, got {shown(given)}"
        raise DeclarationTypeError(f"{msg}; write key_groups=[...]")
    found = list(given)
    for each in found:
        if not is_int(each):
            msg = f"key_groups takes a list of numbers, got {shown(each)} in it; give ints"
            raise DeclarationTypeError(msg)
        if each < 0:
            msg = f"key_groups takes numbers from 0 on, got {each}; leave it out for all"
            raise DeclarationValueError(msg)
    return frozenset(found)


def _some(groups: frozenset[int] | None) -> str:
    named = sorted(groups or ())
    return f"key groups {named[:10]}" + (f" and {len(named) - 10} more" if named[10:] else "")
