# SPDX-License-Identifier: Apache-2.0
"""The switch that refuses unpickling altogether.

A pickle is a program: whoever wrote it decides what runs when it is read.  State is unpickled
only where the program declares `Types.PICKLED_BYTE_ARRAY()`; with the switch off it cannot.
"""

from __future__ import annotations

import os
from typing import Any

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.types import TypeInformation

__all__ = ["ALLOW_PICKLE", "check_pickled", "pickle_allowed"]

ALLOW_PICKLE = "PYFLINKLIKE_ALLOW_PICKLE"
"""An environment variable: 0 refuses unpickling, whatever a program says."""

_YES, _NO = frozenset({"", "1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def pickle_allowed(allow_pickle: Any) -> bool:
    """Return whether state may be unpickled: neither the program nor the environment refuses it.

    Args:
        allow_pickle: What the program says.

    Raises:
        DeclarationTypeError: `allow_pickle` is no bool.
        DeclarationValueError: The environment variable is neither yes nor no.
    """
    if not isinstance(allow_pickle, bool):
        msg = f"allow_pickle takes True or False, got {allow_pickle!r}"
        raise DeclarationTypeError(msg)
    said = os.environ.get(ALLOW_PICKLE, "").strip().lower()
    if said not in _YES | _NO:
        msg = f"the environment variable {ALLOW_PICKLE} must be 0 or 1, got {said!r}; set it so"
        raise DeclarationValueError(msg)
    return allow_pickle and said not in _NO


def check_pickled(what: str, *types: TypeInformation | None) -> None:
    """Refuse types whose values are unpickled when they are read, where the switch is off.

    Raises:
        DeclarationValueError: One of them is, or contains, such a type.
    """
    for each in types:
        if each is not None and each.is_pickled:
            msg = (
                f"{what}: nothing is unpickled where allow_pickle is False or {ALLOW_PICKLE} is 0, "
                f"got a declaration of {each!r}; declare another type"
            )
            raise DeclarationValueError(msg)
