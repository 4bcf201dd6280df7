# SPDX-License-Identifier: Apache-2.0
"""Questions about a user's argument that every room asks, so that all mean the same by them.

In Python a bool is an int.  Where a program gives a count, a time or a limit it is a mistake:
`True` would pass for 1.  A numpy scalar is neither an int nor a float here; where one is
welcome, `pyflinklike.types.base.plain` makes it Python's own first.

They only answer.  What is raised, and in which words, is for those who ask.
"""

from __future__ import annotations

from typing import TypeGuard

__all__ = ["install", "is_int", "is_int64", "is_number"]


def is_int(value: object) -> TypeGuard[int]:
    """Whether it is an int, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_int64(value: object) -> TypeGuard[int]:
    """Whether it is an int, and no bool, that fits in 64 bits with its sign."""
    return is_int(value) and -(2**63) <= value < 2**63


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is an int or a float (be it infinite or NaN), and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def install(extra: str) -> str:
    """The command that installs an extra of this package, for messages.

    The package is not published yet: this is the one place to change once it is.

    Args:
        extra: For example "rocksdb".
    """
    return f"pip install '.[{extra}]' in a checkout of pyflinklike"
