# SPDX-License-Identifier: Apache-2.0
"""Numbers that declare windows."""

from __future__ import annotations

from typing import Any

from pyflinklike.checks import is_int
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import shown

__all__ = ["counted"]


def counted(number: Any, what: str) -> int:
    """A number of at least 1.

    Args:
        number: As it was given.
        what: It is, for messages.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is no int, or less.
    """
    if not is_int(number):
        msg = f"{what} must be an int, got {shown(number)}; for example 10"
        raise DeclarationTypeError(msg)
    if number < 1:
        msg = f"{what} must be at least 1, got {shown(number)}; for example 10"
        raise DeclarationValueError(msg)
    return number
