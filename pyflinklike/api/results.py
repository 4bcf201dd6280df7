# SPDX-License-Identifier: Apache-2.0
"""The outputs that a function may return, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.errors import OutputError
from pyflinklike.shown import shown
from pyflinklike.types.row import Row

__all__ = ["TimedResult", "check_results"]


class TimedResult(NamedTuple):
    """An output with a time of its own, for programs of this library, such as windows.

    Any other output has the time of the element or timer whose call returned it.

    Args:
        value: The output.
        timestamp: Its time in ms.
    """

    value: Any
    timestamp: int


def check_results(results: Any, givers: str = "process_element and on_timer") -> None:
    """Refuse an output that was returned where it should have been yielded.

    Args:
        results: What the function returned.
        givers: The names of such functions, for the message.

    Raises:
        OutputError: It is a single output, not an iterable of outputs.
    """
    tagged = isinstance(results, tuple) and results and isinstance(results[0], OutputTag)
    row = isinstance(results, (Row, str, bytes, Mapping))
    # As the language has it: what can be indexed from 0 can be iterated, too.
    iterable = hasattr(results, "__iter__") or hasattr(results, "__getitem__")
    if tagged or row or not iterable:
        msg = (
            f"{givers} give an iterable of outputs, got {shown(results)}; "
            "yield it instead of returning it"
        )
        raise OutputError(msg)
