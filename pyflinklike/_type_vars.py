# SPDX-License-Identifier: Apache-2.0
"""The type variables of public generic classes, which all default to Any; also `Self` and `Unpack`.

PyFlink's users write `ValueState`, `TypeInformation` or `OutputTag` without brackets.  With the defaults
(PEP 696) such a name is complete even for a strict type checker.  `typing` has no defaults before
Python 3.13.  Only type checkers need them, and these know `typing_extensions` even if it is not
installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar, Unpack

    ACC = TypeVar("ACC", default=Any)
    IN = TypeVar("IN", default=Any)
    K = TypeVar("K", default=Any)
    OUT = TypeVar("OUT", default=Any)
    T = TypeVar("T", default=Any)
    T_co = TypeVar("T_co", default=Any, covariant=True)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
else:
    import typing
    from typing import TypeVar

    ACC = TypeVar("ACC")
    IN = TypeVar("IN")
    K = TypeVar("K")
    OUT = TypeVar("OUT")
    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    V = TypeVar("V")
    W = TypeVar("W")
    # `typing` has both from Python 3.11 on.  `get_type_hints` puts brackets behind `Unpack`.
    Self = Any
    Unpack = getattr(typing, "Unpack", tuple)

__all__ = ["ACC", "IN", "OUT", "K", "Self", "T", "T_co", "Unpack", "V", "W"]
