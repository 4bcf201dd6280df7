# SPDX-License-Identifier: Apache-2.0
"""Questions about a user's argument, asked in the same sense everywhere.

In Python a bool is an int.  As a count, a time or a limit it is a mistake: `True` would pass for 1.
A numpy scalar is neither an int nor a float here; code that accepts one makes it Python's own
first, by `plain` of the types.

These functions only answer.  The caller chooses the error and its words.
"""

from __future__ import annotations

from typing import TypeGuard

__all__ = ["install", "is_int", "is_int64", "is_number"]


def is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is an int and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_int64(value: object) -> TypeGuard[int]:
    """Return whether a value is an int of 64 bits with sign, and no bool."""
    return is_int(value) and -(2**63) <= value < 2**63


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is an int or a float (also infinite or NaN), and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def install(extra: str) -> str:
    """Return the command that installs an extra of this package, for messages.

    Args:
        extra: For example "rocksdb".
    """
    # The package is not published yet: this is the one place to change once it is.
    return f"pip install '.[{extra}]' in a checkout of pyflinklike"
