# SPDX-License-Identifier: Apache-2.0
"""Keep Python's cycle collector out of the hot loops.

Rows, keys and outputs are tuples by the hundred thousand, none of them in a
cycle.  Each wave of them makes the collector walk them all, which took a quarter
of the Python time of a running count (see `docs/explanation/performance.md`).  Reference
counting frees them just the same; what user code leaves in cycles is collected
between calls.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["without_collection"]

P = ParamSpec("P")
R = TypeVar("R")


def without_collection(call: Callable[P, R]) -> Callable[P, R]:
    """The call with the cycle collector off while it runs."""

    @functools.wraps(call)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return call(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return quiet
