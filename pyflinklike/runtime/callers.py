# SPDX-License-Identifier: Apache-2.0
"""Which caller a user's function has, by its class."""

from __future__ import annotations

from typing import Any

from pyflinklike.api.co_process import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction
from pyflinklike.runtime.calls import FunctionCalls
from pyflinklike.runtime.two_inputs import TwoInputCalls

__all__ = ["caller_of"]

_CALLERS: tuple[tuple[type, type[FunctionCalls]], ...] = (
    (KeyedCoProcessFunction, TwoInputCalls),
    (CoMapFunction, TwoInputCalls),
    (CoFlatMapFunction, TwoInputCalls),
)


def caller_of(function: Any) -> type[FunctionCalls]:
    """The class of the caller of a function; that of one input where no other is named."""
    for kind, caller in _CALLERS:
        if isinstance(function, kind):
            return caller
    return FunctionCalls
