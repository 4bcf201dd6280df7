# SPDX-License-Identifier: Apache-2.0
"""Objects without the Java behind them that PyFlink's have, and warnings that come once.

A user's class of PyFlink has methods that lead to Java or to the inside of PyFlink.  Here they raise the
reason and the remedy.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyflinklike.errors import RefusedNameError

JAVA: Final = "it is Java's, and a job here has no Java: leave it out"
_OF_JAVA: Final = re.compile(r"_j_|_?(get_java|to_j|from_j)_|_?gateway$|get_transformer$")
INSIDE: Final = "it is inside PyFlink: leave it out"
_OF_INSIDE: Final = (
    "need_conversion",
    "to_internal_type",
    "from_internal_type",
    "_accumulate",
    "_align_output_type",
    "_apply_chaining_optimization",
    "_from_collection",
    "_generate_stream_graph",
    "_is_keyed_stream",
    "_open",
    "_values",
)
"""Methods that PyFlink's types, environments and streams have for PyFlink itself."""
_SHOWN: Final[set[str]] = set()


def is_of_java(name: str) -> bool:
    """Return whether an attribute of PyFlink's object leads to Java, or to the inside of PyFlink."""
    return bool(_OF_JAVA.match(name)) or name in _OF_INSIDE


def refusal_of(place: str, reason: str) -> str:
    """Return the message of a name that PyFlink has and this package has not."""
    return f"pyflinklike has nothing for {place}, which PyFlink has: {reason}"


class WithoutJava:
    """An object that has a Java object behind it in PyFlink, but not here."""

    __slots__ = ()

    _refused: ClassVar[Mapping[str, str]] = {}
    """More methods that the class has only in PyFlink: the reason and the remedy by name."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if _OF_JAVA.match(name):
                reason = JAVA
            else:
                reason = INSIDE if name in _OF_INSIDE else type(self)._refused.get(name, "")
            if reason:
                raise RefusedNameError(refusal_of(f"{type(self).__name__}.{name}", reason))
            # Look again to get the original error: a property of the class may have raised it.
            return object.__getattribute__(self, name)


# Once for each name


def warn_once(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's program that led here, once in a process.

    Args:
        text: The warning; the same text is shown only once.
        category: The class of the warning.
    """
    if text in _SHOWN:
        return
    _SHOWN.add(text)
    frame = sys._getframe(1)
    # A user's line may lead here through many frames of ours, so `stacklevel` cannot be a constant.
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _is_ours(frame: Any) -> bool:
    """Return whether a frame is the package's, or belongs to an import that a line has begun."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package == __name__.partition(".")[0] or "importlib" in frame.f_code.co_filename
